//! Events, and how a scheduler reacts to them.

use super::StoreUser;
use stoker_store::{Job, JobId, ParkedJob, Pushed, QueueNo, State, StoreEvent, StoreRequest};

impl StoreUser {
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
            StoreEvent::Parked { job } => self.add_parked(job),
            StoreEvent::Pushed { ticket, pushed } => {
                if let Pushed::Accepted { job: Some(job), .. } = pushed {
                    self.load(job);
                }
                self.answers.insert(ticket.0, event);
            }
            StoreEvent::Completed { ticket }
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
            if !self.wait("lanes", |user| user.lanes) {
                return;
            }
        }
    }

    fn load(&mut self, job: &Job) {
        let options = job.options.as_ref().unwrap();
        self.add_loaded(options.kind.clone().unwrap(), job.id);
    }

    /// Records a parked job as loaded. Its event does not contain the label.
    fn add_parked(&mut self, parked: &ParkedJob) {
        let mut known = self.ids.iter().filter(|(_, id)| **id == parked.id);
        let label = known.next().map_or("an unknown job", |(label, _)| label);
        self.add_loaded(label.to_owned(), parked.id);
    }

    fn add_loaded(&mut self, label: String, id: JobId) {
        if self.loaded.insert(label.clone(), id).is_some() {
            self.ledger.fault(&format!("{label} was handed over twice"));
        }
    }

    /// Records that a job is no longer loaded.
    pub(crate) fn unload(&mut self, label: &str) {
        self.loaded.remove(label);
    }

    /// Ready jobs that have not been handed over.
    fn not_loaded(&self) -> Vec<String> {
        let ready = self
            .states
            .iter()
            .filter(|(_, state)| **state == State::Ready);
        let not_loaded = ready.filter(|(label, _)| !self.loaded.contains_key(*label));
        not_loaded.map(|(label, _)| label.clone()).collect()
    }

    /// Checks that all ready jobs have been handed over, and that every job handed over was accepted.
    pub(crate) fn check_loaded(&mut self) {
        // A reported backlog leads to a refill, which the second call waits for.
        self.settle();
        self.settle();
        if self.was_damaged {
            let is_all = |user: &mut Self| user.not_loaded().is_empty().then_some(());
            self.wait("what could not be read", is_all);
        }
        for label in self.not_loaded() {
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
