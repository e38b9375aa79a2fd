//! What could not be read, and is tried again: a bad page stops what needs it, and nothing else.

use super::search::Search;
use super::{Writer, pace::Pace};
use crate::{JobId, QueueNo, Told};
use rusqlite::Error;
use std::time::Duration;

/// Something that waits until the file can be read.
pub(in crate::sqlite) enum Unread {
    /// A queue that was opened, and what rests in it.
    Queue {
        queue: QueueNo,
        ordered: bool,
    },
    /// What the scheduler asked for.
    Refill {
        queue: QueueNo,
        class: u8,
        key: Box<[u8]>,
        limit: usize,
    },
    /// A job that the scheduler holds.
    Fetch(JobId),
    /// A lane that a search met.
    Lane(QueueNo, u8, Box<[u8]>),
    Search(Search),
}

/// What could not be read, and why.
type Failed = Box<(Unread, Error)>;

pub(in crate::sqlite) struct Parked {
    unread: Unread,
    pace: Pace,
}

/// Lanes that a search passes over. Where so many can't be read, there is no use in meeting more.
const LANES: usize = 1_024;

const LONGEST_WAIT: Duration = Duration::from_secs(60);

impl Writer {
    /// Reads, or parks it.
    pub(super) fn read_or_park(&mut self, unread: Unread) {
        let mut pace = Pace::new();
        if !self.may_read(&unread) {
            // It is nobody's failure yet.
            pace.hasten();
            return self.parked.push_back(Parked { unread, pace });
        }
        if let Err(failed) = self.try_to_read(unread) {
            let (unread, error) = *failed;
            self.damaged(&unread, &error);
            self.parked.push_back(Parked { unread, pace });
        }
    }

    /// Does a slice of every search.
    pub(super) fn search(&mut self) {
        for search in std::mem::take(&mut self.searches) {
            self.read_or_park(Unread::Search(search));
        }
    }

    /// Tries again what could not be read, if it is due.
    pub(super) fn read_parked(&mut self) {
        for _ in 0..self.parked.len() {
            let Some(Parked { unread, pace }) = self.parked.pop_front() else {
                return;
            };
            let parked = match pace.is_due() && self.may_read(&unread) {
                true => self.try_to_read(unread).map_err(|failed| Parked {
                    unread: failed.0,
                    pace: pace.slower(LONGEST_WAIT),
                }),
                false => Err(Parked { unread, pace }),
            };
            self.parked.extend(parked.err());
        }
    }

    /// The disk is well again.
    pub(super) fn hasten_parked(&mut self) {
        for parked in &mut self.parked {
            parked.pace.hasten();
        }
    }

    /// How long until something is tried again.
    pub(super) fn time_to_read(&self) -> Option<Duration> {
        let may_read = self
            .parked
            .iter()
            .filter(|parked| self.may_read(&parked.unread));
        may_read.map(|parked| parked.pace.time_left()).min()
    }

    /// Whether a search passes over a lane.
    pub(super) fn is_parked(&self, queue: QueueNo, place: &(u8, Box<[u8]>)) -> bool {
        self.parked.iter().any(|parked| {
            matches!(&parked.unread, Unread::Lane(of, class, key)
                if *of == queue && *class == place.0 && *key == place.1)
        })
    }

    /// A search met a lane that can't be read. `false`: there are too many of them to pass over.
    pub(super) fn park_lane(
        &mut self,
        queue: QueueNo,
        class: u8,
        key: Box<[u8]>,
        error: &Error,
    ) -> bool {
        if self.parked.len() >= LANES {
            return false;
        }
        let (unread, pace) = (Unread::Lane(queue, class, key), Pace::new());
        self.damaged(&unread, error);
        self.parked.push_back(Parked { unread, pace });
        true
    }

    /// While the file is let go of there is nothing to read in, and what rests in a queue comes before all
    /// else of it.
    fn may_read(&self, unread: &Unread) -> bool {
        let queue = match unread {
            Unread::Queue { .. } | Unread::Fetch(_) => return !self.is_broken,
            Unread::Refill { queue, .. } | Unread::Lane(queue, ..) => *queue,
            Unread::Search(search) => search.queue,
        };
        !self.is_broken && self.queues.get(queue).is_some_and(|queue| queue.is_open)
    }

    fn try_to_read(&mut self, mut unread: Unread) -> Result<(), Failed> {
        let read = self.read_now(&mut unread);
        read.map_err(|error| Box::new((unread, error)))
    }

    /// Reads, and tells it. What it takes out of its argument it takes last.
    fn read_now(&mut self, unread: &mut Unread) -> rusqlite::Result<()> {
        match unread {
            Unread::Queue { queue, ordered } => self.resume(*queue, *ordered)?,
            Unread::Refill {
                queue,
                class,
                key,
                limit,
            } => {
                let (jobs, more) = self.take(*queue, *class, key, *limit)?;
                self.told.push(Told::Refilled {
                    queue: *queue,
                    class: *class,
                    key: std::mem::take(key),
                    jobs,
                    more,
                });
            }
            Unread::Fetch(id) => {
                let job = self.fetch(*id)?;
                self.told.push(Told::Fetched { id: *id, job });
            }
            Unread::Lane(queue, class, key) => {
                self.read(*queue, *class, key, 0, 1)?;
                let (queue, class, key) = (*queue, *class, std::mem::take(key));
                self.told.push(Told::Backlog { queue, class, key });
            }
            Unread::Search(search) => {
                if !self.search_slice(search)? {
                    self.searches.push_back(search.clone());
                }
            }
        }
        Ok(())
    }

    fn damaged(&mut self, unread: &Unread, error: &Error) {
        let name = |queue: &QueueNo| {
            let queue = self.queues.get(*queue);
            queue.map(|queue| queue.name.as_str()).unwrap_or_default()
        };
        let lane = |queue, class: &u8, key: &[u8]| {
            let key = match key.is_empty() {
                true => String::new(),
                false => format!(", key {}", String::from_utf8_lossy(key)),
            };
            format!("jobs of queue {}, priority {class}{key}", name(queue))
        };
        let what = match unread {
            Unread::Queue { queue, .. } => format!("queue {}", name(queue)),
            Unread::Refill {
                queue, class, key, ..
            } => lane(queue, class, key),
            Unread::Lane(queue, class, key) => lane(queue, class, key),
            Unread::Fetch(id) => format!("job {}", self.ids.uuid(*id)),
            Unread::Search(search) => format!("the order of queue {}", name(&search.queue)),
        };
        self.told
            .push(Told::Damage(format!("{what} can't be read: {error}")));
    }
}
