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
use crate::sources::{Payload, Payloads, TaskAnswer};
use crate::workers::WorkerHandle;
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use stoker_angel::Channel;
use stoker_core::{Action, Core, Event, KeyId, PoolId, QueueId, TaskId, Time, WorkerId};
use stoker_os::Fd;
use stoker_store::{JobId, Ticket};
use stoker_wire::MetaBuf;

/// Work that is deferred until the actions of the present step are done, because it takes steps of its own.
pub(crate) enum Todo {
    Refill {
        queue: QueueId,
        class: u8,
        key: KeyId,
    },
    RefillKeys {
        queue: QueueId,
    },
    /// A job of an ordered queue is due for its next run.
    Fetch {
        job: JobId,
    },
    /// A call that was assigned to a worker can't be sent for lack of memory.
    Defer {
        worker: WorkerId,
        task: TaskId,
    },
    /// A job that blocked its key has had its last run.
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
    /// Close the connection of a worker that connected by itself; its process continues.
    Disconnect {
        worker: WorkerId,
    },
    /// The configuration of a pool has changed within a step: another step must apply the change.
    Tick,
}

/// A check that is scheduled for a certain time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Alarm {
    /// A client does not read its pending output.
    Stalled(ConnId),
    /// A worker has closed its socket.
    Closed(WorkerId),
    /// A frame is half read.
    HalfFrame(ConnId),
    /// Output of a worker was dropped and not logged yet as dropped.
    Dropped(WorkerId),
    /// Failed runs of a queue were not logged.
    Failures(QueueId),
    /// Progress or a checkpoint of a job has not been reported to the store yet.
    Unreported(TaskId),
    /// Queues that are not in use may have expired.
    Unused,
    /// The listener could not accept connections, and is tried again.
    Accept,
    /// An operator waits for jobs to be cancelled; contains the number of the cancellation.
    Cancelling(u64),
    /// An operator's answer waits for the store.
    Operator(Ticket),
    /// Requests for the list of queues wait for the store; contains the number of their query.
    Counted(u64),
}

/// Bytes that may be added to a connection's output within a turn before they are charged to memory.
const UNCOUNTED: usize = 4 << 10;

/// Statistics of one queue or service.
#[derive(Default)]
pub(crate) struct QueueStats {
    pub(crate) waited: Recent,
    pub(crate) ran: Recent,
    /// Calls that succeeded and calls that failed. Jobs are counted by their store.
    pub(crate) done: u64,
    pub(crate) failed: u64,
    /// Limits which failed runs are logged.
    pub(crate) failures: FailureLog,
}

pub(crate) struct Plane {
    /// The effective configuration. A reload changes it.
    pub(crate) config: Config,
    pub(crate) launch: Launch,
    pub(crate) core: Core,
    pub(crate) clock: Clock,
    pub(crate) now: Time,
    pub(crate) poller: Poller,
    pub(crate) channel: Channel,
    /// Data for the angel is waiting until the socket is writable.
    pub(crate) waits_for_angel: bool,
    pub(crate) heartbeat: HeartbeatSender,
    pub(crate) listener: Fd,
    /// The token by which the server recognizes a gateway.
    pub(crate) gateway_token: Option<String>,
    pub(crate) conns: Slots<Conn>,
    /// Connections that are flushed at the end of the turn.
    pub(crate) dirty: Vec<ConnId>,
    /// Checks that are scheduled for a certain time.
    pub(crate) alarms: Alarms<Alarm>,
    /// Worker handles, indexed by the slot of the worker's id.
    pub(crate) worker_handles: Vec<Option<WorkerHandle>>,
    /// Outputs of workers that are paused until the log has caught up.
    pub(crate) paused_outputs: Vec<ConnId>,
    pub(crate) payloads: Payloads,
    pub(crate) jobs: Jobs,
    pub(crate) queue_stats: Vec<QueueStats>,
    pub(crate) log: Log,
    pub(crate) metrics: Metrics,
    pub(crate) quarantine: Quarantine,
    pub(crate) reloads: Reloads,
    pub(crate) listings: Listings,
    /// The settings of queues that operators have overridden at run time.
    pub(crate) overrides: HashMap<QueueId, Overrides>,
    /// The configuration with which the workers of each version of a pool are started.
    pub(crate) specs: HashMap<(PoolId, u32), Arc<PoolSpec>>,
    /// For each pool, the number of workers that ran their last task and exited normally.
    pub(crate) spent: HashMap<PoolId, u64>,
    /// For each pool, the number of workers that ended unexpectedly, and how the last of them ended.
    pub(crate) restarts: HashMap<PoolId, u64>,
    pub(crate) last_exits: HashMap<PoolId, String>,
    pub(crate) actions: Vec<Action>,
    pub(crate) todo: VecDeque<Todo>,
    pub(crate) meta: MetaBuf,
    pub(crate) drained: bool,
    /// The log has reported which queues with jobs no pool serves.
    pub(crate) orphans_reported: bool,
    pub(crate) lost_angel: bool,
    /// The number of turns, the time they took in total, and the longest of them.
    pub(crate) turns: u64,
    pub(crate) busy_us: u64,
    pub(crate) max_lag_us: u64,
    pub(crate) memory: Memory,
    pub(crate) places: Places,
    pub(crate) answer_sizes: AnswerSizes,
}

impl Plane {
    /// Applies an event to the core and performs the resulting actions. `answer` is the worker's answer that
    /// caused the event, for outcomes that carry its body.
    pub(crate) fn step(&mut self, event: Event<'_>, answer: Option<&TaskAnswer<'_>>) {
        let mut actions = std::mem::take(&mut self.actions);
        self.core.step(self.now, event, &mut actions);
        for action in actions.drain(..) {
            self.perform(action, answer);
        }
        self.actions = actions;
    }

    /// Runs the deferred work until none is left.
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

    /// Lists a connection to be flushed at the end of the turn, and charges its new output to memory. Small
    /// additions are charged later, with the next addition or by the flush.
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
