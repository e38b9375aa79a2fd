//! Requests to a store, repeated if they are rejected. The answers go to the ledger.

use crate::user::{MAX_TRIES, StoreUser};
use stoker_store::{
    Bytes, Change, Changed, Ending, Filter, Import, JobError, NewJob, Options, Pushed, QueueNo,
    RunCounters, Selection, State, StoreEvent, StoreRequest, Ticket, Trouble,
};

/// The queue of most jobs.
pub(crate) const MAILS: QueueNo = QueueNo(0);

/// A push that was sent: its ticket, and the initial state of the job.
pub(crate) type Sent = (Ticket, State);

/// The body of a job, which contains its label.
pub(crate) fn bytes(label: &str) -> Vec<u8> {
    let times = if label.starts_with("big") { 2_000 } else { 1 };
    format!("{label} ").repeat(times).into_bytes()
}

fn job(label: &str) -> NewJob {
    NewJob {
        queue: MAILS,
        bytes: bytes(label).into(),
        options: Some(Box::new(Options {
            kind: Some(label.to_owned()),
            ..Options::default()
        })),
        ..NewJob::default()
    }
}

/// The initial state of a new job.
fn first_state(job: &NewJob, now: u64) -> State {
    match (job.suspended, job.due_ms > now) {
        (true, _) => State::Suspended,
        (_, true) => State::Delayed,
        _ => State::Ready,
    }
}

impl StoreUser {
    /// Pushes a job until it is accepted, with a new label each time. Returns the accepted label.
    pub(crate) fn push(&mut self, label: &str, edit: impl Fn(&mut NewJob)) -> String {
        for number in 0..MAX_TRIES {
            let label = match number {
                0 => label.to_owned(),
                number => format!("{label}.{number}"),
            };
            match self.push_once(&label, &edit) {
                Pushed::Accepted { .. } => return label,
                Pushed::Rejected(_) => self.prepare_retry(),
                pushed => panic!("{label}: {pushed:?}"),
            }
        }
        panic!("{label} is never accepted");
    }

    /// Pushes many jobs at once, which go into one commit, and repeats the rejected ones.
    pub(crate) fn push_all(&mut self, labels: &[&str]) -> Vec<String> {
        let tickets: Vec<_> = labels
            .iter()
            .map(|label| self.send(label, |_| {}))
            .collect();
        let mut accepted = Vec::new();
        for (label, ticket) in labels.iter().zip(tickets) {
            let pushed = self.pushed(label, ticket);
            accepted.push(match pushed {
                Pushed::Accepted { .. } => (*label).to_owned(),
                _ => self.push(&format!("{label}.again"), |_| {}),
            });
        }
        accepted
    }

    pub(crate) fn push_once(&mut self, label: &str, edit: impl Fn(&mut NewJob)) -> Pushed {
        let ticket = self.send(label, edit);
        self.pushed(label, ticket)
    }

    pub(crate) fn send(&mut self, label: &str, edit: impl Fn(&mut NewJob)) -> Sent {
        let mut job = job(label);
        edit(&mut job);
        let state = first_state(&job, self.now());
        self.ledger.asked(label);
        let ticket = self.ticket();
        self.request(StoreRequest::Push {
            ticket,
            room: true,
            job: Box::new(job),
        });
        (ticket, state)
    }

    pub(crate) fn pushed(&mut self, label: &str, (ticket, state): Sent) -> Pushed {
        let StoreEvent::Pushed { pushed, .. } = self.answer(ticket) else {
            panic!("not an answer to a push");
        };
        match &pushed {
            Pushed::Accepted { id, .. } => {
                self.record_id(label, *id);
                self.is(label, state);
            }
            Pushed::Rejected(trouble) => {
                self.absent(label);
                self.check(trouble);
            }
            Pushed::Repeated { .. } | Pushed::Taken(_) => self.absent(label),
        }
        pushed
    }

    pub(crate) fn end(&mut self, label: &str, ending: Ending) {
        let ticket = self.ticket();
        let state = ending.state();
        self.request(StoreRequest::End {
            job: self.id(label),
            counters: RunCounters {
                attempt: 1,
                ..RunCounters::default()
            },
            ending,
            ticket: Some(ticket),
            output: None,
        });
        self.unload(label);
        self.answer(ticket);
        self.is(label, state);
    }

    pub(crate) fn done(&mut self, label: &str) {
        let result = Some(Bytes {
            codec: 1,
            bytes: b"result".to_vec(),
        });
        self.end(label, Ending::Done { result });
    }

    pub(crate) fn fail(&mut self, label: &str) {
        self.end(label, Ending::Failed(self.error()));
    }

    pub(crate) fn error(&self) -> JobError {
        JobError {
            class: "Boom".to_owned(),
            message: "boom".to_owned(),
            place: None,
            at_ms: self.now(),
        }
    }

    pub(crate) fn retry(&mut self, label: &str, in_ms: u64, park: bool) {
        let (job, error, due_ms) = (self.id(label), self.error(), self.now() + in_ms);
        self.request(StoreRequest::Retry {
            job,
            counters: RunCounters {
                attempt: 1,
                ..RunCounters::default()
            },
            due_ms,
            error,
            output: Some(b"output".to_vec()),
            park,
        });
        if !park {
            self.unload(label);
        }
        self.settle();
        self.is(label, State::Retrying);
    }

    /// Changes one job.
    pub(crate) fn change(&mut self, label: &str, change: Change, then: Option<State>) {
        let which = Selection::One(self.id(label));
        self.change_until_done(&which, &change, 1);
        match then {
            Some(state) => self.is(label, state),
            None => self.absent(label),
        }
    }

    /// Changes all jobs that match a filter, which must be the ones with these labels.
    pub(crate) fn change_many(
        &mut self,
        filter: &Filter,
        change: &Change,
        labels: &[String],
        then: State,
    ) {
        let which = Selection::Many(filter.clone());
        self.change_until_done(&which, change, labels.len() as u64);
        for label in labels {
            self.is(label, then);
        }
    }

    /// Repeats a change until it is not reported as failed. Then `count` jobs must have been changed, because
    /// a change that was reported as failed must not have had an effect.
    fn change_until_done(&mut self, which: &Selection, change: &Change, count: u64) {
        for _ in 0..MAX_TRIES {
            let (ticket, which, change) = (self.ticket(), which.clone(), change.clone());
            let text = format!("{change:?} of {which:?}");
            self.request(StoreRequest::Change {
                ticket,
                which,
                change,
            });
            match self.changed(ticket) {
                Err(Trouble::Full(_) | Trouble::Io(_)) => {}
                Ok(changed) if changed.count == count => return,
                result => return self.ledger.fault(&format!("{text}: {result:?}")),
            }
        }
        panic!("{change:?} is never done");
    }

    fn changed(&mut self, ticket: Ticket) -> Result<Changed, Trouble> {
        let StoreEvent::Changed { result, .. } = self.answer(ticket) else {
            panic!("not an answer to a change");
        };
        if let Err(trouble) = &result {
            self.ledger.note(&format!("changing: {trouble}"));
            self.prepare_retry();
        }
        result
    }

    /// Imports two jobs, one of them failed, and returns their labels.
    pub(crate) fn import(&mut self) -> [String; 2] {
        for number in 0..MAX_TRIES {
            let labels = [format!("import{number}"), format!("imported{number}")];
            let jobs = labels.iter().zip([None, Some(self.error())]);
            let jobs = jobs.map(|(label, error)| Import {
                job: job(label),
                counters: RunCounters::default(),
                exported_id: "elsewhere".to_owned(),
                checkpoint: None,
                error,
            });
            let (ticket, jobs) = (self.ticket(), jobs.collect());
            labels.iter().for_each(|label| self.ledger.asked(label));
            self.request(StoreRequest::Import { ticket, jobs });
            if self.changed(ticket).is_ok() {
                self.is(&labels[0], State::Ready);
                self.is(&labels[1], State::Failed);
                return labels;
            }
            for label in &labels {
                self.absent(label);
            }
        }
        panic!("nothing can be imported");
    }

    pub(crate) fn set(&mut self, queue: QueueNo, settings: &str) {
        let ticket = self.ticket();
        self.request(StoreRequest::Settings {
            queue,
            settings: settings.to_owned(),
            ticket: Some(ticket),
        });
        self.answer(ticket);
    }

    pub(crate) fn pause(&mut self, paused: bool) {
        let ticket = self.ticket();
        self.request(StoreRequest::Pause {
            queue: MAILS,
            paused,
            ticket: Some(ticket),
        });
        self.answer(ticket);
        self.ledger.paused(paused);
    }
}
