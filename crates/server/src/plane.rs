//! The state of the server, owned by one thread.

use crate::admin::Admin;
use crate::alarms::Alarms;
use crate::angel::AngelLink;
use crate::clock::Clock;
use crate::config::{Config, Launch};
use crate::memory::Memory;
use crate::net::{ConnId, Poller};
use crate::observe::{Log, Metrics, Recent};
use crate::sources::jobs::Jobs;
use crate::sources::jobs::failures::FailureLog;
use crate::sources::rpc::Peers;
use crate::sources::{Payload, Payloads, TaskAnswer};
use crate::workers::Workers;
use std::collections::VecDeque;
use stoker_core::{Action, Core, Event, KeyId, QueueId, TaskId, Time, WorkerId};
use stoker_store::{JobId, Ticket};
use stoker_wire::MetaBuf;

/// Work that is deferred until the actions of the current step are done, because it takes steps of its own.
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
    KillConnected {
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
    /// A worker has answered its last task.
    Lingering(WorkerId),
    /// Requests for workers wait for an answer.
    Held,
    /// A frame is half read.
    HalfFrame(ConnId),
    /// Output of a worker was dropped, and that has not been logged yet.
    Dropped(WorkerId),
    /// Report how many failed runs of this queue were left out of the log.
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

/// Statistics of the server as a whole and of each queue and service.
#[derive(Default)]
pub(crate) struct Stats {
    pub(crate) metrics: Metrics,
    /// The metrics that gateways have reported, by the name of the gateway.
    pub(crate) gateway_metrics: Metrics,
    /// By the id of the queue or service.
    pub(crate) queues: Vec<QueueStats>,
    /// The number of turns since the start, and the time that they took in total.
    pub(crate) turns: u64,
    pub(crate) busy_us: u64,
    /// The duration of the longest turn since it was last reported.
    pub(crate) max_lag_us: u64,
}

/// Buffers that are reused, so that a step allocates nothing. Each is empty outside of the function that uses it.
#[derive(Default)]
pub(crate) struct Scratch {
    pub(crate) actions: Vec<Action>,
    pub(crate) meta: MetaBuf,
    /// For reading what is left of a worker's output and answers.
    pub(crate) leftovers: Vec<u8>,
}

/// The state of the server, in parts. The type of each part is defined in the module whose methods mostly use it.
pub(crate) struct Plane {
    /// The configuration in force, including reloads of pools.
    pub(crate) config: Config,
    pub(crate) launch: Launch,
    pub(crate) core: Core,
    pub(crate) clock: Clock,
    pub(crate) now: Time,
    pub(crate) poller: Poller,
    pub(crate) alarms: Alarms<Alarm>,
    pub(crate) log: Log,
    pub(crate) angel: AngelLink,
    pub(crate) peers: Peers,
    pub(crate) workers: Workers,
    pub(crate) payloads: Payloads,
    pub(crate) jobs: Jobs,
    pub(crate) admin: Admin,
    pub(crate) memory: Memory,
    pub(crate) stats: Stats,
    pub(crate) scratch: Scratch,
    /// Work that is deferred until the actions of the current step are done.
    pub(crate) todo: VecDeque<Todo>,
    /// All tasks have ended after a drain was ordered.
    pub(crate) drained: bool,
}

impl Plane {
    /// Applies an event to the core and performs the resulting actions. `answer` is the worker's answer that
    /// caused the event, for outcomes that carry its body.
    pub(crate) fn step(&mut self, event: Event<'_>, answer: Option<&TaskAnswer<'_>>) {
        let mut actions = std::mem::take(&mut self.scratch.actions);
        self.core.step(self.now, event, &mut actions);
        for action in actions.drain(..) {
            self.perform(action, answer);
        }
        self.scratch.actions = actions;
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
                Todo::KillConnected { worker } => self.kill_connected(worker),
                Todo::Disconnect { worker } => self.disconnect(worker),
                Todo::Tick => self.step(Event::Tick, None),
            }
        }
    }

    pub(crate) fn queue_stats_mut(&mut self, queue: QueueId) -> &mut QueueStats {
        if self.stats.queues.len() <= queue.index() {
            self.stats
                .queues
                .resize_with(queue.index() + 1, QueueStats::default);
        }
        &mut self.stats.queues[queue.index()]
    }

    pub(crate) fn payload(&self, task: TaskId) -> &Payload {
        &self.payloads[task]
    }
}
