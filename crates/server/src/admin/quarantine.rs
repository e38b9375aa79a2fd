//! The quarantine: tasks that killed workers are kept with their bodies and the last output of the worker, so
//! that a developer can replay them. Calls that killed workers are rejected when they are made again.

use super::{Answered, Caller, Handle, Rejected};
use crate::clock::{rfc3339, wall_ms};
use crate::counted;
use crate::observe::events;
use crate::plane::Plane;
use crate::sources::Origin;
use crate::sources::end::{CrashedProcess, exit_text};
use std::collections::{HashMap, VecDeque};
use std::hash::{DefaultHasher, Hash, Hasher};
use stoker_api::quarantine::{self, Kind};
use stoker_core::{Facts, Kind as CoreKind, Outcome, PoolId, QueueId, Span, TaskId, Time};

/// The maximum number of entries; the oldest are dropped.
const MAX_ENTRIES: usize = 1_000;
/// The maximum number of bytes that are kept of a body.
const MAX_BODY_BYTES: usize = stoker_os::limit(64 << 10, 64);
/// The number of deaths by calls with the same name and body after which such a call is rejected.
const REJECTION_THRESHOLD: u32 = 3;
/// How long such a call is rejected at first. Every further death doubles the time, up to a day.
const MIN_REJECTION: Span = Span::from_secs(600);
const MAX_REJECTION: Span = Span::from_secs(86_400);
/// After each such time without a death, half of the recorded deaths are forgotten.
const DEATHS_HALF_LIFE: Span = Span::from_secs(3_600);

struct Entry {
    number: u64,
    kind: Kind,
    name: String,
    task: String,
    crashes: u8,
    exit: String,
    last_words: Option<String>,
    at_ms: u64,
    body: Vec<u8>,
}

/// A call that has killed workers: how often, and until when it is rejected.
struct KillerCall {
    deaths: u32,
    rejected_until: Time,
    /// The time of the last death.
    last: Time,
    service: QueueId,
}

impl KillerCall {
    /// Forgets part of the deaths that are long ago: their cause may no longer exist.
    fn decay(&mut self, now: Time) {
        let halvings = now.since(self.last).0 / DEATHS_HALF_LIFE.0;
        self.deaths >>= halvings.min(31);
    }
}

#[derive(Default)]
pub(crate) struct Quarantine {
    entries: VecDeque<Entry>,
    last_number: u64,
    killer_calls: HashMap<u64, KillerCall>,
}

fn fingerprint(name: &str, body: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    (name, body).hash(&mut hasher);
    hasher.finish()
}

impl Quarantine {
    /// The reason why a call is rejected, if it has killed workers before.
    pub(crate) fn rejects(&self, name: &str, body: &[u8], now: Time) -> Option<String> {
        if self.killer_calls.is_empty() {
            return None;
        }
        let killer = self
            .killer_calls
            .get(&fingerprint(name, body))
            .filter(|killer| now < killer.rejected_until)?;
        let minutes = killer
            .rejected_until
            .since(now)
            .as_millis()
            .div_ceil(60_000);
        Some(format!(
            "calls with this name and payload killed {}; they are rejected for {minutes} min",
            counted(killer.deaths, "worker")
        ))
    }

    fn record_death(&mut self, service: QueueId, name: &str, body: &[u8], deaths: u32, now: Time) {
        if self.killer_calls.len() >= MAX_ENTRIES {
            self.killer_calls
                .retain(|_, killer| now < killer.rejected_until);
        }
        if self.killer_calls.len() >= MAX_ENTRIES {
            let longest_ago = self
                .killer_calls
                .iter()
                .min_by_key(|(_, killer)| killer.last);
            let longest_ago = longest_ago.map(|(call, _)| *call);
            longest_ago.and_then(|call| self.killer_calls.remove(&call));
        }
        let killer = self.killer_calls.entry(fingerprint(name, body));
        let killer = killer.or_insert(KillerCall {
            deaths: 0,
            rejected_until: Time::ZERO,
            last: now,
            service,
        });
        killer.decay(now);
        killer.last = now;
        killer.deaths += deaths;
        if killer.deaths >= REJECTION_THRESHOLD {
            let doubled = MIN_REJECTION.0 << (killer.deaths - REJECTION_THRESHOLD).min(20);
            killer.rejected_until = now + Span(doubled.min(MAX_REJECTION.0));
        }
    }

    /// A call succeeded. Its earlier deaths are forgotten, because the call itself did not cause them.
    pub(crate) fn record_success(&mut self, name: &str, body: &[u8]) {
        if !self.killer_calls.is_empty() {
            self.killer_calls.remove(&fingerprint(name, body));
        }
    }

    /// Accepts calls of these services again, and returns how many calls had deaths on record.
    pub(crate) fn clear(&mut self, which: impl Fn(QueueId) -> bool) -> usize {
        let before = self.killer_calls.len();
        self.killer_calls.retain(|_, killer| !which(killer.service));
        before - self.killer_calls.len()
    }

    fn list(&self) -> quarantine::Quarantine {
        let quarantine = self.entries.iter().map(Entry::shown).collect();
        quarantine::Quarantine { quarantine }
    }

    fn show(&self, id: &str) -> Option<quarantine::EntryWithBody> {
        let is_match = |entry: &&Entry| entry.number.to_string() == id || entry.task == id;
        let entry = self.entries.iter().find(is_match)?;
        Some(quarantine::EntryWithBody {
            body: String::from_utf8_lossy(&entry.body).into_owned(),
            entry: entry.shown(),
        })
    }
}

impl Entry {
    fn shown(&self) -> quarantine::Entry {
        quarantine::Entry {
            id: self.number.to_string(),
            kind: self.kind,
            name: self.name.clone(),
            task: self.task.clone(),
            crashes: self.crashes,
            exit: self.exit.clone(),
            last_words: self.last_words.clone(),
            at: rfc3339(self.at_ms),
            body_bytes: self.body.len(),
        }
    }
}

impl Handle for quarantine::List {
    fn handle(self, plane: &mut Plane, _: Caller) -> Answered<quarantine::Quarantine> {
        Ok(Some(plane.admin.quarantine.list()))
    }
}

impl Handle for quarantine::Show {
    fn handle(self, plane: &mut Plane, _: Caller) -> Answered<quarantine::EntryWithBody> {
        let id = &self.id.0;
        let found = plane.admin.quarantine.show(id);
        let missing =
            || Rejected::not_found(format!("there is no quarantine entry with the id {id:?}"));
        found.map(Some).ok_or_else(missing)
    }
}

impl Handle for quarantine::Clear {
    fn handle(self, plane: &mut Plane, _: Caller) -> Answered<quarantine::Cleared> {
        let core = &plane.core;
        let service =
            match &self.service {
                None => None,
                Some(name) => Some(core.find_queue(CoreKind::Calls, &name.0).ok_or_else(|| {
                    Rejected::not_found(format!("there is no service '{}'", name.0))
                })?),
            };
        let count = plane
            .admin
            .quarantine
            .clear(|other| service.is_none_or(|service| other == service));
        Ok(Some(quarantine::Cleared { count }))
    }
}

impl Plane {
    /// Records a task that ended because a worker died: counts the deaths of calls, and keeps quarantined tasks.
    pub(crate) fn record_killer(
        &mut self,
        task: TaskId,
        outcome: Outcome,
        facts: Facts,
        crashed_process: CrashedProcess,
    ) {
        let (Outcome::Quarantined { exit, .. } | Outcome::WorkerDied(exit)) = outcome else {
            return;
        };
        let payload = self.payload(task);
        let (kind, body) = match payload.origin {
            Origin::Job(_) => {
                let loaded = self.jobs.loaded.get(task);
                (
                    Kind::Job,
                    loaded.map(|loaded| loaded.job.body()).unwrap_or_default(),
                )
            }
            _ => (Kind::Call, payload.body()),
        };
        let name = self.core.name(payload.name).to_owned();
        let body = body[..body.len().min(MAX_BODY_BYTES)].to_vec();
        if kind == Kind::Call {
            let deaths = u32::from(facts.crashes);
            let whole = payload.body().to_vec();
            let service = self.core.queue_of_name(payload.name);
            let now = self.now;
            self.admin
                .quarantine
                .record_death(service, &name, &whole, deaths, now);
        }
        if !matches!(outcome, Outcome::Quarantined { .. }) {
            return;
        }
        let last_words = facts
            .worker
            .and_then(|worker| self.worker_handle(worker)?.death_reason());
        let what = if kind == Kind::Job { "job" } else { "call" };
        let text = format!(
            "{what} {name} ({}) is quarantined: {}",
            self.task_label(task),
            crashed_process.quarantine_text(facts.crashes)
        );
        let entry = events::QUARANTINED
            .message(text)
            .with("queue", name.as_str());
        let label = self.task_label(task);
        let entry = entry.with("task", label).with("crashes", facts.crashes);
        self.log.put(entry);
        self.admin.quarantine.last_number += 1;
        let entry = Entry {
            number: self.admin.quarantine.last_number,
            kind,
            task: self.task_label(task),
            name,
            crashes: facts.crashes,
            exit: exit_text(exit),
            last_words,
            at_ms: wall_ms(),
            body,
        };
        if self.admin.quarantine.entries.len() >= MAX_ENTRIES {
            self.admin.quarantine.entries.pop_front();
        }
        self.admin.quarantine.entries.push_back(entry);
    }

    /// A pool runs a new version, which may fix the cause of the deaths: the calls that it serves are accepted
    /// again.
    pub(crate) fn clear_calls_of(&mut self, pool: PoolId) {
        let core = &self.core;
        let serves = |queue: QueueId| core.queue(queue).pools.contains(&pool);
        self.admin.quarantine.clear(serves);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_that_killed_workers_is_rejected_and_later_for_twice_as_long() {
        let mut quarantine = Quarantine::default();
        let at = |secs| Time::ZERO + Span::from_secs(secs);
        let rejects = |quarantine: &Quarantine, body: &[u8], secs| {
            quarantine.rejects("t.run", body, at(secs)).is_some()
        };
        let service = QueueId(0);
        quarantine.record_death(service, "t.run", b"deadly", REJECTION_THRESHOLD - 1, at(0));
        assert!(!rejects(&quarantine, b"deadly", 1));
        quarantine.record_death(service, "t.run", b"deadly", 1, at(10));
        assert!(rejects(&quarantine, b"deadly", 609));
        assert!(!rejects(&quarantine, b"other", 609));
        assert!(!rejects(&quarantine, b"deadly", 610));
        quarantine.record_death(service, "t.run", b"deadly", 1, at(1_000));
        assert!(rejects(&quarantine, b"deadly", 2_199));
        assert!(!rejects(&quarantine, b"deadly", 2_200));
    }

    #[test]
    fn deaths_long_ago_do_not_count() {
        let mut quarantine = Quarantine::default();
        for hours in (0..30).step_by(6) {
            let at = Time::ZERO + Span::from_secs(hours * 3_600);
            quarantine.record_death(QueueId(0), "t.run", b"slow", 1, at);
            assert!(quarantine.rejects("t.run", b"slow", at).is_none());
        }
    }
}
