//! Checks whether the writer's open files are still the ones at its paths. If another process deleted,
//! replaced or truncated them, everything committed from then on would be lost when this process ends.

use super::Writer;
use super::wal_checkpoint::checkpoint_wal;
use crate::sqlite::StoreError;
use crate::sqlite::path::{beside, len};
use rusqlite::Connection;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use stoker_os::{File, Mode, Stat};

/// Sizes in the format of the WAL (https://sqlite.org/fileformat2.html#walformat), bytes.
const WAL_HEADER: u64 = 32;
const FRAME_HEADER: u64 = 24;

/// The device and inode of a file.
type Identity = (u64, u64);

/// The files as they were when they were last known to be the store's.
pub(in crate::sqlite) struct Files {
    store: PathBuf,
    journal: PathBuf,
    /// The store's file, which is locked while the server runs. Opening and closing it again would release
    /// SQLite's locks.
    file: Arc<File>,
    identity: Identity,
    page: u64,
    journal_identity: Option<Identity>,
    pub(super) size: u64,
    pub(super) journal_size: u64,
    /// Why committed data is lost. Only a restart, which reads what is left, clears this.
    lost: Option<String>,
}

/// A problem with the files.
enum FileProblem {
    /// The problem may be repaired from outside.
    Moved(String),
    /// The journal has been deleted, but is still open in this process.
    JournalGone(String),
    Lost(String),
    /// The files' state can't be read, so it is unknown.
    StatusUnknown(StoreError),
}

impl Files {
    pub(in crate::sqlite) fn new(store: &Path, file: Arc<File>) -> io::Result<Self> {
        Ok(Self {
            identity: stoker_os::stat_file(&file)?.identity,
            file,
            page: 0,
            store: store.to_owned(),
            journal: beside(store, "-wal"),
            journal_identity: None,
            size: 0,
            journal_size: 0,
            lost: None,
        })
    }

    /// Records the state of the files after they were opened.
    pub(super) fn record_opened(&mut self, db: &Connection) -> Result<(), StoreError> {
        self.journal_identity = match stoker_os::stat(&self.journal) {
            Ok(found) => Some(found.identity),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(StoreError::io(&self.journal, &error)),
        };
        self.size = len(&self.store).map_err(|error| StoreError::io(&self.store, &error))?;
        self.page = db
            .pragma_query_value(None, "page_size", |row| row.get(0))
            .map_err(|error| StoreError::sqlite(&self.store, &error))?;
        Ok(())
    }

    /// Checks that the store's path leads to the locked file.
    pub(super) fn check_identity(&self) -> Result<(), StoreError> {
        match self.check_store() {
            Err(
                FileProblem::Moved(text) | FileProblem::JournalGone(text) | FileProblem::Lost(text),
            ) => Err(self.replaced(text)),
            Err(FileProblem::StatusUnknown(error)) => Err(error),
            Ok(_) => Ok(()),
        }
    }

    /// Records that data is lost that was reported as durable.
    pub(super) fn mark_lost(&mut self, text: String) -> StoreError {
        self.lost = Some(text.clone());
        self.replaced(text)
    }

    pub(super) fn replaced(&self, text: String) -> StoreError {
        StoreError::Replaced {
            path: self.store.clone(),
            text,
        }
    }

    fn check_store(&self) -> Result<Stat, FileProblem> {
        let name = self.store.display();
        match stoker_os::stat(&self.store) {
            Ok(found) if found.identity == self.identity => Ok(found),
            Ok(_) => Err(FileProblem::Moved(format!(
                "another file was put in the place of {name}. Restart Stoker to use that file, or stop it and put the original back"
            ))),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                Err(FileProblem::Moved(format!(
                    "{name} was deleted or renamed. Put it back, or stop Stoker and restore a backup"
                )))
            }
            Err(error) => Err(status_unknown(&self.store, &error)),
        }
    }

    /// Returns whether the journal is shorter than the frames known to be in it. Takes only two system calls
    /// if nothing is wrong.
    fn check(&mut self, frames: u64) -> Result<bool, FileProblem> {
        if let Some(text) = &self.lost {
            return Err(FileProblem::Lost(text.clone()));
        }
        let store = self.check_store()?;
        let size = store.len;
        if size < self.size && self.is_truncated(size)? {
            return Err(FileProblem::Lost(format!(
                "{} was truncated to {size} bytes. Stop Stoker, and restore a backup",
                self.store.display()
            )));
        }
        self.size = size;
        let name = self.journal.display();
        match stoker_os::stat(&self.journal) {
            Ok(found) if Some(found.identity) == self.journal_identity => {
                self.journal_size = found.len;
                Ok(found.len < self.journal_len(frames))
            }
            Ok(found) if self.journal_identity.is_none() => {
                self.journal_identity = Some(found.identity);
                Ok(false)
            }
            Ok(found) if found.len > 0 => Err(FileProblem::Moved(format!(
                "another file was put in the place of the journal {name}. Put the original back, or stop \
                 Stoker and restore a backup"
            ))),
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(status_unknown(&self.journal, &error))
            }
            // The first commit creates the journal.
            Err(_) if self.journal_identity.is_none() => Ok(false),
            _ => Err(FileProblem::JournalGone(format!(
                "the journal {name} was deleted"
            ))),
        }
    }

    /// Whether a frame of the journal is missing. Called for a journal that was found too short before a
    /// commit appended to it.
    fn is_frame_missing(&self, frame: u64) -> io::Result<bool> {
        let mut header = [0; FRAME_HEADER as usize];
        let at = self.journal_len(frame.saturating_sub(1));
        let file = stoker_os::open_file(&self.journal, Mode::Read);
        match file.and_then(|file| stoker_os::read_exact_at(&file, &mut header, at)) {
            // Every valid frame has a page number other than 0.
            Ok(()) => Ok(header[..4] == [0; 4]),
            Err(error) if is_missing(&error) => Ok(true),
            Err(error) => Err(error),
        }
    }

    /// Whether the store's file, which became shorter, is shorter than its header says. A VACUUM also makes
    /// it shorter.
    fn is_truncated(&self, size: u64) -> Result<bool, FileProblem> {
        let mut pages = [0; 4];
        match stoker_os::read_exact_at(&self.file, &mut pages, 28) {
            Ok(()) => Ok(u64::from(u32::from_be_bytes(pages)) * self.page > size),
            Err(error) if is_missing(&error) => Ok(true),
            Err(error) => Err(status_unknown(&self.store, &error)),
        }
    }

    /// The length of a journal with this many frames.
    fn journal_len(&self, frames: u64) -> u64 {
        match frames {
            0 => 0,
            frames => WAL_HEADER + frames * (FRAME_HEADER + self.page),
        }
    }
}

fn status_unknown(file: &Path, error: &io::Error) -> FileProblem {
    FileProblem::StatusUnknown(StoreError::io(file, error))
}

/// Whether the error means that the data does not exist. Any other error leaves that open.
fn is_missing(error: &io::Error) -> bool {
    use io::ErrorKind::{NotFound, UnexpectedEof};
    matches!(error.kind(), NotFound | UnexpectedEof)
}

impl Writer {
    /// Checks before a commit that it will go to the files at the store's paths. Returns whether the journal
    /// is suspiciously short.
    pub(super) fn check_files(&mut self) -> Result<bool, StoreError> {
        let frames = u64::from(self.frames.load(Ordering::Relaxed));
        let problem = match self.files.check(frames) {
            Ok(journal_is_short) => return Ok(journal_is_short),
            Err(problem) => problem,
        };
        Err(match problem {
            FileProblem::Moved(text) => self.files.replaced(text),
            FileProblem::Lost(text) => self.files.mark_lost(text),
            FileProblem::StatusUnknown(error) => error,
            FileProblem::JournalGone(text) => {
                // This connection still has the journal open. Once all of it has been checkpointed, a new one
                // can be started. A process that is reading the store may hold back a part until the next
                // commit is attempted.
                let is_complete = checkpoint_wal(&self.db).is_ok_and(|all| all);
                self.is_broken |= is_complete;
                let how_far = match is_complete {
                    true => "and all of it has been written to the store",
                    false => "and not all of it has been written to the store",
                };
                self.files.replaced(format!("{text}, {how_far}"))
            }
        })
    }

    /// Checks, after a commit that appended to a journal that was too short, whether the journal had been
    /// truncated.
    pub(super) fn check_journal(&mut self, frames_before: u64) -> Result<(), StoreError> {
        let frames = u64::from(self.frames.load(Ordering::Relaxed));
        // With fewer frames, SQLite has restarted the journal, which is its normal way to shorten it.
        if frames <= frames_before {
            return Ok(());
        }
        let journal = &self.files.journal;
        let is_frame_missing = self.files.is_frame_missing(frames_before);
        if !is_frame_missing.map_err(|error| StoreError::io(journal, &error))? {
            return Ok(());
        }
        let name = journal.display();
        let text = format!(
            "the journal {name} was truncated, and commits since the last checkpoint are lost. Restart Stoker to \
             continue with the rest"
        );
        Err(self.files.mark_lost(text))
    }
}
