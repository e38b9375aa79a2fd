//! Checks what `show` reports about a job against the events that were seen and against the log.

use super::{End, Job, Ledger, State};
use crate::payload::body;
use crate::setup::Setup;
use serde_json::Value;
use std::collections::BTreeSet;

/// The server keeps the end of a run's output, at most this many bytes (`stoker_store::MAX_OUTPUT`, which is small in
/// the simulation).
const MAX_OUTPUT: usize = stoker_store::MAX_OUTPUT;

impl Ledger {
    /// Some jobs whose details are requested at the end.
    pub(crate) fn sample_jobs(&self) -> Vec<(u64, String)> {
        let step = (self.listed.len() / 12).max(1);
        let some = self.listed.keys().step_by(step).take(12);
        let acked = self.jobs.iter().filter(|job| job.acked_line.is_some());
        let acked = acked.filter_map(|job| job.id.as_ref());
        let acked = acked.filter(|id| self.listed.contains_key(*id)).take(12);
        let ids: BTreeSet<&String> = some.chain(acked).collect();
        let some = ids.into_iter();
        some.filter_map(|id| Some((*self.by_id.get(id)?, id.clone())))
            .collect()
    }

    /// Checks everything that the server shows of a job.
    pub(crate) fn check_details(&mut self, no: u64, shown: &Value, setup: &Setup) {
        let job = &self.jobs[no as usize];
        job.check_output(no, shown["output"].as_str().unwrap_or_default(), setup);
        if let Some(text) = shown["body"].as_str() {
            let (from, to) = job.versions;
            let is_own =
                (from..=to).any(|version| text.as_bytes() == body(no, version, job.options.len));
            assert!(
                is_own || !job.is_state_known(),
                "job {no} is shown with the wrong body: {text}"
            );
        }
        let exceptions = shown["exceptions"].as_u64().unwrap_or(u64::MAX) as u32;
        let can_be = (job.exceptions.low..=job.exceptions.high).contains(&exceptions);
        let is_known = job.is_state_known() && !job.acked;
        assert!(
            can_be || !is_known,
            "job {no} is shown with the wrong number of exceptions, {exceptions}: {job}"
        );
        let progress = shown["progress"]["percent"].as_u64().unwrap_or(0) as u32;
        let (reported, at) = job.progress;
        let is_known = is_known && !job.retried && at > self.calls.server_began();
        assert!(
            progress == reported || !is_known,
            "job {no} is shown with a progress of {progress} %, and has reported {reported} %: {job}"
        );
        let lines = shown["history"].as_array().into_iter().flatten();
        let what = lines.filter_map(|line| line["what"].as_str().map(str::to_owned));
        self.histories.insert(no, what.collect());
    }

    /// The log must have a line for each failed job, about its last run.
    pub(crate) fn check_failures(&self, log: &str) {
        if self.deaths > 0 || self.disk_failed {
            return;
        }
        let is_last = |line: &&str| line.contains("is not retried");
        let logged: Vec<&str> = log.lines().filter(is_last).collect();
        for (no, job) in self.jobs.iter().enumerate() {
            let has_failed = job.state == State::Ended(End::Failed) && job.error.is_some();
            let is_known = job.is_state_known() && job.changing == 0 && !job.retried && !job.acked;
            let id = job.id.as_deref().filter(|_| has_failed && is_known);
            if let Some(id) = id {
                let has_line = logged.iter().any(|line| line.contains(id));
                assert!(
                    has_line,
                    "job {no} has failed, but the log has no line about it: {job}"
                );
            }
        }
    }

    /// The history of a job must have the runs that the log reports.
    pub(crate) fn check_histories(&self, log: &str) {
        if self.deaths > 0 || self.disk_failed {
            return;
        }
        let logged = [("crashed", " crashed: "), ("cut_off", " was cut off: ")];
        for (no, history) in &self.histories {
            let job = &self.jobs[*no as usize];
            let Some(id) = job.id.as_deref().filter(|_| !job.may_be_deleted) else {
                continue;
            };
            let count =
                |all: &[&str], what: &str| all.iter().filter(|other| **other == what).count();
            let shown: Vec<&str> = history.iter().map(String::as_str).collect();
            let mut changes = job.history.iter().filter(|_| !job.may_have_new_id);
            let missing = changes.find(|what| count(&shown, what) < count(&job.history, what));
            assert_eq!(
                missing, None,
                "job {no}: a change is missing in its history; left: {history:?} of {:?}",
                job.history
            );
            let own = || log.lines().filter(|line| line.contains(id));
            for (what, said) in logged {
                let is_logged =
                    own().any(|line| line.contains(said) && line.contains("is retried"));
                assert!(
                    !is_logged || history.iter().any(|line| line == what),
                    "job {no}: an event that was logged is missing in its history: {what}; left: {history:?}"
                );
            }
        }
    }
}

impl Job {
    /// The output must come from the last run; of a long one, the end is enough.
    fn check_output(&self, no: u64, output: &str, setup: &Setup) {
        for written in output.split("wrote-").skip(1) {
            let digits = written
                .find(|letter: char| !letter.is_ascii_digit())
                .unwrap_or(written.len());
            let by: Option<u64> = written[..digits].parse().ok();
            // If the cut left an incomplete mark, the mark is at the beginning and is skipped. A line that was sent as an
            // event may interrupt one of a pipe.
            let is_whole = digits < written.len();
            let is_part = !is_whole && no.to_string().starts_with(written);
            assert!(
                by == Some(no) || is_part,
                "job {no} is shown with output of another job: {by:?}"
            );
        }
        assert!(
            output.len() <= MAX_OUTPUT,
            "job {no} is shown with {} bytes of output",
            output.len()
        );
        // What was written before an acknowledgement is kept with it, even if the server dies before the run ends.
        if let Some(line) = self.acked_line.as_ref().filter(|_| self.ack_is_stored) {
            // A pipe of which only a part was read may be interrupted in the middle of a line by an event.
            let is_known = self.runs == 1
                && self.is_state_known()
                && output.len() < MAX_OUTPUT
                && !setup.short_io;
            assert!(
                !is_known || !setup.never_prefetches() || output.contains(line.as_str()),
                "job {no}: a line that it wrote before it acknowledged itself is missing; left: {line}, {output}"
            );
        }
        let is_whole = output.len() == MAX_OUTPUT && self.runs == 1 && self.is_state_known();
        let Some(last) = self.last_line.as_ref().filter(|_| is_whole) else {
            return;
        };
        // The output of a worker with several tasks belongs to no job.
        assert!(
            !setup.never_prefetches() || output.contains(last.as_str()),
            "job {no}: the last line that it wrote is missing in its output; left: {last}, {output}"
        );
    }
}
