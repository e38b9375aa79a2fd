//! Draws random requests of operators.

use crate::dice::Dice;
use crate::imports::{self, Line};
use crate::ledger::{Filter, Read, Size, Verb};
use crate::push::TYPES;
use crate::setup::Setup;
use serde_json::{Value, json};

/// The largest number of workers that an operator sets for a pool.
pub(crate) const MAX_WORKERS: u64 = 8;

/// The effect of an operator's request on the model.
#[derive(Clone, Debug)]
pub(crate) enum Effect {
    None,
    Pauses(usize),
    Resumes(usize),
    /// Reads jobs.
    Reads(Read),
    /// Changes the jobs that the filter names.
    Changes(Verb, Filter),
    /// Imports these jobs.
    Imports(Vec<Line>),
    /// Removes an undeclared queue, if it holds no jobs.
    Removes(usize),
    /// Clears the quarantine of calls of this service, or of all services.
    Clears(Option<usize>),
    /// Sets how many jobs of the queue may run at once.
    Limits(usize, u64),
    /// Sets the reserve of the queue.
    Reserves(usize, u64),
    /// Sets the size of a pool.
    Scales(usize, Size),
    /// Reloads pools without an edit of the file.
    Reloads,
    /// Edits the configuration file, and requests a reload.
    Edits,
    /// The request is invalid and must be rejected.
    Rejected,
}

/// Jobs that changes of one job often name.
#[derive(Debug, Default)]
pub(crate) struct Targets {
    /// Those that wait behind another one at a worker.
    pub(crate) behind: Vec<u64>,
    /// Those that were accepted and no worker has run.
    pub(crate) waiting: Vec<u64>,
}

/// Draws a request: the method, the request in JSON, and its effect. `jobs` is the number of jobs so far.
pub(crate) fn draw(
    dice: &mut Dice,
    setup: &Setup,
    jobs: u64,
    last: Option<(Verb, Filter)>,
    at: &Targets,
) -> (&'static str, Value, Effect) {
    if dice.percent(setup.frequencies.edits) {
        return ("stoker.pool", json!({"op": "reload"}), Effect::Edits);
    }
    match dice.below(10) {
        0..4 => {
            let again = last.filter(|_| dice.percent(30));
            let (verb, filter) = match again {
                Some((verb, filter)) => next_change(dice, setup, verb, filter),
                None => {
                    let verb = verb(dice, setup);
                    let mut filter = filter(dice, setup, verb, jobs);
                    let is_edit = matches!(verb, Verb::Edit(_));
                    if filter.one.is_some() && !at.behind.is_empty() && dice.percent(60) {
                        filter.one = Some(*dice.one_of(&at.behind));
                    } else if is_edit && !at.waiting.is_empty() && dice.percent(60) {
                        filter.one = Some(*dice.one_of(&at.waiting));
                    }
                    (verb, filter)
                }
            };
            ("stoker.job", Value::Null, Effect::Changes(verb, filter))
        }
        4 if dice.percent(25) => {
            let lines = imports::draw(dice, setup, jobs);
            ("stoker.job", Value::Null, Effect::Imports(lines))
        }
        4 => read_request(dice, setup),
        5 => invalid_request(dice, setup),
        6 => pool_request(dice, setup),
        _ => queue_request(dice, setup),
    }
}

fn verb(dice: &mut Dice, setup: &Setup) -> Verb {
    let retry =
        |dice: &mut Dice| Verb::Retry(dice.percent(85).then(|| *dice.one_of(&[1, 3, 10, 50])));
    if dice.percent(setup.frequencies.retries) {
        return retry(dice);
    }
    if dice.percent(setup.frequencies.moves) {
        return Verb::Move(any_queue(dice, setup));
    }
    match dice.below(10) {
        0 | 1 => Verb::Cancel,
        2 => Verb::Retry(None),
        3 | 7 => retry(dice),
        4 => Verb::Suspend,
        5 => Verb::Release,
        6 => Verb::Move(dice.below(setup.queues.len() as u64) as usize),
        8 => Verb::Discard,
        _ => Verb::Edit(dice.within(1, 9) as u32),
    }
}

/// Draws another change of the jobs that were changed last, so that it meets the effect of the first one.
pub(crate) fn next_change(
    dice: &mut Dice,
    setup: &Setup,
    last: Verb,
    of_last: Filter,
) -> (Verb, Filter) {
    let queue = any_queue(dice, setup);
    let rate = dice.percent(80).then(|| *dice.one_of(&[3, 3, 10]));
    let next: &[Verb] = match last {
        Verb::Cancel => &[Verb::Retry(rate), Verb::Retry(rate), Verb::Discard],
        Verb::Suspend => &[Verb::Release, Verb::Move(queue), Verb::Cancel],
        Verb::Retry(_) => &[Verb::Cancel, Verb::Suspend, Verb::Move(queue)],
        _ => &[Verb::Cancel, Verb::Suspend, Verb::Retry(rate)],
    };
    let states = Vec::new();
    (*dice.one_of(next), Filter { states, ..of_last })
}

fn filter(dice: &mut Dice, setup: &Setup, verb: Verb, jobs: u64) -> Filter {
    let mut filter = Filter::default();
    if jobs > 0 && (matches!(verb, Verb::Edit(_)) || dice.percent(30)) {
        // Jobs that were pushed last may still be on their way.
        let recent = match dice.percent(50) {
            true => jobs.min(20),
            false => jobs,
        };
        filter.one = Some(jobs - 1 - dice.below(recent));
        return filter;
    }
    // A rate only shows with many jobs.
    if matches!(verb, Verb::Retry(Some(_))) && dice.percent(60) {
        return filter;
    }
    if dice.percent(70) {
        filter.queue = Some(dice.below(setup.queues.len() as u64) as usize);
    }
    if dice.percent(25) {
        filter.kind = Some(*dice.one_of(&TYPES));
    }
    if dice.percent(25) {
        filter.key = Some(format!("k{}", dice.within(1, 4)));
    }
    if dice.percent(10) {
        filter.older_ms = Some(dice.below(5_000));
    }
    if dice.percent(40) {
        let all: &[&str] = match verb {
            Verb::Retry(_) => &["failed", "cancelled"],
            Verb::Discard => &["done", "failed", "cancelled"],
            Verb::Release => &["delayed", "retrying", "suspended"],
            _ => &["ready", "delayed", "retrying", "suspended"],
        };
        filter.states = all.iter().copied().filter(|_| dice.percent(50)).collect();
    } else if matches!(verb, Verb::Move(_)) && dice.percent(25) {
        let ended = ["done", "failed", "cancelled"];
        filter.states = ended.into_iter().filter(|_| dice.percent(60)).collect();
    } else if verb == Verb::Cancel && dice.percent(20) {
        filter.states = vec!["running"];
        filter.older_ms = dice.percent(30).then(|| dice.below(100));
    }
    filter
}

/// Draws a queue that the file declares, so that it always exists.
fn declared_queue(dice: &mut Dice, setup: &Setup) -> usize {
    dice.below(setup.declared_queues().count() as u64) as usize
}

/// Draws any queue.
fn any_queue(dice: &mut Dice, setup: &Setup) -> usize {
    dice.below(setup.queues.len() as u64) as usize
}

/// Draws a request that changes nothing.
pub(crate) fn read_request(dice: &mut Dice, setup: &Setup) -> (&'static str, Value, Effect) {
    let (method, request) = match dice.below(7) {
        0..4 => {
            let read = Read::draw(dice, setup, &[]);
            return ("stoker.job", read.request(None), Effect::Reads(read));
        }
        4 => ("stoker.worker", json!({"op": "list"})),
        5 => ("stoker.quarantine", json!({"op": "list"})),
        _ => {
            let queue = &setup.queues[declared_queue(dice, setup)].name;
            ("stoker.queue", json!({"op": "find", "queue": queue}))
        }
    };
    (method, request, Effect::None)
}

/// Draws a request with an invalid filter. If the server ignored the invalid field, it would cancel all jobs of the
/// queue.
fn invalid_request(dice: &mut Dice, setup: &Setup) -> (&'static str, Value, Effect) {
    let queue = &setup.queues[any_queue(dice, setup)].name;
    let wrong = dice.one_of(&[r#""key":42"#, r#""older_ms":"7d""#, r#""sate":"ready""#]);
    let text = format!(r#"{{"op":"cancel","queue":"{queue}",{wrong}}}"#);
    let request = serde_json::from_str(&text).expect("JSON");
    ("stoker.job", request, Effect::Rejected)
}

fn pool_request(dice: &mut Dice, setup: &Setup) -> (&'static str, Value, Effect) {
    let at = dice.below(setup.pools.len() as u64) as usize;
    let pool = &setup.pools[at].name;
    let (request, effect) = match dice.below(7) {
        6 => return clear_request(dice, setup),
        4 | 5 => return ("stoker.pool", json!({"op": "reload"}), Effect::Edits),
        0 => return reset_size(at, pool),
        1 => (json!({"op": "reload", "pool": pool}), Effect::Reloads),
        2 => (json!({"op": "reload"}), Effect::Reloads),
        _ => {
            let max = dice.within(1, MAX_WORKERS);
            let min = dice.within(1, max);
            let request = json!({"op": "scale", "pool": pool, "min": min, "max": max});
            (request, Effect::Scales(at, Size::Set(min, max)))
        }
    };
    ("stoker.pool", request, effect)
}

fn clear_request(dice: &mut Dice, setup: &Setup) -> (&'static str, Value, Effect) {
    let services = setup.services.len() as u64;
    let one = (services > 0 && dice.percent(50)).then(|| dice.below(services) as usize);
    let mut request = json!({"op": "clear"});
    if let Some(at) = one {
        request["service"] = setup.services[at].name.clone().into();
    }
    ("stoker.quarantine", request, Effect::Clears(one))
}

fn queue_request(dice: &mut Dice, setup: &Setup) -> (&'static str, Value, Effect) {
    let undeclared = setup.declared_queues().count();
    if undeclared < setup.queues.len() && dice.percent(20) {
        let request = json!({"op": "remove", "queue": setup.queues[undeclared].name});
        return ("stoker.queue", request, Effect::Removes(undeclared));
    }
    let at = match dice.percent(80) {
        true => declared_queue(dice, setup),
        false => any_queue(dice, setup),
    };
    let queue = setup.queues[at].name.as_str();
    match dice.below(7) {
        6 => {
            let reserve = dice.below(4);
            let request = json!({"op": "set", "queue": queue, "reserve": reserve});
            ("stoker.queue", request, Effect::Reserves(at, reserve))
        }
        0 | 1 => pause(at, queue),
        2 => resume(at, queue),
        3 => {
            let request = json!({"op": "set", "queue": queue, "weight": dice.within(1, 50)});
            ("stoker.queue", request, Effect::None)
        }
        4 => {
            let limit = dice.within(1, 3);
            set_limit(at, queue, limit)
        }
        _ => reset_queue(setup, at),
    }
}

/// Resets all settings of a queue to those of the file.
pub(crate) fn reset_queue(setup: &Setup, at: usize) -> (&'static str, Value, Effect) {
    let queue = &setup.queues[at];
    let request = json!({"op": "set", "queue": queue.name, "reset": true});
    let limit = queue.section.number("limit", u64::MAX);
    ("stoker.queue", request, Effect::Limits(at, limit))
}

pub(crate) fn pause(at: usize, queue: &str) -> (&'static str, Value, Effect) {
    let request = json!({"op": "pause", "queue": queue});
    ("stoker.queue", request, Effect::Pauses(at))
}

pub(crate) fn set_limit(at: usize, queue: &str, limit: u64) -> (&'static str, Value, Effect) {
    let request = json!({"op": "set", "queue": queue, "limit": limit});
    ("stoker.queue", request, Effect::Limits(at, limit))
}

pub(crate) fn resume(at: usize, queue: &str) -> (&'static str, Value, Effect) {
    let request = json!({"op": "resume", "queue": queue});
    ("stoker.queue", request, Effect::Resumes(at))
}

/// Releases all suspended jobs.
pub(crate) fn release_all() -> (&'static str, Value, Effect) {
    let states = vec!["suspended"];
    let filter = Filter {
        states,
        ..Filter::default()
    };
    (
        "stoker.job",
        Value::Null,
        Effect::Changes(Verb::Release, filter),
    )
}

/// Resets the size of a pool to that of the file. A smaller pool may keep all of its workers for certain queues.
pub(crate) fn reset_size(at: usize, pool: &str) -> (&'static str, Value, Effect) {
    let request = json!({"op": "scale", "pool": pool, "reset": true});
    ("stoker.pool", request, Effect::Scales(at, Size::OfFile))
}
