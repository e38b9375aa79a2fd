//! Logs failed runs of jobs.

use crate::observe::{Entry, events};
use crate::plane::{Alarm, Plane};
use stoker_core::{Kind, QueueId, Span, Time, WorkerId};
use stoker_store::{Job, JobError, RunCounters};

/// The maximum number of lines of one queue in a burst, and per second in the long run. A queue whose jobs all
/// fail must not fill the disk; `stoker jobs failures` lists all failures.
const MAX_BURST: u32 = 1_000;
const MAX_LINES_PER_SECOND: u32 = 20;
/// How often the number of omitted lines is logged.
const REPORT_INTERVAL: Span = Span::from_secs(5);

/// Limits which failed runs of a queue are logged.
pub(crate) struct FailureLog {
    left: u32,
    filled: Time,
    omitted: u64,
}

impl Default for FailureLog {
    fn default() -> Self {
        Self {
            left: MAX_BURST,
            filled: Time::ZERO,
            omitted: 0,
        }
    }
}

impl FailureLog {
    /// Whether another line may be logged.
    fn admits(&mut self, now: Time) -> bool {
        let seconds = now.since(self.filled).as_millis() / 1_000;
        if seconds > 0 {
            let more = u32::try_from(seconds)
                .unwrap_or(MAX_BURST)
                .saturating_mul(MAX_LINES_PER_SECOND);
            self.left = self.left.saturating_add(more).min(MAX_BURST);
            self.filled = now;
        }
        let admits = self.left > 0;
        self.left = self.left.saturating_sub(1);
        admits
    }

    /// Decides whether a failed run is logged. For the first one that is not, returns when the number of omitted
    /// runs is to be reported.
    fn decide(&mut self, now: Time) -> LogDecision {
        if self.admits(now) {
            return LogDecision::Logged;
        }
        self.omitted += 1;
        LogDecision::Omitted {
            report_at: (self.omitted == 1).then(|| now + REPORT_INTERVAL),
        }
    }
}

#[derive(Debug, PartialEq, Eq)]
enum LogDecision {
    Logged,
    Omitted { report_at: Option<Time> },
}

/// A failed run.
pub(crate) struct FailedRun<'a> {
    pub(crate) job: &'a Job,
    pub(crate) counters: RunCounters,
    pub(crate) worker: Option<WorkerId>,
    pub(crate) error: &'a JobError,
    /// The time until the next run, in milliseconds; `None` if this was the last one.
    pub(crate) next_in_ms: Option<u64>,
}

impl Plane {
    pub(crate) fn log_failed_run(&mut self, failed_run: &FailedRun<'_>) {
        let FailedRun {
            job,
            counters,
            error,
            ..
        } = failed_run;
        let Some(queue) = self.jobs.queue_id(job.queue) else {
            return;
        };
        if !self.admits_failure(queue) {
            return;
        }
        let (event, what) = match &*error.class {
            "TimedOut" => (&events::RUN_TIMED_OUT, "timed out"),
            "Quarantined" | "WorkerDied" => (&events::RUN_CRASHED, "crashed"),
            _ => (&events::RUN_FAILED, "failed"),
        };
        let (id, name) = (self.jobs.uuid(job.id), self.core.queue(queue).name);
        let kind = kind_of(job);
        let shown = kind.map_or(String::new(), |kind| format!(" ({kind})"));
        let next = match failed_run.next_in_ms {
            Some(ms) => format!("; next run in {ms} ms"),
            None => "; the job is not retried".to_owned(),
        };
        let attempt = counters.attempt.max(1);
        let text = format!(
            "job {id}{shown} of queue {name} {what} on attempt {attempt}: {}: {}{next}",
            error.class, error.message
        );
        let entry = event
            .message(text)
            .with("job", id.to_string())
            .with("type", kind)
            .with("queue", name)
            .with("attempt", attempt)
            .with("crashes", counters.crashes)
            .with("worker", self.worker_name(failed_run.worker))
            .with("ran_ms", counters.ran_us / 1_000)
            .with("class", error.class.as_str())
            .with("reason", error.message.as_str())
            .with("place", error.place.as_deref())
            .with("final", failed_run.next_in_ms.is_none())
            .with("next_in_ms", failed_run.next_in_ms);
        self.log.put(entry);
    }

    /// Logs a run that was cut short by the end of its worker.
    pub(crate) fn log_lost_run(&mut self, job: &Job, crashes: u8, mut entry: Entry) {
        let Some(queue) = self.jobs.queue_id(job.queue) else {
            return;
        };
        if !self.admits_failure(queue) {
            return;
        }
        let (id, name) = (self.jobs.uuid(job.id), self.core.queue(queue).name);
        let kind = kind_of(job);
        let shown = kind.map_or(String::new(), |kind| format!(" ({kind})"));
        entry.text = format!("job {id}{shown} of queue {name} {}", entry.text);
        let entry = entry
            .with("job", id.to_string())
            .with("type", kind)
            .with("queue", name)
            .with("attempt", job.counters.attempt.saturating_add(1))
            .with("crashes", crashes);
        self.log.put(entry);
    }

    /// Logs the failure of a job that counted as done already, since its delivery or its acknowledgement.
    pub(crate) fn log_failed_after_ack(&mut self, job: &Job, error: &JobError) {
        let attempt = job.counters.attempt.saturating_add(1);
        self.log_failed_run(&FailedRun {
            job,
            counters: RunCounters {
                attempt,
                ..job.counters
            },
            worker: None,
            error,
            next_in_ms: None,
        });
    }

    /// Logs the death of the worker of a job that counted as done already.
    pub(crate) fn log_crashed_after_ack(&mut self, job: &Job) {
        let text =
            "crashed: its worker died during the run; the job counts as done and is not retried";
        let entry = events::RUN_CRASHED.message(text).with("final", true);
        let entry = entry.with("reason", "its worker died during the run");
        self.log_lost_run(job, job.counters.crashes, entry);
    }

    pub(crate) fn admits_failure(&mut self, queue: QueueId) -> bool {
        let now = self.now;
        match self.queue_stats_mut(queue).failures.decide(now) {
            LogDecision::Logged => true,
            LogDecision::Omitted { report_at } => {
                if let Some(at) = report_at {
                    self.alarms.set(at, Alarm::Failures(queue));
                }
                false
            }
        }
    }

    /// Reports how many failed runs of a queue were not logged.
    pub(crate) fn report_failures(&mut self, queue: QueueId) {
        let runs = std::mem::take(&mut self.queue_stats_mut(queue).failures.omitted);
        let (name, kind) = (self.core.queue(queue).name, self.core.queue(queue).kind);
        let (what, hint) = match kind {
            Kind::Jobs => ("queue", "; `stoker jobs failures` shows them all"),
            Kind::Calls => ("service", ""),
        };
        let text = format!(
            "{} of {what} {name} failed and were not logged individually{hint}",
            crate::counted(runs, "more run")
        );
        let entry = events::RUNS_NOT_LOGGED.message(text).with("queue", name);
        self.log.put(entry.with("runs", runs));
    }

    pub(crate) fn worker_name(&self, worker: Option<WorkerId>) -> Option<&str> {
        let handle = self.worker_handle(worker?)?;
        Some(&handle.name)
    }
}

fn kind_of(job: &Job) -> Option<&str> {
    job.options.as_deref()?.kind.as_deref()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn logged(log: &mut FailureLog, now: Time, runs: u32) -> u32 {
        let logged = (0..runs).filter(|_| log.decide(now) == LogDecision::Logged);
        logged.count() as u32
    }

    #[test]
    fn a_burst_is_logged_and_then_a_limited_number_per_second() {
        let (mut log, now) = (FailureLog::default(), Time::ZERO + Span::from_secs(100));
        assert_eq!(logged(&mut log, now, MAX_BURST + 5), MAX_BURST);
        let (soon, later) = (now + Span::from_millis(999), now + Span::from_secs(3));
        assert_eq!(logged(&mut log, soon, 5), 0);
        assert_eq!(logged(&mut log, later, 100), 3 * MAX_LINES_PER_SECOND);
        assert_eq!(
            logged(&mut log, later + Span::from_secs(3_600), 2 * MAX_BURST),
            MAX_BURST
        );
    }

    #[test]
    fn runs_that_are_not_logged_are_reported_together() {
        let (mut log, now) = (FailureLog::default(), Time::ZERO + Span::from_secs(100));
        logged(&mut log, now, MAX_BURST);
        let first = LogDecision::Omitted {
            report_at: Some(now + REPORT_INTERVAL),
        };
        assert_eq!(log.decide(now), first);
        for _ in 0..3 {
            assert_eq!(log.decide(now), LogDecision::Omitted { report_at: None });
        }
        assert_eq!(std::mem::take(&mut log.omitted), 4);
        assert_eq!(
            log.decide(now),
            first,
            "the next report is of those since the last"
        );
    }
}
