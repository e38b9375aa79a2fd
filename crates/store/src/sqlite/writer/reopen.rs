//! What to do when the disk fails: not to trust the file that it failed on (see [`crate::sqlite::log`]), and
//! to open everything anew.

use super::commit::Level;
use super::{Writer, doubt::Fate, recover};
use crate::StoreEvent;
use crate::sqlite::trouble::is_replaced;
use crate::sqlite::{StoreError, log, reader::Message, schema};
use rusqlite::{Connection, ErrorCode};
use std::sync::mpsc::sync_channel;

impl Writer {
    /// A transaction failed. What became of it: the disk may fail when the commit is in the log already, and
    /// then what is in the log is what counts.
    pub(super) fn fate_after(&mut self, error: &rusqlite::Error, was_committing: bool) -> Fate {
        if !self.db.is_autocommit() {
            // If even this fails, the next transaction can't begin and reports the error.
            self.db.execute_batch("ROLLBACK").ok();
        }
        // What is open here is not the file that is there, and must not be let go of for it.
        if is_replaced(error) {
            return Fate::Undone;
        }
        // One that is open for reading only, or could not open what belongs to it, would stay so.
        use ErrorCode::{CannotOpen, ReadOnly, SystemIoFailure};
        match error.sqlite_error_code() {
            Some(SystemIoFailure | ReadOnly | CannotOpen) => {}
            _ => return Fate::Undone,
        }
        // Reopening takes over the file's own number.
        let under_way = self.serial + 1;
        self.is_broken = true;
        match self.reopen() {
            // One that had not come so far may meet the number of the one before it, of which nobody knew.
            Ok(()) if was_committing && self.serial == under_way => Fate::Committed,
            Err(_) if was_committing => {
                // Nothing may follow from it before it is known to be on the disk.
                self.is_broken = true;
                Fate::Unknown
            }
            _ => Fate::Undone,
        }
    }

    /// Opens everything anew, if that is due.
    pub(super) fn reopen(&mut self) -> Result<(), StoreError> {
        if !self.is_broken && !self.distrusts_log {
            return Ok(());
        }
        self.files.check_identity()?;
        self.close_files();
        self.is_broken = true;
        let written = log::rewrite(&self.path);
        // With no room for that, what is there can still be read.
        self.distrusts_log = matches!(written, Err(StoreError::Full { .. }));
        match written {
            Err(error) if !self.distrusts_log || self.doubt.is_some() => return Err(error),
            _ => {}
        }
        self.connect()?;
        self.is_broken = false;
        self.allow_scrub();
        self.resolve_doubt();
        written
    }

    /// Closes every connection, without the checkpoint that closing the last one would do: it would sync.
    fn close_files(&mut self) {
        if let Some(folding) = self.folding.take() {
            folding.wait();
        }
        let (done, is_done) = sync_channel(1);
        if self.reader.send(Message::Close(done)).is_ok() {
            // It fails if the reader is gone, and then its connection is closed.
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
        self.level = Level::Unknown;
        self.files.opened(&self.db)?;
        self.count_pages().map_err(error)?;
        let serial = recover::last_serial(&self.db).map_err(error)?;
        if serial < self.durable {
            let text = "its journal was deleted or truncated, and what was committed last is lost. Restart Stoker \
                        to go on with what is left";
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
