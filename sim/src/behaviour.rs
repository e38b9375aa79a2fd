//! The behaviour of task code: how often a seed has each kind of act, and which acts one run has.

use crate::dice::Dice;
use crate::setup::{Focus, Setup};
use std::collections::VecDeque;
use std::time::Duration;

/// One thing that a task's code does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Act {
    /// An event of the table `worker.json`.
    Does(&'static str),
    /// Writes to the output of its process.
    Writes,
    /// The worker's process is killed.
    Dies,
    /// Only the program of this task is killed, which its adapter reports.
    Crashes,
    /// Makes a request of its own, and waits for the answer.
    Calls,
    /// Requests another run, after this delay or after the backoff of its queue.
    Retries(Option<Duration>),
    /// Runs forever.
    Hangs,
    /// The worker does what the protocol forbids.
    BreaksProtocol,
}

/// How often peers do something, in per cent unless stated otherwise.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Behaviour {
    /// Runs that do something before they end.
    busy_runs: u64,
    /// Workers that offer a soft cancel.
    soft_cancel: u64,
    /// Runs that are slow in a seed whose runs are quick: tasks that were prefetched behind them have to wait.
    slow_runs: u64,
    /// Workers that do not end on TERM.
    pub(crate) ignores_term: u64,
    /// Runs that end because their worker leaves by itself, per thousand.
    leaves: u64,
    /// Workers that are killed while they are idle.
    pub(crate) idle_deaths: u64,
    /// The maximum time that a process needs once it is to end, in microseconds.
    pub(crate) slow_end_us: u64,
    /// Runs in which the worker breaks the protocol, per thousand.
    protocol_faults: u64,
    /// Runs that make requests of their own.
    pub(crate) nested_requests: u64,
    /// Runs whose code leaves more memory behind.
    pub(crate) growth: u64,
    /// The number of hostile clients that are connected at once.
    pub(crate) hostile_clients: usize,
}

impl Behaviour {
    pub(crate) fn draw(seed: u64) -> Self {
        let mut dice = Dice::of(seed, "lively");
        Self {
            nested_requests: *Dice::of(seed, "nests").one_of(&[0, 0, 0, 5, 40]),
            busy_runs: *dice.one_of(&[0, 0, 10, 60]),
            soft_cancel: *dice.one_of(&[0, 50, 100]),
            slow_runs: *Dice::of(seed, "slow runs").one_of(&[0, 0, 3, 12]),
            ignores_term: *dice.one_of(&[0, 50, 100]),
            protocol_faults: *dice.one_of(&[0, 0, 0, 3, 20]),
            hostile_clients: *dice.one_of(&[0, 0, 0, 1, 3]),
            growth: *Dice::of(seed, "grows").one_of(&[0, 0, 0, 0, 0, 2, 10]),
            leaves: *dice.one_of(&[0, 0, 0, 1, 5, 5, 600]),
            idle_deaths: *dice.one_of(&[0, 0, 0, 40]),
            slow_end_us: *dice.one_of(&[5_000, 5_000, 5_000, 4_000_000]),
        }
    }

    /// Adapts the values to the focus of the seed.
    pub(crate) fn in_focus(self, focus: Focus) -> Self {
        match focus {
            Focus::NestedCalls => Self {
                nested_requests: 50,
                leaves: 0,
                protocol_faults: 0,
                idle_deaths: 0,
                growth: 0,
                ..self
            },
            // The store has time to write what runs and what waits behind it.
            Focus::Prefetch => Self {
                slow_runs: self.slow_runs.max(4),
                ..self
            },
            Focus::Connections => Self {
                nested_requests: 0,
                hostile_clients: 0,
                ..self
            },
            Focus::Cancels => Self {
                soft_cancel: 100,
                ..self
            },
            Focus::Delivery => Self {
                idle_deaths: 60,
                leaves: if self.leaves > 0 { 600 } else { 0 },
                ..self
            },
            _ => self,
        }
    }

    /// Whether workers may leave, die or break the protocol, or task code may do something unusual.
    pub(crate) fn has_unusual_acts(&self) -> bool {
        self.nested_requests > 0
            || self.leaves > 0
            || self.protocol_faults > 0
            || self.busy_runs > 0
            || self.idle_deaths > 0
            || self.growth > 0
    }

    /// Whether some workers may not stay until the end.
    pub(crate) fn may_leave(&self) -> bool {
        self.leaves > 0 || self.protocol_faults > 0 || self.idle_deaths > 0 || self.growth > 0
    }

    /// Whether a worker leaves by itself now.
    pub(crate) fn leaves(&self, dice: &mut Dice) -> bool {
        dice.below(1_000) < self.leaves
    }

    pub(crate) fn draw_soft_cancel(&self, dice: &mut Dice) -> bool {
        dice.percent(self.soft_cancel)
    }

    /// Draws what a run does: its acts, each with the delay before it. The last one ends the run.
    pub(crate) fn acts(
        &self,
        dice: &mut Dice,
        setup: &Setup,
        is_job: bool,
    ) -> VecDeque<(Duration, Act)> {
        let (end, time) = self.draw_end(dice, setup, is_job);
        let mut acts = VecDeque::new();
        if dice.percent(30) {
            acts.push_back((Duration::ZERO, Act::Writes));
        }
        if dice.percent(self.busy_runs) {
            for _ in 0..dice.within(1, 4) {
                acts.push_back((time / 8, act(dice, is_job)));
            }
        }
        acts.push_back((time / 2, end));
        acts
    }

    /// Draws how a run ends, and how long it takes.
    fn draw_end(&self, dice: &mut Dice, setup: &Setup, is_job: bool) -> (Act, Duration) {
        let trouble = setup.trouble;
        let bad = trouble.error + trouble.retry + trouble.crash + trouble.hang;
        let of_job = |event| Act::Does(if is_job { event } else { "throws" });
        let end = dice.weighted(&[
            (
                (10 * (100 - bad)).saturating_sub(self.leaves + self.protocol_faults),
                Act::Does("returns"),
            ),
            (9 * trouble.error, Act::Does("throws")),
            (trouble.error, of_job("fails")),
            (10 * trouble.retry, Act::Retries(None)),
            (5 * trouble.crash, Act::Dies),
            (5 * trouble.crash, Act::Does("exits")),
            (10 * trouble.hang, Act::Hangs),
            (self.leaves, Act::Does("returned")),
            (self.protocol_faults, Act::BreaksProtocol),
        ]);
        let end = match (end, is_job) {
            (Act::Retries(_), true) => Act::Retries(retry_delay(dice)),
            (Act::Retries(_), false) => Act::Does("throws"),
            (end, _) => end,
        };
        let time = match dice.percent(self.slow_runs) && !setup.never_prefetches() {
            true => dice.millis(5, 1_500),
            false => dice.micros(0, 2 * setup.max_run_us),
        };
        (end, time)
    }
}

/// The delay before the job's next run, if the job's code sets one.
fn retry_delay(dice: &mut Dice) -> Option<Duration> {
    dice.percent(50)
        .then(|| Duration::from_millis(dice.below(3_000)))
}

/// Draws an act before the end of a run.
fn act(dice: &mut Dice, is_job: bool) -> Act {
    let of_job = |event| Act::Does(if is_job { event } else { "log" });
    dice.weighted(&[
        (4, Act::Does("prints a line")),
        (3, Act::Does("prints half a line")),
        (2, Act::Does("log")),
        (3, Act::Writes),
        (2, Act::Does("progress")),
        (2, of_job("checkpoint")),
        (2, of_job("ack")),
        (1, Act::Does("rest")),
        (1, Act::Does("stop")),
    ])
}
