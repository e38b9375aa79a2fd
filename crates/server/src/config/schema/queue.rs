//! The keys of `[queue.NAME]`.

use super::Schema;
use crate::config::key::{
    Field, Other, at, key, number, size_or_none, start_key, time, time_or_none, word,
};
use crate::config::reader::{Mistakes, Section};
use crate::config::{MAX_WORKERS, Queue, parse_time, write_time};
use stoker_core::{Backoff, Span};
use toml::Spanned;
use toml::de::DeValue;

/// The key `pool` of a queue, a service or a site: `pool_field!(pool)`, or the path to the field. If it is missing, the
/// pool is determined once all pools are known.
macro_rules! pool_field {
    ($($field:ident).+) => {
        crate::config::key::Field::Other(crate::config::key::Other {
            kind: "string",
            read: |section, key, config, mistakes| {
                config.$($field).+ = section.text(key, mistakes).unwrap_or_default();
            },
            write: |config| Some(crate::config::quote(&config.$($field).+)),
            copy: |from, to| to.$($field).+.clone_from(&from.$($field).+),
        })
    };
}
pub(super) use pool_field;

pub(crate) const QUEUE: Schema<Queue> = Schema {
    kind: "queue",
    is_named: true,
    doc: "A job queue. Queues that a worker announces need no section.",
    keys: &[
        key(
            "pool",
            "the only pool",
            pool_field!(pool),
            "The pool that serves the queue.",
        ),
        key(
            "weight",
            "1",
            number!(core.weight, 1..=1_000_000),
            "The queue's share of the pool's slots, measured in busy time, relative to the other queues of the pool.",
        ),
        key(
            "reserve",
            "0",
            number!(core.reserve, 0..=MAX_WORKERS),
            "Guaranteed minimum of slots: while the queue uses fewer, it gets the next free slot. Other queues may use these slots while it has no work. The reserves of all queues of a pool must not add up to more than its minimum number of workers.",
        ),
        key(
            "keep",
            "0",
            number!(core.keep, 0..=MAX_WORKERS),
            "How many slots of `reserve` other queues never use, so that they are free at once when a task arrives.",
        ),
        key(
            "limit",
            "none",
            number!(core.limit, 1..=1_000_000),
            "Maximum number of slots that the queue may use.",
        ),
        key(
            "per_key",
            "none",
            number!(core.per_key, 1..=1_000_000),
            "Maximum number of jobs with the same key that may run at once.",
        ),
        key(
            "age_step",
            "\"5s\"",
            time_or_none(at!(core.age_step)),
            "A task that has waited for this time is raised by one priority class. With \"none\", priorities are strict.",
        ),
        key(
            "max_waiting",
            "10_000_000",
            number!(core.max_waiting, 1..=100_000_000),
            "Maximum number of waiting jobs. Above this limit, pushes are rejected with a retry-after time.",
        ),
        key(
            "max_body",
            "\"none\"",
            size_or_none!(jobs.max_body),
            "Maximum size of the body of a push; a larger one is rejected (`INVALID_ARGUMENT`). With \"none\", only the maximum size of a frame applies. Jobs that are edited, moved or imported are not limited.",
        ),
        key(
            "tries",
            "1",
            number!(jobs.tries, 0..=65_535),
            "Maximum number of attempts of a job, including the first, unless its push sets another number; 0 for no limit.",
        ),
        key(
            "backoff",
            "{base = \"1s\", cap = \"10m\"}",
            Field::Other(BACKOFF),
            "Delay before a job's next attempt: exponential with full jitter, or a list whose last entry repeats.",
        ),
        start_key(
            "ordered",
            "false",
            Field::Flag(at!(core.ordered)),
            "Jobs with the same key (without keys: of the whole queue) run one after another, in the order of their pushes. A job that waits for its retry holds back those behind it.",
        ),
        key(
            "ack",
            "\"done\"",
            word!(core.ack_on_delivery, ["done", "delivery"]),
            "`done`: a job is done when its handler returns; if the worker dies, the job is retried. `delivery`: a job is done before it starts, so it never runs twice, and is not retried if its run fails or its worker dies.",
        ),
        key(
            "keep_done",
            "10_000",
            number!(jobs.keep_done, 0..=10_000_000),
            "Maximum number of done and cancelled jobs that are kept.",
        ),
        key(
            "keep_done_for",
            "\"24h\"",
            time(at!(jobs.keep_done_for)),
            "Maximum time for which done and cancelled jobs are kept.",
        ),
        key(
            "keep_payloads",
            "\"0s\"",
            time(at!(jobs.keep_payloads)),
            "How long a done job's payload is kept.",
        ),
        key(
            "keep_results",
            "\"24h\"",
            time(at!(jobs.keep_results)),
            "How long the result of a job (up to 64 KB) is kept, unless its push sets another time.",
        ),
        key(
            "keep_failed_for",
            "\"30d\"",
            time(at!(jobs.keep_failed_for)),
            "Maximum time for which failed jobs are kept.",
        ),
        key(
            "keep_failed",
            "100_000",
            number!(jobs.keep_failed, 0..=10_000_000),
            "Maximum number of failed jobs that are kept, with their payloads.",
        ),
    ],
};

const BACKOFF: Other<Queue> = Other {
    kind: "\"exponential\", list of durations, or {base, cap}",
    read: read_backoff,
    write: |queue| Some(write_backoff(&queue.jobs.backoff)),
    copy: |from, to| to.jobs.backoff = from.jobs.backoff.clone(),
};

/// The maximum number of delays in a list.
const MAX_DELAYS: usize = 100;

fn read_backoff(
    section: &Section<'_, '_>,
    key: &str,
    queue: &mut Queue,
    mistakes: &mut Mistakes<'_>,
) {
    let wanted = "\"exponential\", a list of up to 100 durations, or { base = \"1s\", cap = \"10m\" } with base \
                  not above cap";
    let Some(backoff) = section.get(key, mistakes, wanted, parse_backoff) else {
        return;
    };
    let what = match &backoff {
        Backoff::List(times) if times.len() > MAX_DELAYS => {
            format!("the list has {} durations", times.len())
        }
        Backoff::Exponential { base, cap } if base > cap => "base is above cap".to_owned(),
        _ => {
            queue.jobs.backoff = backoff;
            return;
        }
    };
    section.add_mistake(key, mistakes, what, Some(format!("write {wanted}")));
}

fn parse_backoff(value: &DeValue<'_>) -> Option<Backoff> {
    let time = |value: &Spanned<DeValue<'_>>| parse_time(value.get_ref().as_str()?);
    match value {
        DeValue::String(text) => (text == "exponential").then(Backoff::default),
        DeValue::Array(list) => {
            let times: Option<Vec<Span>> = list.iter().map(time).collect();
            times.map(Backoff::List)
        }
        DeValue::Table(both) if both.len() == 2 => {
            let (base, cap) = (time(both.get("base")?)?, time(both.get("cap")?)?);
            Some(Backoff::Exponential { base, cap })
        }
        _ => None,
    }
}

fn write_backoff(backoff: &Backoff) -> String {
    match backoff {
        Backoff::List(times) => {
            let times: Vec<String> = times.iter().map(|time| write_time(*time)).collect();
            format!("[{}]", times.join(", "))
        }
        Backoff::Exponential { base, cap } => {
            let (base, cap) = (write_time(*base), write_time(*cap));
            format!("{{ base = {base}, cap = {cap} }}")
        }
    }
}
