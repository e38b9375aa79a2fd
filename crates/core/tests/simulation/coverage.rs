//! Counts how many times each kind of event met a worker in each state. A combination that never
//! occurred has not been tested.

use std::fmt;
use stoker_core::Event;

pub const STATES: [&str; 7] = [
    "starting", "idle", "busy", "draining", "stopping", "killed", "gone",
];
const EVENTS: [&str; 26] = [
    "arrived",
    "backlog",
    "refilled",
    "refilled keys",
    "cancel",
    "cancel kill",
    "hello",
    "joined",
    "started",
    "answered",
    "returned",
    "claimed",
    "acknowledged",
    "answer begun",
    "answer continued",
    "ready",
    "left",
    "misbehaved",
    "measured",
    "exited",
    "paused",
    "scale",
    "reload",
    "unconfigured",
    "drain",
    "tick",
];
/// A pair with fewer hits counts as untested.
const MIN_HITS: u64 = 100;

/// Pairs that cannot occur, and why.
const UNREACHABLE: [(&str, &[&str], &str); 12] = [
    (
        "answer begun",
        &["starting", "idle", "stopping", "gone"],
        "a worker in that state has no task",
    ),
    (
        "answer continued",
        &["starting", "idle", "stopping", "gone"],
        "a worker in that state has no task",
    ),
    ("claimed", &["gone"], "not about one worker"),
    (
        "acknowledged",
        &["starting", "idle", "stopping", "gone"],
        "a worker in that state has no task",
    ),
    ("arrived", &["gone"], "not about one worker"),
    ("backlog", &["gone"], "not about one worker"),
    ("refilled", &["gone"], "not about one worker"),
    (
        "refilled keys",
        &STATES,
        "needs more than 4095 tenants: see flood.rs",
    ),
    (
        "cancel",
        &["starting", "idle", "stopping", "gone"],
        "a worker in that state has no task",
    ),
    (
        "cancel kill",
        &["starting", "idle", "stopping", "gone"],
        "a worker in that state has no task",
    ),
    ("joined", &["gone"], "not about one worker"),
    (
        "measured",
        &["starting"],
        "nobody measures a worker that is not ready",
    ),
];
/// Events about a pool, a queue or the whole server. They meet every existing worker, and none that
/// is gone.
const GENERAL_EVENTS: [&str; 6] = ["paused", "scale", "reload", "unconfigured", "drain", "tick"];

#[derive(Default)]
pub struct Coverage {
    met: [[u64; STATES.len()]; EVENTS.len()],
    /// The number of workers whose grace period was cut because work waited for their room.
    pub grace_cut: u64,
}

impl Coverage {
    pub fn hit(&mut self, event: &Event<'_>, state: &str) {
        let event = EVENTS.iter().position(|name| *name == name_of(event));
        let state = STATES.iter().position(|name| *name == state);
        let (event, state) = (event.expect("a known event"), state.expect("a known state"));
        self.met[event][state] += 1;
    }

    pub fn add(&mut self, other: &Self) {
        self.grace_cut += other.grace_cut;
        for (event, row) in other.met.iter().enumerate() {
            for (state, hits) in row.iter().enumerate() {
                self.met[event][state] += hits;
            }
        }
    }

    /// Panics if a pair that can occur was met too rarely, or if one that cannot occur was met.
    pub fn check(&self) {
        let grace_cut = self.grace_cut;
        assert!(
            grace_cut >= MIN_HITS / 4,
            "only {grace_cut} grace periods were cut"
        );
        for (row, event) in self.met.iter().zip(EVENTS) {
            for (hits, state) in row.iter().zip(STATES) {
                match unreachable(event, state) {
                    Some(why) => assert_eq!(*hits, 0, "{event} × {state} is met, though {why}"),
                    None => assert!(*hits >= MIN_HITS, "{event} × {state}: only {hits} hits"),
                }
            }
        }
    }
}

fn unreachable(event: &str, state: &str) -> Option<&'static str> {
    if GENERAL_EVENTS.contains(&event) && state == "gone" {
        return Some("not about one worker");
    }
    let row = UNREACHABLE
        .iter()
        .find(|(of, states, _)| *of == event && states.contains(&state));
    row.map(|(_, _, why)| *why)
}

fn name_of(event: &Event<'_>) -> &'static str {
    match event {
        Event::Arrived(_) => "arrived",
        Event::Backlog { .. } => "backlog",
        Event::Refilled { .. } => "refilled",
        Event::RefilledKeys { .. } => "refilled keys",
        Event::Cancel { kill: false, .. } => "cancel",
        Event::Cancel { kill: true, .. } => "cancel kill",
        Event::Hello { .. } => "hello",
        Event::Joined { .. } => "joined",
        Event::Started { .. } => "started",
        Event::Answered {
            answer: stoker_core::Answer::Returned,
            ..
        } => "returned",
        Event::Answered { .. } => "answered",
        Event::Claimed { .. } => "claimed",
        Event::Acknowledged { .. } => "acknowledged",
        Event::AnswerBegun { .. } => "answer begun",
        Event::AnswerContinued { .. } => "answer continued",
        Event::Blocked { .. } => "blocked",
        Event::Ready { .. } => "ready",
        // These are not simulated yet: events caused by a lack of memory (see `table/memory.rs`).
        Event::ReadingPaused { .. } => "reading paused",
        Event::Deferred { .. } => "deferred",
        Event::Resumed { .. } => "resumed",
        Event::Left { .. } => "left",
        Event::Misbehaved { .. } => "misbehaved",
        Event::Measured { .. } => "measured",
        Event::Exited { .. } => "exited",
        Event::Paused { .. } => "paused",
        Event::Scale { .. } => "scale",
        Event::Reload { .. } => "reload",
        Event::PoolRemoved { .. } => "pool removed",
        Event::Unconfigured { .. } => "unconfigured",
        Event::Drain => "drain",
        Event::Tick => "tick",
    }
}

impl fmt::Display for Coverage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{} grace periods were cut", self.grace_cut)?;
        write!(f, "{:<14}", "")?;
        STATES
            .iter()
            .try_for_each(|state| write!(f, "{state:>10}"))?;
        for (row, event) in self.met.iter().zip(EVENTS) {
            write!(f, "\n{event:<14}")?;
            for (hits, state) in row.iter().zip(STATES) {
                match unreachable(event, state) {
                    Some(_) => write!(f, "{:>10}", "-")?,
                    None => write!(f, "{hits:>10}")?,
                }
            }
        }
        Ok(())
    }
}
