//! Recovery from disk failures: the file must not be trusted as it is (see [`crate::sqlite::wal`]), and
//! everything is opened again.

use super::commit::SyncLevel;
use super::{Writer, doubt::Fate, recover};
use crate::StoreEvent;
use crate::sqlite::trouble::is_replaced;
use crate::sqlite::{StoreError, reader::Message, schema, wal};
use rusqlite::{Connection, ErrorCode};
use std::sync::mpsc::sync_channel;

impl Writer {
    /// Determines whether a failed transaction was committed. The disk may fail after the commit was written
    /// to the WAL, and then the content of the WAL decides.
    pub(super) fn fate_after(&mut self, error: &rusqlite::Error, was_committing: bool) -> Fate {
        if !self.db.is_autocommit() {
            // If ROLLBACK fails too, the next transaction can't begin and reports the error.
            self.db.execute_batch("ROLLBACK").ok();
        }
        // The open files are not the ones at the store's paths, and must not be closed, because they may hold
        // the only copy of the data.
        if is_replaced(error) {
            return Fate::Undone;
        }
        // A connection that is read-only, or that could not open one of the files beside the store, would
        // stay so.
        use ErrorCode::{CannotOpen, ReadOnly, SystemIoFailure};
        match error.sqlite_error_code() {
            Some(SystemIoFailure | ReadOnly | CannotOpen) => {}
            _ => return Fate::Undone,
        }
        // Computed first, because reopening adopts the serial in the file.
        let under_way = self.serial + 1;
        self.is_broken = true;
        match self.reopen() {
            // The serial only proves a commit that was attempted: otherwise the file may contain an earlier
            // commit in doubt with the same serial.
            Ok(()) if was_committing && self.serial == under_way => Fate::Committed,
            Err(_) if was_committing => {
                // Nothing may follow from the commit before it is known to be on the disk.
                self.is_broken = true;
                Fate::Unknown
            }
            _ => Fate::Undone,
        }
    }

    /// Opens everything again, if that is necessary.
    pub(super) fn reopen(&mut self) -> Result<(), StoreError> {
        if !self.is_broken && !self.must_rewrite_wal {
            return Ok(());
        }
        self.files.check_identity()?;
        self.close_files();
        self.is_broken = true;
        let written = wal::rewrite(&self.path);
        // If the disk is full, the file can still be read.
        self.must_rewrite_wal = matches!(written, Err(StoreError::Full { .. }));
        match written {
            Err(error) if !self.must_rewrite_wal || self.doubt.is_some() => return Err(error),
            _ => {}
        }
        self.connect()?;
        self.is_broken = false;
        self.allow_scrub();
        self.resolve_doubt();
        written
    }

    /// Closes every connection, without the checkpoint that closing the last one would run, because a
    /// checkpoint syncs the WAL.
    fn close_files(&mut self) {
        if let Some(wal_checkpoint) = self.wal_checkpoint.take() {
            wal_checkpoint.wait();
        }
        let (done, is_done) = sync_channel(1);
        if self.reader.send(Message::Close(done)).is_ok() {
            // Fails if the reader has ended, and then its connection is closed.
            is_done.recv().ok();
        }
        if let Ok(none) = Connection::open_in_memory() {
            self.db = none;
        }
    }

    fn connect(&mut self) -> Result<(), StoreError> {
        let path = self.path.clone();
        let error = |error: rusqlite::Error| StoreError::sqlite(&path, &error);
        self.db = schema::open(&self.path, self.cache_kib)?;
        self.sync_level = SyncLevel::Unknown;
        self.files.record_opened(&self.db)?;
        self.count_pages().map_err(error)?;
        let serial = recover::last_serial(&self.db).map_err(error)?;
        if serial < self.durable {
            let text = "its journal was deleted or truncated, and the latest commits are lost. Restart Stoker to \
            continue with the rest";
            return Err(self.files.mark_lost(text.to_owned()));
        }
        // A commit that was reported as failed may be in the file.
        self.queues.reload(&self.db).map_err(error)?;
        let events = &mut self.events;
        self.queues
            .report_all(|queue, counts| events.push(StoreEvent::Counts { queue, counts }));
        self.serial = self.serial.max(serial);
        Ok(())
    }
}
