//! SQLite's checkpoint, which copies the WAL into the database file. Most of it is done by a separate thread
//! while commits continue. Only what was added meanwhile is copied between two commits, and then the WAL
//! starts again from its beginning.

use super::Writer;
use crate::sqlite::schema;
use rusqlite::{Connection, ErrorCode};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use stoker_os::Thread;

/// The number of pages in the WAL at which a checkpoint starts: 16 MiB.
const CHECKPOINT_PAGES: u32 = stoker_os::limit(4_096, 100) as u32;

/// A checkpoint in progress.
pub(in crate::sqlite) struct WalCheckpoint {
    thread: Thread,
    /// The checkpoint failed with an I/O error, perhaps when it synced the WAL.
    failed: Arc<AtomicBool>,
    /// The number of pages in the WAL when the checkpoint started.
    pages: u32,
}

impl WalCheckpoint {
    pub(super) fn has_failed(&self) -> bool {
        self.failed.load(Ordering::Acquire)
    }

    /// Waits for the checkpoint and returns whether it failed.
    pub(super) fn wait(self) -> bool {
        self.thread.join();
        self.failed.load(Ordering::Acquire)
    }
}

impl Writer {
    /// Disables automatic checkpoints, and lets every commit report the length of the WAL.
    pub(super) fn count_pages(&mut self) -> rusqlite::Result<()> {
        self.db
            .pragma_update_and_check(None, "wal_autocheckpoint", 0, |_| Ok(()))?;
        let (pages, frames) = (self.pages.clone(), self.frames.clone());
        self.db.wal_hook(Some(move |_: &mut _, count| {
            let count = u32::try_from(count).unwrap_or(0);
            pages.store(count, Ordering::Relaxed);
            frames.store(count, Ordering::Relaxed);
            Ok(())
        }))
    }

    /// A checkpoint that has not run yet.
    #[cfg(feature = "sim")]
    pub(in crate::sqlite) fn wal_checkpoint(&self) -> Option<&Thread> {
        let thread = self
            .wal_checkpoint
            .as_ref()
            .map(|wal_checkpoint| &wal_checkpoint.thread);
        thread.filter(|thread| !thread.is_finished())
    }

    /// Starts a checkpoint if the WAL is long, or completes one. If it fails, the cause may be a failed sync
    /// of the WAL.
    pub(super) fn checkpoint_wal_if_long(&mut self) {
        if self.is_broken || self.must_rewrite_wal {
            return;
        }
        let pages = self.pages.load(Ordering::Relaxed);
        let Some(wal_checkpoint) = self.wal_checkpoint.take() else {
            // The checkpoint thread opens the file by its name.
            if pages >= CHECKPOINT_PAGES && self.check_files().is_ok() {
                self.wal_checkpoint = start(&self.path, pages, self.sync);
            }
            return;
        };
        if !wal_checkpoint.thread.is_finished() {
            self.wal_checkpoint = Some(wal_checkpoint);
            return;
        }
        let rest = pages.saturating_sub(wal_checkpoint.pages);
        self.must_rewrite_wal = wal_checkpoint.wait();
        if self.must_rewrite_wal {
            return;
        }
        // If more pages than that were added meanwhile, the disk is slow, and another checkpoint by the
        // thread follows.
        if rest < CHECKPOINT_PAGES || pages > 16 * CHECKPOINT_PAGES {
            self.must_rewrite_wal = is_io_error(&checkpoint_wal(&self.db));
            self.pages.store(0, Ordering::Relaxed);
        }
    }
}

fn start(path: &Path, pages: u32, sync: bool) -> Option<WalCheckpoint> {
    // The file is opened here rather than in the thread. If a commit's sync of the WAL fails meanwhile, only
    // descriptors that were already open get the error. With a later one, the thread's own sync would
    // succeed, and it would checkpoint data that may be lost.
    let db = schema::open_for_checkpoint(path, sync).ok()?;
    let failed = Arc::new(AtomicBool::new(false));
    let flag = failed.clone();
    let run = move || {
        flag.store(is_io_error(&checkpoint_wal(&db)), Ordering::Release);
    };
    Some(WalCheckpoint {
        thread: stoker_os::spawn("stoker-wal-ckpt", run).ok()?,
        failed,
        pages,
    })
}

/// Whether the checkpoint failed with an I/O error. After other errors the data is still safe in the WAL, and
/// the checkpoint is repeated when the WAL has grown.
fn is_io_error(done: &rusqlite::Result<bool>) -> bool {
    let error = done.as_ref().err();
    error.and_then(rusqlite::Error::sqlite_error_code) == Some(ErrorCode::SystemIoFailure)
}

/// Checkpoints all frames that no reader needs. Returns whether that was the whole WAL.
pub(super) fn checkpoint_wal(db: &Connection) -> rusqlite::Result<bool> {
    db.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |row| {
        let (pages, checkpointed): (i64, i64) = (row.get(1)?, row.get(2)?);
        Ok(pages == checkpointed)
    })
}

/// The number of pages in the WAL, shared with the commit hook.
pub(in crate::sqlite) type Pages = Arc<AtomicU32>;
