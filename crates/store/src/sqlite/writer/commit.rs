//! Runs transactions and decides what a failure means.

use super::wal_checkpoint::WalCheckpoint;
use super::{Batch, NextDue, Writer, backoff::Backoff, doubt::Fate};
use crate::Trouble;
use crate::sqlite::trouble::{reopen_error, status_unknown, trouble};
use rusqlite::params;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// The setting of `PRAGMA synchronous`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::sqlite) enum SyncLevel {
    Unknown,
    /// Nothing is synced. A power failure may even corrupt the file.
    Off,
    /// Commits are not synced, but a power failure leaves the file consistent.
    Normal,
    /// Every commit is synced.
    Full,
}

/// The store can't write at present.
#[derive(Debug)]
pub(in crate::sqlite) struct Failing {
    pub(super) trouble: Trouble,
    pub(super) backoff: Backoff,
}

const MAX_DELAY: Duration = Duration::from_secs(5);

const SERIAL: &str = "INSERT OR REPLACE INTO store (key, value) VALUES ('serial', ?1)";
const AGE: &str = "INSERT INTO ages (queue, kind, no, at, ids) VALUES (?1, ?2, ?3, ?4, ?5)";

impl Writer {
    /// Runs `work` in a transaction, which is applied as a whole or not at all. With `must_be_durable`, the
    /// commit is synced before this returns.
    pub(super) fn transact(
        &mut self,
        must_be_durable: bool,
        work: impl FnOnce(&mut Self, &mut Batch) -> rusqlite::Result<()>,
    ) -> rusqlite::Result<Batch> {
        let mut batch = Batch::new((self.clock)(), (self.steady)());
        self.unknown = None;
        let began = stoker_os::steady();
        let done = self.try_transact(must_be_durable, &mut batch, work);
        let took = stoker_os::steady().saturating_sub(began);
        let counters = &self.mailbox.counters;
        counters.commit(done.is_ok(), took.as_micros() as u64);
        counters.sizes(self.files.size, self.files.journal_size);
        // Computed before a failure is handled, because that may reopen the file and adopt the serial found
        // there.
        let under_way = self.serial + 1;
        if let Err(error) = done {
            let fate = self.fate_after(&error, batch.is_committing);
            if !matches!(fate, Fate::Committed) {
                self.queues.undo();
                // The times that this transaction determined may be wrong.
                self.next_due = NextDue::NOW;
                self.expiry_at.set(0);
                self.unknown = matches!(fate, Fate::Unknown).then_some((batch, under_way));
                return Err(error);
            }
        }
        self.serial = under_way;
        if must_be_durable && self.sync {
            self.durable = self.serial;
        }
        let events = &mut self.events;
        self.queues
            .settle(|queue, counts| events.push(crate::StoreEvent::Counts { queue, counts }));
        self.next_due.merge(batch.due);
        Ok(batch)
    }

    fn try_transact(
        &mut self,
        must_be_durable: bool,
        batch: &mut Batch,
        work: impl FnOnce(&mut Self, &mut Batch) -> rusqlite::Result<()>,
    ) -> rusqlite::Result<()> {
        self.must_rewrite_wal |= self
            .wal_checkpoint
            .as_ref()
            .is_some_and(WalCheckpoint::has_failed);
        self.reopen().map_err(|error| reopen_error(&error))?;
        let journal_is_short = self.check_files().map_err(|error| status_unknown(&error))?;
        let frames = u64::from(self.frames.load(Ordering::Relaxed));
        self.set_sync_level(must_be_durable)?;
        self.db.prepare_cached("BEGIN IMMEDIATE")?.execute([])?;
        self.queues.save_new(&self.db)?;
        work(self, batch)?;
        self.write_counts(batch)?;
        if must_be_durable && !self.queues.are_touched() {
            // Without a serial, it could not be determined after a failed sync whether this commit is in the
            // file.
            let serial = self.serial as i64 + 1;
            self.db.prepare_cached(SERIAL)?.execute([serial])?;
        }
        let mut commit = self.db.prepare_cached("COMMIT")?;
        batch.is_committing = true;
        commit.execute([])?;
        drop(commit);
        if journal_is_short {
            self.check_journal(frames)
                .map_err(|error| reopen_error(&error))?;
        }
        Ok(())
    }

    fn write_counts(&mut self, batch: &mut Batch) -> rusqlite::Result<()> {
        for ((queue, kind), ids) in &batch.ended {
            let no = self.ids.make(batch.now).0 as i64;
            self.db.prepare_cached(AGE)?.execute(params![
                queue.0,
                kind,
                no,
                batch.now as i64,
                ids
            ])?;
        }
        self.trim_excess(batch)?;
        let last = self.ids.last();
        self.queues.save(&self.db, last, self.serial + 1)
    }

    fn set_sync_level(&mut self, must_be_durable: bool) -> rusqlite::Result<()> {
        let sync_level = match (self.sync, must_be_durable) {
            (false, _) => SyncLevel::Off,
            (true, false) => SyncLevel::Normal,
            (true, true) => SyncLevel::Full,
        };
        if sync_level != self.sync_level {
            let name = match sync_level {
                SyncLevel::Unknown | SyncLevel::Off => "off",
                SyncLevel::Normal => "normal",
                SyncLevel::Full => "full",
            };
            self.db.pragma_update(None, "synchronous", name)?;
            self.sync_level = sync_level;
        }
        Ok(())
    }

    /// Records a failed commit and schedules the next attempt.
    pub(super) fn fail(&mut self, error: &rusqlite::Error) -> Trouble {
        let trouble = trouble(error);
        let (backoff, is_known) = match &self.failing {
            Some(failing) => (
                failing.backoff.increased(MAX_DELAY),
                failing.trouble == trouble,
            ),
            None => (Backoff::new(), false),
        };
        if !is_known {
            self.events
                .push(crate::StoreEvent::Failing(Some(trouble.clone())));
        }
        self.failing = Some(Failing {
            trouble: trouble.clone(),
            backoff,
        });
        trouble
    }

    /// Reports that the store works again, if it was failing.
    pub(super) fn end_trouble(&mut self) {
        if self.failing.take().is_some() {
            self.events.push(crate::StoreEvent::Failing(None));
            self.retry_deferred_soon();
            self.promote_chore.retry_soon();
            self.expire_chore.retry_soon();
            self.trim_chore.retry_soon();
        }
    }
}
