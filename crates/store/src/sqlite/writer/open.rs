//! Opening queues, and closing the store.

use super::Writer;
use super::commit::trouble;
use crate::{Keep, Opened, QueueNo, Told};
use rusqlite::params;
use std::io;

impl Writer {
    pub(super) fn open_queue(&mut self, name: &str, keep: Keep) -> rusqlite::Result<Opened> {
        let queue = match self.queues.find(name) {
            Some(queue) => queue,
            None => {
                let id = self.queues.len();
                self.transact(true, |writer, _| {
                    let insert = "INSERT INTO queues (id, name) VALUES (?1, ?2)";
                    writer.db.execute(insert, params![id, name]).map(drop)
                })?;
                self.queues.add(name)
            }
        };
        self.resume(queue, keep)?;
        let opened = "SELECT paused, settings FROM queues WHERE id = ?1";
        self.db.query_row(opened, [queue.0], |row| {
            Ok(Opened {
                queue,
                paused: row.get(0)?,
                settings: row.get(1)?,
            })
        })
    }

    fn resume(&mut self, queue: QueueNo, keep: Keep) -> rusqlite::Result<()> {
        let Some(of_queue) = self.queues.get_mut(queue) else {
            return Ok(());
        };
        of_queue.keep = keep;
        // Less may be kept than before.
        self.tidy_at.set(0);
        let (was_open, counts) = (of_queue.is_open, of_queue.tally.counts);
        if !was_open {
            self.resume_resting(queue, keep.ordered)?;
            self.told.push(Told::Counts { queue, counts });
        }
        if let Some(of_queue) = self.queues.get_mut(queue) {
            of_queue.is_open = true;
        }
        if !keep.ordered {
            self.look_for_due()?;
        }
        Ok(())
    }

    pub(super) fn close(&mut self) -> io::Result<()> {
        while !self.long.is_empty() {
            self.go_on();
        }
        let done = self.transact(true, |writer, _| writer.running(&[]).map(drop));
        done.map_err(|error| io::Error::other(trouble(&error)))?;
        if !self.owed.is_empty() {
            return Err(io::Error::other(format!(
                "{} outcomes could not be written",
                self.owed.len()
            )));
        }
        if let Some(folding) = self.folding.take() {
            folding.wait();
        }
        let checkpoint = "PRAGMA wal_checkpoint(TRUNCATE)";
        // Somebody may be reading; the log then stays, and is as good.
        self.db.query_row(checkpoint, [], |_| Ok(())).ok();
        Ok(())
    }
}
