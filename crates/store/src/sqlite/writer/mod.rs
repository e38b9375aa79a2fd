//! The writer thread: it takes requests, executes them in one transaction, commits, then publishes events.
//! While one commit is synced, requests for the next one accumulate.

mod backoff;
mod batch;
mod bulk;
mod change;
mod chore;
mod commit;
mod deferred_reads;
mod doubt;
mod due;
mod end;
mod files;
mod forget;
mod job_row;
mod lanes;
mod mark;
mod multi_row;
mod open;
mod place;
mod plain;
mod push;
mod recover;
mod refill;
mod reopen;
mod retry;
mod search;
mod set_aside;
mod settle;
mod turn;
mod wal_checkpoint;
mod write;

use super::mailbox::{Damaged, Mailbox};
use super::queues::Queues;
use super::reader::ToReader;
use super::{SqliteOptions, StoreError, schema, wal};
use crate::{Clock, Ids, JobId, QueueNo, StoreEvent, StoreRequest};
use batch::{Batch, Effect, NextDue};
use chore::Chore;
use lanes::Lanes;
use rusqlite::{Connection, OptionalExtension, params};
use std::cell::{Cell, RefCell};
use std::collections::{HashSet, VecDeque};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use stoker_os::File;

pub(super) struct Writer {
    pub(super) db: Connection,
    pub(super) path: PathBuf,
    /// Commits are synced to the disk.
    pub(super) sync: bool,
    pub(super) cache_kib: u32,
    pub(super) clock: Clock,
    pub(super) steady: Clock,
    pub(super) mailbox: Arc<Mailbox>,
    pub(super) reader: ToReader,
    pub(super) ids: Ids,
    queues: Queues,
    lanes: Lanes,
    /// The number of the last commit.
    serial: u64,
    todo: VecDeque<super::mailbox::Item>,
    events: Vec<StoreEvent>,
    /// Bytes of jobs that refills have added to `events`.
    handed_bytes: Cell<usize>,
    /// Requests that could not be written yet and must not be rejected.
    pending_writes: Vec<StoreRequest>,
    /// Reads that wait until the file can be read.
    deferred: VecDeque<deferred_reads::Deferred>,
    /// The last transaction, if it is unknown whether it was committed, and its serial.
    unknown: Option<(Batch, u64)>,
    doubt: Option<doubt::Doubt>,
    /// Searches for lanes in progress.
    searches: VecDeque<search::Search>,
    /// Changes of many jobs in progress.
    bulk_changes: VecDeque<bulk::BulkChange>,
    failing: Option<commit::Failing>,
    /// Jobs that were running when the previous server died, until their crashes have been written.
    crashed: HashSet<JobId>,
    /// The disk failed while this connection was in use. It must not be used again.
    is_broken: bool,
    /// The WAL must not be synced before it has been rewritten.
    must_rewrite_wal: bool,
    wal_checkpoint: Option<wal_checkpoint::WalCheckpoint>,
    pages: wal_checkpoint::Pages,
    /// The number of frames in the WAL after the last commit. Unlike `pages`, a checkpoint does not reset it.
    frames: wal_checkpoint::Pages,
    files: files::Files,
    /// Jobs with wrong checksums that will be set aside in the next turn.
    damaged: RefCell<Vec<Damaged>>,
    /// The last commit that was reported as durable.
    durable: u64,
    /// The current setting of `PRAGMA synchronous`.
    sync_level: commit::SyncLevel,
    next_due: NextDue,
    promote_chore: Chore,
    /// When the next job or key expires.
    expiry_at: Cell<u64>,
    expire_chore: Chore,
    trim_chore: Chore,
}

impl Writer {
    pub(super) fn open(
        path: &Path,
        file: Arc<File>,
        options: &SqliteOptions,
        mailbox: Arc<Mailbox>,
        reader: ToReader,
    ) -> Result<Self, StoreError> {
        let error = |error: rusqlite::Error| StoreError::sqlite(path, &error);
        let must_rewrite_wal = match wal::rewrite(path) {
            Ok(()) => false,
            Err(StoreError::Full { .. }) => true,
            Err(error) => return Err(error),
        };
        let db = schema::open(path, options.cache_kib)?;
        let secret = secret(&db, (options.clock)()).map_err(error)?;
        let mut writer = Self {
            path: path.to_owned(),
            sync: options.sync,
            cache_kib: options.cache_kib,
            clock: options.clock.clone(),
            steady: options.steady.clone(),
            mailbox,
            reader,
            ids: Ids::new(secret, recover::last_number(&db).map_err(error)?),
            queues: Queues::load(&db).map_err(error)?,
            lanes: Lanes::default(),
            serial: recover::last_serial(&db).map_err(error)?,
            todo: VecDeque::new(),
            events: Vec::new(),
            handed_bytes: Cell::new(0),
            pending_writes: Vec::new(),
            deferred: VecDeque::new(),
            unknown: None,
            doubt: None,
            searches: VecDeque::new(),
            bulk_changes: VecDeque::new(),
            failing: None,
            crashed: HashSet::new(),
            is_broken: false,
            must_rewrite_wal,
            wal_checkpoint: None,
            pages: wal_checkpoint::Pages::default(),
            frames: wal_checkpoint::Pages::default(),
            files: files::Files::new(path, file).map_err(|error| StoreError::io(path, &error))?,
            damaged: RefCell::default(),
            durable: 0,
            sync_level: commit::SyncLevel::Unknown,
            next_due: NextDue::default(),
            promote_chore: Chore::default(),
            expiry_at: Cell::new(u64::MAX),
            expire_chore: Chore::default(),
            trim_chore: Chore::default(),
            db,
        };
        writer.files.record_opened(&writer.db)?;
        writer.count_pages().map_err(error)?;
        writer.recover().map_err(error)?;
        Ok(writer)
    }

    pub(super) fn known_queues(&self) -> Result<Vec<super::KnownQueue>, StoreError> {
        let known = super::queues::load_known(&self.db);
        let mut known = known.map_err(|error| StoreError::sqlite(&self.path, &error))?;
        for (queue, known) in (0..).map(QueueNo).zip(&mut known) {
            known.counts = self.queues.counts(queue);
        }
        Ok(known)
    }
}

/// The store's secret, which is generated when the store is created.
fn secret(db: &Connection, now: u64) -> rusqlite::Result<u64> {
    let known = db.query_row("SELECT value FROM store WHERE key = 'secret'", [], |row| {
        row.get::<_, i64>(0)
    });
    if let Some(known) = known.optional()? {
        return Ok(known as u64);
    }
    let secret = stoker_os::random_u64();
    let insert = "INSERT INTO store (key, value) VALUES ('secret', ?1), ('created', ?2)";
    db.execute(insert, params![secret as i64, now as i64])?;
    Ok(secret)
}
