//! A store of jobs. Some jobs are loaded into the core, the others wait here, and retried jobs return
//! here.

use crate::sim::{Due, Sim};
use crate::source::{Known, Script};
use std::collections::{BTreeMap, VecDeque};
use stoker_core::*;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct JobId(pub u32);

#[derive(Clone, Debug)]
pub struct Job {
    /// The index of its queue in the setup.
    pub queue: usize,
    pub class: u8,
    /// Its place in its lane, assigned when it becomes ready.
    pub order: u64,
    pub key: String,
    pub tries: u16,
    pub time_left: Option<Span>,
    pub attempt: u16,
    pub crashes: u8,
    pub script: Script,
    pub place: Place,
    /// Whether it was recorded as done before a worker got it.
    pub recorded: bool,
    /// The number of runs that a worker began.
    pub begun: i32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    Here,
    Delayed,
    InCore,
    Ended,
}

pub type Lane = (QueueId, u8, String);

#[derive(Default)]
pub struct Store {
    pub jobs: Vec<Job>,
    lanes: BTreeMap<Lane, VecDeque<JobId>>,
    /// The highest order of the jobs offered so far, per lane.
    loaded: BTreeMap<Lane, u64>,
}

impl Store {
    pub fn job(&self, id: JobId) -> &Job {
        &self.jobs[id.0 as usize]
    }

    pub fn is_empty(&self) -> bool {
        self.jobs.iter().all(|job| job.place == Place::Ended)
    }

    /// Inserts a job behind those of its lane that precede it.
    fn wait(&mut self, lane: Lane, id: JobId) {
        let order = |id: &JobId| self.jobs[id.0 as usize].order;
        let waiting = self.lanes.entry(lane).or_default();
        let at = waiting.partition_point(|other| order(other) <= order(&id));
        waiting.insert(at, id);
    }

    fn next(&mut self, lane: &Lane) -> Option<JobId> {
        self.lanes.get_mut(lane)?.pop_front()
    }

    fn has_more(&self, lane: &Lane) -> bool {
        self.lanes.get(lane).is_some_and(|jobs| !jobs.is_empty())
    }
}

impl Sim {
    pub fn lane_of(&self, job: JobId) -> Lane {
        let job = &self.store.jobs[job.0 as usize];
        (
            self.core.queue_of_name(self.names[job.queue]),
            job.class,
            job.key.clone(),
        )
    }

    /// A job is due: offers it to the core if there is room, and otherwise lets it wait here.
    pub fn push(&mut self, id: JobId) {
        let lane = self.lane_of(id);
        // A retried job that its key waits for is not queued behind the waiting jobs.
        let runs_again = self.store.jobs[id.0 as usize].attempt > 0;
        if runs_again && self.core.queue(lane.0).config.ordered {
            return self.offer_as(id, true);
        }
        if runs_again {
            self.store.jobs[id.0 as usize].order = self.now.0;
        }
        if self.may_offer(id, &lane) {
            return self.offer(id);
        }
        self.store.jobs[id.0 as usize].place = Place::Here;
        let (queue, class, key) = lane.clone();
        self.store.wait(lane, id);
        self.step(Event::Backlog {
            queue,
            class,
            key: key.as_bytes(),
        });
    }

    /// Whether a job is loaded into the core at once, either behind all loaded jobs of its lane or
    /// among them.
    fn may_offer(&self, id: JobId, lane: &Lane) -> bool {
        let order = self.store.jobs[id.0 as usize].order;
        let key = lane.2.as_bytes();
        let loaded = self.store.loaded.get(lane).copied().unwrap_or(0);
        let is_among = order < loaded && self.core.knows_key(lane.0, key);
        match is_among {
            true => self.core.has_room_among(lane.0, lane.1, key),
            false => !self.store.has_more(lane) && self.core.has_room(lane.0, lane.1, key),
        }
    }

    fn offer(&mut self, id: JobId) {
        self.offer_as(id, false);
    }

    fn offer_as(&mut self, id: JobId, was_parked: bool) {
        let lane = self.lane_of(id);
        let job = &mut self.store.jobs[id.0 as usize];
        job.place = Place::InCore;
        let loaded = self.store.loaded.entry(lane).or_default();
        *loaded = job.order.max(*loaded);
        let (job, name) = (job.clone(), self.names[job.queue]);
        let known = Known {
            job: Some(id),
            ..Known::new(job.queue, job.script, &job.key)
        };
        let task = NewTask {
            id: TaskId(0),
            name,
            key: job.key.as_bytes(),
            class: job.class,
            order: job.order,
            origin: Origin::Job { tries: job.tries },
            time_left: job.time_left,
            limit: None,
            attempt: job.attempt,
            crashes: job.crashes,
            was_parked,
            parent: None,
        };
        self.submit(task, known);
    }

    pub fn refill(&mut self, queue: QueueId, class: u8, key: KeyId) {
        let name = String::from_utf8_lossy(self.core.key_name(queue, key)).into_owned();
        let lane = (queue, class, name);
        for _ in 0..self.core.refill_size(queue) {
            let Some(job) = self.store.next(&lane) else {
                break;
            };
            self.offer(job);
        }
        let more = self.store.has_more(&lane);
        self.step(Event::Refilled {
            queue,
            class,
            key,
            more,
        });
    }

    pub fn refill_keys(&mut self, queue: QueueId) {
        let mut offered = 0;
        while let Some(lane) = self.unknown_lane(queue) {
            if offered == self.core.refill_size(queue)
                || !self.core.has_room(queue, lane.1, lane.2.as_bytes())
            {
                break;
            }
            let job = self.store.next(&lane).expect("the lane has jobs");
            self.offer(job);
            offered += 1;
            if self.store.has_more(&lane) {
                self.step(Event::Backlog {
                    queue,
                    class: lane.1,
                    key: lane.2.as_bytes(),
                });
            }
        }
        let more = self.unknown_lane(queue).is_some();
        self.step(Event::RefilledKeys { queue, more });
    }

    fn unknown_lane(&self, queue: QueueId) -> Option<Lane> {
        let waiting = self.store.lanes.iter().filter(|(_, jobs)| !jobs.is_empty());
        let mut lanes = waiting.map(|(lane, _)| lane);
        lanes
            .find(|lane| lane.0 == queue && !self.core.knows_key(queue, lane.2.as_bytes()))
            .cloned()
    }

    /// A job is to be retried after a delay.
    pub fn retried(&mut self, task: TaskId, after: Option<Span>, facts: Facts) {
        let id = self.forget(task).job.expect("only jobs run again");
        let job = &mut self.store.jobs[id.0 as usize];
        assert!(!job.recorded, "{id:?} has had its one run");
        (job.attempt, job.crashes, job.place) = (facts.attempt, facts.crashes, Place::Delayed);
        assert!(
            job.tries == 0 || job.attempt < job.tries,
            "{id:?} has no tries left"
        );
        let backoff = Backoff::Exponential {
            base: Span(10_000),
            cap: Span(800_000),
        };
        let wait =
            after.unwrap_or_else(|| backoff.delay(u32::from(facts.attempt), &mut self.chance.0));
        self.after(wait, Due::Job(id));
    }

    /// Records a job as done, which takes a moment.
    pub fn claim(&mut self, task: TaskId) {
        let job = self.tasks[&task].job.expect("only jobs are recorded");
        let wait = Span(self.chance.within(100, 5_000));
        self.after(wait, Due::Claimed(task, job));
    }

    pub fn claimed(&mut self, task: TaskId, job: JobId) {
        if self.tasks.get(&task).and_then(|known| known.job) != Some(job) {
            return;
        }
        if self.trouble && self.chance.percent(3) {
            return self.step(Event::Cancel { task, kill: true });
        }
        self.store.jobs[job.0 as usize].recorded = true;
        self.step(Event::Claimed { task });
    }

    /// The server drains; the job stays in the store.
    pub fn returned(&mut self, task: TaskId) {
        let id = self.forget(task).job.expect("only jobs go back");
        let job = &mut self.store.jobs[id.0 as usize];
        (job.place, job.recorded) = (Place::Here, false);
    }

    /// After the server has ended, every job has ended or is in the store.
    pub fn check_store(&self) {
        for (at, job) in self.store.jobs.iter().enumerate() {
            assert_ne!(job.place, Place::InCore, "job {at} is lost");
        }
    }
}
