//! The memory engine: everything a store does, except that jobs do not survive the process.

mod change;
mod entry;
mod query;
mod queue;
mod retained;

use crate::{
    Capabilities, Clock, Driver, Ending, HistoryKind, Ids, Job, JobError, JobId, JobMap, NewJob,
    Opened, Pushed, QueueNo, QueuePolicy, RunCounters, State, StoreEvent, StoreRequest, Ticket,
};
use entry::Entry;
use queue::{MemoryQueue, Place};
use retained::Retained;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::Arc;
use stoker_os::BorrowedFd;

pub struct MemoryStore {
    clock: Clock,
    steady: Clock,
    ids: Ids,
    jobs: JobMap<Entry>,
    queues: Vec<MemoryQueue>,
    /// Jobs with a due time by the wall clock, and jobs with a due time by the steady clock.
    due: [BTreeSet<(u64, JobId)>; 2],
    events: Vec<StoreEvent>,
    /// Payload bytes of unfinished jobs, and of ended jobs.
    bytes: usize,
    ended_bytes: usize,
    max_ended_bytes: usize,
    /// Ended jobs that still have their payloads, in the order in which they ended.
    payloads: BTreeMap<u64, JobId>,
    ended: u64,
    retained: Retained,
    empty: Arc<[u8]>,
}

impl MemoryStore {
    /// `max_ended_bytes` limits the payload bytes of ended jobs; the oldest are forgotten first.
    #[must_use]
    pub fn new(clock: Clock, steady: Clock, max_ended_bytes: usize) -> Self {
        Self {
            clock,
            steady,
            ids: Ids::new(stoker_os::random_u64(), 0),
            jobs: JobMap::default(),
            queues: Vec::new(),
            due: Default::default(),
            events: Vec::new(),
            bytes: 0,
            ended_bytes: 0,
            max_ended_bytes,
            payloads: BTreeMap::new(),
            ended: 0,
            retained: Retained::default(),
            empty: Arc::from([]),
        }
    }

    fn now(&self) -> u64 {
        (self.clock)()
    }

    fn queue(&mut self, queue: QueueNo) -> &mut MemoryQueue {
        &mut self.queues[queue.0 as usize]
    }

    fn push(&mut self, ticket: Ticket, room: bool, new: NewJob) {
        let now = self.now();
        let pushed = match self.queue(new.queue).find_existing(&new, now) {
            Some(pushed) => pushed,
            None => self.accept(room, new, now),
        };
        self.events.push(StoreEvent::Pushed { ticket, pushed });
    }

    fn accept(&mut self, room: bool, new: NewJob, now: u64) -> Pushed {
        let id = self.ids.make(now);
        let entry = Entry::new(id, new, now, (self.steady)());
        self.bytes += Job::OVERHEAD + entry.job.bytes.len();
        self.queue(entry.job.queue).record_keys(&entry, now);
        let state = entry.state;
        self.queue(entry.job.queue).adjust_count(state, 1);
        self.jobs.insert(id, entry);
        let mut handed = None;
        match state {
            State::Ready if room => handed = self.load_at_once(id),
            State::Ready => self.add_waiting(id),
            State::Delayed => self.start_timer(id),
            _ => {}
        }
        Pushed::Accepted {
            id,
            job: handed.map(Box::new),
        }
    }

    /// Hands a new job to the scheduler, unless other jobs of its lane wait before it.
    fn load_at_once(&mut self, id: JobId) -> Option<Job> {
        let job = &self.jobs[&id].job;
        let (queue, lane, order) = (job.queue, (job.class, job.key.clone()), job.order);
        if self.queue(queue).lane_has_room(&lane, order) {
            self.queue(queue).add_loaded(lane, order);
            return Some(self.load(id));
        }
        self.add_waiting(id);
        None
    }

    fn load(&mut self, id: JobId) -> Job {
        let entry = self.entry(id);
        entry.loaded = true;
        entry.job.clone()
    }

    /// Puts a ready job behind all jobs that wait to be handed over.
    fn enqueue_last(&mut self, id: JobId) {
        let now = self.now();
        let order = self.ids.make(now).0;
        self.entry(id).job.order = order;
        self.add_waiting(id);
    }

    /// Puts a ready job among the jobs that wait to be handed over, at the position given by its order
    /// number.
    fn add_waiting(&mut self, id: JobId) {
        let entry = &self.jobs[&id];
        let order = entry.job.order;
        let (queue, class, key) = (entry.job.queue, entry.job.class, entry.job.key.clone());
        if self
            .queue(queue)
            .add_waiting((class, key.clone()), Place { order, job: id })
        {
            self.events.push(StoreEvent::Backlog { queue, class, key });
        }
    }

    /// Takes up to `limit` jobs of a lane. The returned flag says whether more are left.
    fn take(&mut self, queue: QueueNo, lane: &queue::LaneKey, limit: usize) -> (Vec<Job>, bool) {
        let mut jobs = Vec::new();
        while jobs.len() < limit {
            let Some(place) = self.queue(queue).take(lane) else {
                break;
            };
            jobs.push(self.load(place.job));
        }
        (jobs, self.queue(queue).has_backlog(lane))
    }

    fn refill_lanes(&mut self, queue: QueueNo, count: usize, limit: usize) {
        let mut lanes = Vec::new();
        while lanes.len() < count {
            let Some(lane) = self.queue(queue).next_unloaded_lane() else {
                break;
            };
            let (jobs, more) = self.take(queue, &lane, limit);
            let (class, key) = lane;
            lanes.push(crate::Lane {
                class,
                key,
                jobs,
                more,
            });
        }
        let more = self.queue(queue).has_unloaded_lanes();
        self.events
            .push(StoreEvent::RefilledLanes { queue, lanes, more });
    }

    fn end(&mut self, id: JobId, counters: RunCounters, ending: Ending, output: Option<Vec<u8>>) {
        // A job that was acknowledged on delivery has already ended.
        let unfinished = |entry: &&mut Entry| !entry.state.is_final();
        let Some(entry) = self.jobs.get_mut(&id).filter(unfinished) else {
            return;
        };
        entry.job.counters = counters;
        entry.output = output.or(entry.output.take());
        self.unload(id);
        self.finish(id, ending);
    }

    /// Marks a job as no longer loaded.
    fn unload(&mut self, id: JobId) {
        let entry = self.entry(id);
        if std::mem::take(&mut entry.loaded) {
            let (queue, lane) = (entry.job.queue, (entry.job.class, entry.job.key.clone()));
            if let Some((class, key)) = self.queue(queue).unload(lane) {
                // `RefillLanes` skipped this lane while it had loaded jobs, so its backlog is reported now.
                self.events.push(StoreEvent::Backlog { queue, class, key });
            }
        }
    }

    /// Ends a job that is not loaded.
    fn finish(&mut self, id: JobId, ending: Ending) {
        let now = self.now();
        self.dequeue(id);
        self.ended += 1;
        let ended = self.ended;
        let state = ending.state();
        let policy = self.queues[self.jobs[&id].job.queue.0 as usize].policy;
        let entry = self.entry(id);
        entry.end(ending, ended, now, &policy);
        let (queue, len) = (entry.job.queue, entry.job.bytes.len());
        self.bytes -= Job::OVERHEAD + len;
        self.ended_bytes += len;
        let entry = &self.jobs[&id];
        let of_queue = &mut self.queues[queue.0 as usize];
        of_queue.release_unique(entry);
        of_queue.add_ended(state, ended, id);
        match state == State::Done && policy.payload_ms == 0 {
            true => self.drop_payload(id),
            false => drop(self.payloads.insert(ended, id)),
        }
        self.forget_old(queue, now);
    }

    /// Removes a job from the count of its state and from the jobs that wait.
    fn dequeue(&mut self, id: JobId) {
        let entry = &self.jobs[&id];
        let (queue, state) = (entry.job.queue, entry.state);
        let place = Place {
            order: entry.job.order,
            job: id,
        };
        let (loaded, lane) = (entry.loaded, (entry.job.class, entry.job.key.clone()));
        if matches!(state, State::Delayed | State::Retrying) {
            self.stop_timer(id);
        }
        let of_queue = &mut self.queues[queue.0 as usize];
        of_queue.adjust_count(state, -1);
        match state {
            State::Ready if !loaded => of_queue.remove_waiting(&lane, place),
            _ => {}
        }
    }

    /// Forgets ended jobs of a queue that exceed its retention by count or age, and the oldest of all queues
    /// while payloads exceed the limit.
    fn forget_old(&mut self, queue: QueueNo, now: u64) {
        let jobs = &self.jobs;
        let ended_ms = |id: &JobId| jobs.get(id).map_or(0, |entry| entry.ended_ms);
        let old = self.queues[queue.0 as usize].take_expired(now, ended_ms);
        for id in old {
            self.forget_but_retain(id, now);
        }
        while self.ended_bytes > self.max_ended_bytes {
            // The oldest job of any queue goes first.
            let Some((_, old)) = self.payloads.first_key_value() else {
                return;
            };
            self.forget(*old);
        }
    }

    fn drop_payload(&mut self, id: JobId) {
        let empty = self.empty.clone();
        let entry = self.entry(id);
        let bytes = std::mem::replace(&mut entry.job.bytes, empty);
        entry.job.meta_len = 0;
        let ended = entry.ended;
        self.ended_bytes -= bytes.len();
        self.payloads.remove(&ended);
    }

    /// Forgets a job, but retains its result and payload if they have not expired.
    fn forget_but_retain(&mut self, id: JobId, now: u64) {
        let entry = &self.jobs[&id];
        if entry.kept_until() <= now {
            return self.forget(id);
        }
        let (ended, len) = (entry.ended, entry.job.bytes.len());
        self.payloads.remove(&ended);
        self.ended_bytes -= len;
        if let Some(old) = self.jobs.remove(&id) {
            self.queue(old.job.queue).forget(&old);
            self.retained.insert(old, self.max_ended_bytes, now);
        }
    }

    fn forget(&mut self, id: JobId) {
        self.drop_payload(id);
        if let Some(old) = self.jobs.remove(&id) {
            self.queue(old.job.queue).forget(&old);
        }
    }

    fn retry(
        &mut self,
        id: JobId,
        counters: RunCounters,
        due_ms: u64,
        error: JobError,
        park: bool,
    ) {
        let now = self.now();
        if self
            .jobs
            .get(&id)
            .is_none_or(|entry| entry.state.is_final())
        {
            return;
        }
        self.dequeue(id);
        let entry = self.entry(id);
        let text = format!(
            "{}: {}",
            error.class,
            error.message.lines().next().unwrap_or_default()
        );
        entry.note(now, HistoryKind::Retried, text);
        entry.state = State::Retrying;
        entry.job.counters = counters;
        entry.job.due_ms = due_ms;
        entry.is_delay = true;
        entry.error = Some(error);
        let queue = entry.job.queue;
        self.queue(queue).counts.retried += 1;
        self.queue(queue).adjust_count(State::Retrying, 1);
        if !park {
            self.unload(id);
            self.start_timer(id);
        }
    }

    /// Makes all jobs ready whose due time has come.
    fn wake_due(&mut self) {
        if self.due.iter().all(BTreeSet::is_empty) {
            return;
        }
        let mut ready = Vec::new();
        for (clock, now) in [self.now(), (self.steady)()].into_iter().enumerate() {
            let later = self.due[clock].split_off(&(now + 1, JobId(0)));
            ready.extend(std::mem::replace(&mut self.due[clock], later));
        }
        ready.sort_unstable();
        ready.into_iter().for_each(|(_, id)| self.make_ready(id));
    }

    /// Starts a job's timer for its due time.
    fn start_timer(&mut self, id: JobId) {
        let entry = &self.jobs[&id];
        self.due[usize::from(entry.is_delay)].insert((entry.job.due_ms, id));
    }

    fn stop_timer(&mut self, id: JobId) {
        let entry = &self.jobs[&id];
        self.due[usize::from(entry.is_delay)].remove(&(entry.job.due_ms, id));
    }

    fn make_ready(&mut self, id: JobId) {
        let entry = self.entry(id);
        let (queue, state) = (entry.job.queue, entry.state);
        entry.state = State::Ready;
        self.queue(queue).adjust_count(state, -1);
        self.queue(queue).adjust_count(State::Ready, 1);
        self.enqueue_last(id);
    }

    fn note(&mut self, id: JobId, what: HistoryKind, text: String) {
        let now = self.now();
        if let Some(entry) = self.jobs.get_mut(&id) {
            entry.note(now, what, text);
            if what == HistoryKind::Crashed {
                entry.job.counters.crashes = entry.job.counters.crashes.saturating_add(1);
            }
        }
    }

    fn entry(&mut self, id: JobId) -> &mut Entry {
        self.jobs
            .get_mut(&id)
            .expect("a JobId in an index refers to an existing job")
    }
}

impl Driver for MemoryStore {
    fn open_queue(&mut self, name: &str, policy: QueuePolicy) -> Opened {
        let known = self.queues.iter().position(|queue| queue.name == name);
        let at = known.unwrap_or_else(|| {
            self.queues.push(MemoryQueue::new(name));
            self.queues.len() - 1
        });
        self.queues[at].policy = policy;
        let no = QueueNo(at as u32);
        // The new policy may have a shorter retention.
        self.forget_old(no, self.now());
        let queue = &self.queues[at];
        Opened {
            queue: no,
            paused: queue.paused,
            settings: queue.settings.clone(),
            counts: queue.counts,
        }
    }

    fn queues(&self) -> Vec<String> {
        self.queues.iter().map(|queue| queue.name.clone()).collect()
    }

    fn send(&mut self, request: StoreRequest) {
        match request {
            StoreRequest::Push { ticket, room, job } => self.push(ticket, room, *job),
            StoreRequest::Refill {
                queue,
                class,
                key,
                limit,
            } => {
                let lane = (class, key);
                let (jobs, more) = self.take(queue, &lane, limit);
                let (class, key) = lane;
                self.events.push(StoreEvent::Refilled {
                    queue,
                    class,
                    key,
                    jobs,
                    more,
                });
            }
            StoreRequest::Fetch { job: id } => {
                let entry = self.jobs.get(&id).filter(|entry| entry.loaded);
                let job = entry.map(|entry| Box::new(entry.job.clone()));
                self.events.push(StoreEvent::Fetched { id, job });
            }
            StoreRequest::RefillLanes {
                queue,
                lanes,
                limit,
            } => self.refill_lanes(queue, lanes, limit),
            StoreRequest::End {
                job,
                counters,
                ending,
                ticket,
                output,
            } => {
                self.end(job, counters, ending, output);
                self.events
                    .extend(ticket.map(|ticket| StoreEvent::Completed { ticket }));
            }
            StoreRequest::Retry {
                job,
                counters,
                due_ms,
                error,
                output,
                park,
            } => {
                if let Some(entry) = self.jobs.get_mut(&job) {
                    entry.output = output.or(entry.output.take());
                }
                self.retry(job, counters, due_ms, error, park);
            }
            StoreRequest::Started { job } => {
                if let Some(entry) = self.jobs.get(&job) {
                    self.queues[entry.job.queue.0 as usize].release_unique_at_start(entry);
                }
            }
            // This store does not survive a crash of the server, so it need not record which jobs run.
            StoreRequest::Running { .. } | StoreRequest::Crashed { .. } => {}
            StoreRequest::Checkpoint { job, bytes } => {
                if let Some(entry) = self.jobs.get_mut(&job) {
                    entry.job.checkpoint = Some(bytes.into());
                }
            }
            StoreRequest::Progress { job, percent, text } => {
                if let Some(entry) = self.jobs.get_mut(&job) {
                    entry.progress = Some((percent, text));
                }
            }
            StoreRequest::Output { job, bytes } => {
                if let Some(entry) = self.jobs.get_mut(&job) {
                    entry.output = Some(bytes);
                }
            }
            StoreRequest::Note { job, what, text } => self.note(job, what, text),
            StoreRequest::Change {
                ticket,
                which,
                change,
            } => {
                let result = self.change(&which, &change);
                self.events.push(StoreEvent::Changed { ticket, result });
            }
            StoreRequest::Query { ticket, query } => {
                let found = Ok(self.query(&query));
                self.events.push(StoreEvent::Found { ticket, found });
            }
            StoreRequest::Import { ticket, jobs } => {
                let result = Ok(self.import(jobs));
                self.events.push(StoreEvent::Changed { ticket, result });
            }
            StoreRequest::Pause {
                queue,
                paused,
                ticket,
            } => {
                self.queue(queue).paused = paused;
                self.events
                    .extend(ticket.map(|ticket| StoreEvent::Completed { ticket }));
            }
            StoreRequest::Settings {
                queue,
                settings,
                ticket,
            } => {
                self.queue(queue).settings = settings;
                self.events
                    .extend(ticket.map(|ticket| StoreEvent::Completed { ticket }));
            }
        }
    }

    fn flush(&mut self) {
        for (at, queue) in self.queues.iter_mut().enumerate() {
            if std::mem::take(&mut queue.counts_changed) {
                self.events.push(StoreEvent::Counts {
                    queue: QueueNo(at as u32),
                    counts: queue.counts,
                });
            }
        }
    }

    fn receive(&mut self, events: &mut Vec<StoreEvent>) {
        self.wake_due();
        events.append(&mut self.events);
    }

    fn wake_fd(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    fn next_due(&self) -> Option<u64> {
        let first = |clock: usize| self.due[clock].first().map(|(due, _)| *due);
        // The due time is converted to the steady clock.
        let wall = first(0).map(|due| {
            due.saturating_sub(self.now())
                .saturating_add((self.steady)())
        });
        wall.into_iter().chain(first(1)).min()
    }

    fn bytes(&self) -> usize {
        self.bytes
    }

    fn ids(&self) -> &Ids {
        &self.ids
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            durable: false,
            longest_delay_ms: u64::MAX,
            lease_ms: None,
        }
    }

    fn close(&mut self, events: &mut Vec<StoreEvent>) -> io::Result<()> {
        self.flush();
        self.receive(events);
        Ok(())
    }
}
