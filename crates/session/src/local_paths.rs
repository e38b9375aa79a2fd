//! Paths in the metadata of requests: they name files of the server's machine, which peers on other machines can neither
//! read nor write.

use crate::Rejection;
use crate::changed_head::changed_head;
use stoker_wire::{Frame, Key, Meta, MetaBuf, Status};

fn is_path(key: Key) -> bool {
    matches!(key, Key::BODY_FILE | Key::ANSWER_DIRECTORY)
}

/// Rejects a request of a client on another machine that names a file of the server's machine.
pub fn check_request(meta: Meta<'_>) -> Result<(), Rejection> {
    match meta.iter().find(|(key, _)| is_path(*key)) {
        None => Ok(()),
        Some((Key(key), _)) => Err(Rejection::new(
            Status::INVALID_ARGUMENT,
            format!(
                "the metadata key {key} names a file on the server's machine, which only peers on that machine may do: \
                 send the body in the request"
            ),
        )),
    }
}

/// The head of a task for a worker on another machine, without such paths. `None` if `head` has none.
pub fn without_paths(frame: &Frame<'_>, head: &[u8]) -> Option<Vec<u8>> {
    frame.meta.iter().find(|(key, _)| is_path(*key))?;
    let mut meta = MetaBuf::new();
    for (key, value) in frame.meta.iter() {
        if !is_path(key) {
            meta.push(key, value);
        }
    }
    changed_head(frame, head, meta.as_meta(), frame.ttl)
}

#[cfg(test)]
mod tests {
    use super::*;
    use stoker_wire::{Encode, MAX_FRAME, Type, encode, parse, parse_head};

    fn request(keys: &[(Key, &[u8])]) -> Vec<u8> {
        let (mut meta, mut out) = (MetaBuf::new(), Vec::new());
        for (key, value) in keys {
            assert!(meta.push(*key, value));
        }
        encode(
            &mut out,
            Encode {
                name: "http:shop",
                meta: meta.as_meta(),
                body: b"GET / HTTP/1.1\r\n\r\n",
                ttl: 1_000,
                attempt: 2,
                ..Encode::new(Type::Req, 7)
            },
        );
        out
    }

    #[test]
    fn only_paths_are_removed_from_a_task() {
        let long = [b'd'; 300];
        let before = [
            (Key::SCRIPT, &b"/srv/index.php"[..]),
            (Key::ANSWER_DIRECTORY, &long[..]),
            (Key::CLIENT_ADDRESS, b"192.0.2.7:1"),
            (Key::BODY_FILE, b"/spool/1"),
        ];
        let bytes = request(&before);
        let (frame, head, _) = parse_head(&bytes, MAX_FRAME).unwrap().unwrap();
        let mut changed = without_paths(&frame, &bytes[..head]).unwrap();
        changed.extend_from_slice(&bytes[head..]);
        assert_eq!(changed, request(&[before[0], before[2]]));
        let (frame, size) = parse(&changed, MAX_FRAME).unwrap().unwrap();
        assert_eq!(size, changed.len());
        assert_eq!(without_paths(&frame, &changed), None);
    }

    #[test]
    fn remote_clients_name_no_files() {
        for key in [Key::BODY_FILE, Key::ANSWER_DIRECTORY] {
            let bytes = request(&[(Key::SCRIPT, b"/a"), (key, b"/etc/passwd")]);
            let (frame, _) = parse(&bytes, MAX_FRAME).unwrap().unwrap();
            let rejection = check_request(frame.meta).unwrap_err();
            assert_eq!(rejection.status, Status::INVALID_ARGUMENT);
        }
        let bytes = request(&[(Key::SCRIPT, b"/a")]);
        let (frame, _) = parse(&bytes, MAX_FRAME).unwrap().unwrap();
        assert_eq!(check_request(frame.meta), Ok(()));
    }
}
