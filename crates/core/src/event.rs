//! The events that the core takes and the actions that it returns.

use crate::{Exit, Health, KeyId, NewTask, PoolId, QueueId, Span, StopReason, TaskId, WorkerId};

/// Something that happened. [`crate::Core::step`] applies it.
#[derive(Clone, Debug)]
pub enum Event<'a> {
    /// A source brought a task. If the task is rejected, [`Action::Finish`] follows in the same step.
    Arrived(NewTask<'a>),
    /// The store has a task of this lane that was not offered to the core, because there was no room (see
    /// [`crate::Core::has_room`]).
    Backlog {
        queue: QueueId,
        class: u8,
        key: &'a [u8],
    },
    /// The store has offered the tasks that [`Action::Refill`] requested. `more`: the store has further tasks
    /// of this lane.
    Refilled {
        queue: QueueId,
        class: u8,
        key: KeyId,
        more: bool,
    },
    /// The store has offered tasks of other keys, as [`Action::RefillKeys`] requested, or a queue was opened. `more`: the
    /// store has, or may have, tasks of further keys.
    RefilledKeys {
        queue: QueueId,
        more: bool,
    },
    /// The task's outcome is no longer wanted. With `kill`, the task is stopped even if its worker must be
    /// killed for that.
    Cancel {
        task: TaskId,
        kill: bool,
    },
    /// A spawned worker sent HELLO.
    Hello {
        worker: WorkerId,
        offer: Offer<'a>,
    },
    /// A worker that the data plane did not start has connected by itself. [`Action::Admit`] returns its id with the same
    /// ticket.
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
    /// A worker answered a task. `worked` is the run time that the worker measured itself, zero if it reported
    /// none.
    Answered {
        worker: WorkerId,
        task: TaskId,
        answer: Answer,
        worked: Span,
    },
    /// A worker has begun to answer a call in parts; [`Event::Answered`] follows with the last one. A part may have
    /// reached the caller, so the call never runs again.
    AnswerBegun {
        worker: WorkerId,
        task: TaskId,
    },
    /// A worker has sent a further part of an answer that it has begun, and which is not the last one. The time limits of
    /// the call count anew, except for a deadline that its caller has set.
    AnswerContinued {
        worker: WorkerId,
        task: TaskId,
    },
    /// The source has recorded a job as done, as [`Action::Claim`] requested: the job may be sent to its
    /// worker.
    Claimed {
        task: TaskId,
    },
    /// A job's code acknowledged its work and continues to run. The outcome is reported at once, and the job
    /// never runs again, however this run ends.
    Acknowledged {
        worker: WorkerId,
        task: TaskId,
    },
    /// A job of an ordered queue is parked in the store until its next run, and no other job of its key may
    /// overtake it. Without `blocked`, the job will not run again and no longer blocks its key.
    Blocked {
        queue: QueueId,
        key: &'a [u8],
        blocked: bool,
    },
    /// A worker with [`Offer::pull`] requests one task or, without `wanted`, withdraws its request.
    Ready {
        worker: WorkerId,
        wanted: bool,
    },
    /// The data plane has stopped reading a worker's answers because memory is short or, without `paused`, reads them
    /// again. The worker's tasks can't end in between, so that time does not count against their limits.
    ReadingPaused {
        worker: WorkerId,
        paused: bool,
    },
    /// The data plane could not send a task that was just assigned. The task is kept apart until [`Event::Resumed`];
    /// no attempt is counted.
    Deferred {
        worker: WorkerId,
        task: TaskId,
    },
    /// A deferred task waits for a worker again, ahead of all tasks that came later.
    Resumed {
        task: TaskId,
    },
    /// A worker takes no more tasks and leaves. Tasks that it has not begun are put back into their queues.
    Left {
        worker: WorkerId,
    },
    /// A worker broke the protocol.
    Misbehaved {
        worker: WorkerId,
    },
    /// A worker's resident memory in bytes, as [`Action::Measure`] requested.
    Measured {
        worker: WorkerId,
        rss: u64,
    },
    /// A worker's process has ended, and everything that it wrote has been read and applied.
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
    /// Replace all workers of a pool with workers of a new version.
    Reload {
        pool: PoolId,
    },
    /// The pool was removed from the configuration: it serves no queue any more, and its workers finish their
    /// tasks and exit. [`crate::Core::add_pool`] may reuse its id once they have gone.
    PoolRemoved {
        pool: PoolId,
    },
    /// The queue was removed from the configuration. Pools whose workers announced it still serve it; its jobs
    /// stay where they are.
    Unconfigured {
        queue: QueueId,
    },
    /// Shut down: start no more jobs, finish running tasks and stop all workers.
    Drain,
    /// A deadline that [`crate::Core::next_deadline`] returned has passed.
    Tick,
}

/// The properties that a worker announces when it connects.
#[derive(Clone, Copy, Debug)]
pub struct Offer<'a> {
    /// Maximum number of concurrent tasks, at least 1.
    pub slots: u16,
    pub soft_cancel: bool,
    /// The worker is assigned one task for each request ([`Event::Ready`]) and none without a request. Only
    /// with one slot.
    pub pull: bool,
    /// Maximum number of tasks that the worker runs before it exits by itself; 0 for no limit.
    pub tasks: u64,
    pub calls: &'a [String],
    pub idempotent: &'a [String],
    /// Queues that the worker serves; `*` means every queue of its pool and every queue that no other pool
    /// serves.
    pub jobs: &'a [String],
    /// The worker is not permitted to run anything that it does not offer. It is sent GOAWAY when its pool begins to
    /// serve something else.
    pub exclusive: bool,
}

/// A worker's answer to a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    Done,
    /// The code requests another run, after this delay or, if `None`, after the job's backoff.
    Retry(Option<Span>),
    /// The code failed the job permanently, or the answer to a call is an error.
    Failed,
    /// The code failed, but another run may succeed.
    Error,
    Cancelled,
    /// The worker returned the task without starting it.
    Returned,
    /// The process that the worker had started for this task crashed. The worker itself continues.
    Crashed(Exit),
}

/// How a task ended. The source receives exactly one outcome for each task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The worker answered: the body of its answer is the result or the error.
    Answered,
    /// The job failed permanently; the body of the answer contains the reason.
    Failed,
    Cancelled,
    /// The task's deadline passed. `ran`: a worker had started the task.
    Deadline {
        ran: bool,
    },
    /// The run exceeded its time limit.
    TimedOut,
    NoWorker,
    WorkerDied(Exit),
    /// Workers repeatedly returned the task instead of answering it.
    Abandoned,
    Quarantined {
        crashes: u8,
        exit: Exit,
    },
    /// The queue has too many waiting tasks. The caller may retry later.
    Exhausted {
        retry_after: Span,
    },
    /// The task would have waited longer than its deadline or its queue allows.
    Shed {
        retry_after: Span,
    },
    /// The pool is unhealthy or the server is draining.
    Unavailable {
        retry_after: Span,
    },
    /// The call would have waited for the worker that made it.
    WouldDeadlock,
}

/// The facts about a task that has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Facts {
    pub waited: Span,
    /// Duration of the current run; zero while the task waits.
    pub ran: Span,
    /// A worker has started the task at least once.
    pub has_run: bool,
    pub worker: Option<WorkerId>,
    /// Number of counted runs, including the last one. Crashes are counted separately.
    pub attempt: u16,
    pub crashes: u8,
}

/// An instruction to the data plane. Actions must be performed in the order in which they are returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Start a process for this worker.
    Spawn {
        worker: WorkerId,
        pool: PoolId,
        version: u32,
        number: u32,
    },
    /// The worker that connected by itself with this ticket is admitted under this id.
    Admit {
        worker: WorkerId,
        ticket: u32,
        number: u32,
    },
    /// Record a job as done before it is sent to its worker, then answer with [`Event::Claimed`]. If the job
    /// can't be recorded, cancel it.
    Claim {
        task: TaskId,
    },
    /// Send a task to a worker. `time_left` is `None` if the task has no deadline.
    Deliver {
        worker: WorkerId,
        task: TaskId,
        time_left: Option<Span>,
        attempt: u16,
        crashes: u8,
    },
    /// Notify a worker that supports soft cancellation that a task's answer is no longer wanted or that its
    /// time is up.
    CancelOn {
        worker: WorkerId,
        task: TaskId,
    },
    /// Send the soft signal to a worker that supports it.
    SoftSignal {
        worker: WorkerId,
    },
    /// Send GOAWAY to a worker and half-close its socket: the worker must finish its tasks and exit.
    Goaway {
        worker: WorkerId,
        why: StopReason,
    },
    Terminate {
        worker: WorkerId,
    },
    /// Close the connection of a worker that connected by itself and has no task. Its process continues.
    Disconnect {
        worker: WorkerId,
    },
    /// Kill a worker and all processes that it started.
    Kill {
        worker: WorkerId,
        why: StopReason,
    },
    /// The worker is gone and its id may be reused.
    Release {
        worker: WorkerId,
    },
    /// Send the first part of a call's answer to its caller.
    BeginAnswer {
        task: TaskId,
        facts: Facts,
    },
    /// Report a task's outcome to its source while a worker still has the task.
    Answer {
        task: TaskId,
        outcome: Outcome,
        facts: Facts,
    },
    /// Report a task's outcome to its source. The task's number is free.
    Finish {
        task: TaskId,
        outcome: Outcome,
        facts: Facts,
    },
    /// The outcome was reported earlier; the task's number is free.
    Drop {
        task: TaskId,
    },
    /// The job is to run again: put it back into the store. The task's number is free.
    Retry {
        task: TaskId,
        after: Option<Span>,
        cause: Cause,
        facts: Facts,
    },
    /// The server shuts down before the job could run. The job stays in the store, or is put back there if it
    /// was already recorded as done. The task's number is free.
    Return {
        task: TaskId,
    },
    /// Offer more tasks of this lane and answer with [`Event::Refilled`].
    Refill {
        queue: QueueId,
        class: u8,
        key: KeyId,
    },
    /// Offer tasks of keys for which there was no room and answer with [`Event::RefilledKeys`].
    RefillKeys {
        queue: QueueId,
    },
    /// Measure a worker's resident memory.
    Measure {
        worker: WorkerId,
    },
    Notice(Notice),
    /// A reload has ended. With `done`, all workers are of the new version; otherwise the reload was given up.
    Reloaded {
        pool: PoolId,
        done: bool,
    },
    /// The drain is complete.
    Drained,
}

/// Why a job runs again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// The answer of the run caused it; the body of the answer contains the reason.
    Answered,
    TimedOut,
    /// Workers repeatedly returned the task instead of answering it.
    Abandoned,
}

/// Why a worker that did nothing wrong is replaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Recycled {
    /// The worker has run as many tasks as `max_tasks` allows.
    Tasks,
    /// The worker is as old as `max_age` allows.
    Age,
    /// The worker uses more resident memory than `memory_limit` allows.
    Memory { rss: u64 },
}

/// Something that is reported to the operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Notice {
    /// A worker is ready. `quiet` is set for short-lived workers: there are many of them, so they are counted
    /// instead of logged one by one.
    Ready {
        worker: WorkerId,
        quiet: bool,
    },
    /// A worker's process ended. `expected`: the worker had been stopped or exited as planned. `crashed`: the
    /// task that the worker died on.
    Died {
        worker: WorkerId,
        exit: Exit,
        expected: bool,
        quiet: bool,
        why: Option<StopReason>,
        crashed: Option<TaskId>,
    },
    /// A worker will be replaced.
    Recycled {
        worker: WorkerId,
        why: Recycled,
    },
    /// A worker died while it ran this task, alone or beside others, and the task will run again.
    Crashed {
        worker: WorkerId,
        exit: Exit,
        task: TaskId,
        /// Number of workers that this task has killed, including this one.
        crashes: u8,
    },
    /// A worker was stopped or killed while it ran this task, for example at a shutdown that took too long. The
    /// task is not to blame. `again`: the task is put back to run again, unlike a job that already counts as
    /// done or a call that must not be repeated.
    CutOff {
        worker: WorkerId,
        task: TaskId,
        why: Option<StopReason>,
        again: bool,
    },
    /// A worker's process ended before it was useful, usually before it sent HELLO.
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
