//! What must hold over the death of a server.

use super::{Ack, Ledger, Push};
use crate::setup::Queue;
use crate::survivors::Stored;
use stoker_wire::Status;

impl Ledger {
    /// From now on some requests may be refused for it.
    pub(crate) fn disk_fails(&mut self) {
        self.disk_failed = true;
    }

    /// Whether a request may be answered so because of the disk.
    pub(crate) fn may_fail(&self, status: Status) -> bool {
        self.disk_failed && matches!(status, Status::UNAVAILABLE | Status::UNKNOWN)
    }

    /// The server that it was sent to is dead: if it is not in the store then it never will be.
    pub(crate) fn cut(&mut self, no: u64) {
        self.jobs[no as usize].is_cut = true;
    }

    /// This is what is left in the store, and no server works on it.
    pub(crate) fn survived(&mut self, stored: &Stored, queues: &[Queue]) {
        for (no, job) in (0..).zip(&mut self.jobs) {
            let queue = &queues[job.queue];
            let may_be_cancelled = self.cancelled.contains(&job.queue);
            let is_retried = self.retried.contains_key(&job.queue);
            let Some(row) = stored.jobs.get(&no) else {
                let is_ended = job.ended_runs > 0 || job.ack != Ack::None;
                let may_be_gone = is_ended || may_be_cancelled;
                // What is acknowledged when it is delivered is over by then, and may not have begun.
                let may_be_lost = may_be_gone || queue.on_delivery;
                assert!(
                    job.push != Push::Accepted || may_be_lost,
                    "job {no} was accepted, and is lost"
                );
                let is_answered = job.push == Push::Accepted;
                job.is_gone |= (job.is_cut || is_answered) && !may_be_gone;
                job.may_be_over |= queue.on_delivery;
                if job.is_gone {
                    self.waiting.remove(&no);
                }
                continue;
            };
            assert_ne!(
                job.push,
                Push::Refused,
                "job {no} was refused, and is there"
            );
            assert!(!job.is_gone, "job {no} was gone, and is there");
            assert!(
                !(queue.on_delivery && job.runs > 0) || is_retried,
                "job {no} was acknowledged when it was delivered, and is to run again"
            );
            assert!(
                job.ack != Ack::Safe || is_retried,
                "job {no} was acknowledged, which was safe, and is to run again"
            );
            // An end that was not committed did not happen.
            job.done = false;
            job.failures = job.failures.min(row.attempt);
        }
        for no in stored.jobs.keys() {
            let job = self.jobs.get(*no as usize);
            let job = job.unwrap_or_else(|| panic!("nobody has pushed job {no}"));
            // Its key goes on with what had not ended.
            let last = self.last_begun.entry((job.queue, job.key)).or_default();
            *last = (*last).min(*no);
        }
    }
}
