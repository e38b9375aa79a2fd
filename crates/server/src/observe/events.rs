//! What Stoker itself logs: events with a name, a sentence for people and fields for machines. Every event is declared
//! here, and nowhere else; the reference page follows from the same table.

use super::log::Level;
use serde_json::{Map, Value};

/// A kind of line.
pub struct LogEvent {
    pub name: &'static str,
    pub level: &'static str,
    /// Fields that such a line may have, besides `at`, `level`, `event` and `message`.
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

        /// All of them, in the order of the reference page.
        pub static EVENTS: &[&LogEvent] = &[$(&$id),*];
    };
}

events! {
    SERVING Info "serving" ["pools"] "The server is ready for clients.";
    SERVER_RESTARTED Warn "server_restarted" ["restarts" "reason"] "The server process had ended and was started again.";
    DRAINING Info "draining" [] "Stoker was told to end: nothing new is taken, what runs is finished.";
    DRAINED Info "drained" [] "All that ran has ended.";
    JOBS_LEFT Info "jobs_left" ["jobs"] "Unfinished jobs stay in the store.";
    JOBS_LOST Warn "jobs_lost" ["jobs"] "Unfinished jobs of a store in memory are lost.";
    ANGEL_GONE Error "angel_gone" [] "The process above the server is gone; the server ends.";
    SOCKET Info "socket" ["path" "reason"] "The socket's file was made again.";
    SOCKET_TROUBLE Warn "socket_trouble" ["path" "reason"] "Something happened to the socket's file.";
    SOCKET_LOST Error "socket_lost" ["path" "reason"] "Clients can't reach the socket.";
    GATEWAY Info "gateway" ["gateway"] "A line of a gateway's own.";
    GATEWAY_WARNING Warn "gateway_warning" ["gateway"] "A warning of a gateway's own.";
    GATEWAY_STARTED Info "gateway_started" ["gateway" "pid"] "A gateway's process was started.";
    GATEWAY_DIED Warn "gateway_died" ["gateway" "pid" "exit"] "A gateway's process ended without having been told to; it is started again.";
    RUN_FAILED Warn "run_failed" ["job" "type" "queue" "attempt" "crashes" "worker" "ran_ms" "class" "reason" "place" "final" "next_in_ms"] "A run of a job failed: its code threw, failed the job or asked for another run with an error. `final`: there is no further run.";
    RUN_TIMED_OUT Warn "run_timed_out" ["job" "type" "queue" "attempt" "crashes" "worker" "ran_ms" "class" "reason" "place" "final" "next_in_ms"] "A run of a job took longer than its timeout.";
    RUN_CRASHED Warn "run_crashed" ["job" "type" "queue" "attempt" "crashes" "worker" "ran_ms" "class" "reason" "place" "final" "next_in_ms"] "A worker died on a job, or on a job beside which it ran.";
    RUN_CUT_OFF Warn "run_cut_off" ["job" "type" "queue" "attempt" "crashes" "worker" "reason" "final"] "A job's worker was killed for a reason that is not the job's, as the end of `stop_grace`. The job runs again unless it counts as done already, as with `ack = \"delivery\"`.";
    CALL_FAILED Warn "call_failed" ["task" "type" "name" "pool" "attempt" "crashes" "worker" "ran_ms" "class" "reason" "final"] "A call was answered with an error by its worker, or its workers returned it too often.";
    CALL_TIMED_OUT Warn "call_timed_out" ["task" "type" "name" "pool" "attempt" "crashes" "worker" "ran_ms" "class" "reason" "final"] "The deadline of a call passed, or it ran longer than it may.";
    CALL_CRASHED Warn "call_crashed" ["task" "type" "name" "pool" "attempt" "crashes" "worker" "ran_ms" "class" "reason" "final"] "A worker died on a call. `final`: it does not run again.";
    CALL_CUT_OFF Warn "call_cut_off" ["task" "type" "name" "pool" "attempt" "crashes" "worker" "reason" "final"] "A call's worker was killed for a reason that is not the call's, as the end of `stop_grace`.";
    RUNS_NOT_LOGGED Warn "runs_not_logged" ["queue" "runs"] "So many failed runs of a queue, or calls of a service, were not logged, because there were too many in a short time.";
    WORKER_READY Info "worker_ready" ["worker" "pool" "pid" "version"] "A worker said HELLO.";
    WORKER_GONE Info "worker_gone" ["worker" "pool" "pid" "exit"] "A worker that had been told to go has ended.";
    WORKER_DIED Warn "worker_died" ["worker" "pool" "pid" "exit" "reason" "in_task" "last_words"] "A worker ended without having been told to, or was killed.";
    WORKER_KILLED Warn "worker_killed" ["worker" "pool" "pid" "task" "reason"] "A worker is killed.";
    WORKER_RECYCLED Info "worker_recycled" ["worker" "pool" "pid" "reason" "rss_bytes"] "A worker is to be replaced: `max_tasks`, `max_age` or `memory_limit`.";
    WORKER_MISBEHAVED Warn "worker_misbehaved" ["worker" "reason"] "A worker or client broke the protocol.";
    BOOT_FAILED Error "boot_failed" ["worker" "pool" "pid" "exit" "last_words" "next_boot_ms"] "A worker's process ended before it was of use.";
    PROCESS_LEFT Warn "process_left" ["worker" "pid" "command"] "A worker left a process behind, which is ended.";
    POOL_HEALTHY Info "pool_healthy" ["pool"] "The workers of a pool can start.";
    POOL_UNHEALTHY Error "pool_unhealthy" ["pool" "boots"] "So many workers of a pool in a row could not start.";
    VERSION_BLAMED Error "version_blamed" ["pool"] "Many different tasks kill the workers of a pool.";
    QUARANTINED Error "quarantined" ["pool" "queue" "task" "crashes"] "A task has killed workers and does not run again.";
    RELOAD_APPLIED Info "reload_applied" ["file" "keys"] "Keys of the configuration that a reload has applied.";
    RELOAD_OVERRIDDEN Info "reload_overridden" ["file" "keys"] "Keys of the configuration that `stoker scale` or `stoker set` override.";
    RELOAD_NEEDS_RESTART Warn "reload_needs_restart" ["file" "keys"] "Keys of the configuration that have changed and need a restart.";
    RELOAD_REFUSED Error "reload_refused" ["reason"] "The configuration can't be applied; nothing is changed.";
    RELOAD_STARTED Info "reload_started" ["pool" "version"] "The workers of a pool are being replaced.";
    RELOAD_DONE Info "reload_done" ["pool" "version"] "The workers of a pool have been replaced.";
    RELOAD_GIVEN_UP Error "reload_given_up" ["pool"] "The new version of a pool can't run; the old one stays.";
    RELOAD_NOT_KEPT Warn "reload_not_kept" [] "The configuration is too large to be kept for a server that is started again.";
    DIRECTORY_CHANGED Info "directory_changed" ["from" "to"] "The configuration lies in another directory than before, as after a deploy.";
    POOL_ADDED Info "pool_added" ["pool"] "The configuration has a new pool.";
    POOL_REMOVED Info "pool_removed" ["pool"] "The configuration has a pool no more; its workers finish what they run.";
    POOL_CHANGED Info "pool_changed" ["pool" "keys" "file"] "What the configuration says of a pool has changed.";
    POOL_OVERRIDDEN Info "pool_overridden" ["pool" "min" "max"] "At the server's restart: a pool has the size that `stoker scale` gave it.";
    SIZE_RESET Warn "size_reset" ["pool"] "A size set by `stoker scale` does not fit the configuration any more.";
    QUEUE_OVERRIDDEN Info "queue_overridden" ["queue" "keys"] "A queue has settings made by `stoker set`.";
    OVERRIDE_DROPPED Warn "override_dropped" ["queue"] "What `stoker set` set does not fit the configuration any more.";
    QUEUE_UNSERVED Warn "queue_unserved" ["queue" "jobs" "queues"] "A queue has jobs and no pool serves it.";
    QUEUE_NOT_RESTORED Error "queue_not_restored" ["queue"] "There are too many queues to serve one from the store.";
    STORE_TROUBLE Error "store_trouble" ["reason"] "The job store can't write, or is damaged.";
    STORE_RECOVERED Info "store_recovered" [] "The job store writes again.";
    STORE_WARNING Warn "store_warning" ["reason"] "Something about the job store that an operator should know.";
    CLIENT_STALLED Warn "client_stalled" [] "A client took none of its answers and is disconnected.";
    FEW_DESCRIPTORS Warn "few_descriptors" ["accepted"] "The process may have fewer descriptors than `max_connections` needs.";
    CANNOT_ACCEPT Error "cannot_accept" ["reason"] "Connections can't be accepted for a moment.";
    CANNOT_WATCH Error "cannot_watch" ["reason"] "The system refuses to watch a descriptor.";
    LINES_LOST Warn "lines_lost" ["lines"] "Lines of Stoker's own are missing, because the log took nothing for too long.";
    LOG_TROUBLE Error "log_trouble" ["reason"] "The log file can't be opened or rotated.";
    OUTPUT_DROPPED Warn "output_dropped" ["pool" "worker" "pid" "lines" "bytes"] "A worker wrote more than `rate_limit` allows.";
}

/// One line.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) level: Level,
    pub(crate) name: &'static str,
    pub(crate) text: String,
    pub(crate) fields: Map<String, Value>,
    known: &'static [&'static str],
}

impl LogEvent {
    /// A line of this kind; `text` is for people.
    pub(crate) fn says(&self, text: impl Into<String>) -> Entry
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
