//! The state that the data plane keeps of jobs: its store, its queues, and who waits for the store.

use super::cancelling::Cancellings;
use super::close::Closed;
use super::loaded::LoadedJobs;
use super::parked::ParkedJobs;
use super::waiter::Waiter;
use crate::config::JobsConfig;
use crate::net::ConnId;
use crate::plane::Todo;
use crate::users::UserId;
use std::collections::{HashMap, VecDeque};
use stoker_core::{NameId, QueueId, Time};
use stoker_store::{
    Counts, Driver, Job, JobId, QueueNo, StoreEvent, StoreRequest, Ticket, Trouble,
};

/// What the data plane knows of jobs and of the store in which they live.
pub(crate) struct Jobs {
    pub(crate) store: Box<dyn Driver>,
    /// It reports events at once, as the one in memory does.
    pub(crate) inline: bool,
    /// It was sent requests since its events were last received. Calls never lead to a look at the
    /// store.
    pub(crate) has_requests: bool,
    /// It was sent a request that its counts may not include yet.
    pub(crate) is_uncounted: bool,
    /// Its events that have not been handled yet.
    pub(crate) events: Vec<StoreEvent>,
    pub(crate) loaded: LoadedJobs,
    /// By the queue's number in the core; services have none.
    queues: Vec<Option<JobQueue>>,
    by_no: HashMap<QueueNo, QueueId>,
    /// Jobs of ordered queues between two runs: they keep their places.
    pub(crate) parked: ParkedJobs,
    /// With their generations: a place is used again.
    waiters: Vec<(u32, Option<Waiter>)>,
    free: Vec<usize>,
    /// Queues that were closed and of which the store still knows.
    pub(crate) closed: HashMap<QueueNo, Closed>,
    /// An alarm is set by which queues expire.
    pub(crate) watches_unused: bool,
    /// Refills that wait for memory.
    pub(crate) postponed: VecDeque<Todo>,
    /// A job is being loaded although there is little memory.
    pub(crate) loads_beyond: bool,
    pub(crate) cancellings: Cancellings,
    /// Why the store rejects pushes now.
    pub(crate) failing: Option<Trouble>,
    /// A job began or ended in this turn.
    pub(crate) runs_changed: bool,
}

/// One queue of jobs.
pub(crate) struct JobQueue {
    pub(crate) no: QueueNo,
    pub(crate) name: NameId,
    pub(crate) config: JobsConfig,
    pub(crate) counts: Counts,
    /// Pushes that the store has not answered.
    pub(crate) pending: u64,
    /// When somebody pushed to it last, or it was opened.
    pub(crate) used_at: Time,
    /// The producer that made its name up.
    pub(crate) maker: Option<UserId>,
}

impl JobQueue {
    /// It has no job that waits, runs or has failed.
    pub(crate) fn is_empty(&self) -> bool {
        self.unfinished() == 0 && self.counts.failed == 0
    }

    pub(crate) fn unfinished(&self) -> u64 {
        let Counts {
            ready,
            delayed,
            suspended,
            ..
        } = self.counts;
        ready + delayed + suspended + self.pending
    }
}

impl Jobs {
    pub(crate) fn new(store: Box<dyn Driver>) -> Self {
        Self {
            inline: store.wake().is_none(),
            has_requests: false,
            is_uncounted: false,
            store,
            events: Vec::new(),
            loaded: LoadedJobs::default(),
            queues: Vec::new(),
            by_no: HashMap::new(),
            parked: ParkedJobs::default(),
            waiters: Vec::new(),
            free: Vec::new(),
            closed: HashMap::new(),
            watches_unused: false,
            postponed: VecDeque::new(),
            loads_beyond: false,
            cancellings: Cancellings::default(),
            failing: None,
            runs_changed: false,
        }
    }

    pub(crate) fn send(&mut self, request: StoreRequest) {
        self.has_requests = true;
        self.is_uncounted = true;
        self.store.send(request);
    }

    /// A ticket for whoever waits.
    pub(crate) fn ticket(&mut self, waiter: Waiter) -> Ticket {
        let at = self.free.pop().unwrap_or_else(|| {
            self.waiters.push((0, None));
            self.waiters.len() - 1
        });
        let (generation, place) = &mut self.waiters[at];
        *generation = generation.wrapping_add(1);
        *place = Some(waiter);
        Ticket(at as u64, *generation)
    }

    pub(crate) fn take_waiter(&mut self, ticket: Ticket) -> Option<Waiter> {
        let at = usize::try_from(ticket.0).ok()?;
        let waiter = self.place_of(ticket)?.take()?;
        self.free.push(at);
        Some(waiter)
    }

    /// The tickets of events that are still outstanding.
    pub(super) fn open_tickets(&self) -> Vec<Ticket> {
        let all = (0..).zip(&self.waiters);
        let open = all.filter(|(_, (_, waiter))| waiter.is_some());
        open.map(|(at, (generation, _))| Ticket(at, *generation))
            .collect()
    }

    fn place_of(&mut self, ticket: Ticket) -> Option<&mut Option<Waiter>> {
        let at = usize::try_from(ticket.0).ok()?;
        let (generation, place) = self.waiters.get_mut(at)?;
        (*generation == ticket.1).then_some(place)
    }

    /// Who waits for an answer need not wait any longer. It is returned; a worker waits on.
    pub(crate) fn leave(&mut self, ticket: Ticket) -> Option<(ConnId, u32)> {
        match self.place_of(ticket)?.as_mut()? {
            Waiter::Push { to, .. } => to.take(),
            Waiter::Reply { conn, id, .. } | Waiter::Admin { conn, id, .. } => {
                Some((std::mem::replace(conn, ConnId::NOBODY), *id))
            }
            Waiter::Recalled(recalled) => recalled.leave(),
            Waiter::Cancelled(_)
            | Waiter::StrayCancelled(_)
            | Waiter::Ack { .. }
            | Waiter::Claim { .. }
            | Waiter::Counted { .. } => None,
        }
    }

    pub(crate) fn queue(&self, queue: QueueId) -> Option<&JobQueue> {
        self.queues.get(queue.index())?.as_ref()
    }

    pub(crate) fn queue_mut(&mut self, queue: QueueId) -> Option<&mut JobQueue> {
        self.queues.get_mut(queue.index())?.as_mut()
    }

    /// The queue that the store knows by this number.
    pub(crate) fn queue_id(&self, no: QueueNo) -> Option<QueueId> {
        self.by_no.get(&no).copied()
    }

    pub(crate) fn remove_queue(&mut self, id: QueueId) -> Option<JobQueue> {
        let queue = self.queues.get_mut(id.index())?.take()?;
        self.by_no.remove(&queue.no);
        Some(queue)
    }

    pub(crate) fn add_queue(&mut self, id: QueueId, queue: JobQueue) {
        if self.queues.len() <= id.index() {
            self.queues.resize_with(id.index() + 1, || None);
        }
        self.by_no.insert(queue.no, id);
        self.queues[id.index()] = Some(queue);
    }

    pub(crate) fn counts(&self, queue: QueueId) -> Counts {
        self.queue(queue)
            .map(|queue| queue.counts)
            .unwrap_or_default()
    }

    /// Bytes of payloads in memory.
    pub(crate) fn bytes(&self) -> usize {
        match self.inline {
            // It shares what the core holds.
            true => self.store.bytes(),
            false => self.store.bytes() + self.loaded.bytes(),
        }
    }

    /// Runs that a job may have, 0 for no bound.
    pub(crate) fn tries_of(&self, job: &Job) -> u16 {
        let options = job.options.as_deref();
        // As in Laravel: a job with a retry deadline has no limit of attempts.
        if options.is_some_and(|options| options.retry_until_ms.is_some()) {
            return 0;
        }
        let of_queue = self.queue_id(job.queue).and_then(|queue| self.queue(queue));
        let of_queue = of_queue.map_or(1, |queue| queue.config.tries);
        options
            .and_then(|options| options.tries)
            .unwrap_or(of_queue)
    }

    /// Jobs that are not finished.
    pub(crate) fn unfinished(&self) -> u64 {
        let open = self.queues.iter().flatten().map(|queue| queue.counts);
        let closed = self.closed.values().map(|closed| closed.counts);
        open.chain(closed)
            .map(|counts| counts.ready + counts.delayed + counts.suspended)
            .sum()
    }

    /// Free entries of `waiter_slots`.
    #[cfg(feature = "sim")]
    pub(super) fn free_places(&self) -> &[usize] {
        &self.free
    }

    #[cfg(feature = "sim")]
    pub(super) fn waiter_slots(&self) -> &[(u32, Option<Waiter>)] {
        &self.waiters
    }

    #[cfg(feature = "sim")]
    pub(super) fn all_queues(&self) -> impl Iterator<Item = (QueueId, &JobQueue)> {
        let queues = self.queues.iter().enumerate();
        queues.filter_map(|(at, queue)| Some((QueueId(at as u32), queue.as_ref()?)))
    }

    pub(crate) fn uuid(&self, job: JobId) -> uuid::Uuid {
        self.store.ids().uuid(job)
    }
}
