//! Retries reads that failed. A bad page blocks only the requests that need it.

use super::search::Search;
use super::{Writer, backoff::Backoff};
use crate::{JobId, QueueNo, StoreEvent};
use rusqlite::Error;
use std::time::Duration;

/// A read that waits until the file can be read.
pub(in crate::sqlite) enum PendingRead {
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
type Failed = Box<(PendingRead, Error)>;

pub(in crate::sqlite) struct Deferred {
    pending_read: PendingRead,
    backoff: Backoff,
}

/// The maximum number of unreadable lanes that searches skip. With more of them, a search fails instead.
const MAX_DEFERRED_LANES: usize = 1_024;

const MAX_DELAY: Duration = Duration::from_secs(60);

impl Writer {
    /// Reads now, or defers the read.
    pub(super) fn read_or_defer(&mut self, pending_read: PendingRead) {
        let mut backoff = Backoff::new();
        if !self.may_read(&pending_read) {
            // The read has not failed, so it is due as soon as it is possible.
            backoff.retry_soon();
            return self.deferred.push_back(Deferred {
                pending_read,
                backoff,
            });
        }
        if let Err(failed) = self.try_to_read(pending_read) {
            let (pending_read, error) = *failed;
            self.report_unreadable(&pending_read, &error);
            self.deferred.push_back(Deferred {
                pending_read,
                backoff,
            });
        }
    }

    /// Runs a slice of every search.
    pub(super) fn search(&mut self) {
        for search in std::mem::take(&mut self.searches) {
            self.read_or_defer(PendingRead::Search(search));
        }
    }

    /// Repeats the reads that failed, if they are due.
    pub(super) fn read_deferred(&mut self) {
        for _ in 0..self.deferred.len() {
            let Some(Deferred {
                pending_read,
                backoff,
            }) = self.deferred.pop_front()
            else {
                return;
            };
            let deferred = match backoff.is_due() && self.may_read(&pending_read) {
                true => self.try_to_read(pending_read).map_err(|failed| Deferred {
                    pending_read: failed.0,
                    backoff: backoff.increased(MAX_DELAY),
                }),
                false => Err(Deferred {
                    pending_read,
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
            .filter(|deferred| self.may_read(&deferred.pending_read));
        may_read.map(|deferred| deferred.backoff.time_left()).min()
    }

    /// Whether searches skip a lane.
    pub(super) fn is_deferred(&self, queue: QueueNo, place: &(u8, Box<[u8]>)) -> bool {
        self.deferred.iter().any(|deferred| {
            matches!(&deferred.pending_read, PendingRead::Lane(owner, class, key)
                if *owner == queue && *class == place.0 && *key == place.1)
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
        if self.deferred.len() >= MAX_DEFERRED_LANES {
            return false;
        }
        let (pending_read, backoff) = (PendingRead::Lane(queue, class, key), Backoff::new());
        self.report_unreadable(&pending_read, error);
        self.deferred.push_back(Deferred {
            pending_read,
            backoff,
        });
        true
    }

    /// Whether a read is possible. Nothing can be read while the file is closed, and the parked jobs of a
    /// queue are read before its other jobs.
    fn may_read(&self, pending_read: &PendingRead) -> bool {
        let queue = match pending_read {
            PendingRead::Queue { .. } | PendingRead::Fetch(_) => return !self.is_broken,
            PendingRead::Refill { queue, .. } | PendingRead::Lane(queue, ..) => *queue,
            PendingRead::Search(search) => search.queue,
        };
        !self.is_broken && self.queues.get(queue).is_some_and(|queue| queue.is_open)
    }

    fn try_to_read(&mut self, mut pending_read: PendingRead) -> Result<(), Failed> {
        let read = self.read_now(&mut pending_read);
        read.map_err(|error| Box::new((pending_read, error)))
    }

    /// Reads and publishes the result. Values are moved out of `pending_read` only after the last step that can
    /// fail.
    fn read_now(&mut self, pending_read: &mut PendingRead) -> rusqlite::Result<()> {
        match pending_read {
            PendingRead::Queue { queue, ordered } => self.resume(*queue, *ordered)?,
            PendingRead::Refill {
                queue,
                class,
                key,
                limit,
            } => {
                let (jobs, more) = self.load_next(*queue, *class, key, *limit)?;
                self.events.push(StoreEvent::Refilled {
                    queue: *queue,
                    class: *class,
                    key: std::mem::take(key),
                    jobs,
                    more,
                });
            }
            PendingRead::Fetch(id) => {
                let job = self.fetch(*id)?;
                self.events.push(StoreEvent::Fetched { id: *id, job });
            }
            PendingRead::Lane(queue, class, key) => {
                self.read(*queue, *class, key, 0, 1)?;
                let (queue, class, key) = (*queue, *class, std::mem::take(key));
                self.events.push(StoreEvent::Backlog { queue, class, key });
            }
            PendingRead::Search(search) => {
                if !self.search_slice(search)? {
                    self.searches.push_back(search.clone());
                }
            }
        }
        Ok(())
    }

    fn report_unreadable(&mut self, pending_read: &PendingRead, error: &Error) {
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
        let what = match pending_read {
            PendingRead::Queue { queue, .. } => format!("queue {}", name(queue)),
            PendingRead::Refill {
                queue, class, key, ..
            } => lane(queue, class, key),
            PendingRead::Lane(queue, class, key) => lane(queue, class, key),
            PendingRead::Fetch(id) => format!("job {}", self.ids.uuid(*id)),
            PendingRead::Search(search) => format!("the order of queue {}", name(&search.queue)),
        };
        self.events
            .push(StoreEvent::Damage(format!("{what} can't be read: {error}")));
    }
}
