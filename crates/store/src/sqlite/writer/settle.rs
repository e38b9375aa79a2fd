//! What follows a successful commit: loading and unloading jobs, and events.

use super::{Batch, Effect, Writer};
use crate::{
    Job, JobId, NewJob, Pushed, QueueNo, RunCounters, State, StoreEvent, StoreRequest, Ticket,
    Trouble,
};
use std::sync::atomic::Ordering;

impl Writer {
    /// Unloads a job. If its lane has waiting jobs and none of them is loaded now, a backlog is reported.
    pub(super) fn unload(&mut self, job: JobId) {
        if let Some((queue, class, key)) = self.lanes.unload(job) {
            let key = key.as_ref().into();
            self.events.push(StoreEvent::Backlog { queue, class, key });
        }
    }

    pub(super) fn settle(&mut self, requests: Vec<StoreRequest>, batch: Batch) {
        self.count_unsettled(&requests, &batch);
        for ((queue, class, key), order) in batch.woken {
            self.wake(queue, class, key, order);
        }
        // Unloads jobs first, because the counts already reflect that, and placing a new job compares counts
        // with loaded jobs.
        for (request, effect) in requests.iter().zip(&batch.effects) {
            match (request, effect) {
                (StoreRequest::End { job, .. }, _)
                | (StoreRequest::Retry { job, .. }, Effect::Unloaded) => {
                    self.unload(*job);
                }
                (StoreRequest::Retry { job, .. }, Effect::Parked) => self.lanes.park(*job),
                (StoreRequest::Crashed { .. }, _) => self.crashed.clear(),
                _ => {}
            }
        }
        for (request, effect) in requests.into_iter().zip(batch.effects) {
            match (request, effect) {
                (
                    StoreRequest::Push { ticket, room, job },
                    Effect::Accepted { id, state, order },
                ) => {
                    let is_ready = state == State::Ready;
                    self.publish_accepted(ticket, room, id, is_ready.then_some(order), *job);
                }
                (StoreRequest::Push { ticket, job, .. }, Effect::Pushed(pushed)) => {
                    self.answer_push(ticket, job.bytes.len(), pushed);
                }
                (
                    StoreRequest::End { ticket, .. }
                    | StoreRequest::Pause { ticket, .. }
                    | StoreRequest::Settings { ticket, .. },
                    _,
                ) => {
                    self.events
                        .extend(ticket.map(|ticket| StoreEvent::Completed { ticket }));
                }
                _ => {}
            }
        }
    }

    /// Reports an accepted job, and loads it if possible. `order` is its place in its lane if it is ready.
    fn publish_accepted(
        &mut self,
        ticket: Ticket,
        room: bool,
        id: JobId,
        order: Option<u64>,
        new: NewJob,
    ) {
        let len = new.bytes.len();
        let backlog = match order {
            Some(order) => self.place(room, id, order, &new),
            None => Placement::Elsewhere,
        };
        let order = order.unwrap_or_default();
        let job = matches!(backlog, Placement::Loaded).then(|| Box::new(job_of(id, order, new)));
        self.answer_push(ticket, len, Pushed::Accepted { id, job });
        if let Placement::Backlog(Some(lane)) = backlog {
            self.events.push(lane);
        }
    }

    /// Decides where a job that has just become ready goes.
    fn place(&mut self, room: bool, id: JobId, order: u64, new: &NewJob) -> Placement {
        let (queue, class, key) = (new.queue, new.class, &new.key);
        let window = self.queues.policy(queue).window;
        let known = self
            .lanes
            .get(queue, class, key)
            .map(|lane| (lane.backlog, lane.loaded, lane.cursor));
        let is_known = known.is_some();
        let (has_backlog, loaded, cursor) = match known {
            Some(known) => known,
            None => (self.has_others(id, order, new), 0, 0),
        };
        let mut is_open = false;
        if let Some(of_queue) = self.queues.get_mut(queue) {
            of_queue.unsettled = of_queue.unsettled.saturating_sub(1);
            is_open = of_queue.is_open;
        }
        let backlog = || StoreEvent::Backlog {
            queue,
            class,
            key: key.clone(),
        };
        // A job that precedes others belongs among the loaded jobs, whatever waits behind them.
        let is_before_cursor = order < cursor;
        // The parked jobs of a queue must be reported first, and they can't be read before the queue is open.
        if !is_open {
            return Placement::Backlog(None);
        }
        if has_backlog && !is_before_cursor {
            // The backlog has been reported before, unless the other jobs became ready in the same commit.
            return Placement::Backlog((order < id.0 && !is_known).then(backlog));
        }
        if room && (loaded < window || is_before_cursor) {
            let lane = self.lanes.add_loaded(queue, class, key, id, false);
            lane.cursor = lane.cursor.max(order);
            return Placement::Loaded;
        }
        let lane = self.lanes.get(queue, class, key);
        let was_reported = lane.is_some_and(|lane| lane.add_backlog(order));
        Placement::Backlog((!was_reported).then(backlog))
    }

    /// Whether a lane without loaded jobs has ready jobs that a new one would overtake. For a job that goes
    /// before others: whether the lane has any ready jobs.
    fn has_others(&self, id: JobId, order: u64, new: &NewJob) -> bool {
        let (queue, class, key) = (new.queue, new.class, &new.key);
        let Some(of_queue) = self.queues.get(queue) else {
            return false;
        };
        // Usually no lane of the queue has a backlog, and the counts show that without a read.
        let settled = of_queue
            .tally
            .counts
            .ready
            .saturating_sub(of_queue.unsettled);
        if settled <= self.lanes.loaded_ready(queue) {
            return false;
        }
        // If the file can't be read, the job is put into the backlog, where it is safe.
        let waits = |above, below| {
            self.has_waiting(queue, class, key, above, below)
                .unwrap_or(true)
        };
        waits(0, order) || (order < id.0 && waits(order, u64::MAX))
    }

    fn count_unsettled(&mut self, requests: &[StoreRequest], batch: &Batch) {
        for (request, effect) in requests.iter().zip(&batch.effects) {
            if let (
                StoreRequest::Push { job, .. },
                Effect::Accepted {
                    state: State::Ready,
                    ..
                },
            ) = (request, effect)
                && let Some(queue) = self.queues.get_mut(job.queue)
            {
                queue.unsettled += 1;
            }
        }
    }

    /// Checks whether a lane still has a backlog after jobs left it.
    pub(super) fn update_backlog(&mut self, queue: QueueNo, class: u8, key: &[u8]) {
        let Some(cursor) = self.lanes.get(queue, class, key).map(|lane| lane.cursor) else {
            return;
        };
        // If the file can't be read, a backlog is assumed.
        let backlog = self
            .has_waiting(queue, class, key, cursor, u64::MAX)
            .unwrap_or(true);
        if let Some(lane) = self.lanes.get(queue, class, key) {
            lane.backlog = backlog;
        }
    }

    /// Reports that jobs of a lane became ready, none of them with an order number below `order`.
    pub(super) fn wake(&mut self, queue: QueueNo, class: u8, key: Box<[u8]>, order: u64) {
        let lane = self.lanes.get(queue, class, &key);
        let was_known = lane.is_some_and(|lane| lane.add_backlog(order));
        if !was_known && self.queues.get(queue).is_some_and(|queue| queue.is_open) {
            self.events.push(StoreEvent::Backlog { queue, class, key });
        }
    }

    pub(super) fn reject_push(&mut self, request: &StoreRequest, trouble: &Trouble) {
        if let StoreRequest::Push { ticket, job, .. } = request {
            self.answer_push(*ticket, job.bytes.len(), Pushed::Rejected(trouble.clone()));
        }
    }

    fn answer_push(&mut self, ticket: Ticket, bytes: usize, pushed: Pushed) {
        self.mailbox.pushes.fetch_sub(1, Ordering::Relaxed);
        self.mailbox.bytes.fetch_sub(bytes, Ordering::Relaxed);
        self.events.push(StoreEvent::Pushed { ticket, pushed });
    }
}

enum Placement {
    Loaded,
    /// The job waits in its lane. The event, if any, reports the backlog.
    Backlog(Option<StoreEvent>),
    Elsewhere,
}

fn job_of(id: JobId, order: u64, new: NewJob) -> Job {
    // A job with a delay is not handed over when it is pushed.
    let due_ms = new.due(id.created_ms(), 0);
    Job {
        id,
        queue: new.queue,
        class: new.class,
        key: new.key,
        order,
        codec: new.codec,
        bytes: new.bytes,
        meta_len: new.meta_len,
        options: new.options,
        counters: RunCounters::default(),
        due_ms,
        checkpoint: None,
        owner: new.owner,
    }
}
