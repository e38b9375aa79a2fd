//! The pushes of clients, and the answers to them.

use super::{Job, Ledger, Push, State};
use crate::push::Options;
use crate::setup::Setup;
use stoker_os::steady;
use stoker_wire::{Flags, Frame, Key, Status};

impl Ledger {
    /// A client pushes a job. Returns the job's number.
    pub(crate) fn push(&mut self, queue: usize, uid: u32, options: Options) -> u64 {
        self.jobs.push(Job::new(queue, uid, options));
        let no = self.jobs.len() as u64 - 1;
        self.join_open_changes(no);
        no
    }

    /// A push was answered.
    pub(crate) fn pushed(&mut self, no: u64, answer: &Frame<'_>, setup: &Setup) {
        let (status, text) = (Status(answer.code), answer.body);
        let open = self.jobs[no as usize].push;
        assert_eq!(open, Push::Open, "job {no}: its push was answered twice");
        self.jobs[no as usize].answered_at = steady();
        match status {
            Status::OK => self.accepted(no, text, setup),
            Status::RESOURCE_EXHAUSTED => self.check_rejection(no, text, setup),
            Status::INVALID_ARGUMENT => self.check_too_large(no, text, setup),
            Status::ALREADY_EXISTS => self.check_taken(no, answer, setup),
            Status::UNAVAILABLE => self.check_unavailable(no),
            // An undeclared queue is unknown while no worker serves all queues. A guest that did may have left.
            Status::NOT_FOUND if setup.guests > 0 && self.is_undeclared(no, setup) => {}
            // The commit is in doubt.
            Status::UNKNOWN if self.may_be_due_to_disk() => {}
            // The server died while it closed its store.
            Status::UNKNOWN if self.has_drained() && setup.store.server_deaths > 0 => {}
            other => panic!("job {no}: its push was answered {other:?}"),
        }
        let job = self.record_event(no, "push answered");
        job.push = match status {
            Status::OK => Push::Accepted,
            Status::UNKNOWN => Push::Unknown,
            _ => Push::Rejected,
        };
        let rejected = job.push == Push::Rejected;
        assert!(
            !(rejected && job.runs > 0),
            "job {no}: rejected, but it ran"
        );
    }

    /// Whether the job was pushed to an undeclared queue.
    fn is_undeclared(&self, no: u64, setup: &Setup) -> bool {
        // The first queue is the one that the job was pushed to. A change under way may move it from there.
        let pushed_to = self.jobs[no as usize].queues.first();
        pushed_to.is_some_and(|queue| setup.queues[*queue].is_undeclared)
    }

    /// A rejected push is flagged as safe to repeat, and has a retry-after time if the reason is temporary.
    pub(crate) fn check_rejected(&self, no: u64, answer: &Frame<'_>) {
        let is_rejected = self.jobs[no as usize].push == Push::Rejected;
        assert_eq!(
            answer.flags.has(Flags::NOT_PROCESSED),
            is_rejected,
            "job {no}: its answer must be flagged NOT_PROCESSED if and only if its push was rejected"
        );
        let is_temporary = matches!(
            Status(answer.code),
            Status::RESOURCE_EXHAUSTED | Status::UNAVAILABLE
        );
        assert!(
            !is_temporary || answer.meta.uint(Key::RETRY_AFTER).is_some_and(|ms| ms > 0),
            "job {no}: rejected without a retry-after time"
        );
    }

    fn accepted(&mut self, no: u64, text: &[u8], setup: &Setup) {
        let id = String::from_utf8_lossy(text).into_owned();
        self.trace(|| format!("  job {no} is {id}: {:?}", self.jobs[no as usize].options));
        let before = self.by_id.insert(id.clone(), no);
        assert_eq!(before, None, "two pushes got the same id: {id}");
        self.check_accepted(no, setup);
        self.check_unique(no, setup);
        let job = &mut self.jobs[no as usize];
        assert!(
            !job.is_lost || job.may_be_over,
            "job {no} was accepted, but is lost"
        );
        match &job.id {
            // The job was pushed again, under another id, before its client read the answer.
            Some(_) if job.former_ids.contains(&id) => {}
            Some(seen) if *seen != id && job.had_unknown_id => job.former_ids.push(id),
            Some(seen) => assert_eq!(
                *seen, id,
                "job {no}: accepted under an id other than the one that it ran under"
            ),
            None => job.id = Some(id),
        }
        if job.state == State::Waits && job.runs == 0 && !job.is_lost {
            self.waiting.insert(no);
        }
    }

    /// The client hung up before the push was answered.
    pub(crate) fn push_unknown(&mut self, no: u64) {
        self.record_event(no, "push unknown").push = Push::Unknown;
    }
}
