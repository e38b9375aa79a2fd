//! Queues and pushes that a seed draws, for the crash campaign, which runs them with real processes.

use crate::dice::Dice;
use crate::push::Options;
use crate::setup::{Frequencies, Queue};
use serde_json::{Value, json};
use stoker_os::sim;

const QUEUES: usize = 6;
/// The simulated Unix time, milliseconds. The output does not depend on it.
const NOW_MS: u64 = 1_800_000_000_000;
/// The number of pushes for each queue. The campaign repeats them.
const PUSHES: u64 = 60;

/// Some queues as JSON: for each its keys, as a configuration has them, and the pushes to it.
pub(crate) fn as_json(seed: u64) -> String {
    sim::reset(NOW_MS);
    let dice = &mut Dice::of(seed, "campaign");
    let queues: Vec<Value> = (0..QUEUES).map(|no| queue(dice, no)).collect();
    json!(queues).to_string()
}

fn queue(dice: &mut Dice, no: usize) -> Value {
    let queue = Queue::draw(dice, &format!("drawn-{no}"));
    let keys = queue.section.keys.iter();
    let keys: serde_json::Map<String, Value> = keys
        .map(|(key, value)| ((*key).to_owned(), value.as_str().into()))
        .collect();
    let pushes = (0..PUSHES).map(|no| {
        push(&Options::draw(
            dice,
            &queue,
            Some(&Frequencies::default()),
            1,
            no,
        ))
    });
    json!({"keys": keys, "pushes": pushes.collect::<Vec<_>>()})
}

fn push(options: &Options) -> Value {
    json!({
        "key": options.key,
        "priority": options.priority,
        "delay_ms": options.delay.map(|delay| delay.as_millis() as u64),
        "unique": options.unique.as_ref().map(|unique| &unique.key),
        "idempotent": options.idempotency.is_some(),
    })
}
