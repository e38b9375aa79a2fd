//! Checks the store's file between two servers, and at the end of a seed.

use crate::stored::Stored;
use crate::storing::FILE;
use crate::world::World;
use std::path::Path;
use stoker_store::tools;

impl World {
    /// Compares, between two servers, the store's content with the answers that clients have received.
    pub(crate) fn check_store_between_servers(&mut self) -> Stored {
        let Some(disk) = self.disk.as_ref().filter(|_| self.angel.is_restarted()) else {
            return Stored::default();
        };
        let stored = self.faults.without(disk, || Stored::read(disk));
        self.trace(|| format!("  stored: {stored:?}"));
        self.check_left_by_drain(&stored);
        self.check_running_jobs(&stored);
        for no in &stored.running {
            let row = &stored.jobs[no];
            self.check_ended_runs(*no, row.attempt, row.crashes);
        }
        self.ledger.survived(&stored, &self.setup);
        stored
    }

    /// A server has begun with what was left: a crash must be counted for each job that ran, and for no other job.
    pub(crate) fn check_crashes(&mut self, before: &Stored) {
        // While the disk fails, crashes are counted later, once that can be written.
        let Some(disk) = self.disk.as_ref().filter(|_| !self.faults.are_recent()) else {
            return;
        };
        let after = self.faults.without(disk, || Stored::read(disk));
        self.ledger.learn_from_file(&after, &self.setup);
        assert!(
            after.running.is_empty(),
            "jobs are stored as running when a server has begun: {after:?}"
        );
        for (no, row) in &before.jobs {
            let ran = before.running.contains(no);
            let Some(now) = after.jobs.get(no) else {
                assert!(
                    ran && row.crashes >= 2,
                    "job {no} is missing after the start of a server"
                );
                continue;
            };
            // A start counts at most two crashes per job: a further one is not blamed on one of several jobs that ran
            // together.
            let counted = (row.crashes + u32::from(ran)).min(2).max(row.crashes);
            assert_eq!(
                now.crashes, counted,
                "wrong number of crashes of job {no}, which ran: {ran}"
            );
            assert_eq!(
                now.attempt, row.attempt,
                "wrong number of attempts of job {no}"
            );
        }
    }

    /// The last server has ended properly: the store's file must be valid, and have no unfinished jobs.
    pub(crate) fn check_store_at_rest(&self) {
        let Some(disk) = &self.disk else { return };
        assert_eq!(disk.open_files(), 0, "files of the store are left open");
        // A death that was planned for a later system call must not happen during the check.
        let check = || tools::check(Path::new(FILE)).expect("the store can be checked");
        let checked = self.faults.without(disk, check);
        assert!(checked.problems.is_empty(), "{:?}", checked.problems);
        let left = self.faults.without(disk, || Stored::read(disk));
        assert!(
            left.jobs.is_empty(),
            "unfinished jobs are stored at the end: {left:?}"
        );
        assert!(
            left.running.is_empty(),
            "jobs are stored as running at the end: {left:?}"
        );
    }
}
