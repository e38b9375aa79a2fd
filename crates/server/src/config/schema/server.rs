use super::Schema;
use crate::config::Config;
use crate::config::key::{Field, Other, at, key, number, size, start_key, time_above_zero};
use crate::config::quote;
use stoker_core::Span;

pub(crate) const STOKER: Schema<Config> = Schema {
    kind: "stoker",
    is_named: false,
    doc: "The server as a whole. May be left out.",
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
            "Mode of the socket, octal: who may call and push. Only the server's own user and root may administer.",
        ),
        start_key(
            "socket_group",
            "see right",
            Field::Text(at!(socket_group)),
            "Group of the socket: a name or a gid. Without it, and where pools have a `user`, it is the group of these users, if they have one in common, so that their jobs can push.",
        ),
        start_key(
            "boots_at_once",
            "processors",
            number!(boots_at_once, 1..=1_000),
            "Workers that boot at the same time.",
        ),
        key(
            "max_connections",
            "10_000",
            number!(max_connections, 1..=1_000_000),
            "Connections at once, as far as the limit of descriptors allows. Where all places are taken, connections without HELLO make room, the oldest first, then those that have been idle for a minute. 16 places more are for administrators; where these are taken too, the client that has been inactive longest makes room for one. Nobody makes room within the first 100 ms, or before what was said has been read.",
        ),
        key(
            "max_inflight",
            "1024",
            number!(max_inflight, 1..=1_000_000),
            "Unanswered requests of one connection; beyond, they are refused with a retry hint.",
        ),
        key(
            "max_memory",
            "\"512MB\", or see right",
            size!(max_memory),
            "What the server holds in memory: bodies of calls and pushes, loaded jobs, answers until their clients have read them. The server's process as a whole takes at most 64 MB more. Without a value it is a quarter of the memory of the control group (container) or of the machine, 512 MB at the most. Beyond it new requests are refused with a retry hint, jobs stay on disk, and answers stay with their workers, whose `task_timeout` stands still meanwhile. Jobs in memory (`driver = \"memory\"`) count too; failed and cancelled ones may hold half as much besides, and the oldest failed ones make room.",
        ),
        key(
            "frame_timeout",
            "\"60s\"",
            time_above_zero(at!(frame_timeout)),
            "A client that begins a frame and does not end it is disconnected between half this time and all of it.",
        ),
        key(
            "hello_timeout",
            "\"10s\"",
            time_above_zero(at!(hello_timeout)),
            "A connection on which no HELLO comes within this time is closed.",
        ),
        key(
            "user_connections",
            "9_000",
            number!(user_connections, 1..=1_000_000),
            "Connections of one user (by uid). As with `max_connections`, those without HELLO make room first, the oldest first, then those idle for a minute; administrators get in even then.",
        ),
        key(
            "user_inflight",
            "50_000",
            number!(user_inflight, 1..=100_000_000),
            "Calls of one user that have not ended, on all of its connections; beyond, they are refused with a retry hint.",
        ),
        key(
            "user_pushes",
            "50_000",
            number!(user_pushes, 1..=100_000_000),
            "Pushes of one user that are not stored yet; beyond, they are refused with a retry hint.",
        ),
        key(
            "user_memory",
            "three quarters of `max_memory`",
            size!(user_memory),
            "Bytes of one user's calls that wait or run, and of answers that it has not read; beyond, new calls are refused with a retry hint.",
        ),
        key(
            "user_queues",
            "900",
            number!(user_queues, 1..=1_000),
            "Queues whose names one user has made up and that are in use. All users together make up 1,000 at the most; beyond either, pushes to new names are refused with a retry hint. Queues that are not in use make room. Queues of the configuration, and those that workers name, do not count.",
        ),
        key(
            "queue_expiry",
            "\"1h\"",
            time_above_zero(at!(queue_expiry)),
            "A queue that neither the configuration nor a worker names is forgotten when nothing was pushed to it for this time and it holds no job, failed ones included. One that is paused or has something set stays.",
        ),
        key(
            "watchdog",
            "\"60s\"",
            Field::Time {
                least: Span::from_secs(1),
                or_none: true,
                access: at!(watchdog),
            },
            "How long the server process, or that of a gateway, may make no progress, because it hangs or was stopped by a signal, before it is killed and started again, as after a crash. At least `1s`; `none` while a debugger is attached.",
        ),
    ],
};

const MODE: Other<Config> = Other {
    kind: "text",
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
