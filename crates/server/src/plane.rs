//! The state of the server, owned by one thread.

use crate::admin::{Listings, Overrides, Quarantine, Reloads};
use crate::alarms::Alarms;
use crate::answers::AnswerSizes;
use crate::clock::Clock;
use crate::config::{Config, Launch, Pool as PoolSpec};
use crate::heartbeat::HeartbeatSender;
use crate::memory::Memory;
use crate::net::{Conn, ConnId, Poller, Slots};
use crate::observe::{Log, Metrics, Recent};
use crate::sources::jobs::Jobs;
use crate::sources::jobs::failures::FailureLog;
use crate::sources::rpc::Places;
use crate::sources::{Payload, Payloads};
use crate::workers::WorkerHandle;
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use stoker_angel::Channel;
use stoker_core::{Action, Core, Event, KeyId, PoolId, QueueId, TaskId, Time, WorkerId};
use stoker_os::Fd;
use stoker_store::{JobId, Ticket};
use stoker_wire::{Frame, MetaBuf};

/// What is to be done after the actions of the present step: each of these takes steps of its own.
pub(crate) enum Todo {
    Refill {
        queue: QueueId,
        class: u8,
        key: KeyId,
    },
    RefillKeys {
        queue: QueueId,
    },
    /// A job of an ordered queue whose next run is due.
    Fetch {
        job: JobId,
    },
    /// A call that was assigned to a worker and can't be sent for want of memory.
    Defer {
        worker: WorkerId,
        task: TaskId,
    },
    /// A job that its key waited for had its last run.
    Unblock {
        queue: QueueId,
        key: Box<[u8]>,
    },
    Measured {
        worker: WorkerId,
        rss: u64,
    },
    KillDialled {
        worker: WorkerId,
    },
    /// Close the connection of a worker that dialled in and let its process go on.
    Disconnect {
        worker: WorkerId,
    },
    /// What a pool is like has changed within a step: another one acts on it.
    Tick,
}

/// Something that is looked at again when its time has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Alarm {
    /// A client that takes nothing of what waits for it.
    Stalled(ConnId),
    /// A worker that closed its socket.
    Closed(WorkerId),
    /// A frame that was half read.
    HalfFrame(ConnId),
    /// A worker of whose output some is not logged.
    Dropped(WorkerId),
    /// A queue of whose failed runs some are not logged.
    Failures(QueueId),
    /// A job with progress or a checkpoint that has not been reported to the store.
    Unreported(TaskId),
    /// Queues that nobody needs.
    Unused,
    /// The listener, after it could not accept.
    Accept,
    /// An operator who waits for jobs to be cancelled, by their number.
    Cancelling(u64),
    /// An operator whose answer waits for the store.
    Operator(Ticket),
    /// Requests for the list of queues that wait for the store, by the number of their look.
    Counted(u64),
}

/// Bytes of one connection's output that need not be counted at once, within a turn.
const UNCOUNTED: usize = 4 << 10;

/// Statistics of one queue or service.
#[derive(Default)]
pub(crate) struct QueueStats {
    pub(crate) waited: Recent,
    pub(crate) ran: Recent,
    /// Calls by how they ended; jobs are counted by their store.
    pub(crate) done: u64,
    pub(crate) failed: u64,
    /// Which failed runs of jobs are logged.
    pub(crate) failures: FailureLog,
}

pub(crate) struct Plane {
    /// As it is served: a reload changes what it says of pools.
    pub(crate) config: Config,
    pub(crate) launch: Launch,
    pub(crate) core: Core,
    pub(crate) clock: Clock,
    pub(crate) now: Time,
    pub(crate) poller: Poller,
    pub(crate) channel: Channel,
    /// Something waits for the angel to read.
    pub(crate) waits_for_angel: bool,
    pub(crate) heartbeat: HeartbeatSender,
    pub(crate) listener: Fd,
    /// The token by which a gateway is recognized.
    pub(crate) gateway_token: Option<String>,
    pub(crate) conns: Slots<Conn>,
    /// Connections with something to flush at the end of the turn.
    pub(crate) dirty: Vec<ConnId>,
    /// What is to be looked at again at some time.
    pub(crate) alarms: Alarms<Alarm>,
    /// By the slot of the worker's number.
    pub(crate) worker_handles: Vec<Option<WorkerHandle>>,
    /// Worker outputs that are paused until the log has caught up.
    pub(crate) paused_outputs: Vec<ConnId>,
    pub(crate) payloads: Payloads,
    pub(crate) jobs: Jobs,
    pub(crate) queue_stats: Vec<QueueStats>,
    pub(crate) log: Log,
    pub(crate) metrics: Metrics,
    pub(crate) quarantine: Quarantine,
    pub(crate) reloads: Reloads,
    pub(crate) listings: Listings,
    /// The overrides of queues that operators have set at run time.
    pub(crate) overrides: HashMap<QueueId, Overrides>,
    /// How workers of each version of a pool are started.
    pub(crate) specs: HashMap<(PoolId, u32), Arc<PoolSpec>>,
    /// Workers of a pool that took their last task and ended well.
    pub(crate) spent: HashMap<PoolId, u64>,
    /// Workers of a pool that ended without having been told to, and how the last of them did.
    pub(crate) restarts: HashMap<PoolId, u64>,
    pub(crate) last_exits: HashMap<PoolId, String>,
    pub(crate) actions: Vec<Action>,
    pub(crate) todo: VecDeque<Todo>,
    pub(crate) meta: MetaBuf,
    pub(crate) drained: bool,
    /// The log has reported which queues of the store nobody serves.
    pub(crate) orphans_reported: bool,
    pub(crate) lost_angel: bool,
    /// Turns so far, and how long they took.
    pub(crate) turns: u64,
    pub(crate) busy_us: u64,
    pub(crate) max_lag_us: u64,
    pub(crate) memory: Memory,
    pub(crate) places: Places,
    pub(crate) answer_sizes: AnswerSizes,
}

impl Plane {
    /// Applies an event to the core and performs what follows. `answer` is the frame that the event
    /// came from, for outcomes that carry its body.
    pub(crate) fn step(&mut self, event: Event<'_>, answer: Option<&Frame<'_>>) {
        let mut actions = std::mem::take(&mut self.actions);
        self.core.step(self.now, event, &mut actions);
        for action in actions.drain(..) {
            self.perform(action, answer);
        }
        self.actions = actions;
    }

    /// Runs what steps have deferred, until nothing is left.
    pub(crate) fn settle(&mut self) {
        loop {
            self.run_deferred();
            if !self.jobs.inline
                || !std::mem::take(&mut self.jobs.has_requests)
                || !self.receive_store_events()
            {
                return;
            }
        }
    }

    fn run_deferred(&mut self) {
        while let Some(todo) = self.todo.pop_front() {
            match todo {
                Todo::Refill { queue, class, key } => self.refill(queue, class, key),
                Todo::RefillKeys { queue } => self.refill_keys(queue),
                Todo::Fetch { job } => self.fetch(job),
                Todo::Defer { worker, task } => self.defer(worker, task),
                Todo::Unblock { queue, key } => self.block_key(queue, &key, false),
                Todo::Measured { worker, rss } => self.step(Event::Measured { worker, rss }, None),
                Todo::KillDialled { worker } => self.kill_dialled(worker),
                Todo::Disconnect { worker } => self.disconnect(worker),
                Todo::Tick => self.step(Event::Tick, None),
            }
        }
    }

    pub(crate) fn queue_stats(&mut self, queue: QueueId) -> &mut QueueStats {
        if self.queue_stats.len() <= queue.index() {
            self.queue_stats
                .resize_with(queue.index() + 1, QueueStats::default);
        }
        &mut self.queue_stats[queue.index()]
    }

    pub(crate) fn payload(&self, task: TaskId) -> &Payload {
        &self.payloads[task]
    }

    pub(crate) fn worker_handle(&self, worker: WorkerId) -> Option<&WorkerHandle> {
        self.worker_handles
            .get(worker.slot as usize)?
            .as_ref()
            .filter(|handle| handle.id == worker)
    }

    pub(crate) fn worker_handle_mut(&mut self, worker: WorkerId) -> Option<&mut WorkerHandle> {
        self.worker_handles
            .get_mut(worker.slot as usize)?
            .as_mut()
            .filter(|handle| handle.id == worker)
    }

    pub(crate) fn add_worker_handle(&mut self, handle: WorkerHandle) {
        let slot = handle.id.slot as usize;
        if self.worker_handles.len() <= slot {
            self.worker_handles.resize_with(slot + 1, || None);
        }
        self.worker_handles[slot] = Some(handle);
    }

    /// Lists a connection to be flushed at the end of the turn, and counts what was put into its output. Little more
    /// than was counted is counted with the next, or by the flush.
    pub(crate) fn mark_dirty(&mut self, id: ConnId) {
        if let Some(conn) = self.conns.get_mut(id) {
            let is_listed = std::mem::replace(&mut conn.dirty, true);
            if !is_listed || conn.unsent() > conn.counted.unsent + UNCOUNTED {
                self.memory.count_output(conn);
            }
            if !is_listed {
                self.dirty.push(id);
            }
        }
    }
}
