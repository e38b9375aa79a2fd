//! The keys of `[service.NAME]`.

use super::Schema;
use super::queue::pool_field;
use crate::config::key::{Field, at, key, number, time, time_above_zero, time_or_none};
use crate::config::{MAX_WORKERS, Service};

pub(crate) const SERVICE: Schema<Service> = Schema {
    kind: "service",
    is_named: true,
    doc: "RPC methods `NAME.…`. Services that a worker announces need no section.",
    keys: &[
        key(
            "pool",
            "the only pool",
            pool_field!(pool),
            "The pool that serves the calls.",
        ),
        key(
            "timeout",
            "\"10s\"",
            time_above_zero(at!(core.timeout)),
            "Deadline of calls whose caller sets none. For an answer in parts: the time until the first part, and between two parts.",
        ),
        key(
            "idempotent",
            "[]",
            Field::Texts(at!(idempotent), "[\"get\", \"list\"]"),
            "Methods, without the service's name, that may be retried if their worker dies.",
        ),
        key(
            "weight",
            "1",
            number!(core.weight, 1..=1_000_000),
            "As for a queue.",
        ),
        key(
            "reserve",
            "0",
            number!(core.reserve, 0..=MAX_WORKERS),
            "As for a queue.",
        ),
        key(
            "keep",
            "0",
            number!(core.keep, 0..=MAX_WORKERS),
            "As for a queue.",
        ),
        key(
            "limit",
            "none",
            number!(core.limit, 1..=1_000_000),
            "As for a queue.",
        ),
        key(
            "per_key",
            "none",
            number!(core.per_key, 1..=1_000_000),
            "As for a queue.",
        ),
        key(
            "age_step",
            "\"5s\"",
            time_or_none(at!(core.age_step)),
            "As for a queue.",
        ),
        key(
            "max_waiting",
            "10_000",
            number!(core.max_waiting, 1..=100_000_000),
            "Maximum number of waiting calls. Above this limit, calls are rejected with a retry-after time.",
        ),
        key(
            "max_wait",
            "none",
            time(at!(core.max_wait)),
            "A call that is expected to wait longer than this is rejected with a retry-after time.",
        ),
    ],
};
