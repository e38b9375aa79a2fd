//! Draws random options for a call.

use crate::dice::Dice;
use crate::setup::Setup;
use stoker_wire::{Flags, Key, MetaBuf};

/// The metadata key that carries the number of a call, which the server only passes on. The body does not identify a
/// call, because several calls may have the same one.
pub(crate) const NUMBER: Key = Key(0x91);

/// A body of which the server keeps only the beginning, for display.
const LONG_DEADLY: &str =
    "deadly with a body that is longer than what the server keeps of a call in quarantine";

#[derive(Clone, Debug)]
pub(crate) struct CallSpec {
    pub(crate) service: usize,
    /// The user that makes the call.
    pub(crate) uid: u32,
    pub(crate) is_idempotent: bool,
    /// The client expects no answer.
    pub(crate) is_oneway: bool,
    /// The client accepts an answer in parts, and grants this many bytes for its beginning.
    pub(crate) credit: Option<u32>,
    /// The number of bytes that the client grants each time that it has read a part; zero for a client that reads no
    /// further.
    pub(crate) grant: u32,
    /// The time for the call, in milliseconds; `None` takes the timeout of its service.
    pub(crate) ttl_ms: Option<u32>,
    pub(crate) priority: u8,
    pub(crate) key: Option<String>,
    /// The code of a task makes the call.
    pub(crate) is_nested: bool,
    /// The call kills the worker that runs it. The value is its body, which other calls share.
    pub(crate) deadly: Option<&'static str>,
}

impl CallSpec {
    pub(crate) fn draw(dice: &mut Dice, setup: &Setup, uid: u32) -> Self {
        let crashes = setup.trouble.crash > 0;
        // A quarantined call is allowed again only after a long break, so these calls are rarer in seeds without one.
        let deadly = if setup.has_break { 30 } else { 6 };
        let is_oneway = dice.percent(5);
        let has_credit = dice.percent(30) && !is_oneway;
        Self {
            service: dice.below(setup.services.len() as u64) as usize,
            uid,
            is_idempotent: dice.percent(30),
            is_oneway,
            credit: has_credit.then(|| draw_credit(dice)),
            grant: dice.weighted(&[(8, 1), (6, 2), (1, 0)]),
            ttl_ms: dice.percent(40).then(|| dice.within(20, 4_000) as u32),
            priority: dice.below(8) as u8,
            key: dice.percent(40).then(|| format!("c{}", dice.below(3))),
            is_nested: false,
            deadly: (dice.percent(deadly) && crashes)
                .then(|| *dice.one_of(&["deadly", "lethal", LONG_DEADLY])),
        }
    }

    pub(crate) fn flags(&self) -> Flags {
        let mut flags = 0;
        if self.is_idempotent {
            flags |= Flags::IDEMPOTENT.0;
        }
        if self.is_oneway {
            flags |= Flags::ONEWAY.0;
        }
        Flags(flags)
    }

    pub(crate) fn meta(&self, no: u64) -> MetaBuf {
        let mut meta = MetaBuf::new();
        if let Some(key) = &self.key {
            meta.push(Key::FAIRNESS, key.as_bytes());
        }
        meta.push(NUMBER, &no.to_be_bytes());
        if let Some(credit) = self.credit {
            meta.push(Key::CREDIT, &credit.to_be_bytes());
        }
        meta
    }

    pub(crate) fn body(&self, no: u64) -> Vec<u8> {
        match self.deadly {
            Some(body) => body.as_bytes().to_vec(),
            None => crate::payload::body(no, 0, 8),
        }
    }
}

/// Draws the credit of an answer's beginning: often fewer bytes than the answer has.
fn draw_credit(dice: &mut Dice) -> u32 {
    match dice.percent(60) {
        true => dice.within(1, 4) as u32,
        false => dice.within(16, (1 << 20) - 16) as u32,
    }
}
