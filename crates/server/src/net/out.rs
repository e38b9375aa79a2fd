//! The output of one socket, in pieces that are freed as they are written.

use std::collections::VecDeque;
use std::io::{self, IoSlice};
use std::sync::Arc;
use stoker_os::{Errno, Fd, write, write_gathered};
use stoker_wire::{Encode, encode, encode_head};

/// The minimum size of a body that becomes a piece of its own: it is copied at most once, and freed when written.
pub(crate) const LARGE_BODY: usize = stoker_os::limit(64 << 10, 128);
/// The size up to which small frames are collected in one piece.
const MAX_COLLECTED_PIECE: usize = 256 << 10;
/// The maximum number of pieces in one write.
const MAX_GATHERED_PIECES: usize = 8;
/// The maximum capacity that is kept for the next frames.
const MAX_KEPT_CAPACITY: usize = 16 << 10;

/// Bytes from `from` to the end of a buffer that is shared with another owner. That owner accounts for them.
#[derive(Clone, Debug)]
pub(crate) struct Shared {
    pub(crate) bytes: Arc<[u8]>,
    pub(crate) from: usize,
}

#[derive(Debug)]
enum Piece {
    Own(Vec<u8>),
    Shared(Shared),
}

impl Piece {
    fn bytes(&self) -> &[u8] {
        match self {
            Self::Own(bytes) => bytes,
            Self::Shared(shared) => &shared.bytes[shared.from..],
        }
    }

    /// The length of a shared buffer that has no other owner any more.
    fn unshared_len(&self) -> usize {
        match self {
            Self::Shared(shared) if Arc::strong_count(&shared.bytes) == 1 => shared.bytes.len(),
            _ => 0,
        }
    }

    fn own_len(&self) -> usize {
        match self {
            Self::Own(bytes) => bytes.len(),
            Self::Shared(_) => 0,
        }
    }
}

/// The result of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Written {
    All,
    /// The peer accepts no more for now. Contains the number of bytes that it accepted this time.
    Blocked(usize),
}

#[derive(Debug, Default)]
pub(crate) struct Out {
    /// Pieces that are written before `tail`.
    pieces: VecDeque<Piece>,
    /// Bytes in owned pieces.
    in_pieces: usize,
    /// The number of shared pieces.
    shared: usize,
    tail: Vec<u8>,
    /// The number of bytes of the first piece, or of the tail if there are no pieces, that have been written.
    sent: usize,
}

impl Out {
    pub(crate) fn append(&mut self, frame: Encode<'_>) {
        if frame.body.len() < LARGE_BODY {
            encode(&mut self.tail, frame);
            if self.tail.len() >= MAX_COLLECTED_PIECE {
                self.cut();
            }
            return;
        }
        encode_head(&mut self.tail, &frame);
        self.cut();
        self.push(Piece::Own(frame.body.to_vec()));
    }

    /// Appends a frame whose body is shared. The body in `frame` is used for its length only.
    pub(crate) fn append_shared(&mut self, frame: &Encode<'_>, body: Shared) {
        encode_head(&mut self.tail, frame);
        self.cut();
        self.push(Piece::Shared(body));
    }

    /// Appends a frame with this body, which is not copied if it is large.
    pub(crate) fn append_with_body(&mut self, frame: Encode<'_>, body: Vec<u8>) {
        let frame = Encode {
            body: &body,
            ..frame
        };
        if body.len() < LARGE_BODY {
            return self.append(frame);
        }
        encode_head(&mut self.tail, &frame);
        self.cut();
        self.push(Piece::Own(body));
    }

    pub(crate) fn append_raw(&mut self, bytes: &[u8]) {
        self.tail.extend_from_slice(bytes);
    }

    fn cut(&mut self) {
        if !self.tail.is_empty() {
            let tail = std::mem::take(&mut self.tail);
            self.push(Piece::Own(tail));
        }
    }

    fn push(&mut self, piece: Piece) {
        self.in_pieces += piece.own_len();
        self.shared += usize::from(matches!(piece, Piece::Shared(_)));
        self.pieces.push_back(piece);
    }

    /// Writes as much as the peer accepts. An error means that the connection is broken.
    pub(crate) fn write(&mut self, fd: &Fd) -> io::Result<Written> {
        let mut taken = 0;
        while !self.is_empty() {
            let written = match self.pieces.is_empty() {
                true => write(fd, &self.tail[self.sent..]),
                false => self.write_gathered(fd),
            };
            match written {
                Ok(count) => {
                    taken += count;
                    self.drop_written(count);
                }
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return Ok(Written::Blocked(taken)),
                Err(error) => return Err(error.into()),
            }
        }
        Ok(Written::All)
    }

    fn write_gathered(&self, fd: &Fd) -> Result<usize, Errno> {
        let pieces = self.pieces.iter().map(Piece::bytes);
        let mut slices = [IoSlice::new(&[]); MAX_GATHERED_PIECES];
        for (slice, bytes) in slices.iter_mut().zip(pieces.chain([&*self.tail])) {
            *slice = IoSlice::new(bytes);
        }
        slices[0].advance(self.sent);
        write_gathered(fd, &slices)
    }

    fn drop_written(&mut self, count: usize) {
        self.sent += count;
        while let Some(first) = self.pieces.front() {
            let whole = first.bytes().len();
            if self.sent < whole {
                return;
            }
            self.sent -= whole;
            self.in_pieces -= first.own_len();
            self.shared -= usize::from(matches!(first, Piece::Shared(_)));
            self.pieces.pop_front();
        }
        if self.sent == self.tail.len() {
            self.sent = 0;
            self.tail.clear();
            if self.tail.capacity() > MAX_KEPT_CAPACITY {
                self.tail = Vec::new();
            }
        }
    }

    pub(crate) fn clear(&mut self) {
        *self = Self::default();
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.pieces.is_empty() && self.tail.is_empty()
    }

    /// Bytes of memory that the output takes, including spare capacity but not buffers with other owners.
    pub(crate) fn held_bytes(&self) -> usize {
        let left = match self.shared {
            0 => 0,
            _ => self.pieces.iter().map(Piece::unshared_len).sum(),
        };
        self.in_pieces + left + self.tail.capacity()
    }

    /// Bytes that have not been written yet, except those of shared pieces.
    pub(crate) fn unsent(&self) -> usize {
        (self.in_pieces + self.tail.len()).saturating_sub(self.sent)
    }

    /// Releases the capacity that is kept for the next frames.
    pub(crate) fn shrink(&mut self) {
        if self.tail.is_empty() {
            self.tail = Vec::new();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
    use stoker_wire::{MAX_FRAME, Splitter, Type, WireError};

    fn answer(id: u32, body: &[u8]) -> Encode<'_> {
        Encode {
            body,
            ..Encode::new(Type::Res, id)
        }
    }

    /// Writes everything to a socket while reading from its other end, and returns the frames that arrived.
    fn round_trip(out: &mut Out) -> Vec<(u32, Vec<u8>)> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let pair = socketpair(AddressFamily::UNIX, SocketType::STREAM, flags, None);
        let (ours, theirs) = pair.expect("a pair of sockets");
        let (mut splitter, mut came) = (Splitter::new(MAX_FRAME), Vec::new());
        let mut buffer = vec![0; 50_000];
        loop {
            let written = out.write(&ours).expect("the peer is there");
            while let Ok(count @ 1..) = rustix::io::read(&theirs, &mut buffer) {
                let fed = splitter.feed(&buffer[..count], |frame| {
                    came.push((frame.id, frame.body.to_vec()));
                    Ok::<(), WireError>(())
                });
                fed.expect("these are frames");
            }
            if written == Written::All {
                return came;
            }
        }
    }

    #[test]
    fn frames_of_all_sizes_are_sent_in_order() {
        let sizes = [
            0,
            10,
            LARGE_BODY - 1,
            LARGE_BODY,
            3,
            5 * LARGE_BODY,
            MAX_COLLECTED_PIECE,
            1,
        ];
        let bodies: Vec<Vec<u8>> = (0..).zip(sizes).map(|(n, len)| vec![n; len]).collect();
        let mut out = Out::default();
        for (id, body) in (0..).zip(&bodies) {
            out.append(answer(id, body));
        }
        let shared: Arc<[u8]> = [b"meta".to_vec(), vec![9; 2 * LARGE_BODY]].concat().into();
        let held = out.held_bytes();
        out.append_shared(
            &answer(8, &shared[4..]),
            Shared {
                bytes: shared.clone(),
                from: 4,
            },
        );
        assert!(
            out.held_bytes() < held + 100,
            "it does not hold what is shared"
        );
        out.append(answer(9, b"end"));
        let came = round_trip(&mut out);
        let expected = bodies
            .into_iter()
            .chain([shared[4..].to_vec(), b"end".to_vec()]);
        assert_eq!(came, (0..).zip(expected).collect::<Vec<_>>());
        assert!(out.is_empty() && out.held_bytes() <= MAX_KEPT_CAPACITY && out.unsent() == 0);
        out.shrink();
        assert_eq!(out.held_bytes(), 0);
    }

    #[test]
    fn written_pieces_are_freed_before_the_rest_is_written() {
        let mut out = Out::default();
        let body = vec![1; 8 * LARGE_BODY];
        (0..4).for_each(|id| out.append(answer(id, &body)));
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let pair = socketpair(AddressFamily::UNIX, SocketType::STREAM, flags, None);
        let (ours, theirs) = pair.expect("a pair of sockets");
        let (all, mut buffer) = (out.held_bytes(), vec![0; body.len()]);
        let mut read = 0;
        while read < 2 * body.len() {
            assert!(matches!(out.write(&ours), Ok(Written::Blocked(_))));
            read += rustix::io::read(&theirs, &mut buffer).expect("something was written");
        }
        assert!(
            out.held_bytes() <= all - body.len(),
            "{} of {all}",
            out.held_bytes()
        );
    }
}
