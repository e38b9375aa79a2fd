//! Changes of jobs, which the disk may interrupt.

use super::{MANY, Sent, Twins};
use stoker_store::{Change, Changed, Driver, JobId, Selection, StoreEvent, StoreRequest, Trouble};

/// How often a change that the disk has interrupted is requested again.
const MAX_TRIES: usize = 8;

impl Twins {
    pub(super) fn change(&mut self) {
        if let Some((which, change)) = self.draw_change() {
            self.make(&which, &change);
        }
    }

    /// Changes so many loaded jobs that it takes several slices, between which the disk may fail.
    pub(super) fn change_many_loaded(&mut self) {
        self.recover();
        let missing = MANY.saturating_sub(self.loaded.len());
        (0..missing).for_each(|_| {
            let push = self.push_of_ready_job();
            self.send(push);
        });
        self.on_disk.work();
        self.replay();
        let (which, change) = self.draw_loaded();
        self.make(&which, &change);
    }

    /// Makes a change, and repeats it until no disk error interrupts it.
    fn make(&mut self, which: &Selection, change: &Change) {
        if self.dice.percent(50) {
            self.fail();
        }
        for _ in 0..MAX_TRIES {
            let ticket = self.on_disk.ticket();
            self.on_disk.send(StoreRequest::Change {
                ticket,
                which: which.clone(),
                change: change.clone(),
            });
            if self.on_disk.changed(ticket).is_none() {
                self.recover();
            }
            let result = self.on_disk.changed(ticket).cloned();
            let result = result.unwrap_or_else(|| panic!("seed {}: no answer", self.seed));
            if self.sent.iter().any(|sent| matches!(sent, Sent::Push(..))) {
                self.recover();
            }
            match (which, result) {
                (Selection::Loaded(jobs), result) => {
                    return self.change_loaded(jobs, change, result);
                }
                (_, Err(trouble)) if trouble.is_temporary() => self.recover(),
                (_, result) => return self.change_in_memory(which, change, result.is_err()),
            }
        }
        panic!("seed {}: {change:?} is never done", self.seed);
    }

    /// A change of loaded jobs is made as far as the answer says.
    fn change_loaded(&mut self, jobs: &[JobId], change: &Change, result: Result<Changed, Trouble>) {
        let (left, is_interrupted) = match result {
            Ok(changed) => (changed.loaded, changed.trouble.is_some()),
            Err(trouble) => {
                assert!(trouble.is_temporary(), "seed {}: {trouble}", self.seed);
                (jobs.to_vec(), true)
            }
        };
        assert!(left.is_empty() || is_interrupted, "seed {}", self.seed);
        let done: Vec<JobId> = jobs
            .iter()
            .copied()
            .filter(|job| !left.contains(job))
            .collect();
        let numbers: Vec<usize> = done.iter().map(|job| self.numbers[job]).collect();
        self.loaded.retain(|number| !numbers.contains(number));
        if !done.is_empty() {
            self.change_in_memory(&Selection::Loaded(done), change, false);
        }
    }

    fn change_in_memory(&mut self, which: &Selection, change: &Change, fails: bool) {
        let ticket = self.on_disk.ticket();
        let request = self.of_memory(StoreRequest::Change {
            ticket,
            which: which.clone(),
            change: change.clone(),
        });
        self.in_memory.send(request);
        let events = self.memory_events();
        let result = events.iter().find_map(|event| match event {
            StoreEvent::Changed { result, .. } => Some(result),
            _ => None,
        });
        let result = result.expect("the store in memory answers at once");
        assert_eq!(
            result.is_err(),
            fails,
            "seed {}: {change:?} of {which:?}: {result:?}",
            self.seed
        );
    }
}
