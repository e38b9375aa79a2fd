//! Events, and how a scheduler reacts to them.

use super::Hand;
use stoker_store::{Job, JobId, ParkedJob, Pushed, QueueNo, State, StoreEvent, StoreRequest};

impl Hand {
    pub(super) fn take(&mut self, event: StoreEvent) {
        match &event {
            StoreEvent::Failing(trouble) => {
                if let Some(trouble) = trouble {
                    self.check(trouble);
                }
                self.failing.clone_from(trouble);
            }
            StoreEvent::Backlog { queue, class, key } => self.refill(*queue, *class, key),
            StoreEvent::Refilled {
                queue,
                class,
                key,
                jobs,
                more,
            } => {
                if *more {
                    self.refill(*queue, *class, key);
                }
                jobs.iter().for_each(|job| self.load(job));
            }
            StoreEvent::RefilledLanes { queue, lanes, more } => {
                for lane in lanes {
                    lane.jobs.iter().for_each(|job| self.load(job));
                    if lane.more {
                        self.refill(*queue, lane.class, &lane.key);
                    }
                }
                self.lanes = Some(*more);
            }
            StoreEvent::Parked { job } => self.hold_on(job),
            StoreEvent::Pushed { ticket, pushed } => {
                if let Pushed::Accepted { job: Some(job), .. } = pushed {
                    self.load(job);
                }
                self.answers.insert(ticket.0, event);
            }
            StoreEvent::Ended { ticket }
            | StoreEvent::EndNotWritten { ticket }
            | StoreEvent::Changed { ticket, .. }
            | StoreEvent::Found { ticket, .. } => {
                self.answers.insert(ticket.0, event);
            }
            StoreEvent::InDoubt { ticket, trouble } => {
                self.check(trouble);
                if !self.in_doubt.insert(ticket.0) || self.is_answered(*ticket) {
                    self.ledger
                        .fault(&format!("{ticket:?} is in doubt too late"));
                }
            }
            StoreEvent::Damage(text) => {
                self.ledger.note(text);
                self.was_damaged = true;
                self.end_trouble();
            }
            StoreEvent::Counts { .. } | StoreEvent::Fetched { .. } => {}
        }
    }

    fn refill(&mut self, queue: QueueNo, class: u8, key: &[u8]) {
        self.request(StoreRequest::Refill {
            queue,
            class,
            key: key.into(),
            limit: 10,
        });
    }

    /// Requests lanes without loaded jobs until there are none left.
    pub(crate) fn refill_lanes(&mut self, queue: QueueNo) {
        loop {
            self.lanes = None;
            self.request(StoreRequest::RefillLanes {
                queue,
                lanes: 10,
                limit: 10,
            });
            if !self.wait("lanes", |hand| hand.lanes) {
                return;
            }
        }
    }

    fn load(&mut self, job: &Job) {
        let options = job.options.as_ref().unwrap();
        self.hold_as(options.kind.clone().unwrap(), job.id);
    }

    /// Records a parked job as loaded. Its event does not contain the label.
    fn hold_on(&mut self, rest: &ParkedJob) {
        let mut known = self.ids.iter().filter(|(_, id)| **id == rest.id);
        let label = known.next().map_or("an unknown job", |(label, _)| label);
        self.hold_as(label.to_owned(), rest.id);
    }

    fn hold_as(&mut self, label: String, id: JobId) {
        if self.loaded.insert(label.clone(), id).is_some() {
            self.ledger.fault(&format!("{label} was handed over twice"));
        }
    }

    /// Records that a job is no longer loaded.
    pub(crate) fn unload(&mut self, label: &str) {
        self.loaded.remove(label);
    }

    /// Ready jobs that have not been handed over.
    fn not_held(&self) -> Vec<String> {
        let ready = self
            .states
            .iter()
            .filter(|(_, state)| **state == State::Ready);
        let not_held = ready.filter(|(label, _)| !self.loaded.contains_key(*label));
        not_held.map(|(label, _)| label.clone()).collect()
    }

    /// Checks that all ready jobs have been handed over, and that every job handed over was accepted.
    pub(crate) fn check_held(&mut self) {
        // A reported backlog leads to a refill, which the second call waits for.
        self.settle();
        self.settle();
        if self.was_damaged {
            let is_all = |hand: &mut Self| hand.not_held().is_empty().then_some(());
            self.wait("what could not be read", is_all);
        }
        for label in self.not_held() {
            let fault = format!("{label} is ready, and no scheduler was told");
            self.ledger.fault(&fault);
        }
        for label in self.loaded.keys() {
            if !self.accepted.contains(label) {
                self.ledger
                    .fault(&format!("{label} runs, and was not accepted"));
            }
        }
    }
}
