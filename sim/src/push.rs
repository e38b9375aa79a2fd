//! Draws random options for a push.

use crate::dice::Dice;
use crate::payload::body;
use crate::setup::{Frequencies, Queue};
use std::time::Duration;
use stoker_os::wall_ms;
use stoker_wire::Key;

/// All options of a push.
#[derive(Clone, Debug, Default)]
pub(crate) struct Options {
    pub(crate) priority: u8,
    pub(crate) key: Option<String>,
    pub(crate) delay: Option<Duration>,
    /// The due time by the wall clock, in Unix milliseconds.
    pub(crate) due_at: Option<u64>,
    pub(crate) tries: Option<u16>,
    pub(crate) backoff_ms: Vec<u32>,
    pub(crate) retry_until: Option<u64>,
    pub(crate) max_exceptions: Option<u16>,
    pub(crate) timeout_ms: Option<u32>,
    /// The push sets a timeout of 0, which means no timeout of its own.
    pub(crate) has_no_timeout: bool,
    pub(crate) fail_on_timeout: bool,
    pub(crate) unique: Option<Unique>,
    pub(crate) idempotency: Option<String>,
    pub(crate) kind: Option<&'static str>,
    pub(crate) keep_result_ms: Option<u64>,
    /// Metadata that the server passes on to the worker.
    pub(crate) passed: Option<&'static [u8]>,
    pub(crate) cost: Option<u32>,
    /// The length of the payload in bytes.
    pub(crate) len: usize,
}

#[derive(Clone, Debug)]
pub(crate) struct Unique {
    pub(crate) key: String,
    pub(crate) until_start: bool,
    pub(crate) for_ms: Option<u64>,
}

/// A metadata key that the server does not know and only passes on.
pub(crate) const PASSED: Key = Key(0x90);
pub(crate) const TYPES: [&str; 3] = ["Mail", "Invoice", "Report"];

impl Options {
    /// Draws the options of a push. `rich` is `None` for a push with few options. `session` identifies one connection
    /// of a client: in an ordered queue, each connection uses its own keys.
    pub(crate) fn draw(
        dice: &mut Dice,
        queue: &Queue,
        rich: Option<&Frequencies>,
        session: u64,
        no: u64,
    ) -> Self {
        // In ordered queues many jobs have the same key.
        let lane = match queue.ordered && dice.percent(60) {
            true => 0,
            false => dice.below(3),
        };
        let key = match queue.ordered {
            true => Some(format!("k{}", 1 + session * 3 + lane)),
            false => (lane > 0).then(|| format!("k{lane}")),
        };
        let mut options = Self {
            priority: 3,
            key,
            len: *dice.one_of(&[8, 8, 40, 300]),
            ..Self::default()
        };
        if !queue.ordered && dice.percent(20) {
            options.delay = Some(Duration::from_millis(dice.within(1, 3_000)));
        }
        if let Some(frequencies) = rich {
            options.enrich(dice, queue, frequencies, no);
        }
        options
    }

    fn enrich(&mut self, dice: &mut Dice, queue: &Queue, frequencies: &Frequencies, no: u64) {
        let some = |dice: &mut Dice| dice.percent(15);
        if dice.percent(30) {
            self.priority = dice.below(8) as u8;
        }
        if some(dice) && self.delay.is_none() && !queue.ordered {
            // From a minute ago to three seconds ahead.
            self.due_at = Some(wall_ms() - 60_000 + dice.below(63_000));
        }
        if some(dice) {
            self.tries = Some(dice.below(4) as u16);
        }
        if some(dice) {
            let count = dice.within(1, 3);
            self.backoff_ms = (0..count).map(|_| dice.below(1_500) as u32).collect();
        }
        if some(dice) {
            self.retry_until = Some(wall_ms() + dice.below(20_000));
        }
        if some(dice) {
            self.max_exceptions = Some(dice.within(1, 3) as u16);
        }
        if some(dice) {
            self.timeout_ms = Some(dice.within(100, 5_000) as u32);
        } else {
            self.has_no_timeout = dice.percent(5);
        }
        self.fail_on_timeout = some(dice);
        if dice.percent(frequencies.unique) {
            self.unique = Some(Unique {
                key: format!("u{}", dice.below(4)),
                until_start: dice.percent(30),
                for_ms: dice
                    .percent(frequencies.expires)
                    .then(|| dice.within(1, 5_000)),
            });
        }
        if some(dice) {
            self.idempotency = Some(format!("i{no}"));
        }
        if dice.percent(40) {
            self.kind = Some(TYPES[dice.below(3) as usize]);
        }
        if some(dice) {
            self.keep_result_ms = Some(dice.below(100_000));
        }
        if some(dice) {
            self.passed = Some(b"passed on");
        }
        if some(dice) {
            self.cost = Some(dice.within(1, 3) as u32);
        }
        if dice.percent(3) {
            self.len = dice.within(1_000, 100_000) as usize;
        }
    }

    /// The payload size of the job with this number, in bytes.
    pub(crate) fn body_len(&self, no: u64) -> u64 {
        body(no, 0, self.len).len() as u64
    }

    /// The metadata of a frame with these options.
    pub(crate) fn meta(&self) -> Vec<(Key, Vec<u8>)> {
        let mut meta: Vec<(Key, Vec<u8>)> = Vec::new();
        let mut put =
            |key: Key, value: Option<Vec<u8>>| meta.extend(value.map(|value| (key, value)));
        let millis = |time: Duration| (time.as_millis() as u64).to_be_bytes().to_vec();
        put(
            Key::FAIRNESS,
            self.key.as_ref().map(|key| key.clone().into_bytes()),
        );
        put(Key::DELAY, self.delay.map(millis));
        put(Key::DUE_AT, self.due_at.map(|at| at.to_be_bytes().to_vec()));
        put(
            Key::TRIES,
            self.tries.map(|tries| tries.to_be_bytes().to_vec()),
        );
        let backoff: Vec<u8> = self
            .backoff_ms
            .iter()
            .flat_map(|ms| ms.to_be_bytes())
            .collect();
        put(Key::BACKOFF, (!backoff.is_empty()).then_some(backoff));
        put(
            Key::RETRY_UNTIL,
            self.retry_until.map(|at| at.to_be_bytes().to_vec()),
        );
        put(
            Key::MAX_EXCEPTIONS,
            self.max_exceptions.map(|max| max.to_be_bytes().to_vec()),
        );
        put(
            Key::TIMEOUT,
            self.timeout_ms
                .or(self.has_no_timeout.then_some(0))
                .map(|ms| ms.to_be_bytes().to_vec()),
        );
        put(Key::FAIL_ON_TIMEOUT, self.fail_on_timeout.then(Vec::new));
        if let Some(unique) = &self.unique {
            put(Key::UNIQUE, Some(unique.key.clone().into_bytes()));
            put(Key::UNIQUE_UNTIL_START, unique.until_start.then(Vec::new));
            put(
                Key::UNIQUE_FOR,
                unique.for_ms.map(|ms| ms.to_be_bytes().to_vec()),
            );
        }
        put(
            Key::IDEMPOTENCY,
            self.idempotency
                .as_ref()
                .map(|key| key.clone().into_bytes()),
        );
        put(
            Key::JOB_TYPE,
            self.kind.map(|kind| kind.as_bytes().to_vec()),
        );
        put(
            Key::KEEP_RESULT,
            self.keep_result_ms.map(|ms| ms.to_be_bytes().to_vec()),
        );
        put(Key::COST, self.cost.map(|cost| cost.to_be_bytes().to_vec()));
        put(PASSED, self.passed.map(<[u8]>::to_vec));
        // The worker gets the server's own entry instead.
        put(Key::CREATED_AT, self.passed.map(|_| vec![0; 8]));
        meta
    }
}
