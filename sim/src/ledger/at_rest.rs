//! Rules that must hold once everything has come to rest.

use super::{CLASS, End, Job, Ledger, PLACE, Push, State};
use crate::setup::Setup;
use crate::storing::Engine;
use serde_json::Value;
use std::collections::HashMap;

impl Ledger {
    /// Forgets the pages that were listed so far: the list starts from the beginning.
    pub(crate) fn restart_listing(&mut self) {
        self.listed.clear();
        self.next_reads.clear();
    }

    /// Adds one page of the server's list of jobs. Returns the job after which the next page begins.
    pub(crate) fn add_page(&mut self, page: &Value) -> Option<String> {
        for job in page["jobs"].as_array().into_iter().flatten() {
            let id = job["id"].as_str().unwrap_or_default().to_owned();
            let before = self.listed.insert(id, job.clone());
            assert_eq!(before, None, "the list of jobs has a job twice: {job}");
        }
        page["next"].as_str().map(str::to_owned)
    }

    /// Nothing runs any more, and the disk works again: each accepted job must have ended.
    pub(crate) fn at_rest(&self, setup: &Setup) {
        for (no, job) in self.jobs.iter().enumerate() {
            assert_eq!(job.runs_at, None, "job {no} still runs");
            assert_ne!(
                job.push,
                Push::Open,
                "job {no}: its push was never answered"
            );
            if job.push == Push::Accepted
                && job.is_state_known()
                && !self.may_be_lost_at_delivery(job, setup)
            {
                let ended = matches!(job.state, State::Ended(_));
                assert!(ended, "job {no} was accepted, but never ended: {job}");
            }
        }
        self.compare(setup);
    }

    /// Compares the server's list of jobs with the model.
    fn compare(&self, setup: &Setup) {
        for (no, job) in self.jobs.iter().enumerate() {
            let Some(id) = job.id.as_ref().filter(|_| job.push != Push::Rejected) else {
                continue;
            };
            match self.listed.get(id) {
                Some(report) => {
                    let targets = self.targets_of(no as u64);
                    job.check_report(no, report, &targets, setup);
                }
                None => assert!(
                    self.may_be_missing(job, setup),
                    "job {no} is missing in the list of jobs: {job}"
                ),
            }
        }
        let known: std::collections::HashSet<&String> = self
            .jobs
            .iter()
            .flat_map(|job| job.id.iter().chain(&job.former_ids))
            .collect();
        let unexpected = self.listed.keys().filter(|id| !known.contains(id)).count();
        let unknown = self.jobs.iter().map(|job| {
            let has_no_id = job.push == Push::Unknown && job.id.is_none();
            usize::from(has_no_id || job.may_have_new_id) + usize::from(job.had_unknown_id)
        });
        let unknown: usize = unknown.sum();
        assert!(
            unexpected <= unknown,
            "the list has {unexpected} unexpected jobs, and the ids of only {unknown} are unknown"
        );
    }

    /// Whether the server may have deleted the job.
    pub(super) fn may_be_missing(&self, job: &Job, setup: &Setup) -> bool {
        let Some(queue) = job.queue() else {
            return true;
        };
        // The store in memory forgets ended jobs if they take too much of it.
        if setup.has_little_memory() && setup.store.engine != Engine::Sqlite {
            return true;
        }
        let config = &setup.queues[queue];
        if job.may_be_deleted || job.may_have_new_id || config.deletes_soon || !job.is_state_known()
        {
            return true;
        }
        let like = |other: &Job| match job.state {
            State::Ended(End::Failed) => other.may_be_failed(),
            // A job that was assigned to a leaving worker counts as done, although the model did not see it run.
            _ => other.may_be_done() || self.may_be_lost_at_delivery(other, setup),
        };
        let mates = self.jobs.iter().filter(|other| {
            other.push != Push::Rejected && other.queues.contains(&queue) && like(other)
        });
        let keep = match job.state {
            State::Ended(End::Failed) => &config.keep_failed,
            _ => &config.keep_done,
        };
        let mates = mates.count() as u64;
        keep.all().any(|keep| mates > keep)
    }

    /// The first job that has not ended, as far as is known.
    pub(crate) fn first_unfinished(&self) -> String {
        let is_left =
            |job: &Job| job.push != Push::Rejected && !matches!(job.state, State::Ended(_));
        let mut left = self.jobs.iter().enumerate().filter(|(_, job)| is_left(job));
        left.next()
            .map_or(String::new(), |(no, job)| format!("job {no}: {job}"))
    }

    /// Checks the server's list of queues at rest.
    pub(crate) fn queues_at_rest(&self, list: &Value, setup: &Setup) {
        let mut listed: HashMap<(String, String), u64> = HashMap::new();
        for job in self.listed.values() {
            let text = |field: &str| job[field].as_str().unwrap_or_default().to_owned();
            *listed.entry((text("queue"), text("state"))).or_default() += 1;
        }
        for queue in list["queues"].as_array().into_iter().flatten() {
            let number = |field: &str| queue[field].as_u64().unwrap_or(0);
            for field in ["ready", "running", "delayed", "suspended"] {
                assert_eq!(number(field), 0, "{field} is not zero at rest: {queue}");
            }
            let name = queue["name"].as_str().unwrap_or_default();
            check_settings(queue, setup);
            let Some(at) = setup.queue(name) else {
                continue;
            };
            let kept = |state: &str| {
                listed
                    .get(&(name.to_owned(), state.to_owned()))
                    .copied()
                    .unwrap_or(0)
            };
            if setup.queues[at].deletes_soon {
                continue;
            }
            assert_eq!(
                number("failed"),
                kept("failed"),
                "wrong number of failed jobs: {queue}"
            );
            let config = &setup.queues[at];
            let max_of =
                |setting: &crate::setup::Setting<u64>| setting.all().max().unwrap_or(u64::MAX);
            if setup.store.engine == Engine::Sqlite {
                // SQLite applies retention later, in the background.
                continue;
            }
            let done = kept("done") + kept("cancelled");
            assert!(
                done <= max_of(&config.keep_done),
                "too many done jobs are kept, {done}: {queue}"
            );
            assert!(
                kept("failed") <= max_of(&config.keep_failed),
                "too many failed jobs are kept: {queue}"
            );
            self.check_totals(at, number("done"), number("cancelled"), queue, setup);
        }
    }

    /// Compares the queue's totals with the model, if the end of each of its jobs is known.
    fn check_totals(&self, at: usize, done: u64, cancelled: u64, queue: &Value, setup: &Setup) {
        let mut own = self
            .jobs
            .iter()
            .filter(|job| job.push != Push::Rejected && job.queues.contains(&at));
        let is_known = own.all(|job| {
            job.push == Push::Accepted
                && job.is_state_known()
                && !job.displaced
                && !job.retried
                && job.queues.len() == 1
                && (matches!(job.state, State::Ended(_))
                    || !self.may_be_lost_at_delivery(job, setup))
        });
        let moved = self
            .changes
            .iter()
            .any(|change| matches!(change.verb, super::Verb::Move(_)));
        if !is_known || moved {
            return;
        }
        let own = self
            .jobs
            .iter()
            .filter(|job| job.push == Push::Accepted && job.queues[0] == at);
        let count = |end: End| {
            own.clone()
                .filter(|job| job.state == State::Ended(end))
                .count() as u64
        };
        assert_eq!(done, count(End::Done), "wrong total of done jobs: {queue}");
        assert_eq!(
            cancelled,
            count(End::Cancelled),
            "wrong total of cancelled jobs: {queue}"
        );
    }

    /// Checks the server's list of workers at rest.
    pub(crate) fn workers_at_rest(&self, list: &Value) {
        for worker in list["workers"].as_array().into_iter().flatten() {
            assert_eq!(
                worker["assigned"].as_u64(),
                Some(0),
                "a worker has a task at rest: {worker}"
            );
            assert!(
                worker["task"].is_null(),
                "a worker runs a task at rest: {worker}"
            );
        }
        for pool in list["pools"].as_array().into_iter().flatten() {
            assert_eq!(
                pool["busy"].as_u64(),
                Some(0),
                "a worker is busy at rest: {pool}"
            );
        }
    }
}

/// Checks that a queue has the settings of the file, except for those that an operator has overridden.
fn check_settings(queue: &Value, setup: &Setup) {
    let name = queue["name"].as_str().unwrap_or_default();
    let head = match queue["kind"].as_str() {
        Some("jobs") => format!("queue.{name}"),
        _ => match name.strip_prefix(stoker_wire::SITE_PREFIX) {
            Some(site) => format!("site.{site}"),
            None => format!("service.{name}"),
        },
    };
    let Some(section) = setup.sections().find(|section| section.head == head) else {
        return;
    };
    for (key, or) in [("weight", Some(1)), ("reserve", Some(0)), ("limit", None)] {
        let set = queue["set"].as_array().into_iter().flatten();
        let is_set = set.clone().any(|set| set == key);
        let of_file = section.get(key).and_then(|value| value.parse().ok());
        assert!(
            is_set || queue[key].as_u64() == of_file.or(or),
            "{key} of a queue differs from the file; left: {queue}"
        );
    }
}

impl Job {
    fn may_be_done(&self) -> bool {
        !self.is_state_known()
            || self.may_be_deleted
            || matches!(self.state, State::Ended(End::Done | End::Cancelled))
    }

    fn may_be_failed(&self) -> bool {
        !self.is_state_known()
            || self.may_be_deleted
            || self.retried
            || self.state == State::Ended(End::Failed)
    }

    /// Checks the server's report of the job. `targets` are the queues to which unanswered moves may have brought it.
    fn check_report(&self, no: usize, report: &Value, targets: &[usize], setup: &Setup) {
        let text = |field: &str| report[field].as_str();
        let number = |field: &str| report[field].as_u64().unwrap_or(u64::MAX) as u32;
        let queue = text("queue").and_then(|name| setup.queue(name));
        let queue =
            queue.unwrap_or_else(|| panic!("job {no}: listed in an unknown queue: {report}"));
        assert!(
            self.queues.contains(&queue) || targets.contains(&queue),
            "job {no}: listed in the wrong queue: {report}"
        );
        assert_eq!(
            text("key"),
            self.options.key.as_deref(),
            "job {no}: listed with the wrong key: {report}"
        );
        assert_eq!(
            text("type"),
            self.options.kind,
            "job {no}: listed with the wrong type: {report}"
        );
        let priority = u32::from(self.options.priority);
        let ordered =
            self.queues.iter().any(|queue| setup.queues[*queue].ordered) || self.displaced;
        assert!(
            ordered || number("priority") == priority,
            "job {no}: listed with the wrong priority: {report}"
        );
        if !self.is_state_known() {
            return;
        }
        let state = match self.state {
            State::Ended(End::Done) => "done",
            State::Ended(End::Failed) => "failed",
            State::Ended(End::Cancelled) => "cancelled",
            State::Waits | State::Suspended | State::Assigned | State::Runs => return,
        };
        assert_eq!(
            text("state"),
            Some(state),
            "job {no}: listed in the wrong state: {report}, {self}"
        );
        if let (Some(class), State::Ended(End::Failed), false) =
            (self.error, self.state, self.retried)
        {
            let error = &report["error"];
            assert_eq!(
                error["class"], class,
                "job {no}: listed with the wrong error class: {report}"
            );
            let place = (class == CLASS).then_some(PLACE);
            assert_eq!(
                error["place"].as_str(),
                place,
                "job {no}: listed with the wrong error location: {report}"
            );
        }
        let attempt = number("attempt");
        // An acknowledged run counts when it is acknowledged, and not again at its end.
        let more = u32::from(self.acked && self.acked_in_run);
        let can_be = (self.attempts.low + more..=self.attempts.high + more).contains(&attempt);
        assert!(
            can_be,
            "job {no}: listed with the wrong number of attempts: {report}, {self}"
        );
        if !self.acked {
            let crashes = number("crashes");
            let can_be = (self.crashes.low..=self.crashes.high).contains(&crashes);
            assert!(
                can_be,
                "job {no}: listed with the wrong number of crashes: {report}, {self}"
            );
        }
    }
}
