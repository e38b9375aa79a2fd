//! Names of calls and jobs: interned once, so that a running system compares numbers.

use crate::estimate::Estimate;
use crate::{Kind, NameId, PoolId, QueueId};
use std::collections::HashMap;

/// Nobody serves this name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unknown;

#[derive(Clone, Debug)]
pub(crate) struct Name {
    pub(crate) text: Box<str>,
    pub(crate) queue: QueueId,
    /// A worker says that it may run again.
    pub(crate) idempotent: bool,
    /// The configuration says so.
    pub(crate) declared: bool,
    pub(crate) estimate: Estimate,
}

impl Name {
    /// A call of it may run again after its worker died.
    pub(crate) fn may_repeat(&self) -> bool {
        self.idempotent || self.declared
    }
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Names {
    pub(crate) all: Vec<Name>,
    /// Names of removed queues.
    pub(crate) free: Vec<NameId>,
    pub(crate) calls: HashMap<Box<str>, NameId>,
    pub(crate) jobs: HashMap<Box<str>, NameId>,
    pub(crate) services: HashMap<Box<str>, QueueId>,
    /// Method names known per service, by queue.
    pub(crate) methods: HashMap<QueueId, u32>,
    pub(crate) made_up: usize,
    /// Pools that serve every job queue.
    pub(crate) any_jobs: Vec<PoolId>,
    /// Pools of which workers that dialled in serve every job queue that nobody else does.
    pub(crate) any_guests: Vec<PoolId>,
}

impl Names {
    pub(crate) fn insert(&mut self, kind: Kind, text: &str, queue: QueueId) -> NameId {
        let name = Name {
            text: text.into(),
            queue,
            idempotent: false,
            declared: false,
            estimate: Estimate::default(),
        };
        let id = match self.free.pop() {
            Some(id) => {
                self.all[id.index()] = name;
                id
            }
            None => {
                self.all.push(name);
                NameId(self.all.len() as u32 - 1)
            }
        };
        match kind {
            Kind::Calls => self.calls.insert(text.into(), id),
            Kind::Jobs => self.jobs.insert(text.into(), id),
        };
        id
    }
}

pub(crate) fn service_of(call: &str) -> &str {
    call.rsplit_once('.').map_or(call, |(service, _)| service)
}
