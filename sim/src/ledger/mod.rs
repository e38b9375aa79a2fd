//! Records every request and its outcome, and asserts the rules. Where the model can't know something, it accepts every
//! possibility. Where it does know, the server must agree.

mod at_rest;
mod change;
mod change_effect;
mod count;
mod details;
mod display;
mod drained;
mod imported;
mod job;
mod keys;
mod learned;
mod limits;
mod overrides;
mod pushes;
mod reads;
mod sizes;
mod survival;
mod waiting;

pub(crate) use change::{Change, Filter, Verb};
pub(crate) use imported::Imported;
pub(crate) use job::{Ack, Answer, CLASS, Death, End, Job, PLACE, Push, State};
pub(crate) use overrides::Override;
pub(crate) use reads::Read;
pub(crate) use sizes::Size;

use crate::calls::Calls;
use crate::coverage::Coverage;
use crate::link::Replay;
use crate::payload::body;
use crate::push::PASSED;
use crate::setup::Setup;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::time::Duration;
use stoker_os::steady;
use stoker_wire::{Frame, Key};

/// How late after its due time a job may begin, and how long the store may take to count a job that has ended.
pub(crate) const MAX_LATENESS: Duration = Duration::from_secs(1);
/// How early before its due time a job may begin: the server reads its clock once a turn, in milliseconds.
const MAX_EARLINESS: Duration = Duration::from_millis(2);

/// From this number of returns by leaving workers on, a return may count as a run. The fourth one does, and the model
/// may not have seen some yet.
const MIN_COUNTED_RETURNS: u32 = 2;

/// The checkpoint with this number, which a run saves for the next one of its job.
pub(crate) fn checkpoint_body(count: u32) -> Vec<u8> {
    format!("here {count}").into_bytes()
}

/// The model: all requests, their outcomes, and what the server must do.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    pub(crate) jobs: Vec<Job>,
    /// The job that began last, by queue and key. A job that was pushed later has a higher number.
    last_begun: HashMap<(usize, String), u64>,
    /// How many jobs have not ended, as the server last reported.
    pub(crate) unfinished: Option<u64>,
    /// The edit whose reload was just answered.
    pub(crate) answered_reload: Option<u64>,
    /// The last edit that a reload has applied to every pool.
    pub(crate) reloaded_edit: Option<u64>,
    /// Accepted jobs that may begin and have not begun.
    waiting: BTreeSet<u64>,
    /// The owners of jobs that the store names, by the user who pushed them.
    owners: HashMap<u32, Option<String>>,
    /// Queues that were paused at some time.
    pub(crate) paused: BTreeSet<usize>,
    /// Settings of queues that operators have overridden.
    pub(crate) overrides: overrides::Overrides,
    pub(crate) sizes: sizes::Sizes,
    /// Changes that were just answered and have reached several jobs.
    pub(crate) answered_changes: Vec<usize>,
    /// All changes that operators have requested.
    pub(crate) changes: Vec<Change>,
    /// A worker has exited by itself, or died with several slots: it may not have read a job that was assigned to it.
    pub(crate) had_leaving_workers: bool,
    /// The server has closed the connection of a worker that it can't signal. A task may have been in its buffer.
    pub(crate) had_disconnected_workers: bool,
    /// A worker broke the protocol. After half a frame it may be silent forever.
    pub(crate) had_rogue_workers: bool,
    /// The disk has failed at some time.
    disk_failed: bool,
    /// The times of drains.
    pub(crate) drain: drained::Drain,
    /// Whether the disk fails now.
    disk_fails: bool,
    /// When the disk last began to work again.
    disk_recovered_at: Duration,
    /// The number of turns of the store's writer. In each turn it receives all pending requests.
    pub(crate) writer_turns: u64,
    /// The number of servers that have died.
    deaths: u64,
    /// The server is dead and the next one has not begun, so it is not known what is in the store.
    pub(crate) is_down: bool,
    /// The log can't be written at present, so the server does not read the answers of workers that have written output.
    pub(crate) log_stalls: bool,
    /// Failed jobs that are retried at a rate.
    rates: Vec<change::Rate>,
    /// The server's list of jobs at the end, by id.
    listed: BTreeMap<String, serde_json::Value>,
    /// The job after which the next page of the list begins, `Some(None)` after the last page; `None` until a page
    /// has come.
    pub(crate) next_page: Option<Option<String>>,
    /// All reads of jobs that operators have requested.
    pub(crate) reads: Vec<Read>,
    /// Reads that have another page, and the job after which it begins.
    next_reads: Vec<(usize, String)>,
    /// Pushes that were repeated.
    repeated_pushes: Vec<keys::RepeatedPush>,
    /// The number of each job, by the id that its push returned.
    by_id: HashMap<String, u64>,
    /// Queues that wait below their reserve, and since when runs of other queues begin before theirs.
    below_reserve_since: HashMap<usize, Duration>,
    /// The number of workers that have lost their connection or broken the protocol. A job may have been sent to each and
    /// not arrived, or still count as running there.
    lost_workers: u64,
    /// The history of some jobs, as the server shows it at the end.
    histories: BTreeMap<u64, Vec<String>>,
    stamp: u64,
    /// Whether each event of each job is printed.
    is_tracing: bool,
    pub(crate) coverage: Coverage,
    pub(crate) calls: Calls,
}

impl Ledger {
    pub(crate) fn new(is_tracing: bool) -> Self {
        Self {
            is_tracing,
            ..Self::default()
        }
    }

    /// Prints a line of the trace, if one seed is replayed.
    pub(crate) fn trace(&self, text: impl FnOnce() -> String) {
        if self.is_tracing {
            println!("{:>12} {}", steady().as_micros(), text());
        }
    }

    /// Records an event of a job.
    fn record_event(&mut self, no: u64, event: &'static str) -> &mut Job {
        self.stamp += 1;
        let job = &mut self.jobs[no as usize];
        job.stamp = self.stamp;
        self.coverage.count_event(event, job);
        if self.is_tracing {
            println!(
                "{:>12}   job {no}: {event} ({})",
                steady().as_micros(),
                job.state
            );
        }
        job
    }

    /// A worker has read the job.
    pub(crate) fn delivered(&mut self, no: u64, frame: &Frame<'_>, replay: Replay, setup: &Setup) {
        self.waiting.remove(&no);
        let may_be_unsaved = self.may_be_due_to_disk();
        let job = self.record_event(no, "delivered");
        job.may_be_stopped |= job.changing > 0;
        if job.changing > 0 || job.may_time_out_unread() {
            job.learn_from_frame(frame, setup);
        }
        let early = job.not_before;
        assert!(
            steady() + MAX_EARLINESS >= early,
            "job {no}: delivered before its due time {early:?}"
        );
        assert_ne!(
            job.push,
            Push::Rejected,
            "job {no}: rejected, but delivered"
        );
        assert!(
            !job.is_lost,
            "job {no}: delivered, but was not in the store"
        );
        assert!(!job.is_over(), "job {no}: delivered after its end: {job}");
        let mut keys = HashSet::new();
        let is_first = frame.meta.iter().all(|(key, _)| keys.insert(key.0));
        assert!(is_first, "job {no}: delivered with a repeated metadata key");
        let queue = setup.queue(frame.name);
        let queue = queue
            .unwrap_or_else(|| panic!("job {no}: delivered from an unknown queue: {}", frame.name));
        assert!(
            job.queues.contains(&queue),
            "job {no}: delivered from the wrong queue"
        );
        // While the store can't write, the server may not know of a move that it has answered with UNKNOWN.
        if !may_be_unsaved {
            job.set_queues(vec![queue]);
        }
        // Workers that still have the job have returned it, and have not left yet.
        if job.holders > 0 && job.returns + job.holders >= MIN_COUNTED_RETURNS {
            job.attempts.maybe_increment();
        }
        let attempt = u32::from(frame.attempt);
        if attempt != job.last_attempt {
            job.last_attempt = attempt;
            job.forget_returns();
        }
        let known = job.attempts;
        assert!(
            job.attempts.observe(attempt),
            "job {no}: delivered with the wrong number of attempts, {attempt} instead of {known}: {job}"
        );
        let crashes = frame.meta.uint(Key::CRASHES).unwrap_or(0) as u32;
        assert!(
            job.crashes.observe(crashes),
            "job {no}: delivered with the wrong number of crashes, {crashes}: {job}"
        );
        job.check_frame(no, frame, replay, queue, setup);
        (job.state, job.may_have_ended) = (State::Assigned, false);
        job.holders += 1;
        (job.is_sent, job.sent_from) = (true, Some(queue));
        job.deliveries += 1;
        (job.may_run_again, job.may_be_suspended, job.is_between_runs) = (false, false, false);
        self.below_reserve_since.remove(&queue);
    }

    /// A worker returns the job without having begun it, or died before it had.
    pub(crate) fn returned(&mut self, no: u64) {
        let job = self.record_event(no, "returned");
        job.holders -= 1;
        job.free_since = steady();
        if job.state == State::Assigned && job.holders == 0 {
            job.state = State::Waits;
            job.may_have_ended |= job.may_be_cancelled();
        }
    }

    /// A worker that was sent the job ends without having read it.
    pub(crate) fn died_unread(&mut self, no: u64) {
        if let Some(job) = self.jobs.get_mut(no as usize) {
            // The server may have counted the job as running, for longer than the time limit allows.
            (job.was_unread, job.error) = (true, None);
            job.attempts.maybe_increment();
            job.crashes.maybe_increment();
            job.may_have_ended |= !matches!(job.state, State::Ended(_));
            job.free_since = steady();
            self.record_return(no);
        }
    }

    /// A worker of this pool was killed for the memory that its tasks had left: a job that it had not begun, or that the server
    /// was about to send it, may be blamed.
    pub(crate) fn may_be_blamed_unbegun(&mut self, pool: usize, setup: &Setup) {
        let is_of_pool = |job: &&mut Job| {
            job.state == State::Waits
                && job
                    .queues
                    .iter()
                    .any(|queue| setup.queues[*queue].pool == pool)
        };
        for job in self.jobs.iter_mut().filter(is_of_pool) {
            job.attempts.maybe_increment();
            job.crashes.maybe_increment();
            job.may_have_ended = true;
        }
    }

    /// A worker leaves and has not begun the job.
    pub(crate) fn returned_by_leaving(&mut self, no: u64) {
        self.returned(no);
        self.record_return(no);
    }

    /// Counts a return by a worker that leaves. From `MIN_COUNTED_RETURNS` on, it may count as a failed attempt, because the
    /// server may have seen returns that the model has not.
    pub(crate) fn record_return(&mut self, no: u64) {
        let job = &mut self.jobs[no as usize];
        job.returns += 1;
        if job.returns >= MIN_COUNTED_RETURNS {
            job.attempts.maybe_increment();
            job.may_have_ended = true;
        }
    }

    /// A worker is lost right after its answer. The server may read the answer first, and send another job of the pool, which
    /// then counts as returned.
    pub(crate) fn left_after_answer(&mut self, pool: usize, setup: &Setup) {
        for no in 0..self.jobs.len() {
            let job = &self.jobs[no];
            let mut pools = job.queues.iter().map(|queue| setup.queues[*queue].pool);
            if job.state == State::Waits && pools.any(|of| of == pool) {
                self.record_return(no as u64);
            }
        }
    }

    /// A worker reports in time that the job's code has not run. Such a return does not count as an attempt.
    pub(crate) fn returned_without_run(&mut self, no: u64, setup: &Setup) {
        let job = self.record_event(no, "returned without a run");
        (job.runs_at, job.state, job.acked) = (None, State::Waits, false);
        // If the server dies now, a job that is recorded as delivered counts as done.
        job.may_have_ended |= job.may_be_cancelled() || job.may_be_done_on_delivery(setup);
    }

    /// The worker died before it had begun the job. A job that counts as done on delivery has had its run.
    pub(crate) fn died_before_start(&mut self, no: u64, setup: &Setup) {
        self.returned(no);
        let job = &mut self.jobs[no as usize];
        job.may_have_ended |= job.may_be_done_on_delivery(setup);
    }

    /// A worker has answered the job without having begun it: the job was cancelled, or its time was up.
    pub(crate) fn dropped(&mut self, no: u64) {
        let job = self.record_event(no, "dropped");
        job.holders -= 1;
        job.free_since = steady();
        if !matches!(job.state, State::Ended(_)) {
            if job.state == State::Assigned && job.holders == 0 {
                job.state = State::Waits;
            }
            job.attempts.maybe_increment();
            job.may_have_ended = true;
        }
    }

    /// A worker that breaks the protocol has the job, and may have answered it.
    pub(crate) fn worker_broke_protocol(&mut self, no: u64) {
        let job = self.record_event(no, "protocol broken");
        job.error = None;
        job.attempts.maybe_increment();
        job.crashes.maybe_increment();
        (job.may_have_ended, job.may_run_again) = (true, true);
    }

    /// A worker begins a run of the job.
    pub(crate) fn begins(&mut self, no: u64, worker: i32, setup: &Setup) {
        let job = self.record_event(no, "begins");
        assert_eq!(job.runs_at, None, "job {no}: runs twice at once");
        assert!(job.holders > 0, "job {no}: begins before it was delivered");
        assert!(
            !job.must_not_run,
            "job {no} runs again, although it was cancelled when its worker died"
        );
        job.holders -= 1;
        job.is_being_stopped = false;
        job.state = State::Runs;
        (job.runs_at, job.began_at, job.runs) = (Some(worker), steady(), job.runs + 1);
        (job.last_line, job.streams) = (None, 0);
        // A change that was answered since the delivery may have named the job, and came too late for this run.
        let Some(queue) = job.queue().or(job.sent_from) else {
            return;
        };
        match setup.queues[queue].on_delivery.known() {
            Some(true) => {
                (job.acked, job.acked_in_run) = (true, true);
                job.end(End::Done);
            }
            Some(false) => {}
            None => job.may_have_ended = true,
        }
        self.check_order(no, queue, setup);
        self.check_running(no, queue, setup);
        self.check_rate(no);
        self.check_reserves(no, queue, setup);
        self.check_paused(no, queue);
    }

    /// Checks that the jobs of one key in an ordered queue begin in the order in which they were pushed.
    fn check_order(&mut self, no: u64, queue: usize, setup: &Setup) {
        let job = &self.jobs[no as usize];
        if !setup.queues[queue].ordered || job.displaced {
            return;
        }
        let key = job.options.key.clone().unwrap_or_default();
        let last = self.last_begun.entry((queue, key)).or_default();
        assert!(no >= *last, "job {no}: overtaken by job {last} of its key");
        *last = no;
    }

    /// A worker has answered a run of the job.
    pub(crate) fn ends(&mut self, no: u64, answer: Answer, setup: &Setup) {
        let event = match answer {
            Answer::Dies(death) => return self.died(no, death, setup),
            Answer::Done => "answered done",
            Answer::Error => "answered error",
            Answer::Retry(_) => "answered retry",
            Answer::Failed => "answered failed",
            Answer::Cancelled => "answered cancelled",
        };
        let job = self.record_event(no, event);
        assert!(job.runs_at.is_some(), "job {no}: ended, but did not run");
        job.answered(answer, &setup.queues);
    }

    /// The job's code has acknowledged it, and the server may have confirmed that this is in the store.
    pub(crate) fn acknowledged(&mut self, no: u64, ack: Ack) {
        let job = &mut self.jobs[no as usize];
        if ack == Ack::Stored && job.ack_is_stored {
            return;
        }
        let job = self.record_event(no, "acknowledged");
        if !job.acked && job.runs == 1 {
            job.acked_line.clone_from(&job.last_line);
        }
        job.acked_in_run = job.runs_at.is_some();
        job.acked = true;
        job.end(End::Done);
        job.ack_is_stored = ack == Ack::Stored;
        job.may_run_again = !job.ack_is_stored;
    }

    /// Whether the one run of a job that is acknowledged on delivery may be lost: a worker that left may have got the
    /// job without reading it, and its report about that is not trusted.
    pub(crate) fn may_be_lost_at_delivery(&self, job: &Job, setup: &Setup) -> bool {
        // A part of a frame does not show which job it is about.
        let may_be_unseen =
            setup.short_io && self.had_leaving_workers || self.had_disconnected_workers;
        let was_lost = job.was_unread || job.returns > 0 || may_be_unseen;
        was_lost && job.may_be_done_on_delivery(setup)
    }

    /// The worker died while it ran the job.
    pub(crate) fn died(&mut self, no: u64, death: Death, setup: &Setup) {
        let event = match death {
            Death::Crash => "crashed",
            Death::Overdue => "timed out",
            Death::Unclear => "was cut off",
            Death::Drained => "was drained",
        };
        let job = self.record_event(no, event);
        job.must_not_run |= std::mem::take(&mut job.is_being_stopped);
        let pool = job.queue().map(|queue| setup.queues[queue].pool);
        let budget = pool.and_then(|pool| setup.pools[pool].crash_budget.known());
        job.died(death, &setup.queues, budget);
    }

    /// Adds a page of the list of all jobs, at the end.
    pub(crate) fn read_page(&mut self, body: &[u8]) {
        let page = serde_json::from_slice(body).expect("JSON");
        self.next_page = Some(self.add_page(&page));
    }

    /// Checks that every line that is logged under the id of a job was written by that job.
    pub(crate) fn check_output(&self, log: &str) {
        for line in log.lines() {
            let Some((head, no)) = line.split_once(": wrote-") else {
                continue;
            };
            let no = no.split_whitespace().next().unwrap_or_default();
            let Ok(no) = no.parse::<usize>() else {
                continue;
            };
            let tag = head.rsplit(' ').next().unwrap_or_default();
            // A line without a job id may be from several tasks, or from an unknown one.
            let is_one = tag.len() == 36 && !tag.contains('.');
            let job = &self.jobs[no];
            if let Some(id) = job.id.as_deref().filter(|_| is_one) {
                let is_own = id == tag || job.former_ids.iter().any(|former| former == tag);
                // A line may have been cut within the number.
                let is_beginning = || {
                    let of_tag = |other: &Job| other.id.as_deref() == Some(tag);
                    let whole = self.jobs.iter().position(of_tag);
                    line.ends_with(&format!("wrote-{no}"))
                        && whole.is_some_and(|whole| whole.to_string().starts_with(&no.to_string()))
                };
                assert!(
                    is_own || is_beginning(),
                    "output of job {no} is logged under another job's id; left: {line}"
                );
            }
        }
    }

    /// Whether a worker that broke the protocol, and is silent since, may take up the limit of a queue.
    fn rogue_may_run_one_of(&self, queue: usize, setup: &Setup) -> bool {
        self.had_rogue_workers && setup.queues[queue].limit.known() != Some(u64::MAX)
    }

    /// Some workers of these pools are idle and could begin a task at once: no job may be waiting for them. `taken`
    /// are the jobs at workers, if there are any: other jobs may wait because of them, by the limits of a queue or
    /// key.
    pub(crate) fn check_no_job_waits(
        &self,
        idle: &BTreeSet<usize>,
        taken: Option<&BTreeSet<u64>>,
        setup: &Setup,
    ) {
        let has_suspects = self.jobs.iter().any(|job| {
            // A job that has acknowledged itself may still run, and then it still runs alone.
            let is_over = matches!(job.state, State::Ended(_)) && job.runs_at.is_none();
            job.crashes.high > 0 && !is_over && job.push != Push::Rejected
        });
        for no in &self.waiting {
            let job = &self.jobs[*no as usize];
            let Some(queue) = job.queue() else { continue };
            let is_taken = |taken: &BTreeSet<u64>| {
                taken.contains(no) || has_suspects || !self.has_room_beside(queue, taken, setup)
            };
            if taken.is_some_and(is_taken) || self.key_may_run(job, queue, setup) {
                continue;
            }
            // In an ordered queue a job also waits for the retry of the one before it.
            let is_due = steady() >= job.answered_at.max(job.due_by) + MAX_LATENESS;
            let may_wait = !is_due
                || !job.is_state_known()
                || job.state != State::Waits
                || setup.queues[queue].ordered
                || self.paused.contains(&queue)
                || setup.has_little_memory()
                || (setup.wall_jumps && job.options.due_at.is_some())
                || self.may_be_lost_at_delivery(job, setup)
                || self.rogue_may_run_one_of(queue, setup)
                || setup.keeps_workers(setup.queues[queue].pool);
            assert!(
                may_wait || !idle.contains(&setup.queues[queue].pool),
                "job {no} waits, although a worker of its pool is idle: {job}"
            );
        }
    }
}

impl Job {
    /// Checks that the frame for a worker carries what was pushed.
    fn check_frame(
        &mut self,
        no: u64,
        frame: &Frame<'_>,
        replay: Replay,
        queue: usize,
        setup: &Setup,
    ) {
        let queue = &setup.queues[queue];
        let meta = |key: Key| frame.meta.get(key);
        let id = meta(Key::JOB_ID).map(hyphenated).unwrap_or_default();
        if !self.retried && self.changing == 0 {
            let checkpoint_body = |count: u32| (count > 0).then(|| checkpoint_body(count));
            let (low, high) = (self.checkpoint_no.low, self.checkpoint_no.high);
            let reported = meta(Key::CHECKPOINT);
            let known = (low..=high).find(|count| reported == checkpoint_body(*count).as_deref());
            let text = || String::from_utf8_lossy(reported.unwrap_or_default());
            assert!(
                known.is_some(),
                "job {no}: delivered with checkpoint {:?}, expected {low} to {high}",
                text()
            );
            self.checkpoint_no.low = known.unwrap_or(low);
        }
        if std::mem::take(&mut self.may_have_new_id) {
            self.former_ids.extend(self.id.take());
        }
        let known = self.id.get_or_insert_with(|| id.clone());
        assert_eq!(*known, id, "job {no}: delivered under a different id");
        let reported = frame
            .meta
            .uint(Key::TRIES)
            .and_then(|reported| u16::try_from(reported).ok());
        // The frame may have been sent before a reload.
        let had = |reported| {
            let queue = self.queue().filter(|_| self.options.tries.is_none());
            queue.is_some_and(|queue| setup.queues[queue].tries.ever_had(reported))
        };
        let may_be = |reported| match self.tries(&setup.queues) {
            Some(tries) => reported == tries || self.options.retry_until.is_none() && had(reported),
            None => true,
        };
        assert!(
            reported.is_some_and(may_be),
            "job {no}: delivered with the wrong limit of tries: {reported:?}"
        );
        let made = frame.meta.uint(Key::CREATED_AT);
        assert_eq!(
            made,
            made_at(&id),
            "job {no}: delivered with the wrong creation time"
        );
        let key = self.options.key.as_ref().map(|key| key.as_bytes());
        assert_eq!(
            meta(Key::FAIRNESS),
            key,
            "job {no}: delivered with the wrong fairness key"
        );
        assert_eq!(
            meta(PASSED),
            self.options.passed,
            "job {no}: delivered with the wrong metadata"
        );
        let priority = if queue.ordered {
            3
        } else {
            self.options.priority
        };
        assert!(
            self.displaced || frame.prio == priority,
            "job {no}: delivered with the wrong priority, {}",
            frame.prio
        );
        let limit = match self.options.timeout_ms {
            Some(own) => Some(Some(u64::from(own))),
            None => setup.pools[queue.pool].task_timeout_ms.known(),
        };
        if let Some(limit) = limit {
            let reported = frame.meta.uint(Key::TIMEOUT).map(Duration::from_millis);
            let left = limit.map(|limit| replay.may_be_left_of_run(Duration::from_millis(limit)));
            let is_left = match (reported, left) {
                (Some(reported), Some(left)) => left.contains(&reported),
                (reported, left) => reported.is_none() && left.is_none(),
            };
            assert!(
                is_left,
                "job {no}: delivered with the timeout {reported:?} of {limit:?}, {replay:?}"
            );
        }
        let (from, to) = self.versions;
        let seen = (from..=to).find(|version| frame.body == body(no, *version, self.options.len));
        let seen = seen.unwrap_or_else(|| {
            panic!(
                "job {no}: delivered with the wrong body: {}",
                String::from_utf8_lossy(frame.body)
            )
        });
        self.versions = (seen, seen);
    }
}

/// When the job of an id was made: the first 48 bits of the id are Unix milliseconds (UUID version 7, RFC 9562).
fn made_at(id: &str) -> Option<u64> {
    let hex: String = id.chars().filter(char::is_ascii_hexdigit).collect();
    u64::from_str_radix(hex.get(..12)?, 16).ok()
}

/// An id in its usual form with hyphens.
fn hyphenated(id: &[u8]) -> String {
    let hex: String = id.iter().map(|byte| format!("{byte:02x}")).collect();
    let cuts = [0..8, 8..12, 12..16, 16..20, 20..32];
    let parts = cuts.map(|cut| hex.get(cut).unwrap_or_default().to_owned());
    parts.join("-")
}
