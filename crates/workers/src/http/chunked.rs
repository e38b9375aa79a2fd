//! Decodes a body in chunks (RFC 9112, section 7.1).

use crate::message::{Invalid, MAX_HEAD};

/// The maximum length of the line before a chunk, in bytes.
const MAX_LINE: usize = 4 << 10;

/// The state of a body in chunks.
#[derive(Debug)]
pub(super) struct Chunked {
    state: State,
    /// The line that has not ended yet.
    line: Vec<u8>,
    /// The trailer fields so far: lines that end with CRLF.
    trailers: Vec<u8>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Size,
    /// Inside a chunk, of which this many bytes are still to come.
    Data(u64),
    /// The line that ends a chunk.
    DataEnd,
    Trailer,
    Over,
}

impl Default for Chunked {
    fn default() -> Self {
        Self {
            state: State::Size,
            line: Vec::new(),
            trailers: Vec::new(),
        }
    }
}

impl Chunked {
    /// Decodes bytes and passes the content on. Returns the bytes after the end of the body, once it has been reached.
    pub(super) fn feed<'a>(
        &mut self,
        mut bytes: &'a [u8],
        mut content: impl FnMut(&[u8]) -> Result<(), Invalid>,
    ) -> Result<Option<&'a [u8]>, Invalid> {
        while !bytes.is_empty() && self.state != State::Over {
            if let State::Data(missing) = &mut self.state {
                let count = (*missing).min(bytes.len() as u64);
                let (now, rest) = bytes.split_at(count as usize);
                content(now)?;
                *missing -= count;
                if *missing == 0 {
                    self.state = State::DataEnd;
                }
                bytes = rest;
                continue;
            }
            let end = bytes.iter().position(|byte| *byte == b'\n');
            let (now, rest) = bytes.split_at(end.map_or(bytes.len(), |end| end + 1));
            bytes = rest;
            self.line.extend_from_slice(now);
            if self.line.len() > MAX_LINE {
                return Err(Invalid::new("a line of its chunked body is too long"));
            }
            if end.is_some() {
                self.state = self.take_line()?;
                self.line.clear();
            }
        }
        Ok((self.state == State::Over).then_some(bytes))
    }

    /// The trailer fields of a body that has ended, as lines that end with CRLF.
    pub(super) fn trailers(&self) -> &[u8] {
        &self.trailers
    }

    fn take_line(&mut self) -> Result<State, Invalid> {
        let line = self.line.strip_suffix(b"\n").unwrap_or(&self.line);
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        Ok(match self.state {
            State::Size => {
                match size(line).ok_or_else(|| Invalid::new("the size of a chunk is invalid"))? {
                    0 => State::Trailer,
                    size => State::Data(size),
                }
            }
            State::DataEnd if line.is_empty() => State::Size,
            State::DataEnd => return Err(Invalid::new("a chunk is longer than its size")),
            State::Trailer if !line.is_empty() => {
                if self.trailers.len() + line.len() > MAX_HEAD {
                    return Err(Invalid::new("its trailer fields are too long"));
                }
                self.trailers.extend_from_slice(line);
                self.trailers.extend_from_slice(b"\r\n");
                State::Trailer
            }
            State::Trailer | State::Data(_) | State::Over => State::Over,
        })
    }
}

/// The size in a line `1a; extension`.
fn size(line: &[u8]) -> Option<u64> {
    let digits = line.split(|byte| *byte == b';').next()?.trim_ascii_end();
    let is_hex =
        !digits.is_empty() && digits.len() <= 15 && digits.iter().all(u8::is_ascii_hexdigit);
    let digits = std::str::from_utf8(digits).ok().filter(|_| is_hex)?;
    u64::from_str_radix(digits, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decode(body: &[u8], size: usize) -> Result<(Vec<u8>, Option<usize>), Invalid> {
        let (mut chunked, mut content, mut left) = (Chunked::default(), Vec::new(), None);
        for piece in body.chunks(size) {
            match &mut left {
                Some(left) => *left += piece.len(),
                None => {
                    let rest = chunked.feed(piece, |bytes| {
                        content.extend_from_slice(bytes);
                        Ok(())
                    })?;
                    left = rest.map(<[u8]>::len);
                }
            }
        }
        Ok((content, left))
    }

    #[test]
    fn decodes_chunks_however_they_arrive() {
        let body = b"5\r\nhello\r\nB; x=\"y\"\r\n, my\r\nworld\r\n0\r\nx: y\r\n\r\nrest";
        for size in 1..=body.len() {
            let (content, left) = decode(body, size).unwrap();
            assert_eq!(content, b"hello, my\r\nworld", "{size}");
            assert_eq!(left, Some(4), "{size}");
        }
        let mut chunked = Chunked::default();
        chunked.feed(body, |_| Ok(())).unwrap();
        assert_eq!(chunked.trailers(), b"x: y\r\n");
        assert_eq!(decode(b"0\n\n", 1).unwrap(), (vec![], Some(0)));
        assert_eq!(decode(b"5\r\nhel", 9).unwrap(), (b"hel".to_vec(), None));
    }

    #[test]
    fn rejects_invalid_chunks() {
        for bad in [
            "x\r\n",
            "\r\n",
            "-1\r\n",
            "+1\r\n",
            "0x1\r\n",
            " 1\r\n",
            "1234567890abcdef\r\n",
            "1\r\nab\r\n",
        ] {
            assert!(decode(bad.as_bytes(), 3).is_err(), "{bad:?}");
        }
        assert!(decode(&[b'1'; MAX_LINE + 1], 100).is_err());
        let trailers = format!("0\r\n{}\r\n", "x: 0123456789\r\n".repeat(MAX_HEAD / 13 + 1));
        assert!(decode(trailers.as_bytes(), 1000).is_err());
    }
}
