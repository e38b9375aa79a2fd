//! Every key that a configuration may have. One table serves the reader, its error messages and the
//! reference page, so none of them can know another set of keys than the others.

/// One key of a section.
pub struct KeyDoc {
    pub name: &'static str,
    pub kind: &'static str,
    pub default: &'static str,
    pub doc: &'static str,
}

const fn key(
    name: &'static str,
    kind: &'static str,
    default: &'static str,
    doc: &'static str,
) -> KeyDoc {
    KeyDoc {
        name,
        kind,
        default,
        doc,
    }
}

/// A section: its heading in the file, what it is, and its keys.
pub struct SectionDoc {
    pub heading: &'static str,
    pub doc: &'static str,
    pub keys: &'static [KeyDoc],
}

pub const SECTIONS: [&SectionDoc; 6] = [&STOKER, &POOL, &QUEUE, &SERVICE, &STORE, &LOG];

pub const STOKER: SectionDoc = SectionDoc {
    heading: "[stoker]",
    doc: "The server as a whole. May be left out.",
    keys: &[
        key(
            "socket",
            "path",
            "stoker.sock",
            "The unix socket to listen on. `--socket` and `STOKER_SOCKET` go before it.",
        ),
        key(
            "socket_mode",
            "text",
            "\"0660\"",
            "Mode of the socket, octal: who may call and push. Only the server's own user and root may administer.",
        ),
        key(
            "socket_group",
            "text",
            "see right",
            "Group of the socket: a name or a gid. Without it, and where pools have a `user`, it is the group of these users, if they have one in common, so that their jobs can push.",
        ),
        key(
            "boots_at_once",
            "number",
            "processors",
            "Workers that boot at the same time.",
        ),
        key(
            "max_connections",
            "number",
            "10_000",
            "Connections at once.",
        ),
        key(
            "max_inflight",
            "number",
            "1024",
            "Unanswered requests of one connection; beyond, they are refused with a retry hint.",
        ),
        key(
            "max_memory",
            "size",
            "\"512MB\"",
            "Bodies of calls and of jobs that are to run; beyond, new ones are refused with a retry hint. Failed and cancelled jobs may hold half as much besides; the oldest failed ones make room.",
        ),
        key(
            "frame_timeout",
            "time",
            "\"60s\"",
            "A client that begins a frame and does not end it is disconnected between half this time and all of it.",
        ),
    ],
};

pub const STORE: SectionDoc = SectionDoc {
    heading: "[store]",
    doc: "Where jobs live. May be left out: then they live in `stoker.db` beside the configuration.",
    keys: &[
        key(
            "driver",
            "text",
            "\"sqlite\"",
            "`sqlite` keeps jobs on disk: a push is answered once they are safe there. `memory` keeps them for the life of the server and is faster.",
        ),
        key(
            "path",
            "path",
            "\"stoker.db\"",
            "The SQLite file. Beside it lie its journal (`-wal`, `-shm`) and a lock that keeps a second Stoker out.",
        ),
        key(
            "sync",
            "true or false",
            "true",
            "Whether the disk has confirmed what is accepted. Without it a power loss (not a crash of Stoker) may lose the last jobs.",
        ),
    ],
};

pub const LOG: SectionDoc = SectionDoc {
    heading: "[log]",
    doc: "Where Stoker's own lines and its workers' output go. May be left out.",
    keys: &[
        key(
            "format",
            "text",
            "\"text\"",
            "`text` for people, `json` for machines (one object a line).",
        ),
        key(
            "file",
            "path",
            "standard error",
            "A file to append to instead of standard error.",
        ),
    ],
};

pub const POOL: SectionDoc = SectionDoc {
    heading: "[pool.NAME]",
    doc: "Workers of one application.",
    keys: &[
        key(
            "command",
            "list of texts",
            "none",
            "Program and arguments; no shell. Without it workers must dial in.",
        ),
        key(
            "workers",
            "number or {min, max}",
            "processors",
            "How many workers. Between min and max the pool grows while work waits and shrinks after `idle_timeout`.",
        ),
        key(
            "directory",
            "path",
            "the configuration file's",
            "Working directory of the workers.",
        ),
        key(
            "user",
            "text",
            "Stoker's own",
            "User of the workers: a name, `uid` or `uid:gid`. Needs root. They have the group of that user and no other; `socket_group` says who may push.",
        ),
        key(
            "env",
            "table of texts",
            "{}",
            "Variables added to Stoker's own environment.",
        ),
        key(
            "boot_timeout",
            "time",
            "\"60s\"",
            "From the start of a process to its HELLO.",
        ),
        key(
            "task_timeout",
            "time or \"none\"",
            "\"60s\"",
            "The longest one task may run. Then the worker gets a soft signal if it asked for one, and is killed.",
        ),
        key(
            "kill_grace",
            "time",
            "\"2s\"",
            "Between the soft signal and the kill.",
        ),
        key(
            "stop_grace",
            "time",
            "\"10s\"",
            "What a worker has to finish and go at shutdown. TERM in its last second, KILL at its end.",
        ),
        key(
            "protocol",
            "true or false",
            "true",
            "Whether its processes speak Stoker's protocol. `false` watches any long-running program, as a stock `queue:work`: ready once it runs, no tasks, TERM to end it; when it ends by itself with code 0 or 12 the next one starts at once, once a second at the most.",
        ),
        key(
            "memory_limit",
            "size",
            "none",
            "Resident size above which a worker is replaced after its task, and above one and a half times of which it is killed within it.",
        ),
        key(
            "max_tasks",
            "number",
            "none",
            "Tasks after which a worker is replaced, less up to 15 % jitter.",
        ),
        key(
            "max_age",
            "time",
            "none",
            "Age at which a worker is replaced, less up to 15 % jitter.",
        ),
        key(
            "idle_timeout",
            "time",
            "\"60s\"",
            "Idleness after which a worker above the minimum is let go.",
        ),
        key(
            "crash_budget",
            "number",
            "3",
            "Workers that one task may kill before it is quarantined.",
        ),
        key(
            "token",
            "text",
            "none",
            "What a worker that dials in as another user has to present.",
        ),
    ],
};

pub const QUEUE: SectionDoc = SectionDoc {
    heading: "[queue.NAME]",
    doc: "A job queue. Queues that a worker announces need no section.",
    keys: &[
        key("pool", "text", "the only pool", "The pool that serves it."),
        key(
            "weight",
            "number",
            "1",
            "Its part of the shared slots, by busy time, against the other queues of the pool.",
        ),
        key(
            "reserve",
            "number",
            "0",
            "Slots it gets first. The sum of a pool's reserves may not exceed its minimum of workers.",
        ),
        key(
            "keep",
            "number",
            "0",
            "Slots of the reserve that are never lent to others.",
        ),
        key("limit", "number", "none", "Slots it never exceeds."),
        key(
            "per_key",
            "number",
            "none",
            "Jobs of one key that run at once.",
        ),
        key(
            "age_step",
            "time or \"none\"",
            "\"5s\"",
            "Wait that is worth one priority class. \"none\" makes priorities strict.",
        ),
        key(
            "max_waiting",
            "number",
            "10_000_000",
            "Jobs that may wait; beyond, pushes are refused with a retry hint.",
        ),
        key(
            "tries",
            "number",
            "1",
            "Runs of a job that does not say itself, the first one included; 0 for no bound.",
        ),
        key(
            "backoff",
            "\"exponential\", list of times, or {base, cap}",
            "{base = \"1s\", cap = \"10m\"}",
            "Wait before a job's next run: exponential with full jitter, or a list whose last entry repeats.",
        ),
        key(
            "ordered",
            "true or false",
            "false",
            "Jobs of one key (or, without keys, of the queue) run one after another in the order of their pushes. One that has to run again holds back those behind it.",
        ),
        key(
            "ack",
            "text",
            "\"done\"",
            "`done`: a job whose worker dies runs again. `delivery`: it counts as done before it starts, so it never runs twice, and may not run to its end.",
        ),
        key(
            "keep_done",
            "number",
            "10_000",
            "Done and cancelled jobs whose status is remembered.",
        ),
        key(
            "keep_done_for",
            "time",
            "\"24h\"",
            "How long it is remembered at the most.",
        ),
        key(
            "keep_payloads",
            "time",
            "\"0s\"",
            "How long a done job's payload is kept.",
        ),
        key(
            "keep_results",
            "time",
            "\"24h\"",
            "How long what a job returned is kept, up to 64 KiB, unless its push says otherwise.",
        ),
        key(
            "keep_failed_for",
            "time",
            "\"30d\"",
            "How long a failed job is kept at the most.",
        ),
        key(
            "keep_failed",
            "number",
            "100_000",
            "Failed jobs that are kept, with their bodies, to be looked at and retried.",
        ),
    ],
};

pub const SERVICE: SectionDoc = SectionDoc {
    heading: "[service.NAME]",
    doc: "RPC methods `NAME.…`. Services that a worker announces need no section.",
    keys: &[
        key("pool", "text", "the only pool", "The pool that serves it."),
        key(
            "timeout",
            "time",
            "\"10s\"",
            "Time of a call whose caller named none.",
        ),
        key(
            "idempotent",
            "list of texts",
            "[]",
            "Methods, without the service's name, that may run again after their worker died.",
        ),
        key("weight", "number", "1", "As for a queue."),
        key("reserve", "number", "0", "As for a queue."),
        key("keep", "number", "0", "As for a queue."),
        key("limit", "number", "none", "As for a queue."),
        key("per_key", "number", "none", "As for a queue."),
        key("age_step", "time or \"none\"", "\"5s\"", "As for a queue."),
        key(
            "max_waiting",
            "number",
            "10_000",
            "Calls that may wait; beyond, they are refused with a retry hint.",
        ),
        key(
            "max_wait",
            "time",
            "none",
            "Expected wait beyond which a call is refused with a retry hint.",
        ),
    ],
};
