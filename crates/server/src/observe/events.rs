//! The events that Stoker itself logs. Each has a name, a sentence for people, and fields for machines. All
//! events are declared here; the reference page is generated from the same table.

use serde_json::{Map, Value};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Level {
    Info,
    Warn,
    Error,
}

impl Level {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Info => "info",
            Self::Warn => "warn",
            Self::Error => "error",
        }
    }
}

/// A kind of log line.
pub struct LogEvent {
    pub name: &'static str,
    pub level: &'static str,
    /// Fields that a line of this kind may have, besides `at`, `level`, `event` and `message`.
    pub fields: &'static [&'static str],
    pub doc: &'static str,
    kind: Level,
}

macro_rules! events {
    ($($id:ident $level:ident $name:literal [$($field:literal)*] $doc:literal;)*) => {
        $(pub(crate) static $id: LogEvent = LogEvent {
            name: $name,
            level: Level::$level.name(),
            fields: &[$($field),*],
            doc: $doc,
            kind: Level::$level,
        };)*

        /// All events, in the order of the reference page.
        pub static EVENTS: &[&LogEvent] = &[$(&$id),*];
    };
}

events! {
    SERVING Info "serving" ["pools"] "The server is ready for clients.";
    SERVER_RESTARTED Warn "server_restarted" ["restarts" "reason"] "The server process had ended and was restarted.";
    DRAINING Info "draining" [] "Stoker is shutting down: it accepts nothing new, and running tasks finish.";
    DRAINED Info "drained" [] "All running tasks have ended.";
    JOBS_LEFT Info "jobs_left" ["jobs"] "Unfinished jobs stay in the store.";
    JOBS_LOST Warn "jobs_lost" ["jobs"] "Unfinished jobs of a store in memory are lost.";
    ANGEL_GONE Error "angel_gone" [] "The angel is gone, so the server exits.";
    SOCKET Info "socket" ["path" "reason"] "The socket's file was created again.";
    SOCKET_TROUBLE Warn "socket_trouble" ["path" "reason"] "The socket's file was replaced, or cannot be watched.";
    SOCKET_LOST Error "socket_lost" ["path" "reason"] "Clients cannot reach the socket.";
    GATEWAY Info "gateway" ["gateway"] "An informational line from a gateway.";
    GATEWAY_WARNING Warn "gateway_warning" ["gateway"] "A warning from a gateway.";
    GATEWAY_STARTED Info "gateway_started" ["gateway" "pid"] "A gateway's process was started.";
    GATEWAY_DIED Warn "gateway_died" ["gateway" "pid" "exit"] "A gateway's process ended unexpectedly and is \
    restarted.";
    RUN_FAILED Warn "run_failed" ["job" "type" "queue" "attempt" "crashes" "worker" "ran_ms" "class" "reason" "place" "final" "next_in_ms"] "A run of a job failed: its code threw an exception, failed the job, or requested a retry with an error. `final`: the job is not retried.";
    RUN_TIMED_OUT Warn "run_timed_out" ["job" "type" "queue" "attempt" "crashes" "worker" "ran_ms" "class" "reason" "place" "final" "next_in_ms"] "A run of a job took longer than its timeout.";
    RUN_CRASHED Warn "run_crashed" ["job" "type" "queue" "attempt" "crashes" "worker" "ran_ms" "class" "reason" "place" "final" "next_in_ms"] "A worker died while it ran the job, or while it ran another job at the same time.";
    RUN_CUT_OFF Warn "run_cut_off" ["job" "type" "queue" "attempt" "crashes" "worker" "reason" "final"] "A job's worker was killed for a reason that has nothing to do with the job, such as the end of `stop_grace`. The job is retried, unless it was acknowledged before, as with `ack = \"delivery\"`.";
    CALL_FAILED Warn "call_failed" ["task" "type" "name" "pool" "attempt" "crashes" "worker" "ran_ms" "class" "reason" "final"] "A worker answered a call with an error, or workers returned the call without an answer too often.";
    CALL_TIMED_OUT Warn "call_timed_out" ["task" "type" "name" "pool" "attempt" "crashes" "worker" "ran_ms" "class" "reason" "final"] "The deadline of a call passed, or the call exceeded its timeout.";
    CALL_CRASHED Warn "call_crashed" ["task" "type" "name" "pool" "attempt" "crashes" "worker" "ran_ms" "class" "reason" "final"] "A worker died while it ran a call. `final`: the call is not retried.";
    CALL_CUT_OFF Warn "call_cut_off" ["task" "type" "name" "pool" "attempt" "crashes" "worker" "reason" "final"] "A call's worker was killed for a reason that has nothing to do with the call, such as the end of `stop_grace`.";
    RUNS_NOT_LOGGED Warn "runs_not_logged" ["queue" "runs"] "Failed runs of a queue, or failed calls of a service, were not logged because there were too many; `runs` is their number.";
    WORKER_READY Info "worker_ready" ["worker" "pool" "pid" "version"] "A worker is ready for tasks.";
    WORKER_GONE Info "worker_gone" ["worker" "pool" "pid" "exit"] "A worker that Stoker stopped has ended.";
    WORKER_DIED Warn "worker_died" ["worker" "pool" "pid" "exit" "reason" "in_task" "last_words"] "A worker ended unexpectedly, or was killed.";
    WORKER_KILLED Warn "worker_killed" ["worker" "pool" "pid" "task" "reason"] "A worker is killed.";
    WORKER_RECYCLED Info "worker_recycled" ["worker" "pool" "pid" "reason" "rss_bytes"] "A worker is being replaced because of `max_tasks`, `max_age` or `memory_limit`.";
    WORKER_MISBEHAVED Warn "worker_misbehaved" ["worker" "reason"] "A worker or client broke the protocol.";
    BOOT_FAILED Error "boot_failed" ["worker" "pool" "pid" "exit" "last_words" "next_boot_ms"] "A worker's process ended before it was ready.";
    ZYGOTE_RISK Warn "zygote_risk" ["worker" "pool" "pid" "reason"] "The process that forks a pool's workers has something open that the workers should not share. `stoker check --fork` reports the same.";
    ZYGOTE_GONE Info "zygote_gone" ["worker" "pool" "pid" "exit"] "Stoker stopped the process that forks a pool's workers, because its version is no longer needed or because a freshly booted process replaces it.";
    ZYGOTE_DIED Error "zygote_died" ["worker" "pool" "pid" "exit" "reason" "last_words"] "The process that forks a pool's workers ended unexpectedly. It is started again for the next worker.";
    PROCESS_LEFT Warn "process_left" ["worker" "pid" "command"] "A worker left a process behind, which Stoker kills.";
    POOL_HEALTHY Info "pool_healthy" ["pool"] "The workers of a pool can start.";
    POOL_UNHEALTHY Error "pool_unhealthy" ["pool" "boots"] "Several workers of a pool in a row could not start.";
    VERSION_BLAMED Error "version_blamed" ["pool"] "Many different tasks kill the workers of a pool.";
    QUARANTINED Error "quarantined" ["pool" "queue" "task" "crashes"] "A task has killed as many workers as `crash_budget` allows; it is not retried.";
    RELOAD_APPLIED Info "reload_applied" ["file" "keys"] "A reload has applied these keys of the configuration.";
    RELOAD_OVERRIDDEN Info "reload_overridden" ["file" "keys"] "These keys of the configuration have no effect, because `stoker scale` or `stoker set` overrides them.";
    RELOAD_NEEDS_RESTART Warn "reload_needs_restart" ["file" "keys"] "These keys of the configuration have changed, but need a restart.";
    RELOAD_REJECTED Error "reload_rejected" ["reason"] "The configuration cannot be applied; nothing has changed.";
    RELOAD_STARTED Info "reload_started" ["pool" "version"] "The workers of a pool are being replaced.";
    RELOAD_DONE Info "reload_done" ["pool" "version"] "The workers of a pool have been replaced.";
    RELOAD_GIVEN_UP Error "reload_given_up" ["pool"] "The new version of a pool cannot start; the old version keeps running.";
    RELOAD_NOT_KEPT Warn "reload_not_kept" [] "The configuration is too large to be passed to a restarted server.";
    DIRECTORY_CHANGED Info "directory_changed" ["from" "to"] "The configuration is in another directory than before, as after a deploy.";
    POOL_ADDED Info "pool_added" ["pool"] "The configuration has a new pool.";
    POOL_REMOVED Info "pool_removed" ["pool"] "A pool was removed from the configuration; its workers finish their tasks.";
    POOL_CHANGED Info "pool_changed" ["pool" "keys" "file"] "The configuration of a pool has changed.";
    POOL_OVERRIDDEN Info "pool_overridden" ["pool" "min" "max"] "The server was restarted, and a pool still has the size that was set by `stoker scale`.";
    SIZE_RESET Warn "size_reset" ["pool"] "A size set by `stoker scale` no longer fits the configuration and is dropped.";
    QUEUE_OVERRIDDEN Info "queue_overridden" ["queue" "keys"] "A queue has settings that were made by `stoker set`.";
    OVERRIDE_DROPPED Warn "override_dropped" ["queue"] "Settings made by `stoker set` no longer fit the configuration and are dropped.";
    QUEUE_UNSERVED Warn "queue_unserved" ["queue" "jobs" "queues"] "A queue has jobs, but no pool serves it.";
    QUEUE_NOT_RESTORED Error "queue_not_restored" ["queue"] "A queue in the store is not served, because there are too many queues.";
    STORE_TROUBLE Error "store_trouble" ["reason"] "The job store cannot write, or is damaged.";
    STORE_RECOVERED Info "store_recovered" [] "The job store can write again.";
    STORE_WARNING Warn "store_warning" ["reason"] "A warning about the job store.";
    CLIENT_STALLED Warn "client_stalled" [] "A client did not read its answers and is disconnected.";
    FEW_DESCRIPTORS Warn "few_descriptors" ["accepted"] "The limit on open files is too low for `max_connections`: fewer connections are accepted.";
    CANNOT_ACCEPT Error "cannot_accept" ["reason"] "Connections cannot be accepted at the moment.";
    CANNOT_WATCH Error "cannot_watch" ["reason"] "A descriptor cannot be watched, so its events are noticed late or not at all.";
    LINES_LOST Warn "lines_lost" ["lines"] "Log lines are missing, because the log could not be written for too long.";
    LOG_TROUBLE Error "log_trouble" ["reason"] "The log file cannot be opened or rotated.";
    OUTPUT_DROPPED Warn "output_dropped" ["pool" "worker" "pid" "lines" "bytes"] "A worker wrote more than `rate_limit` allows.";
}

/// One log line.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) level: Level,
    pub(crate) name: &'static str,
    pub(crate) text: String,
    pub(crate) fields: Map<String, Value>,
    known: &'static [&'static str],
}

impl LogEvent {
    /// A line of this kind; `text` is the sentence for people.
    pub(crate) fn message(&self, text: impl Into<String>) -> Entry
    where
        Self: 'static,
    {
        Entry {
            level: self.kind,
            name: self.name,
            text: text.into(),
            fields: Map::new(),
            known: self.fields,
        }
    }
}

impl Entry {
    /// Adds a field, unless its value is null.
    pub(crate) fn with(mut self, field: &'static str, value: impl Into<Value>) -> Self {
        debug_assert!(self.known.contains(&field), "{}: {field}", self.name);
        let value = value.into();
        if !value.is_null() {
            self.fields.insert(field.to_owned(), value);
        }
        self
    }
}
