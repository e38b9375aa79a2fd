//! A server that dies counts as a crash of the jobs that were running.

use super::Twins;
use stoker_store::{Driver, Ending, HistoryKind, Query, State, StoreRequest, View};

/// The number of crashes after which a job is not run again.
const MAX_CRASHES: u8 = 3;

impl Twins {
    /// Some loaded jobs run. Returns their numbers.
    pub(super) fn run_some(&mut self) -> Vec<usize> {
        let count = self.dice.below(5) as usize;
        let running: Vec<usize> = self.loaded.iter().copied().take(count).collect();
        let jobs = running.iter().map(|number| self.ids[*number][0]).collect();
        self.on_disk.send(StoreRequest::Running { jobs });
        running
    }

    pub(super) fn views(&mut self, numbers: &[usize]) -> Vec<View> {
        let view = |number: &usize| {
            let ticket = self.on_disk.ticket();
            let query = Query::One(self.ids[*number][0]);
            self.on_disk.send(StoreRequest::Query { ticket, query });
            self.on_disk.found_job(ticket).expect("the job exists")
        };
        numbers.iter().map(view).collect()
    }

    /// Checks the jobs that ran when the server died, and counts their crashes in the store in memory, too.
    pub(super) fn check_crashes(&mut self, running: &[(usize, View)]) {
        let numbers: Vec<usize> = running.iter().map(|(number, _)| *number).collect();
        let before = running.iter().map(|(_, view)| view.counters.crashes);
        let crashes: Vec<u8> = before.collect();
        let after = self.views(&numbers);
        // Only a job that is the only suspect is blamed for the last crash.
        let suspects = crashes.iter().filter(|crashes| **crashes > 0).count();
        for ((number, crashes), after) in numbers.iter().zip(crashes).zip(after) {
            let is_blamed = crashes + 1 >= MAX_CRASHES && suspects == 1;
            let expected = match is_blamed {
                true => (crashes + 1, State::Failed),
                false => (
                    (crashes + 1).min(MAX_CRASHES - 1).max(crashes),
                    State::Ready,
                ),
            };
            let counted = (after.counters.crashes, after.state);
            assert_eq!(counted, expected, "seed {}, job {number}", self.seed);
            self.crash_in_memory(*number, after);
        }
    }

    fn crash_in_memory(&mut self, number: usize, after: View) {
        let job = self.ids[number][1];
        self.in_memory.send(StoreRequest::Note {
            job,
            what: HistoryKind::Crashed,
            text: "the server died while the job was running".to_owned(),
        });
        self.miscounted.insert(number);
        if after.state == State::Failed {
            self.in_memory.send(StoreRequest::End {
                job,
                counters: after.counters,
                ending: Ending::Failed(after.error.unwrap_or_default()),
                ticket: None,
                output: None,
            });
        }
    }
}
