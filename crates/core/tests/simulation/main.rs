//! Simulates hours of a server in trouble: workers that crash, hang, violate the protocol and leave, a
//! store with backlogs, bursts of calls and jobs, and operators who give arbitrary commands. All
//! invariants are checked after every step, and after the trouble the server must have recovered
//! completely.
//!
//! `STOKER_SEEDS=5000` runs this number of seeds. `STOKER_SEED=17` runs one seed and prints a trace of all
//! its events.
#![allow(
    clippy::needless_pass_by_value,
    reason = "what happened is handed over"
)]
#![allow(unreachable_pub, reason = "a module of a test is public to nobody")]

#[path = "../support/mod.rs"]
mod support;

mod chance;
mod checks;
mod coverage;
mod edge;
mod fairness;
mod flood;
mod operator;
mod setup;
mod silent;
mod sim;
mod source;
mod store;
mod trace;

use coverage::Coverage;
use sim::Sim;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

const SEEDS: u64 = 360;

#[test]
fn the_core_recovers_from_random_faults() {
    if let Some(seed) = number("STOKER_SEED") {
        let mut sim = Sim::new(seed, true);
        let ended = catch_unwind(AssertUnwindSafe(|| sim.run()));
        println!("{}", trace::summary(&sim.core));
        return ended.unwrap_or_else(|panic| resume_unwind(panic));
    }
    let seeds = number("STOKER_SEEDS").unwrap_or(SEEDS);
    let (next, coverage) = (AtomicU64::new(0), Mutex::new(Coverage::default()));
    let failed = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(|| {
                let mut seen = Coverage::default();
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= seeds {
                        break;
                    }
                    match run(seed) {
                        Some(of_seed) => seen.add(&of_seed),
                        None => failed.lock().expect("nobody panics with it").push(seed),
                    }
                }
                coverage.lock().expect("nobody panics with it").add(&seen);
            });
        }
    });
    let mut failed = failed.into_inner().expect("nobody panics with it");
    failed.sort();
    if let Some(seed) = failed.first() {
        let mut sim = Sim::new(*seed, false);
        sim.trace.keep();
        let _again = catch_unwind(AssertUnwindSafe(|| sim.run()));
        eprintln!("{}\n{}", sim.trace.tail(60), trace::summary(&sim.core));
        panic!(
            "seeds {failed:?} failed; replay: \
             STOKER_SEED={seed} cargo test -p stoker-core --test simulation random_faults -- --nocapture"
        );
    }
    let coverage = coverage.into_inner().expect("nobody panics with it");
    println!("{coverage}");
    if seeds >= SEEDS {
        coverage.check();
    }
}

/// Runs one seed. Returns its coverage, or `None` if it failed.
fn run(seed: u64) -> Option<Coverage> {
    let mut sim = Sim::new(seed, false);
    let ended = catch_unwind(AssertUnwindSafe(|| sim.run()));
    ended.ok().map(|()| sim.coverage)
}

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}
