//! Reduces a failing seed to a smaller one that breaks the same rule.

use crate::rule;
use crate::setup::Setup;
use crate::without::{Without, parts};
use crate::world::World;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

/// The maximum number of attempts, and the maximum time of all attempts together.
const MAX_ATTEMPTS: u32 = 3_000;
const MAX_TIME: Duration = Duration::from_secs(60);

/// Finds what can be left out of a seed so that it still breaks this rule.
pub(crate) fn shrink(seed: u64, rule: &str) -> Without {
    let mut shrinking = Shrinking {
        seed,
        rule,
        best: Without::default(),
        left: MAX_ATTEMPTS,
        until: Instant::now() + MAX_TIME,
    };
    loop {
        let before = shrinking.best.clone();
        shrinking.reduce_counts();
        shrinking.leave_out_parts();
        shrinking.skip_actions();
        if shrinking.best == before || !shrinking.may_try() {
            return shrinking.best;
        }
    }
}

/// Runs a seed. Returns the message of the broken rule, if a rule was broken.
pub(crate) fn outcome(seed: u64, without: &Without) -> Result<(), String> {
    let run = || World::new(seed, without, false).run();
    catch_unwind(AssertUnwindSafe(run)).map_err(|panic| rule::text_of(&*panic))
}

struct Shrinking<'a> {
    seed: u64,
    rule: &'a str,
    best: Without,
    left: u32,
    until: Instant,
}

impl Shrinking<'_> {
    fn may_try(&self) -> bool {
        self.left > 0 && Instant::now() < self.until
    }

    /// Replaces the best result with a smaller one if that still breaks the same rule. Returns whether it does.
    fn try_smaller(&mut self, smaller: Without) -> bool {
        if !self.may_try() || smaller == self.best {
            return false;
        }
        self.left -= 1;
        let failed = outcome(self.seed, &smaller).err();
        let is_same = failed.is_some_and(|text| rule::of(&text) == self.rule);
        if is_same {
            self.best = smaller;
        }
        is_same
    }

    fn setup(&self) -> Setup {
        let mut setup = Setup::draw(self.seed);
        self.best.leave_out(&mut setup);
        setup
    }

    /// Reduces the number of requests, and of the clients that make them.
    fn reduce_counts(&mut self) {
        for clients in 1..self.setup().clients {
            if self.try_smaller(self.best.with_clients(clients)) {
                break;
            }
        }
        let (mut few, mut enough) = (0, self.setup().requests);
        while few + 1 < enough && self.may_try() {
            let middle = few.midpoint(enough);
            match self.try_smaller(self.best.with_requests(middle)) {
                true => enough = middle,
                false => few = middle,
            }
        }
    }

    fn leave_out_parts(&mut self) {
        for part in parts(&self.setup()) {
            self.try_smaller(self.best.and_part(&part));
        }
    }

    /// Leaves out actions of clients: halves, quarters, and so on down to single ones.
    fn skip_actions(&mut self) {
        let all: Vec<u64> = (1..=self.setup().requests).collect();
        let mut size = all.len() / 2;
        while size > 0 && self.may_try() {
            for some in all.chunks(size) {
                self.try_smaller(self.best.and_actions(some));
            }
            size /= 2;
        }
    }
}
