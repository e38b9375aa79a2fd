//! Splits a worker's output into lines, in whatever pieces it arrives.

/// The maximum length of a line in bytes. Longer lines are split into numbered parts; nothing is dropped.
pub(crate) const MAX_LINE: usize = 1 << 20;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Stream {
    Stdout,
    Stderr,
}

/// The state of one stream of one worker.
#[derive(Debug, Default)]
pub(crate) struct Lines {
    pending: Vec<u8>,
    /// The task that began the pending line.
    tag: String,
    /// The number of parts of the current line that have been emitted already.
    parts: u32,
}

/// A line or a part of one. Parts are counted from 1; 0 stands for a whole line.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Line<'a> {
    pub(crate) tag: &'a str,
    pub(crate) bytes: &'a [u8],
    pub(crate) part: u32,
}

impl Lines {
    /// Adds bytes that `tag` wrote. A line belongs to the task that began it; bytes of another task end it.
    pub(crate) fn feed(&mut self, tag: &str, bytes: &[u8], mut each: impl FnMut(Line<'_>)) {
        if tag != self.tag {
            self.finish(&mut each);
            tag.clone_into(&mut self.tag);
        }
        let mut rest = bytes;
        while let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
            self.append(&rest[..end], &mut each);
            self.emit(&mut each);
            rest = &rest[end + 1..];
        }
        self.append(rest, &mut each);
    }

    /// Emits a line without an end, because its writer has ended.
    pub(crate) fn finish(&mut self, mut each: impl FnMut(Line<'_>)) {
        if !self.pending.is_empty() || self.parts > 0 {
            self.emit(&mut each);
        }
    }

    fn append(&mut self, mut bytes: &[u8], each: &mut impl FnMut(Line<'_>)) {
        while self.pending.len() + bytes.len() > MAX_LINE {
            let (fits, rest) = bytes.split_at(MAX_LINE - self.pending.len());
            self.pending.extend_from_slice(fits);
            self.parts += 1;
            each(Line {
                tag: &self.tag,
                bytes: &self.pending,
                part: self.parts,
            });
            self.pending.clear();
            bytes = rest;
        }
        self.pending.extend_from_slice(bytes);
    }

    fn emit(&mut self, each: &mut impl FnMut(Line<'_>)) {
        let part = if self.parts == 0 { 0 } else { self.parts + 1 };
        let bytes = self.pending.strip_suffix(b"\r").unwrap_or(&self.pending);
        each(Line {
            tag: &self.tag,
            bytes,
            part,
        });
        self.parts = 0;
        if self.pending.capacity() > 64 * 1024 {
            self.pending = Vec::new();
        }
        self.pending.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(pieces: &[(&str, &[u8])]) -> Vec<(String, Vec<u8>, u32)> {
        let (mut lines, mut out) = (Lines::default(), Vec::new());
        let mut keep =
            |line: Line<'_>| out.push((line.tag.to_owned(), line.bytes.to_vec(), line.part));
        pieces
            .iter()
            .for_each(|(tag, bytes)| lines.feed(tag, bytes, &mut keep));
        lines.finish(&mut keep);
        out
    }

    #[test]
    fn lines_are_reassembled_from_any_pieces() {
        let got = lines(&[("a", b"one\ntw"), ("a", b"o\r\n\nthree")]);
        let texts: Vec<&[u8]> = got.iter().map(|(_, bytes, _)| bytes.as_slice()).collect();
        assert_eq!(texts, [&b"one"[..], b"two", b"", b"three"]);
    }

    #[test]
    fn output_of_another_task_ends_a_line() {
        let got = lines(&[("a", b"half"), ("b", b"other\n")]);
        assert_eq!(got[0], ("a".into(), b"half".to_vec(), 0));
        assert_eq!(got[1], ("b".into(), b"other".to_vec(), 0));
    }

    #[test]
    fn a_long_line_is_split_into_numbered_parts() {
        let long = vec![b'x'; 2 * MAX_LINE + 5];
        let exact = vec![b'y'; MAX_LINE];
        let got = lines(&[("a", &long), ("a", b"\n"), ("a", &exact), ("a", b"\n")]);
        let shape: Vec<(usize, u32)> = got
            .iter()
            .map(|(_, bytes, part)| (bytes.len(), *part))
            .collect();
        assert_eq!(shape, [(MAX_LINE, 1), (MAX_LINE, 2), (5, 3), (MAX_LINE, 0)]);
    }
}
