//! What killed workers: kept with its body and the last words of its victim, so that a developer can
//! replay it; and refused when it comes again.

use super::{Answer, Refused, text_of};
use crate::clock::{rfc3339, wall_ms};
use crate::counted;
use crate::plane::Plane;
use crate::sources::Origin;
use crate::sources::rpc::exit_text;
use serde_json::{Value, json};
use std::collections::{HashMap, VecDeque};
use std::hash::{DefaultHasher, Hash, Hasher};
use stoker_core::{Facts, Outcome, Span, TaskId, Time};

/// Entries that are kept; the oldest make room.
const KEPT: usize = 1_000;
/// Of a body, what is kept.
const BODY: usize = 64 << 10;
/// Deaths by calls of the same name and body, after which that call is refused.
const DEATHS: u32 = 3;
/// How long it is refused at first; doubles with every further death, up to a day.
const REFUSED_FOR: Span = Span::from_secs(600);
const REFUSED_FOR_MAX: Span = Span::from_secs(86_400);

struct Entry {
    number: u64,
    kind: &'static str,
    name: String,
    task: String,
    crashes: u8,
    exit: String,
    last_words: Option<String>,
    at_ms: u64,
    body: Vec<u8>,
}

/// A call that has killed: how often, and until when it is refused.
#[derive(Default)]
struct Killer {
    deaths: u32,
    until: Time,
}

#[derive(Default)]
pub(crate) struct Quarantine {
    entries: VecDeque<Entry>,
    numbers: u64,
    killers: HashMap<u64, Killer>,
}

fn fingerprint(name: &str, body: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    (name, body).hash(&mut hasher);
    hasher.finish()
}

impl Quarantine {
    /// Why a call is refused, if it is one that killed before.
    pub(crate) fn refuses(&self, name: &str, body: &[u8], now: Time) -> Option<String> {
        if self.killers.is_empty() {
            return None;
        }
        let killer = self
            .killers
            .get(&fingerprint(name, body))
            .filter(|killer| now < killer.until)?;
        let minutes = killer.until.since(now).as_millis().div_ceil(60_000);
        Some(format!(
            "this very call killed {}; it is refused for {minutes} min",
            counted(killer.deaths, "worker")
        ))
    }

    fn note_death(&mut self, name: &str, body: &[u8], deaths: u32, now: Time) {
        if self.killers.len() >= KEPT {
            self.killers.retain(|_, killer| now < killer.until);
        }
        let killer = self.killers.entry(fingerprint(name, body)).or_default();
        killer.deaths += deaths;
        if killer.deaths >= DEATHS {
            let doubled = REFUSED_FOR.0 << (killer.deaths - DEATHS).min(20);
            killer.until = now + Span(doubled.min(REFUSED_FOR_MAX.0));
        }
    }

    pub(crate) fn list(&self) -> Value {
        let entries: Vec<Value> = self.entries.iter().map(Entry::json).collect();
        json!({"quarantine": entries})
    }
}

impl Entry {
    fn json(&self) -> Value {
        json!({
            "id": self.number.to_string(), "kind": self.kind, "name": self.name, "task": self.task,
            "crashes": self.crashes, "exit": self.exit, "last_words": self.last_words,
            "at": rfc3339(self.at_ms), "body_bytes": self.body.len(),
        })
    }
}

impl Plane {
    /// A task has killed its last worker.
    pub(crate) fn remember_killer(&mut self, task: TaskId, outcome: Outcome, facts: Facts) {
        let (Outcome::Quarantined { exit, .. } | Outcome::WorkerDied(exit)) = outcome else {
            return;
        };
        let load = self.load(task);
        let (kind, body) = match load.origin {
            Origin::Job(_) => {
                let held = self.jobs.held.get(task);
                ("job", held.map(|held| held.job.body()).unwrap_or_default())
            }
            _ => ("call", load.body()),
        };
        let name = self.core.name(load.name).to_owned();
        let body = body[..body.len().min(BODY)].to_vec();
        if kind == "call" {
            let deaths = u32::from(facts.crashes);
            let whole = load.body().to_vec();
            self.quarantine.note_death(&name, &whole, deaths, self.now);
        }
        if !matches!(outcome, Outcome::Quarantined { .. }) {
            return;
        }
        let last_words = facts
            .worker
            .and_then(|worker| self.link(worker)?.why_it_died());
        let text = format!(
            "{kind} {name} ({}) is quarantined: it killed {}",
            self.task_label(task),
            counted(facts.crashes, "worker")
        );
        self.log.error(text);
        self.quarantine.numbers += 1;
        let entry = Entry {
            number: self.quarantine.numbers,
            kind,
            task: self.task_label(task),
            name,
            crashes: facts.crashes,
            exit: exit_text(exit),
            last_words,
            at_ms: wall_ms(),
            body,
        };
        if self.quarantine.entries.len() >= KEPT {
            self.quarantine.entries.pop_front();
        }
        self.quarantine.entries.push_back(entry);
    }

    pub(crate) fn show_quarantined(&mut self, ask: &Value) -> Answer {
        let id = text_of(ask, "id")?;
        let found = self
            .quarantine
            .entries
            .iter()
            .find(|entry| entry.number.to_string() == id || entry.task == id);
        let entry = found
            .ok_or_else(|| Refused::not_found(format!("nothing in quarantine has the id {id}")))?;
        let mut value = entry.json();
        value["body"] = String::from_utf8_lossy(&entry.body).into();
        Ok(Some(value))
    }
}
