//! Handles the events of the store.

use super::waiter::Waiter;
use crate::observe::events;
use crate::plane::Plane;
use stoker_core::{Event, QueueId};
use stoker_store::{Lane, QueueNo, StoreEvent, Ticket, Trouble, steady_ms};
use stoker_wire::Status;

impl Plane {
    /// Receives and handles the store's events. Returns false if there were none.
    pub(crate) fn receive_store_events(&mut self) -> bool {
        let mut events = std::mem::take(&mut self.jobs.events);
        self.jobs.store.receive(&mut events);
        let any = !events.is_empty();
        for event in events.drain(..) {
            self.on_store_event(event);
        }
        self.jobs.events = events;
        any
    }

    pub(crate) fn on_store_event(&mut self, event: StoreEvent) {
        if !self.jobs.closed.is_empty() {
            self.reopen_closed(&event);
        }
        match event {
            StoreEvent::Pushed { ticket, pushed } => {
                if let Some(Waiter::Push {
                    queue,
                    to,
                    user,
                    owner,
                }) = self.jobs.take_waiter(ticket)
                {
                    if let Some(user) = user {
                        self.memory.users[user].pushes -= 1;
                    }
                    self.pushed(queue, to, owner.as_ref(), pushed);
                }
            }
            StoreEvent::Refilled {
                queue,
                class,
                key,
                jobs,
                more,
            } => {
                self.jobs.loads_over_limit = false;
                jobs.into_iter().for_each(|job| self.load_job(job));
                self.on_lane_refilled(queue, class, &key, more);
            }
            StoreEvent::RefilledLanes { queue, lanes, more } => {
                self.jobs.loads_over_limit = false;
                self.on_lanes_refilled(queue, lanes, more);
            }
            StoreEvent::Backlog { queue, class, key } => self.on_backlog(queue, class, &key),
            StoreEvent::Parked { job } => self.park(job),
            StoreEvent::Fetched { id, job } => {
                self.jobs.loads_over_limit = false;
                self.fetched(id, job);
            }
            StoreEvent::Completed { ticket } => match self.jobs.take_waiter(ticket) {
                Some(Waiter::Ack { worker, task, job }) => self.acknowledged(worker, task, job),
                Some(Waiter::Claim { task, job }) => self.claimed(task, job),
                Some(Waiter::Reply { conn, id, value }) => self.answer_json(conn, id, &value),
                Some(Waiter::Cancelled(by)) => self.on_end_saved(by, &Ok(())),
                _ => {}
            },
            StoreEvent::EndNotWritten { ticket } => self.on_end_not_written(ticket),
            StoreEvent::InDoubt { ticket, trouble } => self.on_in_doubt(ticket, &trouble),
            StoreEvent::Changed { ticket, result } => match (self.jobs.take_waiter(ticket), result)
            {
                (Some(Waiter::Admin { conn, id, what }), Ok(changed)) => {
                    self.jobs_changed(conn, id, what, changed);
                }
                (Some(Waiter::Admin { conn, id, .. }), Err(trouble)) => {
                    self.answer_changed(conn, id, Err(trouble));
                }
                (Some(Waiter::Recalled(recalled)), result) => self.recalled(*recalled, result),
                (Some(Waiter::StrayCancelled(no)), result) => {
                    self.on_stray_cancelled(no, result);
                }
                _ => {}
            },
            StoreEvent::Found { ticket, found } => match self.jobs.take_waiter(ticket) {
                Some(Waiter::Admin { conn, id, what }) => self.answer_found(conn, id, what, found),
                Some(Waiter::Counted { query_no }) => self.on_queues_counted(query_no),
                _ => {}
            },
            StoreEvent::Counts { queue, counts } => {
                let queue = self.jobs.queue_id(queue);
                if let Some(of_queue) = queue.and_then(|queue| self.jobs.queue_mut(queue)) {
                    of_queue.counts = counts;
                }
            }
            StoreEvent::Damage(reason) => {
                let text = format!("the job store: {reason}");
                self.log
                    .put(events::STORE_TROUBLE.message(text).with("reason", reason));
            }
            StoreEvent::Failing(trouble) => self.on_store_failing(trouble),
        }
    }

    /// Handles a job's end that can't be written. If a worker waits for that, or is to receive the job after
    /// that, the run is cancelled: otherwise the job might run twice.
    fn on_end_not_written(&mut self, ticket: Ticket) {
        match self.jobs.take_waiter(ticket) {
            Some(Waiter::Ack { worker, task, job })
                if self.is_job(task, job)
                    && self
                        .core
                        .assigned_to(worker)
                        .any(|assigned| assigned == task) =>
            {
                self.step(Event::Cancel { task, kill: true }, None);
            }
            Some(Waiter::Claim { task, job }) if self.is_job(task, job) => {
                self.step(Event::Cancel { task, kill: true }, None);
            }
            Some(Waiter::Cancelled(by)) => {
                let text = "a page of the store that the job's end needs can't be read";
                self.on_end_saved(by, &Err(Trouble::Io(text.to_owned())));
            }
            _ => {}
        }
    }

    /// Handles a request of which it is unknown whether it was committed. Its caller is informed and stops
    /// waiting; the effects follow once it is known.
    fn on_in_doubt(&mut self, ticket: Ticket, trouble: &Trouble) {
        if let Some((conn, id)) = self.jobs.stop_waiting(ticket) {
            let text = format!(
                "{trouble}; it is not known yet whether the request was written. It is safe to repeat a push that has \
                 an idempotency key"
            );
            self.status(conn, id, Status::UNKNOWN, &text, None);
        }
    }

    fn on_store_failing(&mut self, trouble: Option<Trouble>) {
        match &trouble {
            Some(trouble) => {
                let text = format!("{trouble}; new jobs are rejected, existing jobs are kept");
                let entry = events::STORE_TROUBLE.message(text);
                self.log.put(entry.with("reason", trouble.to_string()));
            }
            None => self
                .log
                .put(events::STORE_RECOVERED.message("the job store can write again")),
        }
        self.jobs.failing = trouble;
    }

    fn on_lane_refilled(&mut self, queue: QueueNo, class: u8, key: &[u8], more: bool) {
        let Some(queue) = self.jobs.queue_id(queue) else {
            return;
        };
        // A key stays known while its jobs are requested, so nothing was requested for an unknown key.
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

    fn on_lanes_refilled(&mut self, queue: QueueNo, lanes: Vec<Lane>, more: bool) {
        for lane in lanes {
            lane.jobs.into_iter().for_each(|job| self.load_job(job));
            if lane.more {
                self.on_backlog(queue, lane.class, &lane.key);
            }
        }
        if let Some(queue) = self.jobs.queue_id(queue) {
            self.step(Event::RefilledKeys { queue, more }, None);
        }
    }

    fn on_backlog(&mut self, queue: QueueNo, class: u8, key: &[u8]) {
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

    /// The next time when the store or a parked job must be handled, by the steady clock.
    pub(crate) fn next_job_due(&self) -> Option<u64> {
        [self.jobs.store.next_due(), self.jobs.parked.next_due()]
            .into_iter()
            .flatten()
            .min()
    }

    pub(crate) fn wake_due_jobs(&mut self) {
        // Usually nothing is delayed; then the clock is not read in every turn.
        let Some(due) = self.next_job_due() else {
            return;
        };
        let now_ms = steady_ms();
        if due <= now_ms {
            self.unpark_due(now_ms);
            self.receive_store_events();
            self.settle();
        }
    }
}
