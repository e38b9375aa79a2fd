//! What an operator asks for, drawn.

use crate::dice::Dice;
use crate::setup::Setup;
use serde_json::{Value, json};

/// What an operator's request may change of what else holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Effect {
    None,
    Pauses(usize),
    /// Jobs of that queue may end without having run.
    Cancels(usize),
    /// It is not understood, and must be rejected.
    Rejected,
    /// Failed jobs of that queue have all their tries once more.
    Retries(usize),
}

/// The method, the request, and what follows from it.
pub(crate) fn draw(dice: &mut Dice, setup: &Setup) -> (&'static str, Value, Effect) {
    let at = dice.below(setup.queues.len() as u64) as usize;
    let queue = setup.queues[at].name.as_str();
    let pool = format!("p{}", dice.below(setup.pools));
    match dice.below(10) {
        0 => pause(queue, at),
        1 => resume(queue),
        2 => {
            let state = *dice.of_all(&["ready", "delayed", "running"]);
            let request = json!({"op": "cancel", "queue": queue, "state": state});
            ("stoker.job", request, Effect::Cancels(at))
        }
        3 => {
            let request = json!({"op": "retry", "queue": queue, "state": "failed"});
            ("stoker.job", request, Effect::Retries(at))
        }
        4 => {
            let max = dice.within(1, 8);
            let min = dice.within(1, max);
            let request = json!({"op": "scale", "pool": pool, "min": min, "max": max});
            ("stoker.pool", request, Effect::None)
        }
        5 => {
            let request = json!({"op": "set", "queue": queue, "weight": dice.within(1, 50)});
            ("stoker.queue", request, Effect::None)
        }
        6 => {
            let request = json!({"op": "set", "queue": queue, "limit": dice.within(1, 3)});
            ("stoker.queue", request, Effect::None)
        }
        7 => {
            let request = json!({"op": "list", "queue": queue, "limit": dice.within(1, 100)});
            ("stoker.job", request, Effect::None)
        }
        8 => {
            // What is ignored of a filter would mean all jobs of the queue.
            let wrong = dice.of_all(&[r#""key":42"#, r#""older_ms":"7d""#, r#""sate":"ready""#]);
            let text = format!(r#"{{"op":"cancel","queue":"{queue}",{wrong}}}"#);
            let request = serde_json::from_str(&text).expect("JSON");
            ("stoker.job", request, Effect::Rejected)
        }
        _ => ("stoker.worker", json!({"op": "list"}), Effect::None),
    }
}

fn pause(queue: &str, at: usize) -> (&'static str, Value, Effect) {
    let request = json!({"op": "pause", "queue": queue});
    ("stoker.queue", request, Effect::Pauses(at))
}

pub(crate) fn resume(queue: &str) -> (&'static str, Value, Effect) {
    let request = json!({"op": "resume", "queue": queue});
    ("stoker.queue", request, Effect::None)
}
