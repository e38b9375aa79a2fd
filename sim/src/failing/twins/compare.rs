//! Compares what both stores have, and hand over.

use super::{CLASSES, KEYS, NAMES, Twins, queue};
use std::collections::HashMap;
use stoker_store::{Driver, Filter, Found, JobId, Query, StoreEvent, StoreRequest, Ticket, View};

impl Twins {
    /// Both stores hand over all jobs that wait, which must be the same ones.
    pub(super) fn load_all(&mut self) -> Vec<usize> {
        let (mut handed_over, mut waited) = (Vec::new(), Vec::new());
        for at in 0..NAMES.len() {
            for (class, key) in lanes() {
                self.in_memory.send(StoreRequest::Refill {
                    queue: queue(at),
                    class,
                    key: key.into(),
                    limit: 1_000,
                });
            }
            waited.extend(handed(&self.memory_events()));
            loop {
                let first = self.on_disk.events.len();
                self.on_disk.send(StoreRequest::RefillLanes {
                    queue: queue(at),
                    lanes: 100,
                    limit: 1_000,
                });
                let jobs: Vec<JobId> = handed(&self.on_disk.events[first..]).collect();
                if jobs.is_empty() {
                    break;
                }
                handed_over.extend(jobs.iter().map(|job| self.numbers[job]));
            }
        }
        for job in waited {
            let number = self.ids.iter().position(|ids| ids[1] == job);
            assert!(
                number.is_some_and(|number| handed_over.contains(&number)),
                "seed {}: job {number:?} waits and was not handed over",
                self.seed
            );
        }
        handed_over
    }

    /// Once the disk works, both stores have the same jobs.
    pub(super) fn compare(&mut self) {
        self.recover();
        let ticket = self.on_disk.ticket();
        self.on_disk.send(list(ticket));
        let seen = found(&self.on_disk.events, ticket);
        self.in_memory.send(list(ticket));
        let expected = found(&self.memory_events(), ticket);
        let seen: HashMap<usize, View> = seen
            .into_iter()
            .map(|view| (self.numbers[&view.id], view))
            .collect();
        assert_eq!(seen.len(), expected.len(), "seed {}", self.seed);
        for mut view in expected {
            let number = self.ids.iter().position(|ids| ids[1] == view.id);
            let number = number.expect("a known job");
            let seen = seen.get(&number).cloned().map(essence);
            if self.miscounted.contains(&number) {
                let seen = seen.as_ref().expect("the job exists");
                view.counters.crashes = seen.counters.crashes;
            }
            assert_eq!(
                seen,
                Some(essence(view)),
                "seed {}, job {number}",
                self.seed
            );
        }
    }
}

/// The priority class and the key of each lane of a queue.
fn lanes() -> impl Iterator<Item = (u8, &'static [u8])> {
    (0..CLASSES).flat_map(|class| KEYS.map(|key| (class, key)))
}

fn list(ticket: Ticket) -> StoreRequest {
    let query = Query::List {
        filter: Filter::default(),
        after: None,
        limit: 10_000,
        newest: false,
        whole: true,
    };
    StoreRequest::Query { ticket, query }
}

fn found(events: &[StoreEvent], of: Ticket) -> Vec<View> {
    let jobs = events.iter().find_map(|event| match event {
        StoreEvent::Found {
            ticket,
            found: Ok(Found::List { jobs, .. }),
        } if *ticket == of => Some(jobs.clone()),
        _ => None,
    });
    jobs.expect("a list")
}

fn handed(events: &[StoreEvent]) -> impl Iterator<Item = JobId> + '_ {
    let jobs = events.iter().flat_map(|event| match event {
        StoreEvent::RefilledLanes { lanes, .. } => {
            lanes.iter().flat_map(|lane| &lane.jobs).collect()
        }
        StoreEvent::Refilled { jobs, .. } => jobs.iter().collect(),
        _ => Vec::new(),
    });
    jobs.map(|job| job.id)
}

/// What both stores must agree on: all but ids and times, which depend on when the disk worked.
fn essence(mut view: View) -> View {
    (view.id, view.created_ms, view.due_ms) = (JobId(0), 0, 0);
    view.ended_ms = view.ended_ms.map(|_| 0);
    if let Some(error) = &mut view.error {
        error.at_ms = 0;
    }
    for entry in view.whole.iter_mut().flat_map(|whole| &mut whole.history) {
        entry.at_ms = 0;
    }
    view
}
