//! Reusable buffers for pieces of files.

use bytes::Bytes;
use std::cell::RefCell;

/// The maximum number of bytes that are read at once. A body has at most one such piece in memory.
pub(crate) const PIECE: usize = 64 << 10;
/// The maximum number of buffers that wait to be used again.
const MAX_SPARE: usize = 32;

thread_local! {
    static SPARE: RefCell<Vec<Vec<u8>>> = const { RefCell::new(Vec::new()) };
}

/// A buffer of [`PIECE`] bytes. Its content is what was last read into it.
pub(crate) struct Piece {
    /// Empty after the buffer was put back.
    buffer: Vec<u8>,
    len: usize,
}

impl Drop for Piece {
    fn drop(&mut self) {
        let buffer = std::mem::take(&mut self.buffer);
        // While the thread ends, there may be no list any more.
        let put = |spare: &RefCell<Vec<Vec<u8>>>| {
            let mut spare = spare.borrow_mut();
            if spare.len() < MAX_SPARE {
                spare.push(buffer);
            }
        };
        SPARE.try_with(put).ok();
    }
}

impl Piece {
    pub(crate) fn new() -> Self {
        let spare = SPARE.with_borrow_mut(Vec::pop);
        Self {
            buffer: spare.unwrap_or_else(|| vec![0; PIECE]),
            len: 0,
        }
    }

    /// The first `len` bytes, to read into.
    pub(crate) fn room(&mut self, len: usize) -> &mut [u8] {
        &mut self.buffer[..len.min(PIECE)]
    }

    /// The first `len` bytes as a body. The buffer is used again when they have been dropped. A body that would fill
    /// less than half of it is a copy, because it counts with its own size while it waits for its reader.
    pub(crate) fn into_bytes(mut self, len: usize) -> Bytes {
        if len < PIECE / 2 {
            return Bytes::copy_from_slice(&self.buffer[..len]);
        }
        self.len = len;
        Bytes::from_owner(self)
    }
}

impl AsRef<[u8]> for Piece {
    fn as_ref(&self) -> &[u8] {
        &self.buffer[..self.len.min(PIECE)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_buffer_is_used_again() {
        let mut piece = Piece::new();
        piece.room(3).copy_from_slice(b"abc");
        let bytes = piece.into_bytes(PIECE);
        let (address, copy) = (bytes.as_ptr(), bytes.clone());
        drop(bytes);
        assert_eq!(SPARE.with_borrow(Vec::len), 0);
        drop(copy);
        let again = Piece::new().into_bytes(PIECE / 2);
        assert_eq!((again.as_ptr(), &again[..3]), (address, &b"abc"[..]));
        let many: Vec<Bytes> = (0..2 * MAX_SPARE)
            .map(|_| Piece::new().into_bytes(PIECE))
            .collect();
        drop((again, many));
        assert_eq!(SPARE.with_borrow(Vec::len), MAX_SPARE);
    }

    #[test]
    fn few_bytes_do_not_keep_a_buffer() {
        let mut piece = Piece::new();
        piece.room(3).copy_from_slice(b"abc");
        let bytes = piece.into_bytes(2);
        assert_eq!(&bytes[..], b"ab");
        assert_eq!(SPARE.with_borrow(Vec::len), 1);
    }
}
