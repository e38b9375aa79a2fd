//! What stands in the store's file between two servers, and when all is over.

use crate::stored::Stored;
use crate::storing::FILE;
use crate::world::World;
use std::path::Path;
use stoker_store::tools;

impl World {
    /// Between two servers: compares what is left with what was promised.
    pub(crate) fn check_what_survived(&mut self) -> Stored {
        let Some(disk) = self.disk.as_ref().filter(|_| self.angel.is_restarted()) else {
            return Stored::default();
        };
        let stored = self.faults.without(disk, || Stored::read(disk));
        self.note(|| format!("  left are {stored:?}"));
        self.check_what_was_left(&stored);
        self.check_running_row(&stored);
        for no in &stored.running {
            let row = &stored.jobs[no];
            self.check_ended_runs(*no, row.attempt, row.crashes);
        }
        self.ledger.survived(&stored, &self.setup);
        stored
    }

    /// A server has begun on what was left: each job that ran counts a crash, and no other one.
    pub(crate) fn check_crashes(&mut self, before: &Stored) {
        // While the disk fails they are counted when that can be written.
        let Some(disk) = self.disk.as_ref().filter(|_| !self.faults.are_felt()) else {
            return;
        };
        let after = self.faults.without(disk, || Stored::read(disk));
        self.ledger.learns(&after, &self.setup);
        assert!(after.running.is_empty(), "they do not run: {after:?}");
        for (no, row) in &before.jobs {
            let ran = before.running.contains(no);
            let Some(now) = after.jobs.get(no) else {
                assert!(
                    ran && row.crashes >= 2,
                    "job {no} is gone with the start of a server"
                );
                continue;
            };
            // The last crash of several that ran together is not blamed on one of them.
            let counted = (row.crashes + u32::from(ran)).min(2).max(row.crashes);
            assert_eq!(now.crashes, counted, "crashes of job {no}, ran: {ran}");
            assert_eq!(now.attempt, row.attempt, "attempts of job {no}");
        }
    }

    /// The server has ended well.
    pub(crate) fn check_store_at_rest(&self) {
        let Some(disk) = &self.disk else { return };
        assert_eq!(disk.open_files(), 0, "files of the store are left open");
        // A death in a call that never came does not come any more.
        let look = || tools::check(Path::new(FILE)).expect("it can be checked");
        let checked = self.faults.without(disk, look);
        assert!(checked.problems.is_empty(), "{:?}", checked.problems);
        let left = self.faults.without(disk, || Stored::read(disk));
        assert!(left.jobs.is_empty(), "jobs are left: {left:?}");
        assert!(left.running.is_empty(), "jobs run: {left:?}");
    }
}
