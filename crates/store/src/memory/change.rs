//! Changes by operators, in memory.

use super::query::matches;
use super::{Entry, MemoryStore};
use crate::{
    Bytes, Change, Changed, Ending, Filter, HistoryKind, Holder, Import, JobId, QueueNo, Selection,
    State, Trouble, lossless_text,
};

impl MemoryStore {
    pub(super) fn change(
        &mut self,
        which: &Selection,
        change: &Change,
    ) -> Result<Changed, Trouble> {
        let jobs = match which {
            Selection::One(id) => {
                let entry = self.jobs.get(id).ok_or(Trouble::NotFound)?;
                if !change.applies_to(entry.state) {
                    return Err(Trouble::State(entry.state));
                }
                if let Some(holder) = self.conflicting_holder(entry, change) {
                    return Err(Trouble::Taken(holder));
                }
                // A job that is already in the target queue is not moved.
                match is_already_in_target(change, entry) {
                    true => Vec::new(),
                    false => vec![*id],
                }
            }
            Selection::Many(filter) => self.matching(filter, change),
            Selection::Loaded(jobs) => return Ok(self.change_loaded(jobs, change)),
        };
        let mut changed = Changed::default();
        for id in jobs {
            if self.conflicting_holder(&self.jobs[&id], change).is_some() {
                continue;
            }
            // A loaded job belongs to the scheduler, which ends or releases it.
            if self.jobs[&id].loaded {
                changed.loaded.push(id);
                continue;
            }
            self.change_one(id, change, changed.count);
            changed.count += 1;
        }
        if let Change::Move { to } = change {
            self.forget_old(*to, self.now());
        }
        Ok(changed)
    }

    fn change_loaded(&mut self, jobs: &[JobId], change: &Change) -> Changed {
        let mut changed = Changed::default();
        for id in jobs {
            let applies = |entry: &&Entry| {
                change.applies_to(entry.state) && !is_already_in_target(change, entry)
            };
            let Some(entry) = self.jobs.get(id).filter(applies) else {
                continue;
            };
            // Another job may have taken the unique key since the request was made.
            if self.conflicting_holder(entry, change).is_some() {
                changed.loaded.push(*id);
            } else {
                self.unload(*id);
                self.change_one(*id, change, changed.count);
                changed.count += 1;
            }
        }
        changed
    }

    fn matching(&self, filter: &Filter, change: &Change) -> Vec<JobId> {
        let applies = |entry: &&Entry| {
            change.applies_to(entry.state)
                && matches(filter, entry)
                && !is_already_in_target(change, entry)
        };
        let mut jobs: Vec<JobId> = self
            .jobs
            .values()
            .filter(applies)
            .map(|entry| entry.job.id)
            .collect();
        jobs.sort_unstable();
        jobs
    }

    /// The job whose unique key prevents the change: a job can't be retried while another job holds its key,
    /// and a job that holds its key can't move to a queue where another job holds the same key.
    fn conflicting_holder(&self, entry: &Entry, change: &Change) -> Option<Holder> {
        let holder_in = |queue: QueueNo| self.queues[queue.0 as usize].holder(entry, self.now());
        let holder = holder_in(entry.job.queue);
        match change {
            Change::Retry { .. } => holder,
            Change::Move { to } if !is_already_in_target(change, entry) => holder
                .filter(|holder| holder.job == entry.job.id)
                .and_then(|_| holder_in(*to)),
            _ => None,
        }
    }

    /// Changes one job; `nth` is its index among the jobs that are changed together.
    fn change_one(&mut self, id: JobId, change: &Change, nth: u64) {
        match change {
            Change::Retry { per_second } => {
                let wait = per_second.map_or(0, |rate| nth * 1_000 / u64::from(rate.max(1)));
                self.retry_ended(id, wait);
            }
            Change::Cancel => self.finish(id, Ending::Cancelled),
            Change::Discard => self.forget(id),
            Change::Move { to } => self.move_to(id, *to),
            Change::Edit { body } => self.edit(id, body),
            Change::Suspend => {
                self.dequeue(id);
                let now = self.now();
                let entry = self.entry(id);
                entry.note(now, HistoryKind::Suspended, String::new());
                entry.state = State::Suspended;
                let queue = entry.job.queue;
                self.queue(queue).adjust_count(State::Suspended, 1);
            }
            Change::Release => {
                self.stop_timer(id);
                let now = self.now();
                self.entry(id).job.due_ms = now;
                self.make_ready(id);
            }
        }
    }

    fn retry_ended(&mut self, id: JobId, wait_ms: u64) {
        let now = self.now();
        let entry = &self.jobs[&id];
        let (queue, len, ended) = (entry.job.queue, entry.job.bytes.len(), entry.ended);
        self.queues[queue.0 as usize].remove_retried(entry, now);
        self.ended_bytes -= len;
        self.bytes += crate::Job::OVERHEAD + len;
        self.payloads.remove(&ended);
        let steady = (self.steady)();
        let entry = self.entry(id);
        entry.reset_for_retry(now);
        entry.is_delay = wait_ms > 0;
        entry.job.due_ms = wait_ms + if entry.is_delay { steady } else { now };
        self.update_class(id);
        self.enter_by_due_time(id, now);
    }

    fn update_class(&mut self, id: JobId) {
        let policy = self.queues[self.jobs[&id].job.queue.0 as usize].policy;
        let entry = self.entry(id);
        entry.job.class = policy.class_of(entry.job.class);
    }

    /// Makes a job ready or delayed, depending on its due time.
    fn enter_by_due_time(&mut self, id: JobId, now: u64) {
        let steady = (self.steady)();
        let entry = self.entry(id);
        let now = if entry.is_delay { steady } else { now };
        let state = match entry.job.due_ms > now {
            true => State::Delayed,
            false => State::Ready,
        };
        self.enter_state(state, id);
    }

    fn enter_state(&mut self, state: State, id: JobId) {
        let entry = self.entry(id);
        entry.state = state;
        let queue = entry.job.queue;
        self.queue(queue).adjust_count(state, 1);
        match state {
            State::Delayed => self.start_timer(id),
            _ => self.enqueue_last(id),
        }
    }

    fn move_to(&mut self, id: JobId, to: QueueNo) {
        let now = self.now();
        let entry = &self.jobs[&id];
        let (from, state, ended) = (entry.job.queue, entry.state, entry.ended);
        if from == to {
            return;
        }
        let until = self.queues[from.0 as usize].release_unique(entry);
        let name = self.queues[from.0 as usize].name.clone();
        if state.is_final() {
            self.queues[from.0 as usize].remove_moved(entry);
            self.queue(to).add_ended(state, ended, id);
        } else {
            self.dequeue(id);
        }
        let entry = self.entry(id);
        entry.note(now, HistoryKind::Moved, format!("from {name}"));
        entry.job.queue = to;
        self.update_class(id);
        if !state.is_final() {
            let entry = &self.jobs[&id];
            if let Some(until) = until {
                self.queues[to.0 as usize].take_unique_until(entry, until, now);
            }
            match state {
                State::Suspended => self.queue(to).adjust_count(state, 1),
                // The job was already due, even if the clock has been set back since then.
                State::Ready => self.enter_state(state, id),
                _ => self.enter_by_due_time(id, now),
            }
        }
    }

    fn edit(&mut self, id: JobId, body: &Bytes) {
        let now = self.now();
        let entry = self.entry(id);
        let before = lossless_text(entry.job.body());
        entry.note(now, HistoryKind::Edited, before);
        let (len, is_final) = (entry.job.bytes.len(), entry.state.is_final());
        let bytes = [entry.job.meta(), &body.bytes].concat();
        let now_len = bytes.len();
        entry.job.bytes = bytes.into();
        entry.job.codec = body.codec;
        let total_bytes = if is_final {
            &mut self.ended_bytes
        } else {
            &mut self.bytes
        };
        *total_bytes = *total_bytes - len + now_len;
    }

    pub(super) fn import(&mut self, jobs: Vec<Import>) -> Changed {
        let mut changed = Changed::default();
        for import in jobs {
            let now = self.now();
            let id = self.ids.make(now);
            let of_queue = &self.queues[import.job.queue.0 as usize];
            let existing = of_queue.repeated_job(&import.job, now);
            if existing.is_some_and(|job| self.jobs.contains_key(&job)) {
                continue;
            }
            let mut entry = Entry::new(id, import.job, now, (self.steady)());
            entry.job.counters = import.counters;
            entry.job.checkpoint = import.checkpoint.map(Vec::into_boxed_slice);
            entry.note(
                now,
                HistoryKind::Imported,
                format!("was {}", import.exported_id),
            );
            let state = entry.state;
            self.bytes += crate::Job::OVERHEAD + entry.job.bytes.len();
            let of_queue = &mut self.queues[entry.job.queue.0 as usize];
            of_queue.record_keys(&entry, now);
            of_queue.adjust_count(state, 1);
            self.jobs.insert(id, entry);
            match (import.error, state) {
                // The job is in no list of waiting jobs, and `finish` accepts that.
                (Some(error), _) => self.finish(id, Ending::Failed(error)),
                (None, State::Ready) => self.add_waiting(id),
                (None, State::Delayed) => self.start_timer(id),
                (None, _) => {}
            }
            changed.count += 1;
        }
        changed
    }
}

/// Whether the change is a move to the queue that the job is already in.
fn is_already_in_target(change: &Change, entry: &Entry) -> bool {
    matches!(change, Change::Move { to } if *to == entry.job.queue)
}
