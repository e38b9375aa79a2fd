use crate::clock::wall_ms;
use crate::plane::Plane;
use crate::sources::rpc::{exit_text, ran};
use crate::store::{JobError, JobNo, State};
use stoker_core::{Cause, Facts, Outcome, Rng, Span};
use stoker_wire::{Frame, Key};

/// The longest error text kept of a job.
const MESSAGE: usize = 16 << 10;

impl Plane {
    /// Ends a job in its store.
    pub(crate) fn end_job(
        &mut self,
        job: JobNo,
        outcome: Outcome,
        facts: Facts,
        answer: Option<&Frame<'_>>,
    ) {
        self.note_run(job, facts, answer);
        let (state, error) = match outcome {
            Outcome::Answered => (State::Done, None),
            Outcome::Cancelled => (State::Cancelled, None),
            outcome => (State::Failed, Some(error_of(outcome, answer))),
        };
        self.store.end(job, state, error, wall_ms());
    }

    /// Puts a job off until its next run.
    pub(crate) fn retry_job(
        &mut self,
        job: JobNo,
        after: Option<Span>,
        cause: Cause,
        facts: Facts,
        answer: Option<&Frame<'_>>,
    ) {
        self.note_run(job, facts, answer);
        let now_ms = wall_ms();
        let wait = after.unwrap_or_else(|| self.backoff_of(job, facts.attempt));
        let error = match cause {
            Cause::Answered => error_of(Outcome::Failed, answer),
            Cause::TimedOut => error_of(Outcome::TimedOut, None),
        };
        self.store
            .retry(job, now_ms.saturating_add(wait.0.div_ceil(1_000)), error);
    }

    /// The job was not run and the server goes: it stays in its store.
    pub(crate) fn return_job(&mut self, job: JobNo) {
        self.store[job].task = None;
        self.store.push_backlog(job);
    }

    fn note_run(&mut self, job: JobNo, facts: Facts, answer: Option<&Frame<'_>>) {
        let queue = self.store[job].spec.queue;
        let entry = &mut self.store[job];
        entry.attempt = facts.attempt;
        entry.crashes = facts.crashes;
        let now = self.now;
        let figures = self.figures(queue);
        figures.waited.record(now, facts.waited);
        if facts.worker.is_some() {
            figures.ran.record(now, ran(facts, answer));
        }
    }

    fn backoff_of(&mut self, job: JobNo, runs: u16) -> Span {
        let seed = self.store[job].id.as_u64_pair().1 ^ u64::from(runs);
        let queue = self.store[job].spec.queue;
        let own = self.store[job].spec.backoff.take();
        let of_queue = &self.store.config(queue).backoff;
        let wait = own
            .as_deref()
            .unwrap_or(of_queue)
            .delay(u32::from(runs), &mut Rng::new(seed));
        self.store[job].spec.backoff = own;
        wait
    }
}

/// Why a job or a run of it failed, from the worker's own words where there are any.
fn error_of(outcome: Outcome, answer: Option<&Frame<'_>>) -> JobError {
    let (class, message) = match outcome {
        Outcome::Quarantined { crashes, exit } => (
            "Quarantined",
            format!(
                "it killed {crashes} workers, the last one by {}",
                exit_text(exit)
            ),
        ),
        Outcome::WorkerDied(exit) => (
            "WorkerDied",
            format!("its worker died: {}", exit_text(exit)),
        ),
        Outcome::TimedOut => (
            "TimedOut",
            "it ran longer than it may, and its worker was ended".into(),
        ),
        _ => return words_of(answer),
    };
    JobError {
        class: class.into(),
        message,
        place: None,
        at_ms: wall_ms(),
    }
}

fn words_of(answer: Option<&Frame<'_>>) -> JobError {
    let at_ms = wall_ms();
    let Some(answer) = answer else {
        return JobError {
            class: "Unknown".into(),
            message: String::new(),
            place: None,
            at_ms,
        };
    };
    let class = answer.meta.text(Key::ERROR_CLASS).map(str::to_owned);
    let message = String::from_utf8_lossy(&answer.body[..answer.body.len().min(MESSAGE)]);
    JobError {
        class: class.unwrap_or_else(|| answer.status().name().to_owned()),
        message: message.into_owned(),
        place: answer.meta.text(Key::ERROR_PLACE).map(str::to_owned),
        at_ms,
    }
}
