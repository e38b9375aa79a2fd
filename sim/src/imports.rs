//! Jobs that an operator imports from an export.

use crate::coverage::features;
use crate::dice::Dice;
use crate::ledger::Imported;
use crate::payload::body;
use crate::push::Options;
use crate::setup::Setup;
use crate::world::World;
use serde_json::{Value, json};
use std::time::Duration;
use stoker_os::wall_ms;

/// Added to the session number of imported jobs, so that in ordered queues no client has the same keys.
const IMPORT_SESSION_OFFSET: u64 = 1_000_000;

/// A line of an export.
#[derive(Clone, Debug)]
pub(crate) struct Line {
    queue: usize,
    options: Options,
    suspended: bool,
}

/// Draws some lines for a server with this number of jobs.
pub(crate) fn draw(dice: &mut Dice, setup: &Setup, jobs: u64) -> Vec<Line> {
    let count = dice.within(1, 4);
    let line = |_| {
        let queue = dice.below(setup.queues.len() as u64) as usize;
        let config = &setup.queues[queue];
        let rich = setup.has_push_options.then_some(&setup.frequencies);
        let mut options = Options::draw(dice, config, rich, IMPORT_SESSION_OFFSET + jobs, jobs);
        let delay = options.delay.take();
        let due = delay.map(|delay| wall_ms() + delay.as_millis() as u64);
        options.due_at = due.or(options.due_at).filter(|_| !config.ordered);
        // An export has no costs. Unique and idempotency keys are left out because the rules for them are checked on
        // pushes.
        (options.cost, options.passed) = (None, None);
        (options.unique, options.idempotency) = (None, None);
        let suspended = dice.percent(15);
        Line {
            queue,
            options,
            suspended,
        }
    };
    (0..count).map(line).collect()
}

impl World {
    /// The request, and the jobs that it imports.
    pub(crate) fn import(&mut self, lines: Vec<Line>) -> (Value, Imported) {
        let first = self.ledger.jobs.len() as u64;
        let imported = Imported {
            first,
            count: lines.len() as u64,
        };
        let mut jobs = Vec::new();
        for line in lines {
            let queue = &self.setup.queues[line.queue];
            let no = self.ledger.jobs.len() as u64;
            jobs.push(line.as_json(no, &queue.name));
            let features = features(&line.options, queue);
            let ahead = line.options.due_at;
            let ahead = ahead.filter(|_| !self.setup.wall_jumps && !line.suspended);
            let no = self.ledger.push(line.queue, 0, line.options);
            let job = &mut self.ledger.jobs[no as usize];
            job.features = features;
            if let Some(due) = ahead {
                job.delay_by(Duration::from_millis(due.saturating_sub(wall_ms())));
            }
            if line.suspended {
                job.suspend();
            }
        }
        (json!({"op": "import", "jobs": jobs}), imported)
    }
}

impl Line {
    fn as_json(&self, no: u64, queue: &str) -> Value {
        let options = &self.options;
        let body = String::from_utf8(body(no, 0, options.len)).expect("text");
        let encoded = json!({
            "tries": options.tries,
            "backoff_ms": (!options.backoff_ms.is_empty()).then_some(&options.backoff_ms),
            "timeout_ms": options.timeout_ms,
            "fail_on_timeout": options.fail_on_timeout,
            "retry_until_ms": options.retry_until,
            "max_exceptions": options.max_exceptions,
            "type": options.kind,
            "keep_result_ms": options.keep_result_ms,
        });
        json!({
            "queue": queue,
            "state": self.suspended.then_some("suspended"),
            "priority": options.priority,
            "due_ms": options.due_at,
            "key": options.key,
            "options": encoded,
            "body": body,
        })
    }
}
