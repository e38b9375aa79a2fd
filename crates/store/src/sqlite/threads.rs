//! The threads that work on the file: one writes, one reads.

use super::mailbox::Mailbox;
use super::reader::{Message, Reader, ToReader};
use super::writer::Writer;
use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use stoker_os::{Thread, spawn};

pub(super) struct Threads {
    threads: Vec<Thread>,
}

impl Threads {
    /// The reader is there first: the writer may need it before it is open, to let go of the file.
    pub(super) fn new(reader: Reader, mailbox: Arc<Mailbox>) -> io::Result<(Self, ToReader)> {
        let (sender, messages) = sync_channel(super::mailbox::MAX_QUERIES);
        let reads = spawn("stoker-reads", move || read(reader, &mailbox, &messages))?;
        let threads = vec![reads];
        Ok((Self { threads }, sender))
    }

    pub(super) fn add(&mut self, writer: Writer) -> io::Result<()> {
        self.threads
            .push(spawn("stoker-writes", move || write(writer))?);
        Ok(())
    }

    /// Waits until they have ended.
    pub(super) fn join(&mut self) {
        self.threads.drain(..).for_each(Thread::join);
    }
}

fn write(mut writer: Writer) {
    writer.allow_scrub();
    while writer.work(writer.time_to_wait()) {}
    writer.leave();
}

/// Answers until nobody is left to ask.
fn read(mut reader: Reader, mailbox: &Mailbox, messages: &Receiver<Message>) {
    loop {
        let next = match reader.time_to_scrub() {
            Some(time) => messages.recv_timeout(time),
            None => messages.recv().map_err(|_| RecvTimeoutError::Disconnected),
        };
        match next {
            Ok(message) => {
                if matches!(message, Message::Query(_)) {
                    mailbox.wait_until_received();
                }
                reader.handle(message);
            }
            Err(RecvTimeoutError::Timeout) => reader.scrub(),
            Err(RecvTimeoutError::Disconnected) => return,
        }
    }
}
