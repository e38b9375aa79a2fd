//! The keys of `[stoker]`.

use super::Schema;
use crate::config::Config;
use crate::config::key::{Field, Other, at, key, number, size, start_key, time_above_zero};
use crate::config::quote;
use stoker_core::Span;

pub(crate) const STOKER: Schema<Config> = Schema {
    kind: "stoker",
    is_named: false,
    doc: "The server as a whole. Optional.",
    keys: &[
        start_key(
            "socket",
            "`stoker.sock`",
            Field::Path(at!(socket)),
            "The unix socket to listen on. `--socket` and `STOKER_SOCKET` override it.",
        ),
        start_key(
            "socket_mode",
            "\"0660\"",
            Field::Other(MODE),
            "File mode of the socket, in octal. It determines which users may call and push. Only root and the server's own user may administer Stoker.",
        ),
        start_key(
            "socket_group",
            "computed (see description)",
            Field::Text(at!(socket_group)),
            "Group of the socket: a name or a gid. If pools have a `user`, the default is the group that these users share, so that their jobs can push.",
        ),
        start_key(
            "boots_at_once",
            "processors",
            number!(boots_at_once, 1..=1_000),
            "Number of workers that may boot at the same time. Pools take turns. Workers of pools whose last boot failed are counted separately, and a boot that takes longer than 5 seconds does not keep other pools waiting.",
        ),
        key(
            "max_connections",
            "10_000",
            number!(max_connections, 1..=1_000_000),
            "Maximum number of open connections, as far as the limit on open files allows. If all are in use, connections without HELLO are closed to make room, the oldest first, then connections that have been idle for a minute. 16 more connections are reserved for administrators; if these are in use too, the connection that has been inactive longest is closed. No connection is closed within its first 100 ms, or before its data has been read.",
        ),
        key(
            "max_inflight",
            "1024",
            number!(max_inflight, 1..=1_000_000),
            "Maximum number of unanswered requests of one connection. Further requests are rejected with a retry-after time.",
        ),
        key(
            "max_memory",
            "\"512MB\", or computed (see description)",
            size!(max_memory),
            "Maximum memory for payloads of calls and pushes, loaded jobs, and answers that clients have not read. The server process as a whole uses at most 64 MB more. The default is a quarter of the memory of the control group (container) or machine, at most 512 MB. Above the limit, new requests are rejected with a retry-after time, jobs stay on disk, and answers stay with their workers, whose `task_timeout` is suspended during that time. Jobs in memory (`driver = \"memory\"`) count too; failed and cancelled jobs may use half as much in addition, and the oldest failed jobs are deleted to make room.",
        ),
        key(
            "frame_timeout",
            "\"60s\"",
            time_above_zero(at!(frame_timeout)),
            "A client that begins a frame but does not complete it is disconnected after at least half of this time and at most all of it.",
        ),
        key(
            "hello_timeout",
            "\"10s\"",
            time_above_zero(at!(hello_timeout)),
            "A connection that sends no HELLO within this time is closed.",
        ),
        key(
            "user_connections",
            "9_000",
            number!(user_connections, 1..=1_000_000),
            "Maximum number of connections of one user (uid). If all are in use, connections are closed to make room, as for `max_connections`; administrators can connect even then.",
        ),
        key(
            "user_inflight",
            "50_000",
            number!(user_inflight, 1..=100_000_000),
            "Maximum number of unfinished calls of one user, over all of its connections. The visitors of each site count as one user. Further calls are rejected with a retry-after time.",
        ),
        key(
            "user_pushes",
            "50_000",
            number!(user_pushes, 1..=100_000_000),
            "Maximum number of pushes of one user that have not been stored yet. Further pushes are rejected with a retry-after time.",
        ),
        key(
            "user_memory",
            "three quarters of `max_memory`",
            size!(user_memory),
            "Maximum total size of one user's unfinished calls and unread answers. The visitors of each site count as one user. Above this limit, new calls are rejected with a retry-after time.",
        ),
        key(
            "user_queues",
            "900",
            number!(user_queues, 1..=1_000),
            "Maximum number of queues in use that one user has created by pushing to a new name. All users together may create 1,000. Above either limit, pushes to new names are rejected with a retry-after time. Queues that are not in use are removed to make room. Queues of the configuration, and those that workers serve by name, do not count.",
        ),
        key(
            "queue_expiry",
            "\"1h\"",
            time_above_zero(at!(queue_expiry)),
            "A queue that neither the configuration nor a worker names is removed if nothing has been pushed to it for this time and it contains no job, not even a failed one. A queue that is paused, or was changed by `stoker set`, is not removed.",
        ),
        key(
            "watchdog",
            "\"60s\"",
            Field::Time {
                min: Span::from_secs(1),
                or_none: true,
                access: at!(watchdog),
            },
            "If the server process or a gateway makes no progress for this time, because it hangs or was stopped by a \
             signal, it is killed and restarted. At least `1s`; use `none` to attach a debugger.",
        ),
    ],
};

const MODE: Other<Config> = Other {
    kind: "string",
    read: |section, key, config, mistakes| {
        let wanted = "an octal mode such as \"0660\"";
        let mode = section.get(key, mistakes, wanted, |value| {
            let mode = u32::from_str_radix(value.as_str()?, 8).ok();
            mode.filter(|mode| *mode <= 0o777)
        });
        config.socket_mode = mode.unwrap_or(config.socket_mode);
    },
    write: |config| Some(quote(&format!("{:04o}", config.socket_mode))),
    copy: |from, to| to.socket_mode = from.socket_mode,
};
