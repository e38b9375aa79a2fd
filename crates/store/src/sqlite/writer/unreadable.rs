//! Retries reads that failed. A bad page blocks only the requests that need it.

use super::search::Search;
use super::{Writer, backoff::Backoff};
use crate::{JobId, QueueNo, StoreEvent};
use rusqlite::Error;
use std::time::Duration;

/// A read that waits until the file can be read.
pub(in crate::sqlite) enum Unreadable {
    /// The parked jobs of a queue that was opened.
    Queue {
        queue: QueueNo,
        ordered: bool,
    },
    /// A refill requested by the scheduler.
    Refill {
        queue: QueueNo,
        class: u8,
        key: Box<[u8]>,
        limit: usize,
    },
    /// A loaded job.
    Fetch(JobId),
    /// A lane that a search found.
    Lane(QueueNo, u8, Box<[u8]>),
    Search(Search),
}

/// A read that failed, and its error.
type Failed = Box<(Unreadable, Error)>;

pub(in crate::sqlite) struct Deferred {
    unreadable: Unreadable,
    backoff: Backoff,
}

/// The maximum number of unreadable lanes that searches skip. With more of them, a search fails instead.
const LANES: usize = 1_024;

const LONGEST_WAIT: Duration = Duration::from_secs(60);

impl Writer {
    /// Reads now, or defers the read.
    pub(super) fn read_or_defer(&mut self, unreadable: Unreadable) {
        let mut backoff = Backoff::new();
        if !self.may_read(&unreadable) {
            // The read has not failed, so it is due as soon as it is possible.
            backoff.retry_soon();
            return self.deferred.push_back(Deferred {
                unreadable,
                backoff,
            });
        }
        if let Err(failed) = self.try_to_read(unreadable) {
            let (unreadable, error) = *failed;
            self.damaged(&unreadable, &error);
            self.deferred.push_back(Deferred {
                unreadable,
                backoff,
            });
        }
    }

    /// Runs a slice of every search.
    pub(super) fn search(&mut self) {
        for search in std::mem::take(&mut self.searches) {
            self.read_or_defer(Unreadable::Search(search));
        }
    }

    /// Repeats the reads that failed, if they are due.
    pub(super) fn read_deferred(&mut self) {
        for _ in 0..self.deferred.len() {
            let Some(Deferred {
                unreadable,
                backoff,
            }) = self.deferred.pop_front()
            else {
                return;
            };
            let deferred = match backoff.is_due() && self.may_read(&unreadable) {
                true => self.try_to_read(unreadable).map_err(|failed| Deferred {
                    unreadable: failed.0,
                    backoff: backoff.slower(LONGEST_WAIT),
                }),
                false => Err(Deferred {
                    unreadable,
                    backoff,
                }),
            };
            self.deferred.extend(deferred.err());
        }
    }

    /// Makes all deferred reads due, because the disk works again.
    pub(super) fn retry_deferred_soon(&mut self) {
        for deferred in &mut self.deferred {
            deferred.backoff.retry_soon();
        }
    }

    /// The time until a deferred read is due.
    pub(super) fn time_to_read(&self) -> Option<Duration> {
        let may_read = self
            .deferred
            .iter()
            .filter(|deferred| self.may_read(&deferred.unreadable));
        may_read.map(|deferred| deferred.backoff.time_left()).min()
    }

    /// Whether searches skip a lane.
    pub(super) fn is_deferred(&self, queue: QueueNo, place: &(u8, Box<[u8]>)) -> bool {
        self.deferred.iter().any(|deferred| {
            matches!(&deferred.unreadable, Unreadable::Lane(of, class, key)
                if *of == queue && *class == place.0 && *key == place.1)
        })
    }

    /// Records a lane that a search could not read. Returns `false` if there are too many of them to skip.
    pub(super) fn defer_lane(
        &mut self,
        queue: QueueNo,
        class: u8,
        key: Box<[u8]>,
        error: &Error,
    ) -> bool {
        if self.deferred.len() >= LANES {
            return false;
        }
        let (unreadable, backoff) = (Unreadable::Lane(queue, class, key), Backoff::new());
        self.damaged(&unreadable, error);
        self.deferred.push_back(Deferred {
            unreadable,
            backoff,
        });
        true
    }

    /// Whether a read is possible. Nothing can be read while the file is closed, and the parked jobs of a
    /// queue are read before its other jobs.
    fn may_read(&self, unreadable: &Unreadable) -> bool {
        let queue = match unreadable {
            Unreadable::Queue { .. } | Unreadable::Fetch(_) => return !self.is_broken,
            Unreadable::Refill { queue, .. } | Unreadable::Lane(queue, ..) => *queue,
            Unreadable::Search(search) => search.queue,
        };
        !self.is_broken && self.queues.get(queue).is_some_and(|queue| queue.is_open)
    }

    fn try_to_read(&mut self, mut unreadable: Unreadable) -> Result<(), Failed> {
        let read = self.read_now(&mut unreadable);
        read.map_err(|error| Box::new((unreadable, error)))
    }

    /// Reads and publishes the result. Values are moved out of `unreadable` only after the last step that can
    /// fail.
    fn read_now(&mut self, unreadable: &mut Unreadable) -> rusqlite::Result<()> {
        match unreadable {
            Unreadable::Queue { queue, ordered } => self.resume(*queue, *ordered)?,
            Unreadable::Refill {
                queue,
                class,
                key,
                limit,
            } => {
                let (jobs, more) = self.take(*queue, *class, key, *limit)?;
                self.events.push(StoreEvent::Refilled {
                    queue: *queue,
                    class: *class,
                    key: std::mem::take(key),
                    jobs,
                    more,
                });
            }
            Unreadable::Fetch(id) => {
                let job = self.fetch(*id)?;
                self.events.push(StoreEvent::Fetched { id: *id, job });
            }
            Unreadable::Lane(queue, class, key) => {
                self.read(*queue, *class, key, 0, 1)?;
                let (queue, class, key) = (*queue, *class, std::mem::take(key));
                self.events.push(StoreEvent::Backlog { queue, class, key });
            }
            Unreadable::Search(search) => {
                if !self.search_slice(search)? {
                    self.searches.push_back(search.clone());
                }
            }
        }
        Ok(())
    }

    fn damaged(&mut self, unreadable: &Unreadable, error: &Error) {
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
        let what = match unreadable {
            Unreadable::Queue { queue, .. } => format!("queue {}", name(queue)),
            Unreadable::Refill {
                queue, class, key, ..
            } => lane(queue, class, key),
            Unreadable::Lane(queue, class, key) => lane(queue, class, key),
            Unreadable::Fetch(id) => format!("job {}", self.ids.uuid(*id)),
            Unreadable::Search(search) => format!("the order of queue {}", name(&search.queue)),
        };
        self.events
            .push(StoreEvent::Damage(format!("{what} can't be read: {error}")));
    }
}
