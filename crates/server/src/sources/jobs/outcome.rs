//! Converts the core's decisions about runs of jobs to requests to the store.

use super::failures::FailedRun;
use super::loaded::LoadedJob;
use crate::clock::wall_ms;
use crate::plane::{Plane, Todo};
use crate::sources::TaskAnswer;
use crate::sources::end::{ABANDONED, CrashedProcess, error_in_answer, exit_text, is_error, ran};
use stoker_core::{Backoff, Cause, Facts, Outcome, QueueId, Rng, Span, TaskId};
use stoker_store::{
    Bytes, Ending, HistoryKind, Job, JobError, MAX_RESULT, ParkedJob, RunCounters, StoreRequest,
    steady_ms,
};
use stoker_wire::{Codec, Status};

impl Plane {
    /// Ends a job in its store.
    pub(crate) fn end_job(
        &mut self,
        task: TaskId,
        outcome: Outcome,
        facts: Facts,
        answer: Option<&TaskAnswer<'_>>,
    ) {
        let Some((_, mut loaded)) = self.unload(task, facts, answer) else {
            return;
        };
        let ending = match outcome {
            Outcome::Answered => Ending::Done {
                result: answer.and_then(result_of),
            },
            Outcome::Cancelled => Ending::Cancelled,
            outcome => {
                let mut error = error_of(outcome, answer);
                let handle = facts.worker.and_then(|worker| self.worker_handle(worker));
                let died_of = handle
                    .and_then(|handle| handle.death_reason())
                    .filter(|_| is_worker_death(outcome));
                if let Some(died_of) = died_of {
                    error.message = format!("{}: {died_of}", error.message);
                }
                Ending::Failed(error)
            }
        };
        let counters = run_of(&loaded, facts, answer);
        if let Ending::Failed(error) = &ending {
            self.log_failed_run(&FailedRun {
                job: &loaded.job,
                counters,
                worker: facts.worker,
                error,
                next_in_ms: None,
            });
        }
        self.end_in_store(&mut loaded, counters, ending);
    }

    fn end_in_store(&mut self, loaded: &mut LoadedJob, counters: RunCounters, ending: Ending) {
        let cancelled_by = std::mem::take(&mut loaded.cancelled_by);
        let ticket = match ending {
            Ending::Cancelled => self.create_end_ticket(cancelled_by),
            // The job finished before it could be cancelled.
            Ending::Done { .. } | Ending::Failed(_) => {
                self.record_not_cancelled(cancelled_by);
                None
            }
        };
        self.jobs.send(StoreRequest::End {
            job: loaded.job.id,
            counters,
            ending,
            ticket,
            output: loaded.kept_output(),
        });
    }

    /// Schedules a job's next run, or ends the job if this was its last run.
    pub(crate) fn retry_job(
        &mut self,
        task: TaskId,
        after: Option<Span>,
        cause: Cause,
        facts: Facts,
        answer: Option<&TaskAnswer<'_>>,
    ) {
        let Some((queue, mut loaded)) = self.unload(task, facts, answer) else {
            return;
        };
        let counters = run_of(&loaded, facts, answer);
        let error = match cause {
            Cause::Answered => error_of(Outcome::Failed, answer),
            Cause::TimedOut => error_of(Outcome::TimedOut, None),
            Cause::Abandoned => error_of(Outcome::Abandoned, None),
        };
        let ordered = self.core.queue(queue).config.ordered;
        let is_last = is_last(&loaded, counters, cause);
        let wait = after.unwrap_or_else(|| self.backoff_of(queue, &loaded, facts.attempt));
        // A job that releases itself for another run has not failed.
        let is_failure = is_last || answer.is_none_or(|answer| is_error(answer.status));
        if is_failure {
            self.log_failed_run(&FailedRun {
                job: &loaded.job,
                counters,
                worker: facts.worker,
                error: &error,
                next_in_ms: (!is_last).then(|| wait.as_millis()),
            });
        }
        if is_last {
            if ordered {
                let key = loaded.job.key.clone();
                self.todo.push_back(Todo::Unblock { queue, key });
            }
            return self.end_in_store(&mut loaded, counters, Ending::Failed(error));
        }
        self.record_not_cancelled(std::mem::take(&mut loaded.cancelled_by));
        let due_ms = steady_ms().saturating_add(wait.0.div_ceil(1_000));
        let output = loaded.kept_output();
        self.jobs.send(StoreRequest::Retry {
            job: loaded.job.id,
            counters,
            due_ms,
            error,
            output,
            park: ordered,
        });
        if ordered {
            let Job { id, queue, key, .. } = loaded.job;
            self.jobs.parked.insert(ParkedJob {
                id,
                queue,
                key,
                counters,
                due_ms,
            });
        }
    }

    /// Leaves a job in its store, because it did not run before the shutdown.
    pub(crate) fn return_job(&mut self, task: TaskId) {
        if let Some(mut loaded) = self.jobs.loaded.remove(task) {
            self.report_unreported(&mut loaded);
            self.record_not_cancelled(std::mem::take(&mut loaded.cancelled_by));
            if loaded.claimed {
                self.push_again(loaded);
            }
        }
    }

    /// Handles the end of a run whose job was acknowledged before. A failure since then is recorded.
    pub(crate) fn drop_job(&mut self, task: TaskId, answer: Option<&TaskAnswer<'_>>) {
        let Some(mut loaded) = self.jobs.loaded.remove(task) else {
            return;
        };
        self.jobs.runs_changed = true;
        let is_cancelled = !loaded.cancelled_by.is_empty();
        // The job had already ended in the store.
        self.record_not_cancelled(std::mem::take(&mut loaded.cancelled_by));
        let job = loaded.job.id;
        if let Some(bytes) = loaded.kept_output() {
            self.jobs.send(StoreRequest::Output { job, bytes });
        }
        let text = match answer {
            Some(answer) if answer.status == Status::OK => return,
            Some(answer) => {
                let error = error_in_answer(Some(answer));
                if !is_cancelled {
                    self.log_failed_after_ack(&loaded.job, &error);
                }
                format!("{}: {}", error.class, error.message)
            }
            None => {
                if !is_cancelled && loaded.delivered && !loaded.is_cut_off {
                    self.log_crashed_after_ack(&loaded.job);
                }
                "its worker died during the run".to_owned()
            }
        };
        let what = HistoryKind::AfterAck;
        self.jobs.send(StoreRequest::Note { job, what, text });
    }

    /// Removes a job from the loaded ones and records the duration of its run.
    fn unload(
        &mut self,
        task: TaskId,
        facts: Facts,
        answer: Option<&TaskAnswer<'_>>,
    ) -> Option<(QueueId, LoadedJob)> {
        let mut loaded = self.jobs.loaded.remove(task)?;
        self.report_unreported(&mut loaded);
        let queue = self.jobs.queue_id(loaded.job.queue)?;
        self.jobs.runs_changed = true;
        let now = self.now;
        let stats = self.queue_stats_mut(queue);
        stats.waited.record(now, facts.waited);
        if facts.worker.is_some() {
            stats.ran.record(now, ran(facts, answer));
        }
        Some((queue, loaded))
    }

    fn backoff_of(&self, queue: QueueId, loaded: &LoadedJob, runs: u16) -> Span {
        let mut rng = Rng::new(loaded.job.id.0 ^ u64::from(runs));
        let own = loaded.job.options.as_deref();
        let own = own
            .map(|options| options.backoff_ms.as_slice())
            .unwrap_or_default();
        if !own.is_empty() {
            let delays = own.iter().map(|ms| Span::from_millis(u64::from(*ms)));
            return Backoff::List(delays.collect()).delay(u32::from(runs), &mut rng);
        }
        let of_queue = self.jobs.queue(queue);
        of_queue.map_or(Span::ZERO, |of_queue| {
            of_queue.config.backoff.delay(u32::from(runs), &mut rng)
        })
    }
}

/// A job's counters, including the current run.
pub(super) fn run_of(
    loaded: &LoadedJob,
    facts: Facts,
    answer: Option<&TaskAnswer<'_>>,
) -> RunCounters {
    let is_exception = answer.is_some_and(|answer| is_error(answer.status));
    RunCounters {
        attempt: facts.attempt,
        exceptions: loaded
            .job
            .counters
            .exceptions
            .saturating_add(u16::from(is_exception)),
        crashes: facts.crashes.saturating_add(loaded.uncounted_crashes),
        ran_us: ran(facts, answer).0,
    }
}

/// Whether a failed run was the last one by rules that need the wall clock or more than the number of attempts.
fn is_last(loaded: &LoadedJob, counters: RunCounters, cause: Cause) -> bool {
    let Some(options) = loaded.job.options.as_deref() else {
        return false;
    };
    options
        .retry_until_ms
        .is_some_and(|until| wall_ms() >= until)
        || options
            .max_exceptions
            .is_some_and(|max| counters.exceptions >= max)
        || (options.fail_on_timeout && cause == Cause::TimedOut)
}

/// The result in a worker's answer, unless it is empty or too large to be kept.
pub(super) fn result_of(answer: &TaskAnswer<'_>) -> Option<Bytes> {
    let codec = answer.codec;
    let is_null = codec == Codec::JSON && answer.body == b"null";
    let fits = !answer.body.is_empty() && answer.body.len() <= MAX_RESULT;
    (fits && !is_null).then(|| Bytes {
        codec: codec.0,
        bytes: answer.body.to_vec(),
    })
}

/// The error of a failed job or run, from the worker's answer if there is one.
fn error_of(outcome: Outcome, answer: Option<&TaskAnswer<'_>>) -> JobError {
    let crashed_process = CrashedProcess::of(answer);
    let (class, message) = match outcome {
        Outcome::Quarantined { crashes, exit } => (
            "Quarantined",
            crashed_process.last_crash_text(crashes, exit),
        ),
        Outcome::WorkerDied(exit) => (
            "WorkerDied",
            format!("{}: {}", crashed_process.crash_text(), exit_text(exit)),
        ),
        Outcome::TimedOut => (
            "TimedOut",
            "it exceeded its timeout, and its worker was killed".into(),
        ),
        Outcome::Abandoned => ("Abandoned", ABANDONED.into()),
        _ => return error_in_answer(answer),
    };
    JobError {
        class: class.into(),
        message,
        place: None,
        at_ms: wall_ms(),
    }
}

fn is_worker_death(outcome: Outcome) -> bool {
    matches!(
        outcome,
        Outcome::Quarantined { .. } | Outcome::WorkerDied(_)
    )
}
