//! The records of the FastCGI protocol, version 1. There is one request at a time on a connection; its id is 1.

use crate::message::{Invalid, Variables};

const VERSION: u8 = 1;
const ID: [u8; 2] = [0, 1];
const HEADER: usize = 8;
/// The maximum size of the content of one record, in bytes.
const MAX_CONTENT: usize = 60 << 10;

/// The type of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Kind(u8);

impl Kind {
    const BEGIN_REQUEST: Self = Self(1);
    pub(super) const END_REQUEST: Self = Self(3);
    pub(super) const PARAMS: Self = Self(4);
    pub(super) const STDIN: Self = Self(5);
    pub(super) const STDOUT: Self = Self(6);
    pub(super) const STDERR: Self = Self(7);
}

/// The record that begins a request, and asks the server to keep the connection afterwards.
pub(super) fn begin() -> Vec<u8> {
    const RESPONDER: u8 = 1;
    const KEEP_CONNECTION: u8 = 1;
    let mut out = Vec::new();
    record(
        &mut out,
        Kind::BEGIN_REQUEST,
        &[0, RESPONDER, KEEP_CONNECTION, 0, 0, 0, 0, 0],
    );
    out
}

/// Appends records of a stream. Empty content ends the stream.
pub(super) fn stream(out: &mut Vec<u8>, kind: Kind, content: &[u8]) {
    if content.is_empty() {
        record(out, kind, &[]);
    }
    for piece in content.chunks(MAX_CONTENT) {
        record(out, kind, piece);
    }
}

fn record(out: &mut Vec<u8>, kind: Kind, content: &[u8]) {
    // The content has at most 60 KiB.
    let [high, low] = (content.len() as u16).to_be_bytes();
    out.extend_from_slice(&[VERSION, kind.0, ID[0], ID[1], high, low, 0, 0]);
    out.extend_from_slice(content);
}

/// The variables of a request as pairs of names and values.
pub(super) fn pairs(variables: &Variables) -> Vec<u8> {
    let mut out = Vec::new();
    for (name, value) in variables {
        for len in [name.len(), value.len()] {
            match u8::try_from(len).ok().filter(|len| *len < 0x80) {
                Some(len) => out.push(len),
                // No name or value is longer than a head, which has less than 256 KiB.
                None => out.extend_from_slice(&(len as u32 | 0x8000_0000).to_be_bytes()),
            }
        }
        out.extend_from_slice(name.as_bytes());
        out.extend_from_slice(value);
    }
    out
}

/// Checks the content of the record that ends a request, and returns the exit code of the script. That of php-fpm is always 0.
pub(super) fn check_end(content: &[u8]) -> Result<i32, Invalid> {
    let code = content
        .first_chunk()
        .map_or(0, |code| i32::from_be_bytes(*code));
    match content.get(4) {
        Some(0) => Ok(code),
        Some(1) => Err(Invalid::new(
            "it serves only one request at a time on a connection",
        )),
        Some(2) => Err(Invalid::new("it is overloaded")),
        Some(3) => Err(Invalid::new("it is not a FastCGI responder")),
        _ => Err(Invalid::new("its last record is invalid")),
    }
}

/// Collects the server's records from the bytes that arrive.
#[derive(Debug, Default)]
pub(super) struct Records {
    /// An unfinished record: at most 64 KiB.
    buffered: Vec<u8>,
}

impl Records {
    /// Calls `each` for every record that is complete, until it returns false. Returns how many bytes are left then.
    pub(super) fn feed(
        &mut self,
        bytes: &[u8],
        mut each: impl FnMut(Kind, &[u8]) -> Result<bool, Invalid>,
    ) -> Result<usize, Invalid> {
        self.buffered.extend_from_slice(bytes);
        let mut at = 0;
        while let Some((kind, is_ours, content, size)) = first(&self.buffered[at..])? {
            at += size;
            if is_ours && !each(kind, content)? {
                return Ok(self.buffered.len() - at);
            }
        }
        self.buffered.drain(..at);
        Ok(0)
    }
}

/// A record: its kind, whether it belongs to the request, its content and its size.
type Record<'a> = (Kind, bool, &'a [u8], usize);

/// The first record, if it is complete.
fn first(bytes: &[u8]) -> Result<Option<Record<'_>>, Invalid> {
    if bytes.first().is_some_and(|version| *version != VERSION) {
        return Err(Invalid::new("it does not speak FastCGI"));
    }
    let Some(header) = bytes.first_chunk::<HEADER>() else {
        return Ok(None);
    };
    let len = usize::from(u16::from_be_bytes([header[4], header[5]]));
    let size = HEADER + len + usize::from(header[6]);
    if bytes.len() < size {
        return Ok(None);
    }
    let content = &bytes[HEADER..HEADER + len];
    let is_ours = header[2..4] == ID;
    Ok(Some((Kind(header[1]), is_ours, content, size)))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the server sends: records with padding, and one that belongs to no request.
    fn answer() -> Vec<u8> {
        let mut bytes = vec![1, 6, 0, 1, 0, 5, 3, 0];
        bytes.extend_from_slice(b"hello\0\0\0");
        bytes.extend_from_slice(&[1, 10, 0, 0, 0, 2, 0, 0, 9, 9]);
        bytes.extend_from_slice(&[1, 7, 0, 1, 0, 2, 0, 0]);
        bytes.extend_from_slice(b"no");
        bytes.extend_from_slice(&[1, 3, 0, 1, 0, 8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
        bytes
    }

    #[test]
    fn reads_records_however_they_arrive() {
        let bytes = [answer(), b"rest".to_vec()].concat();
        for size in 1..bytes.len() {
            let (mut records, mut found, mut left) = (Records::default(), Vec::new(), None);
            for piece in bytes.chunks(size) {
                if let Some(left) = &mut left {
                    *left += piece.len();
                    continue;
                }
                let mut is_over = false;
                let rest = records.feed(piece, |kind, content| {
                    found.push((kind, content.to_vec()));
                    is_over = kind == Kind::END_REQUEST;
                    Ok(!is_over)
                });
                left = is_over.then(|| rest.unwrap());
            }
            assert_eq!(left, Some(4), "{size}");
            assert_eq!(found.len(), 3, "{size}");
            assert_eq!(found[0], (Kind::STDOUT, b"hello".to_vec()));
            assert_eq!(found[1], (Kind::STDERR, b"no".to_vec()));
            assert_eq!(check_end(&found[2].1), Ok(0));
        }
    }

    #[test]
    fn rejects_other_protocols() {
        let fed = Records::default().feed(b"HTTP/1.1 400\r\n", |_, _| Ok(true));
        assert_eq!(fed.unwrap_err().0, "it does not speak FastCGI");
        for (content, is_valid) in [
            (&[0, 0, 0, 9, 0, 0, 0, 0][..], true),
            (&[0, 0, 0, 0, 2], false),
            (&[], false),
        ] {
            assert_eq!(check_end(content).is_ok(), is_valid);
        }
    }

    #[test]
    fn writes_long_names_and_values() {
        let mut variables = Variables::new();
        variables.insert("A".to_owned(), vec![b'x'; 0x80]);
        let written = pairs(&variables);
        assert_eq!(written[..6], [1, 0x80, 0, 0, 0x80, b'A']);
        let mut out = Vec::new();
        stream(&mut out, Kind::STDIN, &vec![0; MAX_CONTENT + 1]);
        assert_eq!(out[..8], [1, 5, 0, 1, 0xf0, 0, 0, 0]);
        assert_eq!(out[HEADER + MAX_CONTENT..], [1, 5, 0, 1, 0, 1, 0, 0, 0]);
    }
}
