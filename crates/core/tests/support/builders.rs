//! Builders for the tasks and workers of a scenario.

use stoker_core::{NameId, NewTask, Offer, Origin, Span, TaskId, WorkerId};

/// A task to be given to the core.
#[derive(Clone)]
pub struct TestTask(pub NewTask<'static>);

fn task(name: NameId, origin: Origin) -> TestTask {
    TestTask(NewTask {
        id: TaskId(0),
        name,
        key: b"",
        class: 3,
        order: 0,
        origin,
        time_left: None,
        limit: None,
        attempt: 0,
        crashes: 0,
        was_parked: false,
        parent: None,
    })
}

pub fn job(name: NameId) -> TestTask {
    task(name, Origin::Job { tries: 0 })
}

pub fn call(name: NameId) -> TestTask {
    task(name, Origin::Call { idempotent: false })
}

impl TestTask {
    pub fn key(mut self, key: &'static str) -> Self {
        self.0.key = key.as_bytes();
        self
    }

    pub fn class(mut self, class: u8) -> Self {
        self.0.class = class;
        self
    }

    pub fn order(mut self, order: u64) -> Self {
        self.0.order = order;
        self
    }

    pub fn tries(mut self, tries: u16) -> Self {
        self.0.origin = Origin::Job { tries };
        self
    }

    pub fn idempotent(mut self) -> Self {
        self.0.origin = Origin::Call { idempotent: true };
        self
    }

    pub fn time_left(mut self, time_left: Span) -> Self {
        self.0.time_left = Some(time_left);
        self
    }

    pub fn limit(mut self, limit: Span) -> Self {
        self.0.limit = Some(limit);
        self
    }

    pub fn crashes(mut self, crashes: u8) -> Self {
        self.0.crashes = crashes;
        self
    }

    pub fn attempt(mut self, attempt: u16) -> Self {
        self.0.attempt = attempt;
        self
    }

    pub fn was_parked(mut self) -> Self {
        self.0.was_parked = true;
        self
    }

    pub fn inside(mut self, parent: WorkerId) -> Self {
        self.0.parent = Some(parent);
        self
    }
}

/// The contents of a worker's HELLO.
#[derive(Clone, Debug, Default)]
pub struct Hello {
    /// The number of slots; 0 means 1, so that the default is an ordinary worker.
    pub slots: u16,
    pub soft_cancel: bool,
    pub pull: bool,
    /// The number of tasks it takes in its life; 0 for no limit.
    pub tasks: u64,
    pub calls: Vec<String>,
    pub idempotent: Vec<String>,
    pub jobs: Vec<String>,
    pub exclusive: bool,
}

impl Hello {
    pub fn slots(slots: u16) -> Self {
        Self {
            slots,
            ..Self::default()
        }
    }

    pub fn soft() -> Self {
        Self {
            soft_cancel: true,
            ..Self::default()
        }
    }

    pub fn pull() -> Self {
        Self {
            pull: true,
            ..Self::default()
        }
    }

    /// A worker that takes this number of tasks in its life.
    pub fn tasks(tasks: u64) -> Self {
        Self {
            tasks,
            ..Self::default()
        }
    }

    pub fn serving(calls: &[&str], jobs: &[&str]) -> Self {
        Self {
            calls: texts(calls),
            jobs: texts(jobs),
            ..Self::default()
        }
    }

    pub fn offer(&self) -> Offer<'_> {
        Offer {
            slots: self.slots.max(1),
            soft_cancel: self.soft_cancel,
            pull: self.pull,
            tasks: self.tasks,
            calls: &self.calls,
            idempotent: &self.idempotent,
            jobs: &self.jobs,
            exclusive: self.exclusive,
        }
    }
}

fn texts(of: &[&str]) -> Vec<String> {
    of.iter().map(|text| (*text).to_string()).collect()
}
