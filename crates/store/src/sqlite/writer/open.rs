//! Opening queues, and closing the store.

use super::Writer;
use super::deferred_reads::PendingRead;
use crate::sqlite::schema;
use crate::sqlite::trouble::trouble;
use crate::{QueueNo, QueuePolicy, StoreEvent};
use std::io;

impl Writer {
    /// Opens a queue. The row of a new queue is written with the next commit.
    pub(super) fn open_queue(&mut self, name: &str, policy: QueuePolicy) {
        let queue = self.queues.find(name);
        let queue = queue.unwrap_or_else(|| self.queues.add(name));
        let Some(of_queue) = self.queues.get_mut(queue) else {
            return;
        };
        of_queue.policy = policy;
        // The new policy may have a shorter retention.
        self.expiry_at.set(0);
        let ordered = policy.ordered;
        self.read_or_defer(PendingRead::Queue { queue, ordered });
    }

    /// Restores the parked jobs of a queue and marks it as open.
    pub(super) fn resume(&mut self, queue: QueueNo, ordered: bool) -> rusqlite::Result<()> {
        let Some(of_queue) = self.queues.get(queue) else {
            return Ok(());
        };
        if !of_queue.is_open {
            let counts = of_queue.tally.counts;
            self.resume_parked(queue, ordered)?;
            self.events.push(StoreEvent::Counts { queue, counts });
        }
        if let Some(of_queue) = self.queues.get_mut(queue) {
            of_queue.is_open = true;
        }
        match ordered {
            true => Ok(()),
            false => self.read_next_due(),
        }
    }

    pub(super) fn close(&mut self) -> io::Result<()> {
        while !self.bulk_changes.is_empty() {
            self.run_bulk_slice();
        }
        if let Some(wal_checkpoint) = self.wal_checkpoint.take() {
            self.must_rewrite_wal |= wal_checkpoint.wait();
        }
        let done = self.transact(true, |writer, _| writer.store_running(&[]).map(drop));
        done.map_err(|error| io::Error::other(trouble(&error)))?;
        if !self.pending_writes.is_empty() {
            // The transaction opened the file again, and a commit in doubt turned out not to be in the file.
            self.write(Vec::new(), true);
        }
        if !self.pending_writes.is_empty() {
            return Err(io::Error::other(format!(
                "{} outcomes could not be written",
                self.pending_writes.len()
            )));
        }
        let checkpoint = "PRAGMA wal_checkpoint(TRUNCATE)";
        // If another process is reading, the WAL stays, which is harmless.
        if self.db.query_row(checkpoint, [], |row| row.get(0)) == Ok(0) {
            schema::remove_wal_on_close(&self.db, true).ok();
        }
        Ok(())
    }
}
