//! Counts what the seeds have drawn: each event of a job, in each state, with each option; each key of the
//! configuration; and each operation. A combination that is never drawn is not tested.

use crate::ledger::{End, Job, State};
use crate::push::Options;
use crate::setup::{Queue, Setup};
use std::collections::BTreeMap;

const EVENTS: [&str; 16] = [
    "push answered",
    "push unknown",
    "delivered",
    "returned",
    "begins",
    "answered done",
    "answered error",
    "answered retry",
    "answered failed",
    "acknowledged",
    "dropped",
    "protocol broken",
    "crashed",
    "timed out",
    "was cut off",
    "changed",
];
const STATES: [&str; 7] = [
    "waits",
    "suspended",
    "assigned",
    "runs",
    "done",
    "failed",
    "cancelled",
];
const FEATURES: [&str; 24] = [
    "nothing",
    "priority",
    "key",
    "delay",
    "due_at",
    "tries",
    "backoff",
    "retry_until",
    "max_exceptions",
    "timeout",
    "fail_on_timeout",
    "unique",
    "unique_until_start",
    "unique_for",
    "idempotency",
    "type",
    "keep_result",
    "cost",
    "queue.ordered",
    "queue.ack",
    "queue.limit",
    "queue.per_key",
    "queue.keep_done",
    "queue.strict",
];

type Table = [[[u32; FEATURES.len()]; STATES.len()]; EVENTS.len()];

#[derive(Debug)]
pub(crate) struct Coverage {
    table: Box<Table>,
    /// How often each key of the configuration and each operation with each of its fields was drawn, and how often each
    /// fate of a connection to another machine came about.
    pub(crate) draws: BTreeMap<String, u64>,
}

impl Default for Coverage {
    fn default() -> Self {
        let table = [[[0; FEATURES.len()]; STATES.len()]; EVENTS.len()];
        Self {
            table: Box::new(table),
            draws: BTreeMap::new(),
        }
    }
}

impl Coverage {
    /// Counts an event of a job, and panics if it is impossible in the job's state. Events that are not in the table,
    /// such as those between two servers, are ignored.
    pub(crate) fn count_event(&mut self, event: &str, job: &Job) {
        let Some(event) = EVENTS.iter().position(|known| *known == event) else {
            return;
        };
        let state = state_of(job);
        if let Some(why) = impossible(EVENTS[event], STATES[state]) {
            let (event, state) = (EVENTS[event], STATES[state]);
            panic!("{event}, of a job that is {state}: {why}");
        }
        let row = &mut self.table[event][state];
        let mut rest = job.features;
        while rest > 0 {
            row[rest.trailing_zeros() as usize] += 1;
            rest &= rest - 1;
        }
    }

    /// Counts the keys of a configuration.
    pub(crate) fn count_keys(&mut self, setup: &Setup) {
        let sections = setup.sections();
        for (section, key) in
            sections.flat_map(|section| section.keys.iter().map(move |(key, _)| (section, key)))
        {
            let kind = section.head.split('.').next().unwrap_or_default();
            *self.draws.entry(format!("{kind}.{key}")).or_default() += 1;
        }
    }

    /// Counts an operator's request and its fields.
    pub(crate) fn count_request(&mut self, method: &str, request: &serde_json::Value) {
        let op = request["op"].as_str().unwrap_or_default();
        for field in request
            .as_object()
            .into_iter()
            .flatten()
            .map(|(field, _)| field)
        {
            *self
                .draws
                .entry(format!("{method} {op} {field}"))
                .or_default() += 1;
        }
    }

    pub(crate) fn add(&mut self, other: &Self) {
        let cells = self.table.as_flattened_mut().as_flattened_mut().iter_mut();
        for (cell, more) in cells.zip(other.table.as_flattened().as_flattened()) {
            *cell += more;
        }
        for (name, count) in &other.draws {
            *self.draws.entry(name.clone()).or_default() += count;
        }
    }

    /// Prints a line for each event and state, with the options that never occurred there. Returns whether something
    /// is missing: a row that is empty, or an option in a row of at least `MIN_JOBS_PER_ROW` jobs.
    pub(crate) fn print(&self) -> bool {
        let mut has_holes = false;
        println!("event, state: count; options that never occurred there");
        for (event, states) in EVENTS.iter().zip(self.table.iter()) {
            for (state, cells) in STATES.iter().zip(states) {
                let all: u64 = cells.iter().map(|cell| u64::from(*cell)).sum();
                if let Some(why) = impossible(event, state) {
                    println!("  {event}, {state}: impossible: {why}");
                    continue;
                }
                let zero = FEATURES.iter().zip(cells).filter(|(_, cell)| **cell == 0);
                let zero: Vec<&str> = zero.map(|(feature, _)| *feature).collect();
                println!("  {event}, {state}: {all}; {}", zero.join(" "));
                let is_hole = |feature: &&str| !is_impossible(event, state, feature);
                let is_rare = RARE.contains(&(event, state));
                has_holes |=
                    all == 0 && !is_rare || all >= MIN_JOBS_PER_ROW && zero.iter().any(is_hole);
            }
        }
        for (event, state, feature, why) in IMPOSSIBLE {
            println!("  {event}, {state}, {feature}: impossible: {why}");
        }
        for (name, count) in &self.draws {
            println!("  {name}: {count}");
        }
        let missing = LINK_FATES
            .iter()
            .filter(|fate| !self.draws.contains_key(**fate));
        for fate in missing {
            println!("  {fate}: never");
            has_holes = true;
        }
        has_holes
    }
}

/// What may happen to the connection of a worker on another machine.
pub(crate) const LINK_FATES: [&str; 7] = [
    "link: connection lost",
    "link: session resumed",
    "link: session expired",
    "link: worker killed while it had no connection",
    "link: idle worker lost",
    "link: worker lost",
    "link: late answers",
];

/// Rows that may be empty even in 5,000 seeds.
const RARE: [(&str, &str); 4] = [
    ("push answered", "cancelled"),
    ("delivered", "done"),
    ("returned", "failed"),
    // A cancel is answered as soon as the worker that has the job announces that it leaves. The model counts the return
    // when the worker's process ends.
    ("returned", "cancelled"),
];

/// A row with at least this many jobs should have some with each option.
const MIN_JOBS_PER_ROW: u64 = 50_000;

/// Options that a job can't have when this event happens in this state, with the reason.
const IMPOSSIBLE: [(&str, &str, &str, &str); 1] = [(
    "push answered",
    "runs",
    "queue.ack",
    "the job counts as done as soon as it begins",
)];

fn is_impossible(event: &str, state: &str, feature: &str) -> bool {
    let mut all = IMPOSSIBLE.iter();
    all.any(|(name, at, has, _)| (*name, *at, *has) == (event, state, feature))
}

/// Why this event can't happen to a job in this state; `None` if it can.
fn impossible(event: &str, state: &str) -> Option<&'static str> {
    let is_of_run = matches!(
        event,
        "answered done"
            | "answered error"
            | "answered retry"
            | "answered failed"
            | "acknowledged"
            | "crashed"
            | "timed out"
            | "was cut off"
    );
    match (event, state) {
        ("begins", "assigned") => None,
        ("begins", _) => Some("only an assigned job begins"),
        // An import whose client no longer waits may bring suspended jobs.
        ("push unknown", "suspended") => None,
        // A worker has learned the job's id before its client has read the answer, and a cancel has named it.
        ("push unknown", "cancelled") => None,
        ("delivered", "runs") => Some("a job has one run at a time"),
        ("dropped" | "protocol broken", "assigned") => None,
        ("dropped", _) => Some("only an assigned job is dropped"),
        ("protocol broken", _) => {
            Some("a running job is cut off when its worker breaks the protocol")
        }
        ("returned", "suspended") => Some("an assigned job can't be suspended"),
        (_, "waits" | "assigned") if is_of_run => {
            Some("only a running job ends or is acknowledged")
        }
        (_, "suspended") if is_of_run => Some("a running job can't be suspended"),
        (_, "failed") if is_of_run => Some("a failed job does not run"),
        (_, "cancelled") if is_of_run => Some("a cancel is answered once the run has ended"),
        _ => None,
    }
}

fn state_of(job: &Job) -> usize {
    match job.state {
        State::Waits => 0,
        State::Suspended => 1,
        State::Assigned => 2,
        State::Runs => 3,
        State::Ended(End::Done) => 4,
        State::Ended(End::Failed) => 5,
        State::Ended(End::Cancelled) => 6,
    }
}

/// The options of a push and its queue that differ from the default, one bit each; the lowest bit is set if none
/// does.
pub(crate) fn features(options: &Options, queue: &Queue) -> u64 {
    let unique = options.unique.as_ref();
    let has = [
        options.priority != 3,
        options.key.is_some(),
        options.delay.is_some(),
        options.due_at.is_some(),
        options.tries.is_some(),
        !options.backoff_ms.is_empty(),
        options.retry_until.is_some(),
        options.max_exceptions.is_some(),
        options.timeout_ms.is_some(),
        options.fail_on_timeout,
        unique.is_some(),
        unique.is_some_and(|unique| unique.until_start),
        unique.is_some_and(|unique| unique.for_ms.is_some()),
        options.idempotency.is_some(),
        options.kind.is_some(),
        options.keep_result_ms.is_some(),
        options.cost.is_some(),
        queue.ordered,
        queue.on_delivery.known() == Some(true),
        queue.section.get("limit").is_some(),
        queue.section.get("per_key").is_some(),
        queue.section.get("keep_done").is_some(),
        queue.is_strict.known() == Some(true),
    ];
    let bits = has.iter().enumerate();
    let bits = bits.fold(0, |bits, (at, has)| bits | u64::from(*has) << (at + 1));
    if bits == 0 { 1 } else { bits }
}
