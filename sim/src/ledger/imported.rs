//! Imported jobs. No client has pushed them, so they have no push that is answered.

use super::{Ledger, Push, State};
use stoker_os::steady;
use stoker_wire::Status;

/// The jobs of one import, by their numbers in the ledger.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Imported {
    pub(crate) first: u64,
    pub(crate) count: u64,
}

impl Imported {
    fn numbers(self) -> std::ops::Range<u64> {
        self.first..self.first + self.count
    }
}

impl Ledger {
    /// An import was answered. None of its jobs existed before, so either all were imported or the import failed.
    pub(crate) fn imported(&mut self, jobs: Imported, status: Status, body: &[u8]) {
        let text = String::from_utf8_lossy(body);
        let push = match status {
            Status::OK => {
                let report: serde_json::Value = serde_json::from_slice(body).expect("JSON");
                let count = report["count"].as_u64();
                assert_eq!(count, Some(jobs.count), "wrong number of imported jobs");
                Push::Accepted
            }
            Status::RESOURCE_EXHAUSTED if !self.disk_is_full(body) => Push::Rejected,
            // No worker serves all queues any more, so an undeclared queue is unknown, as for a push.
            Status::NOT_FOUND if text.contains("there is no queue 'm") => Push::Rejected,
            Status::UNKNOWN | Status::RESOURCE_EXHAUSTED => Push::Unknown,
            other if self.may_fail(other) => Push::Unknown,
            other => panic!("an import was answered {other:?}: {text}"),
        };
        for no in jobs.numbers() {
            let job = self.record_event(no, "push answered");
            (job.push, job.answered_at) = (push, steady());
            // The job's id is known once a worker has it.
            job.may_have_new_id |= push == Push::Accepted && job.id.is_none();
            let is_new = job.state == State::Waits && job.runs == 0 && !job.is_lost;
            if push == Push::Accepted && is_new {
                self.waiting.insert(no);
            }
            let job = &self.jobs[no as usize];
            assert!(
                push != Push::Rejected || job.runs == 0,
                "job {no}: rejected, but it ran"
            );
            let is_lost = push == Push::Accepted && job.is_lost && !job.may_be_over;
            assert!(!is_lost, "job {no} was imported, but is lost");
        }
    }

    /// The client that requested the import has hung up.
    pub(crate) fn import_is_unknown(&mut self, jobs: Imported) {
        jobs.numbers().for_each(|no| self.push_unknown(no));
    }
}
