//! The state that the data plane keeps for jobs: the store, the queues, and the waiters for events of the store.

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

/// The data plane's state of jobs and of the job store.
pub(crate) struct Jobs {
    pub(crate) store: Box<dyn Driver>,
    /// The store answers requests immediately, as the memory store does.
    pub(crate) inline: bool,
    /// Requests were sent to the store since its events were last received. Without any, for example if there are
    /// only calls, its events need not be received.
    pub(crate) has_requests: bool,
    /// A request was sent whose effect the store's counts may not include yet.
    pub(crate) is_uncounted: bool,
    /// Events of the store that have not been handled yet.
    pub(crate) events: Vec<StoreEvent>,
    pub(crate) loaded: LoadedJobs,
    /// The queues by their id in the core; `None` for services.
    queues: Vec<Option<JobQueue>>,
    by_no: HashMap<QueueNo, QueueId>,
    /// Jobs of ordered queues between two runs, which keep their position.
    pub(crate) parked: ParkedJobs,
    /// Waiters with their generation, because slots are reused.
    waiters: Vec<(u32, Option<Waiter>)>,
    free: Vec<usize>,
    /// Queues that were closed and that the store still has.
    pub(crate) closed: HashMap<QueueNo, Closed>,
    /// An alarm is set at which unused queues expire.
    pub(crate) has_unused_alarm: bool,
    /// Loads that wait for memory.
    pub(crate) postponed: VecDeque<Todo>,
    /// A job is being loaded although little memory is left.
    pub(crate) loads_over_limit: bool,
    pub(crate) cancellings: Cancellings,
    /// The reason why the store rejects pushes at present.
    pub(crate) failing: Option<Trouble>,
    /// A job started or ended in this turn.
    pub(crate) runs_changed: bool,
}

/// A queue of jobs.
pub(crate) struct JobQueue {
    pub(crate) no: QueueNo,
    pub(crate) name: NameId,
    pub(crate) config: JobsConfig,
    pub(crate) counts: Counts,
    /// The number of pushes that the store has not answered.
    pub(crate) pending: u64,
    /// The time of the last push, or of opening.
    pub(crate) used_at: Time,
    /// The producer that created the queue by pushing to its name.
    pub(crate) creator: Option<UserId>,
}

impl JobQueue {
    /// Whether no job of the queue waits, runs or has failed.
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
            inline: store.wake_fd().is_none(),
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
            has_unused_alarm: false,
            postponed: VecDeque::new(),
            loads_over_limit: false,
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

    /// Creates a ticket for a waiter.
    pub(crate) fn create_ticket(&mut self, waiter: Waiter) -> Ticket {
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
        let waiter = self.waiter_entry(ticket)?.take()?;
        self.free.push(at);
        Some(waiter)
    }

    /// The tickets of requests whose event has not been received.
    pub(super) fn open_tickets(&self) -> Vec<Ticket> {
        let all = (0..).zip(&self.waiters);
        let open = all.filter(|(_, (_, waiter))| waiter.is_some());
        open.map(|(at, (generation, _))| Ticket(at, *generation))
            .collect()
    }

    fn waiter_entry(&mut self, ticket: Ticket) -> Option<&mut Option<Waiter>> {
        let at = usize::try_from(ticket.0).ok()?;
        let (generation, place) = self.waiters.get_mut(at)?;
        (*generation == ticket.1).then_some(place)
    }

    /// Ends the wait of a client for an answer, and returns that client. Workers keep waiting.
    pub(crate) fn stop_waiting(&mut self, ticket: Ticket) -> Option<(ConnId, u32)> {
        match self.waiter_entry(ticket)?.as_mut()? {
            Waiter::Push { to, .. } => to.take(),
            Waiter::Reply { conn, id, .. } | Waiter::Admin { conn, id, .. } => {
                Some((std::mem::replace(conn, ConnId::NONE), *id))
            }
            Waiter::Recalled(recalled) => recalled.stop_waiting(),
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

    /// The queue with this number in the store.
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
            // The store shares its payloads with the loaded jobs.
            true => self.store.bytes(),
            false => self.store.bytes() + self.loaded.bytes(),
        }
    }

    /// The maximum number of runs of a job; 0 for no limit.
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

    /// The number of unfinished jobs.
    pub(crate) fn unfinished(&self) -> u64 {
        let open = self.queues.iter().flatten().map(|queue| queue.counts);
        let closed = self.closed.values().map(|closed| closed.counts);
        open.chain(closed)
            .map(|counts| counts.ready + counts.delayed + counts.suspended)
            .sum()
    }

    /// Free entries of `waiter_slots`.
    #[cfg(feature = "sim")]
    pub(super) fn free_waiter_slots(&self) -> &[usize] {
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
