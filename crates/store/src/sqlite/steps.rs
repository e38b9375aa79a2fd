//! Replaces the threads in the simulation, which runs their work step by step.

use super::mailbox::Mailbox;
use super::reader::{Reader, ToReader};
use super::writer::Writer;
use crate::Part;
use std::io;
use std::sync::Arc;
use std::time::Duration;

/// The maximum number of steps for a writer to end. More mean an endless loop.
const MAX_STEPS: u32 = 100_000;

pub(super) struct Threads {
    mailbox: Arc<Mailbox>,
    reader: ToReader,
    writer: Option<Writer>,
}

impl Threads {
    pub(super) fn new(reader: Reader, mailbox: Arc<Mailbox>) -> io::Result<(Self, ToReader)> {
        let reader = ToReader::new(reader);
        let threads = Self {
            mailbox,
            reader: reader.clone(),
            writer: None,
        };
        Ok((threads, reader))
    }

    pub(super) fn add(&mut self, writer: Writer) -> io::Result<()> {
        writer.allow_scrub();
        self.writer = Some(writer);
        Ok(())
    }

    pub(super) fn join(&mut self) {
        if let Some(writer) = self.writer.take() {
            writer.shut_down();
        }
    }

    /// The time until this part has work to do, if there will be any.
    pub(super) fn time_to_work(&self, part: Part) -> Option<Duration> {
        let writer = self.writer.as_ref();
        match part {
            Part::Writer if self.mailbox.has_arrived() => writer.map(|_| Duration::ZERO),
            Part::Writer => writer.map(Writer::time_to_wait),
            Part::Reader => {
                let stepped = self.reader.stepped();
                match stepped.messages.is_empty() {
                    true => stepped.reader.time_to_scrub(),
                    false => (!self.mailbox.has_backlog_of_events()).then_some(Duration::ZERO),
                }
            }
            Part::WalCheckpointer => writer?.wal_checkpoint().map(|_| Duration::ZERO),
        }
    }

    pub(super) fn work(&mut self, part: Part) {
        match part {
            Part::Writer => self.write(),
            Part::Reader => {
                let mut stepped = self.reader.stepped();
                if !stepped.step() && stepped.reader.time_to_scrub() == Some(Duration::ZERO) {
                    stepped.reader.scrub();
                }
            }
            Part::WalCheckpointer => {
                if let Some(thread) = self.writer.as_ref().and_then(Writer::wal_checkpoint) {
                    thread.run();
                }
            }
        }
    }

    fn write(&mut self) {
        if let Some(writer) = &mut self.writer
            && !writer.work(Duration::ZERO)
        {
            self.join();
        }
    }

    /// Runs the writer until it ends.
    pub(super) fn finish(&mut self) {
        for _ in 0..MAX_STEPS {
            if self.writer.is_none() {
                // The reader's thread also handles all messages before it ends.
                while self.reader.stepped().step() {}
                return;
            }
            self.write();
        }
        panic!("the writer did not finish within MAX_STEPS steps");
    }
}
