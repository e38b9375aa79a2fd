//! What was asked and what became of it, and what must never be.

mod survival;

use crate::operator::Effect;
use crate::setup::Queue;
use std::collections::{BTreeSet, HashMap};
use std::time::Duration;
use stoker_os::steady;
use stoker_wire::Status;

/// A job may begin so long after it is due: the store looks, and the answer took its time.
const LATE: Duration = Duration::from_secs(1);

/// Whether a push was accepted, as far as its client knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Push {
    /// Nobody has answered yet.
    Open,
    /// Its client hung up: it may be in the store or not.
    Unknown,
    Accepted,
    Refused,
}

/// Whether a job's own code has said that it is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ack {
    None,
    /// It may be in the store or not.
    Asked,
    Safe,
}

#[derive(Debug)]
pub(crate) struct Job {
    pub(crate) queue: usize,
    pub(crate) key: u64,
    pub(crate) push: Push,
    /// As its client got it.
    pub(crate) id: Option<String>,
    /// The worker that runs it now.
    runs_at: Option<i32>,
    /// Runs that began.
    pub(crate) runs: u32,
    /// Runs that ended, in whatever way.
    ended_runs: u32,
    /// The server that it was sent to is dead.
    is_cut: bool,
    /// And it was not in the store when the next one began.
    is_gone: bool,
    /// Because it may have been over when it was delivered.
    may_be_over: bool,
    /// Runs whose answer was an error of the job's own.
    failures: u32,
    ack: Ack,
    pub(crate) done: bool,
    /// It may begin so long after it is accepted.
    delay: Duration,
    /// When it was.
    accepted_at: Duration,
}

#[derive(Debug, Default)]
pub(crate) struct Ledger {
    pub(crate) jobs: Vec<Job>,
    /// The job that began last, by queue and key. One that was pushed later has a higher number.
    last_begun: HashMap<(usize, u64), u64>,
    /// Jobs that have not ended, as the server has told.
    pub(crate) unfinished: Option<u64>,
    /// Accepted jobs that may begin and have not.
    waiting: BTreeSet<u64>,
    /// Queues that were paused at some time.
    pub(crate) paused: BTreeSet<usize>,
    /// Queues of which jobs may have been cancelled, and how often failed ones were tried anew.
    cancelled: BTreeSet<usize>,
    retried: HashMap<usize, u32>,
    /// A worker has gone by its own will.
    pub(crate) has_leavers: bool,
    /// The disk has failed at some time.
    disk_failed: bool,
}

impl Ledger {
    /// An operator asks for it: from now on it may be in force.
    pub(crate) fn operates(&mut self, effect: Effect) {
        match effect {
            Effect::Cancels(queue) => drop(self.cancelled.insert(queue)),
            Effect::Retries(queue) => *self.retried.entry(queue).or_default() += 1,
            Effect::Pauses(queue) => drop(self.paused.insert(queue)),
            Effect::None | Effect::Rejected => {}
        }
    }

    pub(crate) fn push(&mut self, queue: usize, key: u64, delay: Duration) -> u64 {
        self.jobs.push(Job {
            queue,
            key,
            push: Push::Open,
            id: None,
            runs_at: None,
            runs: 0,
            ended_runs: 0,
            is_cut: false,
            is_gone: false,
            may_be_over: false,
            failures: 0,
            ack: Ack::None,
            done: false,
            delay,
            accepted_at: Duration::ZERO,
        });
        self.jobs.len() as u64 - 1
    }

    pub(crate) fn pushed(&mut self, no: u64, status: Status, body: &[u8]) {
        let job = &mut self.jobs[no as usize];
        job.id = (status == Status::OK).then(|| String::from_utf8_lossy(body).into_owned());
        assert_eq!(job.push, Push::Open, "job {no}: a push is answered once");
        job.push = match status {
            Status::OK => Push::Accepted,
            Status::RESOURCE_EXHAUSTED | Status::UNAVAILABLE => Push::Refused,
            // A commit is in doubt.
            Status::UNKNOWN if self.disk_failed => Push::Unknown,
            other => panic!("job {no}: its push was answered {other:?}"),
        };
        job.accepted_at = steady();
        let is_lost = job.is_gone && job.push == Push::Accepted;
        assert!(
            !is_lost || job.may_be_over,
            "job {no} was accepted, and is lost"
        );
        if job.push == Push::Accepted && job.runs == 0 && !job.is_gone {
            self.waiting.insert(no);
        }
        let job = &self.jobs[no as usize];
        let refused = job.push == Push::Refused;
        assert!(!(refused && job.runs > 0), "job {no}: refused, and it ran");
    }

    /// Its client hung up before it was answered.
    pub(crate) fn unknown(&mut self, no: u64) {
        self.jobs[no as usize].push = Push::Unknown;
    }

    pub(crate) fn begins(&mut self, no: u64, worker: i32, queues: &[Queue]) {
        self.waiting.remove(&no);
        let job = &mut self.jobs[no as usize];
        let queue = &queues[job.queue];
        assert_ne!(job.push, Push::Refused, "job {no}: refused, and it runs");
        assert_eq!(job.runs_at, None, "job {no}: runs twice at once");
        assert!(!job.is_gone, "job {no}: runs, and was not in the store");
        assert!(!job.done, "job {no}: runs after it was done");
        if queue.on_delivery && !self.retried.contains_key(&job.queue) {
            assert_eq!(job.runs, 0, "job {no}: acknowledged, and runs again");
        }
        (job.runs_at, job.runs) = (Some(worker), job.runs + 1);
        // One that is tried anew has lost its place.
        if queue.ordered && !self.retried.contains_key(&job.queue) {
            let last = self.last_begun.entry((job.queue, job.key)).or_default();
            assert!(no >= *last, "job {no}: runs after job {last} of its key");
            *last = no;
        }
    }

    pub(crate) fn ends(&mut self, no: u64, done: bool, failed: bool) {
        let job = &mut self.jobs[no as usize];
        assert!(
            job.runs_at.take().is_some(),
            "job {no}: ends, and did not run"
        );
        job.ended_runs += 1;
        job.done |= done;
        job.failures += u32::from(failed);
    }

    /// Its code has said that it is done, and the server, perhaps, that this is safe.
    pub(crate) fn acknowledged(&mut self, no: u64, ack: Ack) {
        let job = &mut self.jobs[no as usize];
        job.ack = ack;
        job.done |= ack == Ack::Safe;
    }

    /// Its worker died.
    pub(crate) fn died(&mut self, no: u64) {
        let job = &mut self.jobs[no as usize];
        job.ended_runs += u32::from(job.runs_at.take().is_some());
    }

    /// A line that is logged as one job's was written by that job.
    pub(crate) fn check_output(&self, log: &str) {
        for line in log.lines() {
            let Some((head, no)) = line.split_once(": wrote-") else {
                continue;
            };
            let Ok(no) = no.trim().parse::<usize>() else {
                continue;
            };
            let tag = head.rsplit(' ').next().unwrap_or_default();
            // More than one task may have written it, or none that is known.
            let is_one = tag.len() == 36;
            if let Some(id) = self.jobs[no].id.as_deref().filter(|_| is_one) {
                assert_eq!(id, tag, "what job {no} wrote is logged as another one's");
            }
        }
    }

    /// A job that is acknowledged on delivery has its one run with whoever gets it. One that leaves then may not have
    /// looked at it, and what it says about that is not trusted.
    fn is_left_behind(&self, job: &Job, queues: &[Queue]) -> bool {
        self.has_leavers && queues[job.queue].on_delivery
    }

    /// No worker of these pools has anything to do, and some could begin at once: no job may wait for them.
    pub(crate) fn nothing_waits(&self, idle: &BTreeSet<String>, queues: &[Queue]) {
        for no in &self.waiting {
            let job = &self.jobs[*no as usize];
            // Of a key whose order is kept the next one waits until that before is tried again.
            let is_due = steady() >= job.accepted_at + job.delay + LATE;
            let may_wait = !is_due
                || queues[job.queue].ordered
                || self.paused.contains(&job.queue)
                || self.cancelled.contains(&job.queue)
                || self.is_left_behind(job, queues);
            assert!(
                may_wait || !idle.contains(&queues[job.queue].pool),
                "job {no} waits, and a worker of its pool is idle"
            );
        }
    }

    /// Nothing runs, and nothing is wrong any more.
    pub(crate) fn at_rest(&self, queues: &[Queue]) {
        for (no, job) in self.jobs.iter().enumerate() {
            assert_eq!(job.runs_at, None, "job {no} still runs");
            assert_ne!(
                job.push,
                Push::Open,
                "job {no}: its push was never answered"
            );
            let may_end = self.cancelled.contains(&job.queue) || self.is_left_behind(job, queues);
            if job.push == Push::Accepted && !job.is_gone && !may_end {
                assert!(job.runs > 0, "job {no} was accepted and never ran");
            }
            let retried = self.retried.get(&job.queue).copied().unwrap_or_default();
            let tries = u32::from(queues[job.queue].tries) * (1 + retried);
            assert!(
                job.failures <= tries,
                "job {no}: {} failures of {tries} tries",
                job.failures
            );
        }
    }
}
