//! Jobs in memory: everything a job store does, but for surviving the process.

use super::{Job, JobError, JobNo, NewJob, State};
use crate::config::JobsConfig;
use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use stoker_core::QueueId;
use uuid::Uuid;

/// How many jobs of a queue are where.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counts {
    pub(crate) ready: u64,
    pub(crate) delayed: u64,
    pub(crate) done: u64,
    pub(crate) failed: u64,
    pub(crate) cancelled: u64,
    pub(crate) retried: u64,
}

/// Which jobs are meant.
#[derive(Clone, Debug, Default)]
pub(crate) struct Filter {
    pub(crate) queue: Option<QueueId>,
    pub(crate) state: Option<State>,
}

#[derive(Debug, Default)]
struct QueueOf {
    config: JobsConfig,
    counts: Counts,
    /// Ready jobs that the core has no room for, in their order, by class and key.
    backlog: BTreeMap<(u8, Box<[u8]>), VecDeque<JobNo>>,
    /// Finished jobs by the order in which they ended, of which only so many are remembered.
    done: BTreeMap<u64, JobNo>,
    failed: BTreeMap<u64, JobNo>,
    unique: HashMap<Box<[u8]>, JobNo>,
    idempotency: HashMap<Box<[u8]>, JobNo>,
}

#[derive(Debug, Default)]
pub(crate) struct MemoryStore {
    jobs: Vec<Option<Job>>,
    free: Vec<JobNo>,
    by_id: HashMap<Uuid, JobNo>,
    queues: Vec<QueueOf>,
    due: BTreeSet<(u64, JobNo)>,
    /// Bytes of bodies of jobs that are to run, and of jobs that have ended.
    bytes: usize,
    ended_bytes: usize,
    /// Ended jobs that still have their bodies, by the order in which they ended.
    bodies: BTreeMap<u64, JobNo>,
    /// Jobs that have ended so far: the next one's place in the order.
    ended: u64,
    /// Bytes that bodies of ended jobs may take; the oldest make room.
    max_ended_bytes: usize,
}

impl MemoryStore {
    pub(crate) fn new(max_ended_bytes: usize) -> Self {
        Self {
            max_ended_bytes,
            ..Self::default()
        }
    }

    pub(crate) fn configure(&mut self, queue: QueueId, config: JobsConfig) {
        self.queue(queue).config = config;
    }

    pub(crate) fn config(&mut self, queue: QueueId) -> &JobsConfig {
        &self.queue(queue).config
    }

    fn queue(&mut self, queue: QueueId) -> &mut QueueOf {
        if self.queues.len() <= queue.index() {
            self.queues.resize_with(queue.index() + 1, QueueOf::default);
        }
        &mut self.queues[queue.index()]
    }

    pub(crate) fn counts(&self, queue: QueueId) -> Counts {
        self.queues
            .get(queue.index())
            .map(|queue| queue.counts)
            .unwrap_or_default()
    }

    /// Bytes of bodies of jobs that are to run.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Jobs that are not finished.
    pub(crate) fn unfinished(&self) -> u64 {
        self.queues
            .iter()
            .map(|queue| queue.counts.ready + queue.counts.delayed)
            .sum()
    }

    /// The job that already stands for this push: same idempotency key (an answer to a repeated push),
    /// or same unique key and not finished (a refusal).
    pub(crate) fn existing(&mut self, new: &NewJob) -> Option<(Uuid, bool)> {
        let queue = self.queue(new.queue);
        let repeated = new
            .idempotency
            .as_ref()
            .and_then(|key| queue.idempotency.get(key).copied());
        let taken = new
            .unique
            .as_ref()
            .and_then(|key| queue.unique.get(key).copied());
        match (repeated, taken) {
            (Some(job), _) => Some((self[job].id, true)),
            (None, Some(job)) => Some((self[job].id, false)),
            (None, None) => None,
        }
    }

    pub(crate) fn insert(&mut self, id: Uuid, new: NewJob) -> JobNo {
        let state = if new.due_ms > new.created_ms {
            State::Delayed
        } else {
            State::Ready
        };
        self.bytes += new.bytes.len();
        let job = Job {
            id,
            state,
            attempt: 0,
            crashes: 0,
            error: None,
            task: None,
            ended_ms: 0,
            ended_no: 0,
            spec: new,
        };
        let number = self.free.pop().unwrap_or_else(|| {
            self.jobs.push(None);
            JobNo(self.jobs.len() as u32 - 1)
        });
        let queue = self.queue(job.spec.queue);
        if let Some(key) = &job.spec.unique {
            queue.unique.insert(key.clone(), number);
        }
        if let Some(key) = &job.spec.idempotency {
            queue.idempotency.insert(key.clone(), number);
        }
        match state {
            State::Delayed => queue.counts.delayed += 1,
            _ => queue.counts.ready += 1,
        }
        if state == State::Delayed {
            self.due.insert((job.spec.due_ms, number));
        }
        self.by_id.insert(id, number);
        self.jobs[number.0 as usize] = Some(job);
        number
    }

    pub(crate) fn find(&self, id: Uuid) -> Option<JobNo> {
        self.by_id.get(&id).copied()
    }

    /// When the next delayed job is due, in wall-clock milliseconds.
    pub(crate) fn next_due(&self) -> Option<u64> {
        self.due.first().map(|(due, _)| *due)
    }

    /// The next job whose time has come, made ready.
    pub(crate) fn take_due(&mut self, now_ms: u64) -> Option<JobNo> {
        let (due, job) = *self.due.first()?;
        if due > now_ms {
            return None;
        }
        self.due.remove(&(due, job));
        self.ready_again(job);
        Some(job)
    }

    fn ready_again(&mut self, job: JobNo) {
        self[job].state = State::Ready;
        let queue = self[job].spec.queue;
        let counts = &mut self.queue(queue).counts;
        counts.delayed -= 1;
        counts.ready += 1;
    }

    /// Puts a ready job behind those that wait for room in the core.
    pub(crate) fn push_backlog(&mut self, job: JobNo) {
        let spec = &self[job].spec;
        let (queue, lane) = (spec.queue, (spec.class, spec.key.clone()));
        self.queue(queue)
            .backlog
            .entry(lane)
            .or_default()
            .push_back(job);
    }

    /// The next job of a lane's backlog.
    pub(crate) fn pop_backlog(&mut self, queue: QueueId, class: u8, key: &[u8]) -> Option<JobNo> {
        let backlog = &mut self.queue(queue).backlog;
        let lane = (class, key.into());
        let jobs = backlog.get_mut(&lane)?;
        let job = jobs.pop_front();
        if jobs.is_empty() {
            backlog.remove(&lane);
        }
        job
    }

    pub(crate) fn has_backlog(&mut self, queue: QueueId, class: u8, key: &[u8]) -> bool {
        self.queue(queue)
            .backlog
            .contains_key(&(class, Box::from(key)))
    }

    /// A lane of the backlog whose key `is_known` does not know.
    pub(crate) fn unknown_lane(
        &mut self,
        queue: QueueId,
        is_known: impl Fn(&[u8]) -> bool,
    ) -> Option<(u8, Box<[u8]>)> {
        self.queue(queue)
            .backlog
            .keys()
            .find(|(_, key)| !is_known(key))
            .cloned()
    }

    /// Puts a job that failed a run off until its next one.
    pub(crate) fn retry(&mut self, job: JobNo, due_ms: u64, error: JobError) {
        let queue = self[job].spec.queue;
        let entry = &mut self[job];
        entry.task = None;
        entry.state = State::Retrying;
        entry.spec.due_ms = due_ms;
        entry.error = Some(Box::new(error));
        let counts = &mut self.queue(queue).counts;
        counts.retried += 1;
        counts.ready -= 1;
        counts.delayed += 1;
        self.due.insert((due_ms, job));
    }

    /// Ends a job. Old ended jobs of its queue are forgotten beyond what is to be kept.
    pub(crate) fn end(&mut self, job: JobNo, state: State, error: Option<JobError>, now_ms: u64) {
        debug_assert!(state.is_final());
        self.leave_waiting(job);
        self.ended += 1;
        let ended_no = self.ended;
        let entry = &mut self[job];
        entry.task = None;
        entry.state = state;
        entry.ended_ms = now_ms;
        entry.ended_no = ended_no;
        entry.error = error.map(Box::new).or(entry.error.take());
        let (number, bytes) = (entry.spec.queue, entry.spec.bytes.len());
        self.bytes -= bytes;
        self.ended_bytes += bytes;
        match state {
            State::Done => self.drop_body(job),
            _ => drop(self.bodies.insert(ended_no, job)),
        }
        if let Some(key) = self[job].spec.unique.clone() {
            let unique = &mut self.queue(number).unique;
            if unique.get(&key) == Some(&job) {
                unique.remove(&key);
            }
        }
        let queue = self.queue(number);
        match state {
            State::Failed => {
                queue.counts.failed += 1;
                queue.failed.insert(ended_no, job);
            }
            state => {
                match state {
                    State::Cancelled => queue.counts.cancelled += 1,
                    _ => queue.counts.done += 1,
                }
                queue.done.insert(ended_no, job);
            }
        }
        self.forget_old(number);
    }

    /// Forgets ended jobs of a queue beyond what is to be kept: by number, and by the bytes of all.
    fn forget_old(&mut self, number: QueueId) {
        let queue = self.queue(number);
        let done = (queue.done.len() > queue.config.keep_done).then(|| queue.done.pop_first());
        let failed =
            (queue.failed.len() > queue.config.keep_failed).then(|| queue.failed.pop_first());
        for (_, old) in [done, failed].into_iter().flatten().flatten() {
            self.forget(old);
        }
        while self.ended_bytes > self.max_ended_bytes {
            // Of all queues, because it is the oldest of all that is missed least.
            let Some((_, old)) = self.bodies.first_key_value() else {
                return;
            };
            self.forget(*old);
        }
    }

    /// Takes a job out of the counts and places of waiting.
    fn leave_waiting(&mut self, job: JobNo) {
        let spec = &self[job].spec;
        let (queue, due, state) = (spec.queue, spec.due_ms, self[job].state);
        match state {
            State::Delayed | State::Retrying => {
                self.due.remove(&(due, job));
                self.queue(queue).counts.delayed -= 1;
            }
            State::Ready => {
                if self[job].task.is_none() {
                    self.leave_backlog(job);
                }
                self.queue(queue).counts.ready -= 1;
            }
            State::Done | State::Failed | State::Cancelled => {}
        }
    }

    fn leave_backlog(&mut self, job: JobNo) {
        let spec = &self[job].spec;
        let (queue, lane) = (spec.queue, (spec.class, spec.key.clone()));
        if let Some(jobs) = self.queue(queue).backlog.get_mut(&lane) {
            jobs.retain(|waiting| *waiting != job);
            if jobs.is_empty() {
                self.queue(queue).backlog.remove(&lane);
            }
        }
    }

    /// Drops the body of a job that has ended.
    fn drop_body(&mut self, job: JobNo) {
        let bytes = std::mem::take(&mut self[job].spec.bytes);
        self[job].spec.meta_len = 0;
        self.ended_bytes -= bytes.len();
    }

    /// Makes a failed or cancelled job ready once more, with fresh budgets.
    pub(crate) fn revive(&mut self, job: JobNo) {
        let (state, ended_no) = (self[job].state, self[job].ended_no);
        let entry = &mut self[job];
        entry.state = State::Ready;
        entry.attempt = 0;
        entry.crashes = 0;
        entry.ended_ms = 0;
        entry.error = None;
        let (number, bytes) = (entry.spec.queue, entry.spec.bytes.len());
        let unique = entry.spec.unique.clone();
        self.ended_bytes -= bytes;
        self.bytes += bytes;
        self.bodies.remove(&ended_no);
        let queue = self.queue(number);
        queue.counts.ready += 1;
        if let Some(key) = unique {
            // Another job may have taken the key meanwhile; then it is that one's.
            queue.unique.entry(key).or_insert(job);
        }
        if state == State::Failed {
            queue.counts.failed -= 1;
            queue.failed.remove(&ended_no);
        } else {
            queue.counts.cancelled -= 1;
            queue.done.remove(&ended_no);
        }
    }

    fn forget(&mut self, job: JobNo) {
        self.drop_body(job);
        if let Some(old) = self.jobs[job.0 as usize].take() {
            self.bodies.remove(&old.ended_no);
            let queue = self.queue(old.spec.queue);
            queue.done.remove(&old.ended_no);
            queue.failed.remove(&old.ended_no);
            self.by_id.remove(&old.id);
            if let Some(key) = &old.spec.idempotency {
                self.queue(old.spec.queue).idempotency.remove(key);
            }
            self.free.push(job);
        }
    }

    /// Jobs that a filter means, oldest first, from the one after `after` on.
    pub(crate) fn list(&self, filter: &Filter, after: Option<Uuid>, limit: usize) -> Vec<JobNo> {
        let all = self.jobs.iter().enumerate();
        let all = all.filter_map(|(at, job)| Some((JobNo(at as u32), job.as_ref()?)));
        let meant = all.filter(|(_, job)| {
            filter.queue.is_none_or(|queue| queue == job.spec.queue)
                && filter.state.is_none_or(|state| state == job.state)
                && after.is_none_or(|after| job.id > after)
        });
        let mut found: Vec<(Uuid, JobNo)> = meant.map(|(number, job)| (job.id, number)).collect();
        found.sort_unstable();
        found.truncate(limit);
        found.into_iter().map(|(_, number)| number).collect()
    }
}

impl std::ops::Index<JobNo> for MemoryStore {
    type Output = Job;

    fn index(&self, job: JobNo) -> &Job {
        self.jobs[job.0 as usize]
            .as_ref()
            .expect("a job that is named exists")
    }
}

impl std::ops::IndexMut<JobNo> for MemoryStore {
    fn index_mut(&mut self, job: JobNo) -> &mut Job {
        self.jobs[job.0 as usize]
            .as_mut()
            .expect("a job that is named exists")
    }
}
