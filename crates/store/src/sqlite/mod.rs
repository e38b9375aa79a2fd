//! Jobs on disk, in one SQLite file.

mod connection;
mod error;
mod holder;
mod kinds;
#[cfg(not(feature = "sim"))]
mod links;
mod lock;
mod log;
mod path;
mod post;
mod queues;
mod reader;
mod schema;
mod seal;
#[cfg(feature = "sim")]
mod steps;
#[cfg(not(feature = "sim"))]
mod threads;
pub mod tools;
mod trouble;
mod writer;

#[cfg(feature = "sim")]
use steps as threads;

/// The disk in memory has no symlinks.
#[cfg(feature = "sim")]
mod links {
    pub(super) fn resolve(path: &std::path::Path) -> Result<std::path::PathBuf, super::StoreError> {
        Ok(path.to_owned())
    }
}

pub use error::StoreError;
pub use holder::HeldBy;

use crate::{
    Abilities, Ask, Clock, Counts, Driver, Ids, Keep, Opened, Pushed, QueueNo, StoreStats, Told,
    Trouble, steady_clock, wall_clock,
};
use lock::Lock;
use post::{Item, Post};
use reader::Reader;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, sync_channel};
use stoker_os::BorrowedFd;
use threads::Crew;
use writer::Writer;

/// How a store is kept.
#[derive(Clone)]
pub struct SqliteOptions {
    /// An accepted job has reached the disk. Without, it survives the process but no power cut.
    pub sync: bool,
    /// Memory for pages of the file, KiB.
    pub cache_kib: u32,
    pub clock: Clock,
    /// For delays; see [`steady_clock`].
    pub steady: Clock,
    /// The socket that this process answers at: whoever finds the store locked is told.
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

/// The store's handle: it sends what is asked to the thread that writes, and takes what is told.
pub struct SqliteStore {
    post: Arc<Post>,
    outbox: Vec<Item>,
    /// Refused at once.
    refused: Vec<Told>,
    ids: Ids,
    /// Queues by their numbers: the writer counts them in the same order.
    queues: Vec<Known>,
    crew: Crew,
    /// Bytes that were found, heard, and may not have been dealt with.
    found: usize,
    /// It was closed: nobody reads what is asked any more.
    closed: bool,
    /// Goes last, when the threads have let go of the file.
    lock: Option<Lock>,
}

/// A queue as whoever opens it is told.
#[derive(Clone, Debug, Default)]
struct Known {
    name: String,
    paused: bool,
    settings: String,
    counts: Counts,
}

impl SqliteStore {
    /// Opens a store, or makes it.
    pub fn open(path: &Path, options: SqliteOptions) -> Result<Self, StoreError> {
        let lock = Lock::take(path, options.socket.as_deref())?;
        let (path, file) = (lock.path().to_owned(), lock.file());
        match Self::open_locked(lock, options) {
            Err(error @ StoreError::Damaged { .. }) => Err(log::why_damaged(&path, &file, error)),
            opened => opened,
        }
    }

    fn open_locked(lock: Lock, options: SqliteOptions) -> Result<Self, StoreError> {
        let path = &lock.path().to_owned();
        let io = |error: io::Error| StoreError::io(path, &error);
        let post = Arc::new(Post::new().map_err(io)?);
        let reader = Reader::new(path.to_owned(), post.clone(), options.clock.clone());
        let (crew, reader) = Crew::new(reader, post.clone()).map_err(io)?;
        let writer = Writer::open(path, lock.file(), &options, post.clone(), reader)?;
        let mut store = Self {
            post,
            outbox: Vec::new(),
            refused: Vec::new(),
            ids: writer.ids.clone(),
            queues: writer.known_queues()?,
            crew,
            found: 0,
            closed: false,
            lock: Some(lock),
        };
        store.crew.add(writer).map_err(io)?;
        Ok(store)
    }

    /// Sends something that is answered, and waits for the answer.
    fn call<T>(&mut self, item: Item, answer: &Receiver<io::Result<T>>) -> io::Result<T> {
        if self.closed {
            return Err(io::Error::other("the store is closed"));
        }
        self.outbox.push(item);
        self.post.send(&mut self.outbox);
        #[cfg(feature = "sim")]
        self.crew.finish();
        answer
            .recv()
            .unwrap_or_else(|_| Err(io::Error::other("the store's thread has ended")))
    }

    /// Whether one more can be taken in.
    fn has_room(&self, ask: &Ask) -> bool {
        let post = &*self.post;
        match ask {
            Ask::Push { job, .. } => {
                let len = job.bytes.len();
                let count = post.pushes.load(Ordering::Relaxed);
                let bytes = post.bytes.load(Ordering::Relaxed);
                if count >= post::PUSHES || (bytes + len > post::PUSHED_BYTES && count > 0) {
                    return false;
                }
                post.pushes.fetch_add(1, Ordering::Relaxed);
                post.bytes.fetch_add(len, Ordering::Relaxed);
            }
            Ask::Look { .. } | Ask::Change { .. } | Ask::Import { .. } => {
                if post.questions.load(Ordering::Relaxed) >= post::QUESTIONS {
                    return false;
                }
                post.questions.fetch_add(1, Ordering::Relaxed);
            }
            _ => {}
        }
        true
    }

    /// Remembers what whoever opens a queue again is told of it.
    fn note_settings(&mut self, ask: &Ask) {
        match ask {
            Ask::Pause { queue, paused, .. } => {
                if let Some(known) = self.queues.get_mut(queue.0 as usize) {
                    known.paused = *paused;
                }
            }
            Ask::Settings {
                queue, settings, ..
            } => {
                if let Some(known) = self.queues.get_mut(queue.0 as usize) {
                    known.settings.clone_from(settings);
                }
            }
            _ => {}
        }
    }

    fn refuse(&mut self, ask: &Ask) {
        let trouble = Trouble::Busy("more is under way than it takes in at once".to_owned());
        self.refused.extend(match ask {
            Ask::Push { ticket, .. } => Some(Told::Pushed {
                ticket: *ticket,
                pushed: Pushed::Refused(trouble),
            }),
            Ask::Look { ticket, .. } => Some(Told::Found {
                ticket: *ticket,
                found: Err(trouble),
            }),
            Ask::Change { ticket, .. } | Ask::Import { ticket, .. } => Some(Told::Changed {
                ticket: *ticket,
                result: Err(trouble),
            }),
            _ => None,
        });
    }

    fn join(&mut self) {
        self.crew.join();
        self.lock = None;
    }
}

impl Driver for SqliteStore {
    fn open_queue(&mut self, name: &str, keep: Keep) -> Opened {
        let known = self.queues.iter().position(|known| known.name == name);
        let at = known.unwrap_or_else(|| {
            self.queues.push(Known {
                name: name.to_owned(),
                ..Known::default()
            });
            self.queues.len() - 1
        });
        let name = name.to_owned();
        self.outbox.push(Item::Open { name, keep });
        let Known {
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

    fn ask(&mut self, ask: Ask) {
        self.note_settings(&ask);
        match !self.closed && self.has_room(&ask) {
            true => self.outbox.push(Item::Ask(ask)),
            false => self.refuse(&ask),
        }
    }

    fn flush(&mut self) {
        if self.found > 0 {
            self.post.let_go_of(std::mem::take(&mut self.found));
        }
        if !self.outbox.is_empty() {
            self.post.send(&mut self.outbox);
        }
        if !self.refused.is_empty() {
            self.post.ring();
        }
    }

    fn hear(&mut self, told: &mut Vec<Told>) {
        self.found += self.post.hear(told);
        told.append(&mut self.refused);
    }

    fn wake(&self) -> Option<BorrowedFd<'_>> {
        Some(self.post.wake())
    }

    fn next_due(&self) -> Option<u64> {
        None
    }

    fn bytes(&self) -> usize {
        self.post.bytes()
    }

    fn stats(&self) -> StoreStats {
        self.post.counters.read()
    }

    fn allow(&mut self, bytes: usize) {
        self.post.allow(bytes);
    }

    fn ids(&self) -> &Ids {
        &self.ids
    }

    fn abilities(&self) -> Abilities {
        Abilities {
            durable: true,
            longest_delay_ms: u64::MAX,
            lease_ms: None,
        }
    }

    #[cfg(feature = "sim")]
    fn time_to_work(&self, part: crate::Part) -> Option<std::time::Duration> {
        self.crew.time_to_work(part)
    }

    #[cfg(feature = "sim")]
    fn work(&mut self, part: crate::Part) {
        self.crew.work(part);
    }

    fn close(&mut self, told: &mut Vec<Told>) -> io::Result<()> {
        let (reply, answer) = sync_channel(1);
        // Nobody hears meanwhile, and the reader must not wait for that.
        self.post.stop_waiting();
        let closed = self.call(Item::Close { reply }, &answer);
        self.closed = true;
        self.join();
        self.hear(told);
        closed
    }
}

impl Drop for SqliteStore {
    fn drop(&mut self) {
        self.post.abandon();
        self.join();
    }
}
