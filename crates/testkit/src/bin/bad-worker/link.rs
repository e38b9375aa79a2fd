//! The worker's connection.

use crate::Worker;
use std::os::fd::FromRawFd;
use std::os::unix::net::UnixStream;
use std::process::exit;
use std::sync::Arc;
use stoker_testkit::{Inbox, Outbox, Received};
use stoker_wire::{Encode, Type};

/// The writing half of the connection, which threads share.
pub(crate) type Link = Arc<Outbox>;

impl Worker {
    /// Opens the connection: the inherited one, or a new one if there is none.
    fn open(&mut self) -> Link {
        if let Some(link) = &self.link {
            return link.clone();
        }
        let inherited = std::env::var("STOKER_FD").ok();
        let stream = match inherited.and_then(|number| number.parse().ok()) {
            Some(number) => adopt(number),
            None => dial(),
        };
        let half = stream.try_clone().expect("a descriptor can be copied");
        let link = Arc::new(Outbox::of(half));
        self.inbox = Some(Inbox::of(stream));
        self.link = Some(link.clone());
        link
    }

    pub(crate) fn write(&mut self, bytes: &[u8]) {
        // A closed connection is noticed when reading.
        self.open().write(bytes).ok();
    }

    pub(crate) fn send(&mut self, frame: Encode<'_>) {
        self.write(&stoker_testkit::frame(frame));
    }

    pub(crate) fn send_hello(&mut self) {
        let body = serde_json::to_vec(&self.hello).expect("a HELLO is JSON");
        self.send(Encode {
            body: &body,
            ..Encode::new(Type::Hello, 0)
        });
        self.sent_hello = true;
        match self.read() {
            Some(got) if got.kind == Type::Welcome => {}
            Some(got) => self.leave(3, &format!("rejected: {}", got.text())),
            None => self.leave(3, "no WELCOME"),
        }
    }

    /// The next frame; `None` at the end of the connection.
    pub(crate) fn read(&mut self) -> Option<Received> {
        self.set_aside.pop_front().or_else(|| self.receive())
    }

    /// Waits for a matching frame, and keeps the tasks that come before it. Returns false if the connection ends first.
    pub(crate) fn wait_for(&mut self, matches: impl Fn(&Received) -> bool) -> bool {
        while let Some(got) = self.receive() {
            if matches(&got) {
                return true;
            }
            self.set_aside.push_back(got);
        }
        false
    }

    pub(crate) fn receive(&mut self) -> Option<Received> {
        self.open();
        self.inbox.as_mut()?.receive().ok().flatten()
    }

    /// Ends the process at once.
    pub(crate) fn leave(&self, code: i32, why: &str) -> ! {
        if !why.is_empty() {
            eprintln!("bad-worker: {why}");
        }
        exit(code)
    }
}

#[expect(unsafe_code, reason = "a number becomes a descriptor nowhere else")]
fn adopt(number: i32) -> UnixStream {
    // SAFETY: the angel opened it for this process, and this is done once.
    unsafe { UnixStream::from_raw_fd(number) }
}

fn dial() -> UnixStream {
    let path = std::env::var("STOKER_SOCKET").expect("STOKER_FD or STOKER_SOCKET");
    UnixStream::connect(path).expect("a server listens on STOKER_SOCKET")
}
