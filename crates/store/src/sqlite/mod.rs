//! The SQLite engine: jobs on disk, in one SQLite file.

mod connection;
mod error;
mod kinds;
#[cfg(not(feature = "sim"))]
mod links;
mod lock;
mod lock_owner;
mod mailbox;
mod path;
mod queues;
mod reader;
mod row_checksum;
mod schema;
#[cfg(feature = "sim")]
mod steps;
#[cfg(not(feature = "sim"))]
mod threads;
pub mod tools;
mod trouble;
mod wal;
mod writer;

#[cfg(feature = "sim")]
use steps as threads;

/// The simulated disk has no symlinks.
#[cfg(feature = "sim")]
mod links {
    pub(super) fn resolve(path: &std::path::Path) -> Result<std::path::PathBuf, super::StoreError> {
        Ok(path.to_owned())
    }
}

pub use error::StoreError;
pub use lock_owner::LockOwner;

use crate::{
    Capabilities, Clock, Counts, Driver, Ids, Opened, Pushed, QueueNo, QueuePolicy, StoreEvent,
    StoreRequest, StoreStats, Trouble, steady_clock, wall_clock,
};
use lock::Lock;
use mailbox::{Item, Mailbox};
use reader::Reader;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, sync_channel};
use stoker_os::BorrowedFd;
use threads::Threads;
use writer::Writer;

/// Options for opening a store.
#[derive(Clone)]
pub struct SqliteOptions {
    /// Whether every commit is synced before a request counts as accepted. Without it, an accepted job
    /// survives a crash of the process but not a power failure.
    pub sync: bool,
    /// Memory for SQLite's page cache, KiB.
    pub cache_kib: u32,
    pub clock: Clock,
    /// The clock for delays; see [`steady_clock`].
    pub steady: Clock,
    /// The socket of this process, which appears in the error of another process that finds the store locked.
    pub socket: Option<PathBuf>,
}

impl Default for SqliteOptions {
    fn default() -> Self {
        Self {
            sync: true,
            cache_kib: 8 << 10,
            clock: wall_clock(),
            steady: steady_clock(),
            socket: None,
        }
    }
}

impl fmt::Debug for SqliteOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            sync,
            cache_kib,
            clock: _,
            steady: _,
            socket,
        } = self;
        f.debug_struct("SqliteOptions")
            .field("sync", sync)
            .field("cache_kib", cache_kib)
            .field("socket", socket)
            .finish()
    }
}

/// The store's handle: it sends requests to the writer thread and takes the events.
pub struct SqliteStore {
    mailbox: Arc<Mailbox>,
    outbox: Vec<Item>,
    /// Rejections of requests that were not sent to the writer.
    rejected: Vec<StoreEvent>,
    ids: Ids,
    /// Queues by their numbers. The writer numbers queues in the same order.
    queues: Vec<KnownQueue>,
    threads: Threads,
    /// Bytes of query results that were received and may still be in use.
    found: usize,
    /// The store is closed, so no thread reads requests any more.
    closed: bool,
    /// Dropped last, after the threads have closed the file.
    lock: Option<Lock>,
}

/// What [`Driver::open_queue`] returns for a queue.
#[derive(Clone, Debug, Default)]
struct KnownQueue {
    name: String,
    paused: bool,
    settings: String,
    counts: Counts,
}

impl SqliteStore {
    /// Opens a store and creates its file if it does not exist.
    pub fn open(path: &Path, options: SqliteOptions) -> Result<Self, StoreError> {
        let lock = Lock::take(path, options.socket.as_deref())?;
        let (path, file) = (lock.path().to_owned(), lock.file());
        match Self::open_locked(lock, options) {
            Err(error @ StoreError::Damaged { .. }) => {
                Err(wal::explain_damage(&path, &file, error))
            }
            opened => opened,
        }
    }

    fn open_locked(lock: Lock, options: SqliteOptions) -> Result<Self, StoreError> {
        let path = &lock.path().to_owned();
        let io = |error: io::Error| StoreError::io(path, &error);
        let mailbox = Arc::new(Mailbox::new().map_err(io)?);
        let reader = Reader::new(path.to_owned(), mailbox.clone(), options.clock.clone());
        let (threads, reader) = Threads::new(reader, mailbox.clone()).map_err(io)?;
        let writer = Writer::open(path, lock.file(), &options, mailbox.clone(), reader)?;
        let mut store = Self {
            mailbox,
            outbox: Vec::new(),
            rejected: Vec::new(),
            ids: writer.ids.clone(),
            queues: writer.known_queues()?,
            threads,
            found: 0,
            closed: false,
            lock: Some(lock),
        };
        store.threads.add(writer).map_err(io)?;
        Ok(store)
    }

    /// Sends an item with a reply channel and waits for the reply.
    fn call<T>(&mut self, item: Item, answer: &Receiver<io::Result<T>>) -> io::Result<T> {
        if self.closed {
            return Err(io::Error::other("the store is closed"));
        }
        self.outbox.push(item);
        self.mailbox.send(&mut self.outbox);
        #[cfg(feature = "sim")]
        self.threads.finish();
        answer
            .recv()
            .unwrap_or_else(|_| Err(io::Error::other("the store's thread has ended")))
    }

    /// Whether one more request of this kind may be in progress. Counts the request if so.
    fn has_room(&self, request: &StoreRequest) -> bool {
        let mailbox = &*self.mailbox;
        match request {
            StoreRequest::Push { job, .. } => {
                let len = job.bytes.len();
                let count = mailbox.pushes.load(Ordering::Relaxed);
                let bytes = mailbox.bytes.load(Ordering::Relaxed);
                if count >= mailbox::MAX_PUSHES
                    || (bytes + len > mailbox::MAX_PUSHED_BYTES && count > 0)
                {
                    return false;
                }
                mailbox.pushes.fetch_add(1, Ordering::Relaxed);
                mailbox.bytes.fetch_add(len, Ordering::Relaxed);
            }
            StoreRequest::Query { .. }
            | StoreRequest::Change { .. }
            | StoreRequest::Import { .. } => {
                if mailbox.queries.load(Ordering::Relaxed) >= mailbox::MAX_QUERIES {
                    return false;
                }
                mailbox.queries.fetch_add(1, Ordering::Relaxed);
            }
            _ => {}
        }
        true
    }

    /// Updates the state that opening the queue again will return.
    fn note_settings(&mut self, request: &StoreRequest) {
        match request {
            StoreRequest::Pause { queue, paused, .. } => {
                if let Some(known) = self.queues.get_mut(queue.0 as usize) {
                    known.paused = *paused;
                }
            }
            StoreRequest::Settings {
                queue, settings, ..
            } => {
                if let Some(known) = self.queues.get_mut(queue.0 as usize) {
                    known.settings.clone_from(settings);
                }
            }
            _ => {}
        }
    }

    fn reject(&mut self, request: &StoreRequest) {
        let trouble = Trouble::Busy("too many requests are in progress".to_owned());
        self.rejected.extend(match request {
            StoreRequest::Push { ticket, .. } => Some(StoreEvent::Pushed {
                ticket: *ticket,
                pushed: Pushed::Rejected(trouble),
            }),
            StoreRequest::Query { ticket, .. } => Some(StoreEvent::Found {
                ticket: *ticket,
                found: Err(trouble),
            }),
            StoreRequest::Change { ticket, .. } | StoreRequest::Import { ticket, .. } => {
                Some(StoreEvent::Changed {
                    ticket: *ticket,
                    result: Err(trouble),
                })
            }
            _ => None,
        });
    }

    fn join(&mut self) {
        self.threads.join();
        self.lock = None;
    }
}

impl Driver for SqliteStore {
    fn open_queue(&mut self, name: &str, policy: QueuePolicy) -> Opened {
        let known = self.queues.iter().position(|known| known.name == name);
        let at = known.unwrap_or_else(|| {
            self.queues.push(KnownQueue {
                name: name.to_owned(),
                ..KnownQueue::default()
            });
            self.queues.len() - 1
        });
        let name = name.to_owned();
        self.outbox.push(Item::Open { name, policy });
        let KnownQueue {
            name: _,
            paused,
            settings,
            counts,
        } = self.queues[at].clone();
        Opened {
            queue: QueueNo(at as u32),
            paused,
            settings,
            counts,
        }
    }

    fn queues(&self) -> Vec<String> {
        self.queues.iter().map(|known| known.name.clone()).collect()
    }

    fn send(&mut self, request: StoreRequest) {
        self.note_settings(&request);
        match !self.closed && self.has_room(&request) {
            true => self.outbox.push(Item::Request(request)),
            false => self.reject(&request),
        }
    }

    fn flush(&mut self) {
        if self.found > 0 {
            self.mailbox.release(std::mem::take(&mut self.found));
        }
        if !self.outbox.is_empty() {
            self.mailbox.send(&mut self.outbox);
        }
        if !self.rejected.is_empty() {
            self.mailbox.wake();
        }
    }

    fn receive(&mut self, events: &mut Vec<StoreEvent>) {
        self.found += self.mailbox.take_events(events);
        events.append(&mut self.rejected);
    }

    fn wake_fd(&self) -> Option<BorrowedFd<'_>> {
        Some(self.mailbox.wake_fd())
    }

    fn next_due(&self) -> Option<u64> {
        None
    }

    fn bytes(&self) -> usize {
        self.mailbox.bytes()
    }

    fn stats(&self) -> StoreStats {
        self.mailbox.counters.read()
    }

    fn set_refill_limit(&mut self, bytes: usize) {
        self.mailbox.set_refill_limit(bytes);
    }

    fn ids(&self) -> &Ids {
        &self.ids
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            durable: true,
            longest_delay_ms: u64::MAX,
            lease_ms: None,
        }
    }

    #[cfg(feature = "sim")]
    fn time_to_work(&self, part: crate::Part) -> Option<std::time::Duration> {
        self.threads.time_to_work(part)
    }

    #[cfg(feature = "sim")]
    fn work(&mut self, part: crate::Part) {
        self.threads.work(part);
    }

    fn close(&mut self, events: &mut Vec<StoreEvent>) -> io::Result<()> {
        let (reply, answer) = sync_channel(1);
        // No events are taken while the store closes, and the reader must not wait for that.
        self.mailbox.stop_waiting();
        let closed = self.call(Item::Close { reply }, &answer);
        self.closed = true;
        self.join();
        self.receive(events);
        closed
    }
}

impl Drop for SqliteStore {
    fn drop(&mut self) {
        self.mailbox.abandon();
        self.join();
    }
}
