//! What to do when the disk fails: not to trust the file that it failed on.
//!
//! After a failed fsync Linux takes what it could not write for written: a second fsync succeeds, and the
//! data is gone when the memory is. So the log is never synced again in place. It is copied, the copy is
//! synced and takes its place, and the connections are opened anew; SQLite then finds by its checksums how
//! far the log goes.

use super::{Writer, commit::Level, recover};
use crate::sqlite::lock::beside;
use crate::sqlite::schema;
use crate::sqlite::tools::sync_directory;
use crate::sqlite::{StoreError, reader::Message};
use rusqlite::config::DbConfig;
use rusqlite::{Connection, ErrorCode};
use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::mpsc::sync_channel;

impl Writer {
    /// A transaction failed. Returns whether it was committed after all: the disk may fail when the commit
    /// is in the log already, and then what is in the log is what counts.
    pub(super) fn is_committed_after(&mut self, error: &rusqlite::Error) -> bool {
        if !self.db.is_autocommit() {
            // Where even this fails the next transaction can't begin, and tells.
            self.db.execute_batch("ROLLBACK").ok();
        }
        if error.sqlite_error_code() != Some(ErrorCode::SystemIoFailure) {
            return false;
        }
        self.is_broken = true;
        self.mend().is_ok_and(|()| self.is_in_file())
    }

    /// Whether the file has the commit that was under way.
    fn is_in_file(&self) -> bool {
        recover::last_serial(&self.db).is_ok_and(|serial| serial == self.serial + 1)
    }

    /// Opens everything anew, if that is due.
    pub(super) fn mend(&mut self) -> Result<(), StoreError> {
        if !self.is_broken {
            return Ok(());
        }
        self.let_go_of_file();
        copy_log(&self.path).map_err(|error| StoreError::io(&self.path, &error))?;
        self.connect()?;
        self.is_broken = false;
        Ok(())
    }

    /// Closes every connection, without the checkpoint that closing the last one would do: it would sync.
    fn let_go_of_file(&mut self) {
        if let Some(folding) = self.folding.take() {
            folding.wait();
        }
        let (done, is_done) = sync_channel(1);
        if self.reader.send(Message::Close(done)).is_ok() {
            // It fails if the reader is gone, and then its connection is closed.
            is_done.recv().ok();
        }
        self.db
            .set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)
            .ok();
        if let Ok(none) = Connection::open_in_memory() {
            self.db = none;
        }
    }

    fn connect(&mut self) -> Result<(), StoreError> {
        let path = self.path.clone();
        let error = |error: rusqlite::Error| StoreError::sqlite(&path, &error);
        self.db = schema::open(&self.path, self.cache_kib)?;
        self.level = Level::Unknown;
        self.count_pages().map_err(error)?;
        // A commit that was told as failed may be in the file.
        self.queues.reload(&self.db).map_err(error)?;
        self.serial = self
            .serial
            .max(recover::last_serial(&self.db).map_err(error)?);
        Ok(())
    }
}

/// Puts a synced copy of the log in its place.
fn copy_log(store: &Path) -> io::Result<()> {
    let (log, copy) = (beside(store, "-wal"), beside(store, "-wal-copy"));
    if !log.exists() {
        return Ok(());
    }
    std::fs::copy(&log, &copy)?;
    File::open(&copy)?.sync_all()?;
    std::fs::rename(&copy, &log)?;
    sync_directory(store)
}
