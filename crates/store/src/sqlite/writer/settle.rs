//! What follows once a commit went well: the scheduler's share of it, and what is told.

use super::{Batch, Effect, Writer};
use crate::{Ask, Job, JobId, NewJob, Pushed, QueueNo, Run, State, Ticket, Told, Trouble};
use std::sync::atomic::Ordering;

impl Writer {
    /// A job is held no more. If its lane has others, that is told: nothing of the lane is held now.
    pub(super) fn let_go(&mut self, job: JobId) {
        if let Some((queue, class, key)) = self.lanes.let_go(job) {
            let key = key.as_ref().into();
            self.told.push(Told::Backlog { queue, class, key });
        }
    }

    pub(super) fn settle(&mut self, asks: Vec<Ask>, batch: Batch) {
        self.count_unsettled(&asks, &batch);
        for ((queue, class, key), order) in batch.woken {
            self.wake(queue, class, key, order);
        }
        // First what is held no more: the counts say so already, and a push is placed by comparing the two.
        for (ask, effect) in asks.iter().zip(&batch.effects) {
            match (ask, effect) {
                (Ask::End { job, .. }, _) | (Ask::Retry { job, .. }, Effect::Left) => {
                    self.let_go(*job);
                }
                (Ask::Retry { job, .. }, Effect::Rests) => self.lanes.rest(*job),
                (Ask::Crashed { .. }, _) => self.crashed.clear(),
                _ => {}
            }
        }
        for (ask, effect) in asks.into_iter().zip(batch.effects) {
            match (ask, effect) {
                (Ask::Push { ticket, room, job }, Effect::Accepted { id, state, order }) => {
                    let is_ready = state == State::Ready;
                    self.accepted(ticket, room, id, is_ready.then_some(order), *job);
                }
                (Ask::Push { ticket, job, .. }, Effect::Pushed(pushed)) => {
                    self.answer(ticket, job.bytes.len(), pushed);
                }
                (
                    Ask::End { told, .. } | Ask::Pause { told, .. } | Ask::Settings { told, .. },
                    _,
                ) => {
                    self.told.extend(told.map(|ticket| Told::Ended { ticket }));
                }
                _ => {}
            }
        }
    }

    /// `order`: its place in its lane, if it is ready.
    fn accepted(&mut self, ticket: Ticket, room: bool, id: JobId, order: Option<u64>, new: NewJob) {
        let len = new.bytes.len();
        let backlog = match order {
            Some(order) => self.place(room, id, order, &new),
            None => Place::Elsewhere,
        };
        let order = order.unwrap_or_default();
        let job = matches!(backlog, Place::Handed).then(|| Box::new(job_of(id, order, new)));
        self.answer(ticket, len, Pushed::Accepted { id, job });
        if let Place::Backlog(Some(lane)) = backlog {
            self.told.push(lane);
        }
    }

    /// Where a job that has just become ready goes.
    fn place(&mut self, room: bool, id: JobId, order: u64, new: &NewJob) -> Place {
        let (queue, class, key) = (new.queue, new.class, &new.key);
        let window = self.queues.keep(queue).window;
        let known = self
            .lanes
            .get(queue, class, key)
            .map(|lane| (lane.backlog, lane.held, lane.cursor));
        let is_known = known.is_some();
        let (has_backlog, held, cursor) = match known {
            Some(known) => known,
            None => (self.has_others(id, order, new), 0, 0),
        };
        let mut is_open = false;
        if let Some(of_queue) = self.queues.get_mut(queue) {
            of_queue.unsettled = of_queue.unsettled.saturating_sub(1);
            is_open = of_queue.is_open;
        }
        let backlog = || Told::Backlog {
            queue,
            class,
            key: key.clone(),
        };
        // One that goes before others belongs among those that are held, whatever waits behind them.
        let is_among = order < cursor;
        // What rests in a queue is told first, and it can't be read yet if the queue is not open.
        if !is_open {
            return Place::Backlog(None);
        }
        if has_backlog && !is_among {
            // That others wait was told, unless they come along with this one.
            return Place::Backlog((order < id.0 && !is_known).then(backlog));
        }
        if room && (held < window || is_among) {
            let lane = self.lanes.hold(queue, class, key, id, false);
            lane.cursor = lane.cursor.max(order);
            return Place::Handed;
        }
        let lane = self.lanes.get(queue, class, key);
        let was_told = lane.is_some_and(|lane| lane.add_backlog(order));
        Place::Backlog((!was_told).then(backlog))
    }

    /// Whether a lane of which nothing is held has ready jobs that a new one would overtake; for one that goes
    /// before others, whether it has any.
    fn has_others(&self, id: JobId, order: u64, new: &NewJob) -> bool {
        let (queue, class, key) = (new.queue, new.class, &new.key);
        let Some(of_queue) = self.queues.get(queue) else {
            return false;
        };
        // Most often no lane of the queue has a backlog, and the counts tell so without a look.
        let seen_to = of_queue
            .tally
            .counts
            .ready
            .saturating_sub(of_queue.unsettled);
        if seen_to <= self.lanes.held_ready(queue) {
            return false;
        }
        // Where the file can't be read the job is safe in the backlog.
        let waits = |above, below| {
            self.has_waiting(queue, class, key, above, below)
                .unwrap_or(true)
        };
        waits(0, order) || (order < id.0 && waits(order, u64::MAX))
    }

    fn count_unsettled(&mut self, asks: &[Ask], batch: &Batch) {
        for (ask, effect) in asks.iter().zip(&batch.effects) {
            if let (
                Ask::Push { job, .. },
                Effect::Accepted {
                    state: State::Ready,
                    ..
                },
            ) = (ask, effect)
                && let Some(queue) = self.queues.get_mut(job.queue)
            {
                queue.unsettled += 1;
            }
        }
    }

    /// Jobs left a lane: there may be none left that wait.
    pub(super) fn look_for_backlog(&mut self, queue: QueueNo, class: u8, key: &[u8]) {
        let Some(cursor) = self.lanes.get(queue, class, key).map(|lane| lane.cursor) else {
            return;
        };
        // Where the file can't be read there may be some.
        let backlog = self
            .has_waiting(queue, class, key, cursor, u64::MAX)
            .unwrap_or(true);
        if let Some(lane) = self.lanes.get(queue, class, key) {
            lane.backlog = backlog;
        }
    }

    /// Jobs of a lane became ready, none below this place.
    pub(super) fn wake(&mut self, queue: QueueNo, class: u8, key: Box<[u8]>, order: u64) {
        let lane = self.lanes.get(queue, class, &key);
        let was_known = lane.is_some_and(|lane| lane.add_backlog(order));
        if !was_known && self.queues.get(queue).is_some_and(|queue| queue.is_open) {
            self.told.push(Told::Backlog { queue, class, key });
        }
    }

    pub(super) fn refuse(&mut self, ask: &Ask, trouble: &Trouble) {
        if let Ask::Push { ticket, job, .. } = ask {
            self.answer(*ticket, job.bytes.len(), Pushed::Refused(trouble.clone()));
        }
    }

    fn answer(&mut self, ticket: Ticket, bytes: usize, pushed: Pushed) {
        self.post.pushes.fetch_sub(1, Ordering::Relaxed);
        self.post.bytes.fetch_sub(bytes, Ordering::Relaxed);
        self.told.push(Told::Pushed { ticket, pushed });
    }
}

enum Place {
    Handed,
    /// It waits in its lane; with what is to be told of that.
    Backlog(Option<Told>),
    Elsewhere,
}

fn job_of(id: JobId, order: u64, new: NewJob) -> Job {
    // What has a delay is not handed over when it is pushed.
    let due_ms = new.due(id.made_ms(), 0);
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
        run: Run::default(),
        due_ms,
        checkpoint: None,
        owner: new.owner,
    }
}
