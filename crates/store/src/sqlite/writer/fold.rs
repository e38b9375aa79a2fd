//! Folding the log into the file: SQLite's checkpoint. The bulk is done by a thread of its own while commits
//! go on; only what came meanwhile is done between two commits, and then the log begins anew.

use super::Writer;
use crate::sqlite::schema;
use rusqlite::Connection;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread::JoinHandle;

/// Pages in the log that are worth folding: 16 MiB.
const MANY: u32 = 4_096;

/// A checkpoint under way.
pub(in crate::sqlite) struct Folding {
    thread: JoinHandle<()>,
    /// How many pages the log had when it began.
    pages: u32,
}

impl Folding {
    pub(super) fn wait(self) {
        // What a thread that panicked had to say stands in its panic's message.
        self.thread.join().ok();
    }
}

impl Writer {
    /// Has every commit tell how long the log is.
    pub(super) fn count_pages(&mut self) -> rusqlite::Result<()> {
        self.db
            .pragma_update_and_check(None, "wal_autocheckpoint", 0, |_| Ok(()))?;
        let pages = self.pages.clone();
        self.db.wal_hook(Some(move |_: &mut _, count| {
            pages.store(u32::try_from(count).unwrap_or(0), Ordering::Relaxed);
            Ok(())
        }))
    }

    /// Starts to fold if the log is long, or completes it. A checkpoint that fails is tried again when the
    /// log has grown: until then what it was to write is safe in the log.
    pub(super) fn fold(&mut self) {
        if self.is_broken {
            return;
        }
        let pages = self.pages.load(Ordering::Relaxed);
        let Some(folding) = self.folding.take() else {
            if pages >= MANY {
                self.folding = start(self.path.clone(), pages, self.sync);
            }
            return;
        };
        if !folding.thread.is_finished() {
            self.folding = Some(folding);
            return;
        }
        let rest = pages.saturating_sub(folding.pages);
        folding.wait();
        // More than that has come meanwhile only if the disk is slow; then it takes another round.
        if rest < MANY || pages > 16 * MANY {
            checkpoint(&self.db).ok();
            self.pages.store(0, Ordering::Relaxed);
        }
    }
}

fn start(path: PathBuf, pages: u32, sync: bool) -> Option<Folding> {
    let run = move || {
        let folded = schema::open_to_fold(&path, sync).and_then(|db| checkpoint(&db));
        // Somebody else will find out what is wrong with the disk.
        folded.ok();
    };
    let thread = std::thread::Builder::new()
        .name("stoker-folds".to_owned())
        .spawn(run)
        .ok()?;
    Some(Folding { thread, pages })
}

fn checkpoint(db: &Connection) -> rusqlite::Result<()> {
    db.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |_| Ok(()))
}

/// How many pages the log has.
pub(in crate::sqlite) type Pages = Arc<AtomicU32>;
