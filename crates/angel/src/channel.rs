use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::io::Errno;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};
use serde::{Serialize, de::DeserializeOwned};
use std::collections::VecDeque;
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;

/// The longest message. Configuration is the largest: a file of up to 128 KB, whose quotes and line ends
/// take two bytes each as JSON.
pub const MAX_MESSAGE: usize = 260 * 1024;
/// Descriptors that one message carries at the most.
const MAX_FDS: usize = 3;
/// Messages that may wait for a peer that does not read: more than workers there can be.
const MAX_WAITING: usize = 100_000;

/// Messages between angel and server: JSON in records of a `SOCK_SEQPACKET`, with descriptors. Neither
/// side ever blocks on the other; what can't be sent waits here.
#[derive(Debug)]
pub struct Channel {
    socket: OwnedFd,
    waiting: VecDeque<(Vec<u8>, Vec<OwnedFd>)>,
}

impl Channel {
    /// Wraps a connected, non-blocking socket.
    pub fn new(socket: OwnedFd) -> Self {
        Self {
            socket,
            waiting: VecDeque::new(),
        }
    }

    /// Sends a message, now or as soon as the peer reads.
    pub fn send(&mut self, message: &impl Serialize, fds: Vec<OwnedFd>) -> io::Result<()> {
        let bytes = serde_json::to_vec(message)?;
        if bytes.len() > MAX_MESSAGE || self.waiting.len() >= MAX_WAITING {
            return Err(io::Error::other("the message is too long or too many wait"));
        }
        self.waiting.push_back((bytes, fds));
        self.flush()
    }

    /// Sends what waits, until it is gone or the peer's buffer is full.
    pub fn flush(&mut self) -> io::Result<()> {
        while let Some((bytes, fds)) = self.waiting.front() {
            match send_one(&self.socket, bytes, fds) {
                Ok(()) => drop(self.waiting.pop_front()),
                Err(Errno::AGAIN) => return Ok(()),
                Err(Errno::INTR) => {}
                Err(error) => {
                    // Nobody will take these any more; what the peer wrote before can still be read.
                    self.waiting.clear();
                    return Err(error.into());
                }
            }
        }
        Ok(())
    }

    /// Whether something waits for the peer to read.
    pub fn is_blocked(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// The next message; `Ok(None)` when there is none yet. An end of the stream is an error.
    pub fn receive<M: DeserializeOwned>(&mut self) -> io::Result<Option<(M, Vec<OwnedFd>)>> {
        let mut bytes = vec![0; MAX_MESSAGE];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_FDS))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let parts = &mut [IoSliceMut::new(&mut bytes)];
        let received = loop {
            match recvmsg(&self.socket, parts, &mut control, RecvFlags::CMSG_CLOEXEC) {
                Ok(received) => break received.bytes,
                // Told once, of a peer that went with messages unread. Its own last ones come now.
                Err(Errno::CONNRESET) => {}
                Err(Errno::AGAIN | Errno::INTR) => return Ok(None),
                Err(error) => return Err(error.into()),
            }
        };
        if received == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let fds = control.drain().flat_map(|message| match message {
            RecvAncillaryMessage::ScmRights(fds) => fds.collect(),
            _ => Vec::new(),
        });
        let fds = fds.collect();
        Ok(Some((serde_json::from_slice(&bytes[..received])?, fds)))
    }
}

impl AsFd for Channel {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

fn send_one(socket: &OwnedFd, bytes: &[u8], fds: &[OwnedFd]) -> Result<(), Errno> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_FDS))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    let borrowed: Vec<BorrowedFd<'_>> = fds.iter().map(AsFd::as_fd).collect();
    if !borrowed.is_empty() {
        let fits = control.push(SendAncillaryMessage::ScmRights(&borrowed));
        assert!(fits, "a message carries at most {MAX_FDS} descriptors");
    }
    let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
    sendmsg(socket, &[IoSlice::new(bytes)], &mut control, flags).map(drop)
}
