//! The time limits of a task that is sent again: what is left of them.

use crate::changed_head::changed_head;
use std::time::Duration;
use stoker_wire::{Key, MAX_FRAME, MetaBuf, parse_head};

/// Appends a task, as far as its frame has arrived, with reduced time limits: `waited` is the time since the server
/// assigned the task, and `ran` the time for which its run has counted at the server. A limit that has passed becomes
/// one millisecond, because 0 means that there is none.
pub(crate) fn append_with_time_left(
    task: &[u8],
    waited: Duration,
    ran: Duration,
    out: &mut Vec<u8>,
) {
    let changed = parse_head(task, MAX_FRAME).ok().flatten();
    let changed = changed.and_then(|(frame, head, _)| {
        let mut meta = MetaBuf::new();
        for (key, value) in frame.meta.iter() {
            match (key, <[u8; 4]>::try_from(value)) {
                (Key::TIMEOUT, Ok(limit)) => {
                    let left = time_left(u32::from_be_bytes(limit), ran);
                    meta.push(key, &left.to_be_bytes());
                }
                _ => _ = meta.push(key, value),
            }
        }
        let ttl = time_left(frame.ttl, waited);
        let changed = changed_head(&frame, &task[..head], meta.as_meta(), ttl)?;
        Some((changed, head))
    });
    match changed {
        Some((changed, head)) => {
            out.extend_from_slice(&changed);
            out.extend_from_slice(&task[head..]);
        }
        None => out.extend_from_slice(task),
    }
}

/// What is left of a limit in milliseconds, of which 0 means that there is none.
fn time_left(limit: u32, passed: Duration) -> u32 {
    let passed = u32::try_from(passed.as_millis()).unwrap_or(u32::MAX);
    match limit {
        0 => 0,
        _ => limit.saturating_sub(passed).max(1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use stoker_wire::{Encode, Type, encode, parse};

    fn task(ttl: u32, timeout: Option<u32>, body: &[u8]) -> Vec<u8> {
        let (mut meta, mut out) = (MetaBuf::new(), Vec::new());
        meta.push(Key::FAIRNESS, b"tenant");
        if let Some(ms) = timeout {
            meta.push(Key::TIMEOUT, &ms.to_be_bytes());
        }
        meta.push(Key(0x80), &[7; 300]);
        encode(
            &mut out,
            Encode {
                name: "mails",
                meta: meta.as_meta(),
                body,
                ttl,
                attempt: 2,
                ..Encode::new(Type::Req, 7)
            },
        );
        out
    }

    fn again(task: &[u8], waited_ms: u64, ran_ms: u64) -> Vec<u8> {
        let mut out = b"before".to_vec();
        let (waited, ran) = (
            Duration::from_millis(waited_ms),
            Duration::from_millis(ran_ms),
        );
        append_with_time_left(task, waited, ran, &mut out);
        out.split_off(6)
    }

    #[test]
    fn only_the_time_limits_change() {
        let body = b"payload";
        let sent = task(1_000, Some(500), body);
        assert_eq!(again(&sent, 0, 0), sent);
        assert_eq!(again(&sent, 300, 200), task(700, Some(300), body));
        assert_eq!(again(&sent, 1_000, 9_000), task(1, Some(1), body));
        assert_eq!(again(&task(0, None, body), 50, 50), task(0, None, body));
        assert_eq!(again(&task(0, Some(0), body), 5, 5), task(0, Some(0), body));
    }

    /// The frame may have arrived in part, with its whole head or with less.
    #[test]
    fn an_incomplete_frame_is_completed_by_its_rest() {
        let (sent, expected) = (task(9, Some(9), b"payload"), task(7, Some(8), b"payload"));
        let head = sent.len() - 7;
        for at in head..sent.len() {
            let joined = [again(&sent[..at], 2, 1), sent[at..].to_vec()].concat();
            assert_eq!(joined, expected);
            assert!(parse(&joined, MAX_FRAME).unwrap().is_some());
        }
        assert_eq!(again(&sent[..head - 1], 2, 1), &sent[..head - 1]);
    }

    /// A client may have encoded its metadata in another way, with a longer form of a length.
    #[test]
    fn metadata_in_the_long_form_is_kept() {
        let long = [0x80, 255, 0, 1, b'x'];
        let meta = stoker_wire::Meta::parse(&long).unwrap();
        let mut sent = Vec::new();
        encode(
            &mut sent,
            Encode {
                name: "a.b",
                meta,
                body: b"payload",
                ttl: 9,
                ..Encode::new(Type::Req, 7)
            },
        );
        let again = again(&sent, 2, 0);
        let (frame, len) = parse(&again, MAX_FRAME).unwrap().unwrap();
        assert_eq!(
            (len, frame.ttl, frame.body),
            (again.len(), 7, &b"payload"[..])
        );
        assert_eq!(frame.meta.get(Key(0x80)), Some(&b"x"[..]));
    }
}
