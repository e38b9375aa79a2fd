//! Opens queues, and loads jobs from the store into the core as it has room.

use super::close::Closed;
use super::loaded::counted_crashes;
use super::state::JobQueue;
use crate::config::JobsConfig;
use crate::observe::events;
use crate::plane::{Plane, Todo};
use crate::sources::Origin;
use stoker_core::{Event, NameId, NewTask, Origin as Promise, QueueId, Span};
use stoker_store::{Counts, Job, JobId, ParkedJob, QueueNo, QueuePolicy, StoreRequest};
use stoker_wire::check_name;

/// The maximum number of lanes without loaded jobs that are requested at a time, and of jobs of each: a few jobs
/// of many lanes, so that the scheduler soon knows all tenants. More jobs of a lane are requested when it runs
/// low.
const MAX_REFILL_LANES: usize = 256;
const MAX_REFILL_PER_LANE: usize = 8;
/// Bytes above the limit that a job may take if its queue has no other job in memory.
const MAX_OVER_LIMIT: usize = stoker_os::limit(crate::MAX_FRAME, 5_000);

impl Plane {
    /// Opens a queue in the store, and requests its waiting jobs.
    pub(crate) fn open_queue(&mut self, id: QueueId, config: JobsConfig) {
        let (name, ordered) = {
            let queue = self.core.queue(id);
            (queue.name.to_owned(), queue.config.ordered)
        };
        let opened = self
            .jobs
            .store
            .open_queue(&name, queue_policy(&config, ordered, self.core.lane_size()));
        let Ok(name) = self.core.resolve_job(&name) else {
            return;
        };
        // The store returns the counts from when it was opened. If the queue was closed since then, the counts from that
        // moment are newer.
        let closed = self.jobs.closed.remove(&opened.queue);
        self.jobs.add_queue(
            id,
            JobQueue {
                no: opened.queue,
                name,
                config,
                counts: closed.map_or(opened.counts, |closed| closed.counts),
                pending: 0,
                used_at: self.now,
                creator: None,
            },
        );
        if opened.paused {
            let paused = true;
            self.step(Event::Paused { queue: id, paused }, None);
        }
        self.apply_settings(id, &opened.settings);
        // The store may have jobs of this queue.
        let more = true;
        self.step(Event::RefilledKeys { queue: id, more }, None);
    }

    /// Applies a queue's new job defaults and retention.
    pub(crate) fn configure_jobs(&mut self, id: QueueId, config: JobsConfig) {
        let queue = self.core.queue(id);
        let policy = queue_policy(&config, queue.config.ordered, self.core.lane_size());
        self.jobs.store.open_queue(queue.name, policy);
        let Some(of_queue) = self.jobs.queue_mut(id) else {
            return;
        };
        let before = std::mem::replace(&mut of_queue.config, config);
        if before.tries != of_queue.config.tries {
            let queue = of_queue.no;
            self.update_tries(queue);
        }
    }

    /// Updates the limit of runs of loaded jobs after their queue's default has changed.
    fn update_tries(&mut self, queue: QueueNo) {
        let loaded = self.jobs.loaded.iter();
        for (task, loaded) in loaded.filter(|(_, loaded)| loaded.job.queue == queue) {
            let tries = self.jobs.tries_of(&loaded.job);
            self.core.set_tries(task, tries);
        }
    }

    /// The queue with this name, which is opened on first use.
    pub(crate) fn find_or_open_queue(&mut self, name: NameId) -> QueueId {
        let id = self.core.queue_of_name(name);
        match self.jobs.queue_mut(id) {
            Some(of_queue) => of_queue.used_at = self.now,
            None => self.open_queue(id, JobsConfig::default()),
        }
        id
    }

    /// Opens the queues that are in the store but not in the configuration, so that their jobs are visible and
    /// run as soon as a worker serves them.
    pub(crate) fn restore_queues(&mut self) {
        for name in self.jobs.store.queues() {
            if check_name(name.as_bytes()).is_err() {
                let text = format!(
                    "the store has a queue with the invalid name {name:?}: its jobs do not run; copy them to another \
                     queue with `stoker jobs export` and `import`"
                );
                let entry = events::QUEUE_NOT_RESTORED.message(text);
                self.log.put(entry.with("queue", name.as_str()));
                continue;
            }
            if self.core.known_job(&name).is_none() && self.close_if_ended(&name) {
                continue;
            }
            self.watch_for_unused();
            match self.core.restore_queue(&name) {
                Some(id) if self.jobs.queue(id).is_none() => {
                    self.open_queue(id, JobsConfig::default());
                }
                Some(_) => {}
                None => {
                    let text = format!(
                        "queue {name} of the store is not served: there are too many queues"
                    );
                    self.log
                        .put(events::QUEUE_NOT_RESTORED.message(text).with("queue", name));
                }
            }
        }
    }

    /// Leaves a queue closed if the store has only ended jobs of it. Returns false for all other queues.
    fn close_if_ended(&mut self, name: &str) -> bool {
        let policy = queue_policy(&JobsConfig::default(), false, self.core.lane_size());
        let opened = self.jobs.store.open_queue(name, policy);
        let Counts {
            ready,
            delayed,
            suspended,
            failed,
            ..
        } = opened.counts;
        let has_jobs = ready + delayed + suspended + failed > 0;
        if has_jobs || opened.paused || !opened.settings.is_empty() {
            return false;
        }
        let (name, counts) = (name.to_owned(), opened.counts);
        self.jobs
            .closed
            .insert(opened.queue, Closed { name, counts });
        true
    }

    /// Adds a job that the store has loaded to the core.
    pub(crate) fn load_job(&mut self, job: Job) {
        self.load_as(job, false);
    }

    fn load_as(&mut self, job: Job, was_parked: bool) {
        let Some(queue) = self.jobs.queue_id(job.queue) else {
            return;
        };
        let Some(of_queue) = self.jobs.queue(queue) else {
            return;
        };
        let (name, tries) = (of_queue.name, self.jobs.tries_of(&job));
        let (class, order, counters) = (job.class, job.order, job.counters);
        let options = job.options.as_deref();
        let limit = options.and_then(|options| options.timeout_ms);
        let limit = limit.map(|ms| Span::from_millis(u64::from(ms)));
        let origin = Origin::Job(job.id);
        let key = job.key.clone();
        let task = self
            .payloads
            .insert(origin, name, (0, job.codec, class), &[], &[]);
        self.jobs.loaded.insert(task, job);
        let new = NewTask {
            id: task,
            name,
            key: &key,
            class,
            order,
            origin: Promise::Job { tries },
            time_left: None,
            limit,
            attempt: counters.attempt,
            crashes: counted_crashes(counters.crashes),
            was_parked,
            parent: None,
        };
        self.step(Event::Arrived(new), None);
    }

    /// Requests more jobs of a lane that runs low in the core, once there is memory for them.
    pub(crate) fn refill(&mut self, queue: QueueId, class: u8, key: stoker_core::KeyId) {
        if !self.may_load(queue) {
            let refill = Todo::Refill { queue, class, key };
            return self.jobs.postponed.push_back(refill);
        }
        let key: Box<[u8]> = self.core.key_name(queue, key).into();
        let limit = self.refill_size(queue);
        if let Some(of_queue) = self.jobs.queue(queue) {
            let queue = of_queue.no;
            self.jobs.send(StoreRequest::Refill {
                queue,
                class,
                key,
                limit,
            });
        }
    }

    /// Requests jobs of keys for which the core had no room, once there is memory for them.
    pub(crate) fn refill_keys(&mut self, queue: QueueId) {
        if !self.may_load(queue) {
            let refill = Todo::RefillKeys { queue };
            return self.jobs.postponed.push_back(refill);
        }
        let limit = self.refill_size(queue).min(MAX_REFILL_PER_LANE);
        let lanes = self.core.free_key_slots(queue).clamp(1, MAX_REFILL_LANES);
        if let Some(of_queue) = self.jobs.queue(queue) {
            let queue = of_queue.no;
            self.jobs.send(StoreRequest::RefillLanes {
                queue,
                lanes,
                limit,
            });
        }
    }

    /// The number of jobs that are requested at a time.
    fn refill_size(&self, queue: QueueId) -> usize {
        match self.has_memory_to_load() {
            true => self.core.refill_size(queue),
            false => 1,
        }
    }

    /// Whether there is memory for optional loads: half of the memory is reserved for loads that are necessary.
    pub(crate) fn has_memory_to_load(&self) -> bool {
        self.bytes_held() <= self.config.max_memory / 2
    }

    /// Whether jobs of a queue may be loaded now. If memory is short, a queue without jobs in memory may load
    /// one, so that jobs of paused queues can't block it forever.
    fn may_load(&mut self, queue: QueueId) -> bool {
        if self.jobs.inline || self.has_memory_to_load() {
            return true;
        }
        let queue = self.core.queue(queue);
        queue.waiting == 0 && queue.assigned == 0 && self.may_load_one()
    }

    /// Whether a job may be loaded that is needed for progress. Above the limit, one such job is loaded at a
    /// time.
    fn may_load_one(&mut self) -> bool {
        if self.jobs.inline || self.has_memory_to_load() {
            return true;
        }
        self.bytes_held() <= self.config.max_memory + MAX_OVER_LIMIT && self.begin_load_over_limit()
    }

    /// Whether a parked job may be fetched although memory is full: all loaded jobs of its queue may wait for parked ones, and
    /// would then never leave.
    fn may_fetch_over_limit(&mut self, job: JobId) -> bool {
        let queue = self.jobs.parked.queue_of(job);
        let queue = queue.and_then(|queue| self.jobs.queue_id(queue));
        let is_stuck = queue.is_some_and(|queue| {
            self.core.queue(queue).assigned == 0 && !self.core.has_runnable_task(queue)
        });
        is_stuck && self.begin_load_over_limit()
    }

    /// Begins a load above the limit, unless another one is under way.
    fn begin_load_over_limit(&mut self) -> bool {
        !std::mem::replace(&mut self.jobs.loads_over_limit, true)
    }

    /// Performs loads that were postponed for lack of memory, as far as there is memory now.
    pub(crate) fn load_postponed(&mut self) {
        for _ in 0..self.jobs.postponed.len() {
            match self.jobs.postponed.pop_front() {
                Some(Todo::Refill { queue, class, key }) => self.refill(queue, class, key),
                Some(Todo::RefillKeys { queue }) => self.refill_keys(queue),
                Some(Todo::Fetch { job }) => self.fetch(job),
                _ => {}
            }
        }
    }

    /// Sets the number of bytes of jobs that the store may load.
    pub(crate) fn allow_loads(&mut self) {
        if !self.jobs.inline {
            let left = self.config.max_memory.saturating_sub(self.bytes_held());
            let min = usize::from(self.jobs.loads_over_limit);
            self.jobs.store.set_refill_limit((left / 2).max(min));
        }
    }

    /// Parks a job until its retry, and blocks its key.
    pub(crate) fn park(&mut self, parked_job: ParkedJob) {
        if let Some(queue) = self.jobs.queue_id(parked_job.queue) {
            self.block_key(queue, &parked_job.key, true);
            self.jobs.parked.insert(parked_job);
        }
    }

    /// Fetches parked jobs that are due.
    pub(crate) fn unpark_due(&mut self, now_ms: u64) {
        while let Some(job) = self.jobs.parked.take_due(now_ms) {
            self.fetch(job);
        }
    }

    /// Fetches a parked job that is due, once there is memory for it.
    pub(crate) fn fetch(&mut self, job: JobId) {
        match self.may_load_one() || self.may_fetch_over_limit(job) {
            true => self.jobs.send(StoreRequest::Fetch { job }),
            false => self.jobs.postponed.push_back(Todo::Fetch { job }),
        }
    }

    /// Loads a parked job for its next run, unless it has ended or was moved in the meantime.
    pub(crate) fn fetched(&mut self, id: JobId, job: Option<Box<Job>>) {
        let Some(job) = job else {
            self.unpark(id);
            return;
        };
        if let Some(ParkedJob { counters, .. }) = self.jobs.parked.remove(id) {
            // If the disk fails, the store may not contain the counters of the last run yet.
            self.load_as(Job { counters, ..*job }, true);
        }
    }
}

fn queue_policy(config: &JobsConfig, ordered: bool, window: u32) -> QueuePolicy {
    QueuePolicy {
        window,
        ordered,
        done: config.keep_done as u64,
        done_ms: config.keep_done_for.as_millis(),
        failed: config.keep_failed as u64,
        failed_ms: config.keep_failed_for.as_millis(),
        payload_ms: config.keep_payloads.as_millis(),
        result_ms: config.keep_results.as_millis(),
        ..QueuePolicy::default()
    }
}
