//! Interned names of calls and jobs, so that the hot path compares numbers and not strings.

use crate::estimate::Estimate;
use crate::{Kind, NameId, PoolId, QueueId};
use std::collections::HashMap;

/// No pool serves this name, or there is no room for another name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnknownName;

#[derive(Clone, Debug)]
pub(crate) struct Name {
    pub(crate) text: Box<str>,
    pub(crate) queue: QueueId,
    /// A worker announced that calls of this name may run again.
    pub(crate) idempotent: bool,
    /// The configuration declares that calls of this name may run again.
    pub(crate) declared: bool,
    pub(crate) estimate: Estimate,
}

impl Name {
    /// Whether a call of this name may run again after its worker died.
    pub(crate) fn may_repeat(&self) -> bool {
        self.idempotent || self.declared
    }
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Names {
    pub(crate) all: Vec<Name>,
    /// Ids of the names of removed queues, free for reuse.
    pub(crate) free: Vec<NameId>,
    pub(crate) calls: HashMap<Box<str>, NameId>,
    pub(crate) jobs: HashMap<Box<str>, NameId>,
    pub(crate) services: HashMap<Box<str>, QueueId>,
    /// Number of known method names of each service, by the service's queue.
    pub(crate) methods: HashMap<QueueId, u32>,
    pub(crate) undeclared: usize,
    /// Pools that serve every job queue.
    pub(crate) any_jobs: Vec<PoolId>,
    /// Pools whose connected workers serve every job queue that no other pool serves.
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
