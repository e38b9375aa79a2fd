//! What to do when the disk fails: not to trust the file that it failed on (see [`crate::sqlite::log`]), and
//! to open everything anew.

use super::commit::{Level, is_replaced};
use super::{Batch, Writer, change::Slice, recover};
use crate::sqlite::{StoreError, log, reader::Message, schema};
use crate::{Ask, Told, Trouble};
use rusqlite::{Connection, ErrorCode};
use std::sync::mpsc::sync_channel;
use std::time::Duration;
use stoker_os::steady;

/// What became of a transaction that failed.
pub(super) enum Fate {
    Committed,
    Undone,
    /// The file can't be read at present.
    Unknown,
}

/// A commit of which nobody knows yet whether it is in the file. To refuse a push that is there all the same
/// would be a lie, and so who waits for it waits on.
pub(super) struct Doubt {
    pub(super) work: Doubtful,
    pub(super) batch: Batch,
    pub(super) serial: u64,
    trouble: Trouble,
    /// When those who wait for it are told, if they are not yet.
    told_at: Option<Duration>,
}

/// How long those who wait for a commit in doubt are told nothing: mostly it is known at once.
const PATIENCE: Duration = Duration::from_secs(2);

/// What was done in it.
pub(super) enum Doubtful {
    Asks(Vec<Ask>),
    Slice(Box<Slice>),
}

impl Writer {
    /// A transaction failed. What became of it: the disk may fail when the commit is in the log already, and
    /// then what is in the log is what counts.
    pub(super) fn fate_after(&mut self, error: &rusqlite::Error, was_committing: bool) -> Fate {
        if !self.db.is_autocommit() {
            // Where even this fails the next transaction can't begin, and tells.
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
        // Mending takes over the file's own number.
        let under_way = self.serial + 1;
        self.is_broken = true;
        match self.mend() {
            // One that had not come so far may meet the number of the one before it, of which nobody knew.
            Ok(()) if was_committing && self.serial == under_way => Fate::Committed,
            Err(_) if was_committing => {
                // What is in it must not be seen to before it is known to last.
                self.is_broken = true;
                Fate::Unknown
            }
            _ => Fate::Undone,
        }
    }

    /// Nobody knows what became of a commit.
    pub(super) fn doubt(&mut self, work: Doubtful, batch: Batch, serial: u64, trouble: Trouble) {
        self.doubt = Some(Doubt {
            work,
            batch,
            serial,
            trouble,
            told_at: Some(steady() + PATIENCE),
        });
    }

    /// How long until those who wait are told that nobody knows.
    pub(super) fn time_to_tell_doubt(&self) -> Option<Duration> {
        let told_at = self.doubt.as_ref()?.told_at?;
        Some(told_at.saturating_sub(steady()))
    }

    /// A disk may stay broken for hours. Who waits is told what there is to tell, and can decide.
    pub(super) fn tell_doubt(&mut self) {
        if self.time_to_tell_doubt() != Some(Duration::ZERO) {
            return;
        }
        let Some(doubt) = &mut self.doubt else {
            return;
        };
        doubt.told_at = None;
        let in_doubt = |ticket| Told::InDoubt {
            ticket,
            trouble: doubt.trouble.clone(),
        };
        match &doubt.work {
            Doubtful::Asks(asks) => self
                .told
                .extend(asks.iter().filter_map(Ask::ticket).map(in_doubt)),
            Doubtful::Slice(slice) => self.told.push(in_doubt(slice.long.ticket)),
        }
    }

    /// The file can be read again: what became of the commit that was under way when it could not.
    fn resolve_doubt(&mut self) {
        let Some(Doubt {
            work,
            batch,
            serial,
            trouble,
            ..
        }) = self.doubt.take()
        else {
            return;
        };
        let is_there = self.serial >= serial;
        if is_there {
            // Its log was written anew, and that was synced.
            self.durable = self.durable.max(serial);
        }
        match work {
            Doubtful::Asks(asks) if is_there => self.settle(asks, batch),
            Doubtful::Slice(slice) if is_there => self.settle_slice(*slice, batch),
            Doubtful::Asks(asks) => {
                // What is owed was asked later.
                let later = std::mem::take(&mut self.owed);
                self.put_off(asks, &trouble);
                self.owed.extend(later);
            }
            Doubtful::Slice(slice) => self.cut_short(slice.long, trouble),
        }
    }

    /// Opens everything anew, if that is due.
    pub(super) fn mend(&mut self) -> Result<(), StoreError> {
        if !self.is_broken && !self.distrusts_log {
            return Ok(());
        }
        self.files.is_ours()?;
        self.let_go_of_file();
        self.is_broken = true;
        let written = log::write_anew(&self.path);
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
    fn let_go_of_file(&mut self) {
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
            return Err(self.files.lose(text.to_owned()));
        }
        // A commit that was told as failed may be in the file.
        self.queues.reload(&self.db).map_err(error)?;
        let told = &mut self.told;
        self.queues
            .tell_all(|queue, counts| told.push(Told::Counts { queue, counts }));
        self.serial = self.serial.max(serial);
        Ok(())
    }
}
