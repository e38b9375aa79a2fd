//! Folding the log into the file: SQLite's checkpoint. The bulk is done by a thread of its own while commits
//! go on; only what came meanwhile is done between two commits, and then the log begins anew.

use super::Writer;
use crate::sqlite::schema;
use rusqlite::{Connection, ErrorCode};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use stoker_os::Thread;

/// Pages in the log that are worth folding: 16 MiB.
const MANY: u32 = stoker_os::bound(4_096, 100) as u32;

/// A checkpoint under way.
pub(in crate::sqlite) struct Folding {
    thread: Thread,
    /// The disk failed, which it may have done at a sync of the log.
    failed: Arc<AtomicBool>,
    /// How many pages the log had when it began.
    pages: u32,
}

impl Folding {
    pub(super) fn has_failed(&self) -> bool {
        self.failed.load(Ordering::Acquire)
    }

    /// Returns whether it has failed.
    pub(super) fn wait(self) -> bool {
        self.thread.join();
        self.failed.load(Ordering::Acquire)
    }
}

impl Writer {
    /// Has every commit tell how long the log is.
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

    /// A fold that has not been done yet.
    #[cfg(feature = "sim")]
    pub(in crate::sqlite) fn folding(&self) -> Option<&Thread> {
        let thread = self.folding.as_ref().map(|folding| &folding.thread);
        thread.filter(|thread| !thread.is_finished())
    }

    /// Starts to fold if the log is long, or completes it. If that fails, it may have been a sync of the log.
    pub(super) fn fold(&mut self) {
        if self.is_broken || self.distrusts_log {
            return;
        }
        let pages = self.pages.load(Ordering::Relaxed);
        let Some(folding) = self.folding.take() else {
            // The fold opens the file by its name.
            if pages >= MANY && self.check_files().is_ok() {
                self.folding = start(&self.path, pages, self.sync);
            }
            return;
        };
        if !folding.thread.is_finished() {
            self.folding = Some(folding);
            return;
        }
        let rest = pages.saturating_sub(folding.pages);
        self.distrusts_log = folding.wait();
        if self.distrusts_log {
            return;
        }
        // More than that has come meanwhile only if the disk is slow; then it takes another round.
        if rest < MANY || pages > 16 * MANY {
            self.distrusts_log = is_io_error(&checkpoint(&self.db));
            self.pages.store(0, Ordering::Relaxed);
        }
    }
}

fn start(path: &Path, pages: u32, sync: bool) -> Option<Folding> {
    // It is opened here, not in the thread: if a commit's sync of the log fails meanwhile, then the log must
    // have been open, or the thread's own sync would not be told, and it would fold what may be lost.
    let db = schema::open_to_fold(path, sync).ok()?;
    let failed = Arc::new(AtomicBool::new(false));
    let flag = failed.clone();
    let run = move || {
        flag.store(is_io_error(&checkpoint(&db)), Ordering::Release);
    };
    Some(Folding {
        thread: stoker_os::spawn("stoker-folds", run).ok()?,
        failed,
        pages,
    })
}

/// What else goes wrong is tried again when the log has grown: until then what was to be folded is safe there.
fn is_io_error(done: &rusqlite::Result<bool>) -> bool {
    let error = done.as_ref().err();
    error.and_then(rusqlite::Error::sqlite_error_code) == Some(ErrorCode::SystemIoFailure)
}

/// Folds as much as nobody reads. Returns whether that was all of the log.
pub(super) fn checkpoint(db: &Connection) -> rusqlite::Result<bool> {
    db.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |row| {
        let (pages, folded): (i64, i64) = (row.get(1)?, row.get(2)?);
        Ok(pages == folded)
    })
}

/// How many pages the log has.
pub(in crate::sqlite) type Pages = Arc<AtomicU32>;
