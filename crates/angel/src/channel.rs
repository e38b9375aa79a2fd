//! Messages over a unix socket, each with its descriptors.

use serde::{Serialize, de::DeserializeOwned};
use std::collections::VecDeque;
use std::io;
use stoker_os::{AsFd, BorrowedFd, Errno, Fd, receive_record, send_record};

/// The maximum length of a message in bytes. The longest message carries the configuration: a file of up
/// to 128 KB, in which quotes and line ends take two bytes each as JSON.
pub const MAX_MESSAGE: usize = 260 * 1024;
/// The maximum number of messages queued for a peer that does not read. It exceeds the possible number
/// of workers.
const MAX_QUEUED: usize = 100_000;

/// Messages between angel and server: JSON in records of a `SOCK_SEQPACKET`, with descriptors. Neither
/// side ever blocks on the other: messages that cannot be sent yet are queued.
#[derive(Debug)]
pub struct Channel {
    socket: Fd,
    waiting: VecDeque<(Vec<u8>, Vec<Fd>)>,
    /// The buffer for received messages. Pages that no message has filled yet take no memory.
    buffer: Vec<u8>,
}

impl Channel {
    /// Wraps a connected, non-blocking socket.
    pub fn new(socket: Fd) -> Self {
        Self {
            socket,
            waiting: VecDeque::new(),
            buffer: vec![0; MAX_MESSAGE],
        }
    }

    /// Sends a message, now or as soon as the peer reads.
    pub fn send(&mut self, message: &impl Serialize, fds: Vec<Fd>) -> io::Result<()> {
        self.queue(message, fds)?;
        self.flush()
    }

    /// Queues a message, which the next [`Channel::flush`] sends.
    pub fn queue(&mut self, message: &impl Serialize, fds: Vec<Fd>) -> io::Result<()> {
        let bytes = serde_json::to_vec(message)?;
        if bytes.len() > MAX_MESSAGE || self.waiting.len() >= MAX_QUEUED {
            return Err(io::Error::other(
                "the message is too long, or too many messages are queued",
            ));
        }
        self.waiting.push_back((bytes, fds));
        Ok(())
    }

    /// Sends queued messages until none is left or the peer's buffer is full.
    pub fn flush(&mut self) -> io::Result<()> {
        while let Some((bytes, fds)) = self.waiting.front() {
            match send_record(&self.socket, bytes, fds) {
                Ok(()) => drop(self.waiting.pop_front()),
                Err(Errno::AGAIN) => return Ok(()),
                Err(Errno::INTR) => {}
                Err(error) => {
                    // The peer will not read these messages any more, but what it sent before can still
                    // be received.
                    self.waiting.clear();
                    return Err(error.into());
                }
            }
        }
        Ok(())
    }

    /// Whether messages are queued because the peer does not read.
    pub fn is_blocked(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Receives the next message, or `Ok(None)` if there is none yet. The end of the stream is an error.
    pub fn receive<M: DeserializeOwned>(&mut self) -> io::Result<Option<(M, Vec<Fd>)>> {
        let (len, fds) = loop {
            match receive_record(&self.socket, &mut self.buffer) {
                Ok(received) => break received,
                // Reported once if the peer closed its end with messages unread. The peer's own last
                // messages come next.
                Err(Errno::CONNRESET) => {}
                Err(Errno::AGAIN | Errno::INTR) => return Ok(None),
                Err(error) => return Err(error.into()),
            }
        };
        if len == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        Ok(Some((serde_json::from_slice(&self.buffer[..len])?, fds)))
    }
}

impl AsFd for Channel {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}
