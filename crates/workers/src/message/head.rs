//! Collects the head of an answer while it arrives.

use super::{Invalid, MAX_HEAD};

/// The maximum size of a status line and an empty line, which come in addition to the fields, in bytes.
const MAX_MORE: usize = 4 << 10;

/// A complete head without the empty line that ends it, and the bytes that follow that.
type HeadAndRest = (Vec<u8>, Vec<u8>);

/// The bytes of an answer up to the empty line that ends its head.
#[derive(Debug, Default)]
pub(crate) struct Head {
    bytes: Vec<u8>,
    /// The bytes that have been searched: the head does not end in them.
    searched: usize,
}

impl Head {
    /// Adds bytes. Once the head is complete, returns it without the empty line, and the bytes that follow it.
    pub(crate) fn feed(&mut self, bytes: &[u8]) -> Result<Option<HeadAndRest>, Invalid> {
        self.bytes.extend_from_slice(bytes);
        let Some((end, rest)) = self.end() else {
            return match self.bytes.len() > MAX_HEAD + MAX_MORE {
                true => Err(too_long()),
                false => Ok(None),
            };
        };
        if end > MAX_HEAD + MAX_MORE {
            return Err(too_long());
        }
        let mut head = std::mem::take(&mut self.bytes);
        let rest = head.split_off(rest);
        head.truncate(end);
        self.searched = 0;
        Ok(Some((head, rest)))
    }

    /// The part of an incomplete head that has arrived.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Where the empty line begins, and where it ends. Lines end with LF or CRLF.
    fn end(&mut self) -> Option<(usize, usize)> {
        let bytes = &self.bytes[..];
        for at in self.searched..bytes.len() {
            let is_first = at == 0 || bytes[at - 1] == b'\n';
            match bytes[at..] {
                [b'\n', ..] if is_first => return Some((at, at + 1)),
                [b'\r', b'\n', ..] if is_first => return Some((at, at + 2)),
                _ => {}
            }
        }
        // A CR at the end may turn out to belong to an empty line.
        self.searched = bytes.len().saturating_sub(1);
        None
    }
}

fn too_long() -> Invalid {
    Invalid(format!("its head has more than {MAX_HEAD} bytes"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_the_end_however_the_bytes_arrive() {
        for (whole, head, rest) in [
            ("a: b\r\n\r\nbody", "a: b\r\n", "body"),
            ("a: b\n\nbody\n\n", "a: b\n", "body\n\n"),
            ("a: b\n\r\n", "a: b\n", ""),
            ("\n\n", "", "\n"),
            ("\r\n", "", ""),
        ] {
            for size in 1..=whole.len() {
                let (mut reader, mut found, mut after) = (Head::default(), None, Vec::new());
                for piece in whole.as_bytes().chunks(size) {
                    match &found {
                        None => {
                            if let Some((head, rest)) = reader.feed(piece).unwrap() {
                                (found, after) = (Some(head), rest);
                            }
                        }
                        Some(_) => after.extend_from_slice(piece),
                    }
                }
                assert_eq!(
                    found.as_deref(),
                    Some(head.as_bytes()),
                    "{whole:?} by {size}"
                );
                assert_eq!(after, rest.as_bytes(), "{whole:?} by {size}");
            }
        }
    }

    #[test]
    fn an_endless_head_is_rejected() {
        let mut head = Head::default();
        let fed = (0..100).try_for_each(|_| head.feed(&[b'x'; 1024]).map(drop));
        assert!(fed.unwrap_err().0.contains("more than"));
    }
}
