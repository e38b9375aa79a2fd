//! The events that the core takes and the actions that it returns.

use crate::{Exit, Health, KeyId, NewTask, PoolId, QueueId, Span, TaskId, Why, WorkerId};

/// Something that happened. Each is applied by [`crate::Core::step`].
#[derive(Clone, Debug)]
pub enum Event<'a> {
    /// A task came. Answered with Finish at once if it is refused.
    Arrived(NewTask<'a>),
    /// The store holds a task of this lane that was not offered (see [`crate::Core::has_room`]).
    Backlog {
        queue: QueueId,
        class: u8,
        key: &'a [u8],
    },
    /// The store has offered what [`Action::Refill`] asked for; `more` tells whether it has yet more.
    Refilled {
        queue: QueueId,
        class: u8,
        key: KeyId,
        more: bool,
    },
    /// The store has offered tasks of other keys, as [`Action::RefillKeys`] asked.
    RefilledKeys {
        queue: QueueId,
        more: bool,
    },
    /// Nobody wants this task's outcome any more. With `kill`, not even at the price of its worker.
    Cancel {
        task: TaskId,
        kill: bool,
    },
    /// A spawned worker said HELLO.
    Hello {
        worker: WorkerId,
        offer: Offer<'a>,
    },
    /// A worker dialled in; [`Action::Admit`] names it.
    Joined {
        pool: PoolId,
        ticket: u32,
        offer: Offer<'a>,
    },
    /// A worker with several slots began a task.
    Started {
        worker: WorkerId,
        task: TaskId,
    },
    /// A worker answered a task. `worked` is its own measure of the run, zero if it has none.
    Answered {
        worker: WorkerId,
        task: TaskId,
        answer: Answer,
        worked: Span,
    },
    /// The source has recorded a job as done, as [`Action::Claim`] asked: its worker may have it.
    Claimed {
        task: TaskId,
    },
    /// A job's code acknowledges its work and continues. The outcome is reported at once, and it never
    /// runs again, whatever becomes of this run.
    Acknowledged {
        worker: WorkerId,
        task: TaskId,
    },
    /// A job of an ordered queue waits in the store for its next run, and nothing of its key may overtake
    /// it; or (not `blocked`) it will not come back after all.
    Blocked {
        queue: QueueId,
        key: &'a [u8],
        blocked: bool,
    },
    /// A worker with [`Offer::pull`] asks for one task, or (not `wanted`) withdraws that.
    Ready {
        worker: WorkerId,
        wanted: bool,
    },
    /// The edge does not read what a worker answers, for want of memory, or (not `unread`) does so again. Its
    /// tasks can't end meanwhile, so that time does not count against them.
    Unread {
        worker: WorkerId,
        unread: bool,
    },
    /// The edge can't send a task that was just assigned. It waits apart until [`Event::Resumed`], at no cost.
    Deferred {
        worker: WorkerId,
        task: TaskId,
    },
    /// A deferred task waits for a worker again, before all that came later.
    Resumed {
        task: TaskId,
    },
    /// A worker takes nothing new: what it has not answered goes back.
    Left {
        worker: WorkerId,
    },
    /// A worker broke the protocol.
    Misbehaved {
        worker: WorkerId,
    },
    /// A worker's resident bytes, as [`Action::Measure`] asked.
    Measured {
        worker: WorkerId,
        rss: u64,
    },
    /// A worker's process ended, and all that it wrote has been read and applied.
    Exited {
        worker: WorkerId,
        exit: Exit,
    },
    Paused {
        queue: QueueId,
        paused: bool,
    },
    Scale {
        pool: PoolId,
        min: u32,
        max: u32,
    },
    /// Replace all workers of a pool by such of a new version.
    Reload {
        pool: PoolId,
    },
    /// The configuration has this pool no more: it serves no queue, and its workers finish what they run and go.
    /// [`crate::Core::add_pool`] may use its number again once they have gone.
    PoolRemoved {
        pool: PoolId,
    },
    /// The configuration names this queue no more. It is served by the pools whose workers announced it, if any;
    /// its jobs stay where they are.
    Unconfigured {
        queue: QueueId,
    },
    /// Start nothing that can wait, finish what runs, and go.
    Drain,
    /// A deadline that [`crate::Core::next_deadline`] named has come.
    Tick,
}

/// What a worker says of itself.
#[derive(Clone, Copy, Debug)]
pub struct Offer<'a> {
    /// Tasks at once, at least 1.
    pub slots: u16,
    pub soft_cancel: bool,
    /// It is assigned nothing unless it has asked, one task per [`Event::Ready`]. Only with one slot.
    pub pull: bool,
    /// Tasks that it takes in its life, and then ends by itself; 0 for no bound.
    pub tasks: u64,
    pub calls: &'a [String],
    pub idempotent: &'a [String],
    /// Queues served; `*` serves every queue of its pool.
    pub jobs: &'a [String],
}

/// What a worker says of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    Done,
    /// The code asks for another run, after so long or by the job's backoff.
    Retry(Option<Span>),
    /// The code gives the job up, or the answer to a call is an error.
    Failed,
    /// The code failed in a way that another run may not.
    Error,
    Cancelled,
    /// The worker never started it.
    Returned,
    /// The process that the worker had started for this task died so. The worker goes on.
    Crashed(Exit),
}

/// How a task ended. Exactly one of these reaches its source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// As the worker answered: the body of its answer is the result or the error.
    Answered,
    /// A job that its code failed for the last time; the body of the answer contains the reason.
    Failed,
    Cancelled,
    /// Its time ran out; `ran` tells whether a worker had started it.
    Deadline {
        ran: bool,
    },
    /// Its run took longer than it may.
    TimedOut,
    NoWorker,
    WorkerDied(Exit),
    /// Workers returned it again and again instead of answering it.
    Abandoned,
    Quarantined {
        crashes: u8,
        exit: Exit,
    },
    /// Too much waits. Come back later.
    Exhausted {
        retry_after: Span,
    },
    /// It would have waited longer than it or its queue allows.
    Shed {
        retry_after: Span,
    },
    /// The pool is unhealthy or the server drains.
    Unavailable {
        retry_after: Span,
    },
    /// It would have waited for the worker that makes the call.
    WouldDeadlock,
}

/// What is known of a task's way when it ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Facts {
    pub waited: Span,
    /// Duration of the current run; zero while it waits.
    pub ran: Span,
    /// A worker has started it at least once.
    pub has_run: bool,
    pub worker: Option<WorkerId>,
    /// Runs that its code ended, the last one included.
    pub attempt: u16,
    pub crashes: u8,
}

/// Something the edge is to do. In the order given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Start a process for this worker.
    Spawn {
        worker: WorkerId,
        pool: PoolId,
        version: u32,
        number: u32,
    },
    /// The worker that came with this ticket is in.
    Admit {
        worker: WorkerId,
        ticket: u32,
        number: u32,
    },
    /// Record a job as done before its worker gets it, and answer with [`Event::Claimed`]. If it can't be recorded,
    /// cancel it.
    Claim {
        task: TaskId,
    },
    /// Send a task to a worker. `time_left` is `None` if its time is not bounded.
    Deliver {
        worker: WorkerId,
        task: TaskId,
        time_left: Option<Span>,
        attempt: u16,
        crashes: u8,
    },
    /// Tell a worker that understands it that a task's answer is no longer wanted or its time is up.
    CancelOn {
        worker: WorkerId,
        task: TaskId,
    },
    /// Send the soft signal to a worker that asked for it.
    Nudge {
        worker: WorkerId,
    },
    /// Tell a worker to finish and go, and half-close its socket.
    Goaway {
        worker: WorkerId,
        why: Why,
    },
    Terminate {
        worker: WorkerId,
    },
    /// Close the connection of a worker that dialled in, was sent GOAWAY and has no task. Its process
    /// continues.
    Disconnect {
        worker: WorkerId,
    },
    /// Kill a worker and all that it started.
    Kill {
        worker: WorkerId,
        why: Why,
    },
    /// The worker is gone and its number free.
    Release {
        worker: WorkerId,
    },
    /// Tell the source how a task ended, while a worker still has it.
    Answer {
        task: TaskId,
        outcome: Outcome,
        facts: Facts,
    },
    /// Tell the source how a task ended; its number is free.
    Finish {
        task: TaskId,
        outcome: Outcome,
        facts: Facts,
    },
    /// The outcome was reported before; the task's number is free.
    Drop {
        task: TaskId,
    },
    /// The job is to run again: put it back into the store. Its number is free.
    Retry {
        task: TaskId,
        after: Option<Span>,
        cause: Cause,
        facts: Facts,
    },
    /// The job did not get to run and the server goes: it stays in the store, or goes back there if it was
    /// recorded as done already. Its number is free.
    Return {
        task: TaskId,
    },
    /// Offer more of this lane.
    Refill {
        queue: QueueId,
        class: u8,
        key: KeyId,
    },
    /// Offer tasks of keys that found no room.
    RefillKeys {
        queue: QueueId,
    },
    /// Measure a worker's resident bytes.
    Measure {
        worker: WorkerId,
    },
    Notice(Notice),
    /// A reload ended: all workers are of the new version, or (not `done`) of the old one again.
    Reloaded {
        pool: PoolId,
        done: bool,
    },
    /// Nothing is left to drain.
    Drained,
}

/// Why a job runs again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// The answer's body tells.
    Answered,
    TimedOut,
    /// Workers returned it again and again instead of answering it.
    Abandoned,
}

/// Why a worker is replaced that did nothing wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Recycled {
    /// It has run as many tasks as `max_tasks` allows.
    Tasks,
    /// It is as old as `max_age` allows.
    Age,
    /// It has more resident bytes than `memory_limit` allows.
    Memory { rss: u64 },
}

/// Something an operator would want to read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Notice {
    /// `quiet` for short-lived workers, of which there are many: count them instead of logging
    /// each.
    Ready {
        worker: WorkerId,
        quiet: bool,
    },
    /// A worker's process ended. `expected` if it had been told to go; `crashed` is the task that it
    /// died on.
    Died {
        worker: WorkerId,
        exit: Exit,
        expected: bool,
        quiet: bool,
        why: Option<Why>,
        crashed: Option<TaskId>,
    },
    /// A worker is to be replaced.
    Recycled {
        worker: WorkerId,
        why: Recycled,
    },
    /// A worker died on this task, or on another one beside which it ran, and it is to run again.
    Crashed {
        worker: WorkerId,
        exit: Exit,
        task: TaskId,
        /// Workers that it has killed, this one included.
        crashes: u8,
    },
    /// A worker was ended by force while it ran this task, which is not to blame: at a shutdown that took too
    /// long, say. `again`: it may run again, and does. A job that counts as done may not.
    CutOff {
        worker: WorkerId,
        task: TaskId,
        why: Option<Why>,
        again: bool,
    },
    /// A worker's process ended before it was of any use; most often before it said HELLO.
    BootFailed {
        worker: WorkerId,
        exit: Exit,
        again_in: Span,
    },
    Health {
        pool: PoolId,
        health: Health,
    },
    ReloadGivenUp {
        pool: PoolId,
    },
}
