//! The store's threads: one writes to the file, one reads from it.

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
    /// Starts the reader's thread. It must run before the writer is opened, because the writer may need it to
    /// close its connection to the file.
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

    /// Waits until all threads have ended.
    pub(super) fn join(&mut self) {
        self.threads.drain(..).for_each(Thread::join);
    }
}

fn write(mut writer: Writer) {
    writer.allow_scrub();
    while writer.work(writer.time_to_wait()) {}
    writer.shut_down();
}

/// Handles messages until the writer has ended.
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
