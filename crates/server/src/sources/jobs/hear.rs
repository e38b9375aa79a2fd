//! What the store tells.

use super::asked::Asked;
use crate::observe::events;
use crate::plane::Plane;
use stoker_core::{Event, QueueId};
use stoker_store::{Lane, QueueNo, Ticket, Told, Trouble, steady_ms};
use stoker_wire::Status;

impl Plane {
    /// Takes what the store has told, and does what follows. `false` if it had nothing to tell.
    pub(crate) fn hear_store(&mut self) -> bool {
        let mut told = std::mem::take(&mut self.jobs.told);
        self.jobs.store.hear(&mut told);
        let any = !told.is_empty();
        for told in told.drain(..) {
            self.store_tells(told);
        }
        self.jobs.told = told;
        any
    }

    pub(crate) fn store_tells(&mut self, told: Told) {
        if !self.jobs.closed.is_empty() {
            self.reopen_closed(&told);
        }
        match told {
            Told::Pushed { ticket, pushed } => {
                if let Some(Asked::Push {
                    queue,
                    to,
                    user,
                    owner,
                }) = self.jobs.asked(ticket)
                {
                    if let Some(user) = user {
                        self.memory.users[user].pushes -= 1;
                    }
                    self.pushed(queue, to, owner.as_ref(), pushed);
                }
            }
            Told::Refilled {
                queue,
                class,
                key,
                jobs,
                more,
            } => {
                self.jobs.loads_beyond = false;
                jobs.into_iter().for_each(|job| self.load_job(job));
                self.lane_refilled(queue, class, &key, more);
            }
            Told::RefilledLanes { queue, lanes, more } => {
                self.jobs.loads_beyond = false;
                self.lanes_refilled(queue, lanes, more);
            }
            Told::Backlog { queue, class, key } => self.has_backlog(queue, class, &key),
            Told::Resting { rest } => self.park(rest),
            Told::Fetched { id, job } => {
                self.jobs.loads_beyond = false;
                self.fetched(id, job);
            }
            Told::Ended { ticket } => match self.jobs.asked(ticket) {
                Some(Asked::Ack { worker, task, job }) => self.acknowledged(worker, task, job),
                Some(Asked::Claim { task, job }) => self.claimed(task, job),
                Some(Asked::Reply { conn, id, value }) => self.answer_json(conn, id, &value),
                Some(Asked::Cancelled(by)) => self.end_is_safe(by, &Ok(())),
                _ => {}
            },
            Told::GivenUp { ticket } => self.is_given_up(ticket),
            Told::InDoubt { ticket, trouble } => self.is_in_doubt(ticket, &trouble),
            Told::Changed { ticket, result } => match (self.jobs.asked(ticket), result) {
                (Some(Asked::Admin { conn, id, what }), Ok(changed)) => {
                    self.jobs_changed(conn, id, what, changed);
                }
                (Some(Asked::Admin { conn, id, .. }), Err(trouble)) => {
                    self.answer_changed(conn, id, Err(trouble));
                }
                (Some(Asked::Recalled(recalled)), result) => self.recalled(*recalled, result),
                (Some(Asked::StrayCancelled(no)), result) => {
                    self.stray_cancelled(no, result);
                }
                _ => {}
            },
            Told::Found { ticket, found } => match self.jobs.asked(ticket) {
                Some(Asked::Admin { conn, id, what }) => self.answer_found(conn, id, what, found),
                Some(Asked::Counted { look }) => self.counted_until(look),
                _ => {}
            },
            Told::Counts { queue, counts } => {
                let queue = self.jobs.queue_id(queue);
                if let Some(of_queue) = queue.and_then(|queue| self.jobs.queue_mut(queue)) {
                    of_queue.counts = counts;
                }
            }
            Told::Damage(reason) => {
                let text = format!("the job store: {reason}");
                self.log
                    .put(events::STORE_TROUBLE.says(text).with("reason", reason));
            }
            Told::Failing(trouble) => self.store_fails(trouble),
        }
    }

    /// A job's end can't be written. A worker that waits for that, or for the job itself, does not go on with it:
    /// it might be done twice.
    fn is_given_up(&mut self, ticket: Ticket) {
        match self.jobs.asked(ticket) {
            Some(Asked::Ack { worker, task, job })
                if self.is_job(task, job)
                    && self
                        .core
                        .assigned_to(worker)
                        .any(|assigned| assigned == task) =>
            {
                self.step(Event::Cancel { task, kill: true }, None);
            }
            Some(Asked::Claim { task, job }) if self.is_job(task, job) => {
                self.step(Event::Cancel { task, kill: true }, None);
            }
            Some(Asked::Cancelled(by)) => {
                let text = "a page of the store that it needs can't be read";
                self.end_is_safe(by, &Err(Trouble::Io(text.to_owned())));
            }
            _ => {}
        }
    }

    /// Whether something was written is not known. Who waits hears that and need not wait longer; what
    /// follows once it is known is seen to all the same.
    fn is_in_doubt(&mut self, ticket: Ticket, trouble: &Trouble) {
        if let Some((conn, id)) = self.jobs.leave(ticket) {
            let text = format!(
                "{trouble}; whether this was written before is not known yet. To send a push again is safe \
                 if it has an idempotency key"
            );
            self.status(conn, id, Status::UNKNOWN, &text, None);
        }
    }

    fn store_fails(&mut self, trouble: Option<Trouble>) {
        match &trouble {
            Some(trouble) => {
                let text = format!("{trouble}; new jobs are refused, what is there is kept");
                let entry = events::STORE_TROUBLE.says(text);
                self.log.put(entry.with("reason", trouble.to_string()));
            }
            None => self
                .log
                .put(events::STORE_RECOVERED.says("the job store writes again")),
        }
        self.jobs.failing = trouble;
    }

    fn lane_refilled(&mut self, queue: QueueNo, class: u8, key: &[u8], more: bool) {
        let Some(queue) = self.jobs.queue_id(queue) else {
            return;
        };
        // A key stays while its tasks are asked for, so one that is not there was not asked about.
        if let Some(key) = self.core.find_key(queue, key) {
            self.step(
                Event::Refilled {
                    queue,
                    class,
                    key,
                    more,
                },
                None,
            );
        }
    }

    fn lanes_refilled(&mut self, queue: QueueNo, lanes: Vec<Lane>, more: bool) {
        for lane in lanes {
            lane.jobs.into_iter().for_each(|job| self.load_job(job));
            if lane.more {
                self.has_backlog(queue, lane.class, &lane.key);
            }
        }
        if let Some(queue) = self.jobs.queue_id(queue) {
            self.step(Event::RefilledKeys { queue, more }, None);
        }
    }

    fn has_backlog(&mut self, queue: QueueNo, class: u8, key: &[u8]) {
        if let Some(queue) = self.jobs.queue_id(queue) {
            self.step(Event::Backlog { queue, class, key }, None);
        }
    }

    pub(crate) fn block_key(&mut self, queue: QueueId, key: &[u8], blocked: bool) {
        self.step(
            Event::Blocked {
                queue,
                key,
                blocked,
            },
            None,
        );
    }

    /// When the store or a resting job wants to be looked after, by the steady clock.
    pub(crate) fn next_job_due(&self) -> Option<u64> {
        [self.jobs.store.next_due(), self.jobs.parked.next_due()]
            .into_iter()
            .flatten()
            .min()
    }

    pub(crate) fn wake_due_jobs(&mut self) {
        // Nothing is delayed, mostly: then the clock need not be read in every turn.
        let Some(due) = self.next_job_due() else {
            return;
        };
        let now_ms = steady_ms();
        if due <= now_ms {
            self.unpark_due(now_ms);
            self.hear_store();
            self.settle();
        }
    }
}
