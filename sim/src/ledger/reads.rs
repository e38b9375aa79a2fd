//! Operators' reads of jobs: every answer must agree with its own filter. Once everything has come to rest, it must also
//! agree with the list of all jobs, which was compared with the model before.

use super::{Ledger, Verb};
use crate::dice::Dice;
use crate::push::TYPES;
use crate::setup::Setup;
use serde_json::{Map, Value};
use std::collections::{BTreeMap, BTreeSet};

/// The number of reads at the end of a seed.
const READS_AT_REST: usize = 5;
/// The states of jobs that have ended.
const ENDED: [&str; 3] = ["done", "failed", "cancelled"];

/// What is read of the jobs that a filter selects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Op {
    List,
    Export,
    Groups,
    /// Their number, or only of those that a change could reach.
    Count(Option<Verb>),
}

/// A read of jobs, which may take several pages.
#[derive(Clone, Debug)]
pub(crate) struct Read {
    op: Op,
    /// The fields of the filter in the request.
    filter: Map<String, Value>,
    is_newest_first: bool,
    limit: u64,
    /// The jobs on the pages so far.
    found: Vec<Value>,
}

impl Read {
    /// Draws a read. `listed` are jobs whose errors a filter may name.
    pub(crate) fn draw(dice: &mut Dice, setup: &Setup, listed: &[&Value]) -> Self {
        let verbs = [
            Verb::Cancel,
            Verb::Retry(None),
            Verb::Discard,
            Verb::Suspend,
            Verb::Release,
        ];
        let filter = filter(dice, setup, listed);
        let lists = filter.get("state").is_some_and(|state| state == "running");
        let op = match dice.below(8) {
            _ if lists => Op::List,
            0..3 => Op::List,
            3 | 4 => Op::Export,
            5 => Op::Groups,
            6 => Op::Count(None),
            _ => Op::Count(Some(*dice.one_of(&verbs))),
        };
        Self {
            op,
            filter,
            is_newest_first: op == Op::List && dice.percent(50),
            limit: *dice.one_of(&[1, 3, 10, 100, 1_000]),
            found: Vec::new(),
        }
    }

    /// The request for the page that begins after a job.
    pub(crate) fn request(&self, after: Option<&str>) -> Value {
        let mut request = self.filter.clone();
        let mut put = |field: &str, value: Value| request.insert(field.to_owned(), value);
        put("op", self.op.name().into());
        match self.op {
            Op::Count(None) => {}
            Op::Count(Some(verb)) => _ = put("for", verb.op().into()),
            Op::Groups => _ = put("limit", self.limit.into()),
            Op::List | Op::Export => {
                put("limit", self.limit.into());
                put("after", after.into());
            }
        }
        if self.is_newest_first {
            put("newest", true.into());
        }
        request.into()
    }

    /// Checks a page against the request alone, and adds it. Returns the job after which the next page begins.
    fn add_page(&mut self, page: &Value) -> Option<String> {
        let jobs = page["jobs"].as_array().into_iter().flatten();
        let jobs: Vec<Value> = jobs.cloned().collect();
        assert!(jobs.len() as u64 <= self.limit, "{self:?}: {page}");
        for job in &jobs {
            let is_selected = self.op != Op::List || selects(&self.filter, job);
            assert!(
                is_selected,
                "a list has a job that its filter excludes: {job}, {:?}",
                self.filter
            );
        }
        self.found.extend(jobs);
        let ids: Vec<&str> = self.found.iter().map(id).collect();
        let is_in_order = match self.is_newest_first {
            true => ids.is_sorted_by(|a, b| a > b),
            false => ids.is_sorted_by(|a, b| a < b),
        };
        assert!(is_in_order, "a list of jobs is not in order; left: {ids:?}");
        let next = page["next"].as_str();
        // Running jobs are left out of a page of ready ones.
        let may_differ = self.filter.contains_key("states")
            || self
                .filter
                .get("state")
                .is_some_and(|state| state == "ready");
        assert!(
            next.is_none_or(|next| Some(&next) == ids.last() || may_differ),
            "the next page does not begin after the last job of this one: {page}"
        );
        next.map(str::to_owned)
    }
}

impl Op {
    fn name(self) -> &'static str {
        match self {
            Self::List => "list",
            Self::Export => "export",
            Self::Groups => "groups",
            Self::Count(_) => "count",
        }
    }
}

fn filter(dice: &mut Dice, setup: &Setup, listed: &[&Value]) -> Map<String, Value> {
    let is_at_rest = !listed.is_empty();
    let mut filter = Map::new();
    let mut put = |field: &str, value: Value| filter.insert(field.to_owned(), value);
    if dice.percent(60) {
        let declared = setup.declared_queues().count() as u64;
        put(
            "queue",
            setup.queues[dice.below(declared) as usize]
                .name
                .as_str()
                .into(),
        );
    }
    if dice.percent(25) {
        put("type", (*dice.one_of(&TYPES)).into());
    }
    if dice.percent(20) {
        put("key", format!("k{}", dice.within(1, 4)).into());
    }
    match dice.below(4) {
        0 if is_at_rest || dice.percent(40) => _ = put("state", (*dice.one_of(&ENDED)).into()),
        0 => {
            _ = put(
                "state",
                (*dice.one_of(&["running", "running", "ready"])).into(),
            )
        }
        1 => {
            let states = ENDED.into_iter().filter(|_| dice.percent(60));
            let states: Vec<&str> = states.chain(["ready", "retrying"]).collect();
            put("states", states.into());
        }
        _ => {}
    }
    let errors: Vec<&&Value> = listed
        .iter()
        .filter(|job| job["error"].is_object())
        .collect();
    if !errors.is_empty() && dice.percent(30) {
        let error = &dice.one_of(&errors)["error"];
        match dice.percent(50) {
            true => put("error", error["class"].clone()),
            false => put("fingerprint", error["fingerprint"].clone()),
        };
    }
    filter
}

/// Whether a filter selects a job, judged by how the job is listed.
fn selects(filter: &Map<String, Value>, job: &Value) -> bool {
    filter.iter().all(|(field, wanted)| match field.as_str() {
        "error" => job["error"]["class"] == *wanted,
        "fingerprint" => job["error"]["fingerprint"] == *wanted,
        "states" => wanted
            .as_array()
            .is_some_and(|states| states.contains(&job["state"])),
        _ => job[field] == *wanted,
    })
}

fn id(job: &Value) -> &str {
    job["id"].as_str().unwrap_or_default()
}

impl Ledger {
    /// Draws the reads at rest. Returns their indices.
    pub(crate) fn plan_reads(&mut self, dice: &mut Dice, setup: &Setup) -> std::ops::Range<usize> {
        let listed: Vec<&Value> = self.listed.values().collect();
        let drawn = (0..READS_AT_REST).map(|_| Read::draw(dice, setup, &listed));
        let drawn: Vec<Read> = drawn.collect();
        let first = self.reads.len();
        self.reads.extend(drawn);
        first..self.reads.len()
    }

    /// The next page of a read that has more of them.
    pub(crate) fn take_next_read(&mut self) -> Option<(usize, String)> {
        self.next_reads.pop()
    }

    /// A read was answered while jobs run.
    pub(crate) fn read_jobs(&mut self, at: usize, answer: &Value) {
        self.reads[at].add_page(answer);
    }

    /// A read was answered at rest.
    pub(crate) fn read_at_rest(&mut self, at: usize, answer: &Value, setup: &Setup) {
        match self.reads[at].op {
            Op::Count(_) | Op::Groups => {}
            Op::List | Op::Export => {
                if let Some(next) = self.reads[at].add_page(answer) {
                    return self.next_reads.push((at, next));
                }
            }
        }
        self.compare_read(&self.reads[at], answer, setup);
    }

    /// Compares a finished read with the list of all jobs.
    fn compare_read(&self, read: &Read, answer: &Value, setup: &Setup) {
        let selected = self
            .listed
            .values()
            .filter(|job| selects(&read.filter, job));
        match read.op {
            Op::List => {
                self.compare_jobs(read, selected.collect(), |job, found| job == found, setup)
            }
            Op::Export => self.compare_jobs(read, selected.collect(), is_exported_as, setup),
            Op::Groups => self.compare_groups(read, &selected.collect::<Vec<_>>(), answer, setup),
            Op::Count(verb) => {
                let could_reach = |job: &&Value| {
                    let state = job["state"].as_str().unwrap_or_default();
                    verb.is_none_or(|verb| verb.applies_to(state))
                };
                let counted: Vec<&Value> = selected.filter(could_reach).collect();
                let least = counted
                    .iter()
                    .filter(|job| !self.may_vanish(job, setup))
                    .count();
                let count = answer["count"].as_u64().unwrap_or(u64::MAX) as usize;
                assert!(
                    (least..=counted.len()).contains(&count),
                    "{count} jobs are counted instead of {least} to {}: {:?}, for {verb:?}",
                    counted.len(),
                    read.filter
                );
            }
        }
    }

    fn compare_jobs(
        &self,
        read: &Read,
        selected: Vec<&Value>,
        is_same: fn(&Value, &Value) -> bool,
        setup: &Setup,
    ) {
        let found: BTreeMap<&str, &Value> = read.found.iter().map(|job| (id(job), job)).collect();
        for job in &selected {
            match found.get(id(job)) {
                Some(found) => assert!(
                    is_same(job, found),
                    "a job is reported differently with a filter: {found} instead of {job}"
                ),
                None => assert!(
                    self.may_vanish(job, setup),
                    "a filter misses a job: {:?}, {job}",
                    read.filter
                ),
            }
        }
        let selected: BTreeSet<&str> = selected.into_iter().map(id).collect();
        let more = found.keys().find(|id| !selected.contains(*id));
        assert_eq!(
            more, None,
            "a filter selects a job that it excludes: {:?}",
            read.filter
        );
    }

    fn compare_groups(&self, read: &Read, selected: &[&Value], answer: &Value, setup: &Setup) {
        let failed = selected.iter().filter(|job| job["state"] == "failed");
        let mut counts: BTreeMap<&str, (u64, u64)> = BTreeMap::new();
        for job in failed {
            let fingerprint = job["error"]["fingerprint"].as_str().unwrap_or_default();
            let (least, most) = counts.entry(fingerprint).or_default();
            *least += u64::from(!self.may_vanish(job, setup));
            *most += 1;
        }
        let groups = answer["groups"].as_array().expect("groups");
        let is_cut = groups.len() as u64 == read.limit;
        for group in groups {
            let fingerprint = group["fingerprint"].as_str().unwrap_or_default();
            let count = group["count"].as_u64().unwrap_or(0);
            let (least, most) = counts.remove(fingerprint).unwrap_or_default();
            assert!(
                (least..=most).contains(&count),
                "a group has {count} jobs instead of {least} to {most}: {group}"
            );
            let example = self.listed.get(group["job"].as_str().unwrap_or_default());
            let is_of_group = |job: &Value| job["error"]["fingerprint"] == group["fingerprint"];
            assert!(
                example.is_none_or(is_of_group),
                "the latest job of a group does not belong to it: {group}"
            );
        }
        let missing = counts.values().any(|(least, _)| *least > 0);
        assert!(
            is_cut || !missing,
            "groups are missing: {counts:?}, {:?}",
            read.filter
        );
    }

    /// Whether a listed job may be deleted at any time.
    fn may_vanish(&self, job: &Value, setup: &Setup) -> bool {
        let no = self.by_id.get(id(job));
        no.is_none_or(|no| self.may_be_missing(&self.jobs[*no as usize], setup))
    }
}

/// Whether an exported job is the same as a listed one.
fn is_exported_as(job: &Value, exported: &Value) -> bool {
    let is_same = |field: &str| exported[field] == job[field];
    let fields = [
        "id", "queue", "state", "priority", "attempt", "crashes", "key",
    ];
    fields.into_iter().all(is_same) && exported["options"]["type"] == job["type"]
}
