//! Simulates the whole server. `stoker-sim --help` says how to run it.

mod agenda;
mod angel;
mod behaviour;
mod calls;
mod campaign;
mod client;
mod client_actions;
#[cfg(test)]
mod completeness;
mod connection;
mod coverage;
mod delayed_store;
mod dice;
#[cfg(test)]
mod failing;
mod faults;
mod gateway;
mod growth;
mod guests;
mod hostile;
mod imports;
mod interrupts;
mod jobs_at_workers;
mod ledger;
mod link;
mod lost_links;
mod model;
mod nested;
mod operator;
mod output;
mod parts;
mod payload;
mod places;
mod programs;
mod pulls;
mod push;
mod received_parts;
mod reload;
mod request_kind;
mod requests;
mod restart;
mod rogue;
mod rule;
mod runs;
mod setup;
mod shrink;
mod shutdowns;
mod slots;
mod stalled_log;
mod stored;
mod storing;
mod survivors;
mod table;
mod timed_changes;
mod without;
mod worker;
mod world;

use coverage::Coverage;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;
use without::Without;
use world::World;

const HELP: &str = "\
stoker-sim [--from N] [--seeds N] [--no-shrink] [--coverage]
                                                    runs N seeds, and shrinks and shows the first one that fails;
                                                    with --stop, no seed is started after the first failure
stoker-sim --seed N [--without PARTS] [--shrink]    shows everything that happens in one seed, without these parts,
                                                    or in the smaller seed that shrinking finds
stoker-sim --draw N                                 prints queues and pushes as JSON, for the crash campaign";

fn main() -> ExitCode {
    let given: Vec<String> = std::env::args().skip(1).collect();
    let is_given = |name: &str| given.iter().any(|given| given == name);
    let value = |name: &str| {
        let at = given.iter().position(|given| given == name)?;
        given.get(at + 1)
    };
    let number = |name: &str| value(name).map(|value| value.parse::<u64>().expect("a number"));
    if is_given("--help") {
        println!("{HELP}");
        return ExitCode::SUCCESS;
    }
    if let Some(seed) = number("--draw") {
        println!("{}", campaign::as_json(seed));
        return ExitCode::SUCCESS;
    }
    rule::capture_panics();
    let Some(seed) = number("--seed") else {
        let (first, seeds) = (number("--from"), number("--seeds"));
        let is_shown = is_given("--coverage");
        let stops_at_failure = is_given("--stop");
        let (failed, has_holes) = run(
            first.unwrap_or(0),
            seeds.unwrap_or(300),
            is_shown,
            stops_at_failure,
        );
        if let Some(seed) = failed.filter(|_| !is_given("--no-shrink")) {
            shrink_and_show(seed);
        }
        if has_holes {
            eprintln!("a possible case was never drawn: see the table");
        }
        return match failed.is_none() && !has_holes {
            true => ExitCode::SUCCESS,
            false => ExitCode::FAILURE,
        };
    };
    let without = value("--without").map_or(Ok(Without::default()), |text| Without::parse(text));
    match (without, is_given("--shrink")) {
        (Ok(_), true) => shrink_and_show(seed),
        (Ok(without), false) => show(seed, &without),
        (Err(error), _) => {
            eprintln!("--without: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Runs a seed and prints everything that happens.
fn show(seed: u64, without: &Without) -> ExitCode {
    let mut world = World::new(seed, without, true);
    println!("{}", world.setup.text());
    let ended = catch_unwind(AssertUnwindSafe(|| world.run()));
    println!(
        "\nThe server's log:\n{}",
        String::from_utf8_lossy(&world.log)
    );
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(panic) => {
            println!("{}", rule::text_of(&*panic));
            ExitCode::FAILURE
        }
    }
}

/// Shrinks a failing seed, and shows everything that happens in the smaller one.
fn shrink_and_show(seed: u64) -> ExitCode {
    let Err(text) = shrink::outcome(seed, &Without::default()) else {
        println!(
            "seed {seed} passes when it is run once: it may have failed only because its second run differed"
        );
        return ExitCode::SUCCESS;
    };
    let without = shrink::shrink(seed, &rule::of(&text));
    println!("\nseed {seed}, smaller: --seed {seed} --without {without}\n");
    show(seed, &without)
}

/// Runs seeds on all cores. Returns the first one that failed, and whether the coverage table was printed and has
/// holes.
fn run(first: u64, seeds: u64, is_shown: bool, stops_at_failure: bool) -> (Option<u64>, bool) {
    let began = Instant::now();
    let next = AtomicU64::new(first);
    let (steps, calls) = (AtomicU64::new(0), AtomicU64::new(0));
    let coverage = Mutex::new(Coverage::default());
    let (failed, has_failed) = (Mutex::new(Vec::new()), AtomicBool::new(false));
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    let is_over = stops_at_failure && has_failed.load(Ordering::Relaxed);
                    if seed >= first + seeds || is_over {
                        return;
                    }
                    match run_seed(seed) {
                        Ok((count, seen)) => {
                            steps.fetch_add(count.steps, Ordering::Relaxed);
                            calls.fetch_add(count.calls, Ordering::Relaxed);
                            coverage
                                .lock()
                                .expect("no thread panics with the lock")
                                .add(&seen);
                        }
                        Err(text) => {
                            // Printed at once, because a long run prints its summary late.
                            eprintln!("seed {seed} fails: {text}");
                            has_failed.store(true, Ordering::Relaxed);
                            let mut failed = failed.lock().expect("no thread panics with the lock");
                            failed.push((seed, text));
                        }
                    }
                }
            });
        }
    });
    let (took, steps, calls) = (
        began.elapsed().as_secs_f64(),
        steps.into_inner(),
        calls.into_inner(),
    );
    println!(
        "{seeds} seeds in {took:.1} s: {steps} steps with {calls} system calls, {:.0} and {:.0} a second",
        steps as f64 / took,
        calls as f64 / took
    );
    let mut failed = failed.into_inner().expect("no thread panics with the lock");
    failed.sort();
    for (seed, text) in failed.iter().take(20) {
        println!("seed {seed}: {text}");
    }
    println!("{} failed", failed.len());
    for (count, first, rule) in rule::count(&failed) {
        println!("{count:>6} first {first}: {rule}");
    }
    let coverage = coverage
        .into_inner()
        .expect("no thread panics with the lock");
    // A small number of seeds always leaves holes.
    let has_holes = is_shown && coverage.print() && seeds >= 5_000;
    (failed.first().map(|(seed, _)| *seed), has_holes)
}

/// One in this many seeds is run twice, to detect behaviour that does not depend on the seed alone.
const RUN_TWICE_EVERY: u64 = 50;

/// The amount of work for a seed.
struct Count {
    /// Turns of the server, and events of its peers.
    steps: u64,
    /// Simulated system calls of all processes.
    calls: u64,
}

/// Runs a seed. Returns the amount of work, or the message of the broken rule.
fn run_seed(seed: u64) -> Result<(Count, Coverage), String> {
    let run = || {
        let mut count = Count { steps: 0, calls: 0 };
        let mut world = World::new(seed, &Without::default(), false);
        world.run();
        count.steps += world.steps;
        count.calls += stoker_os::sim::calls();
        if seed.is_multiple_of(RUN_TWICE_EVERY) {
            let mut again = World::new(seed, &Without::default(), false);
            again.run();
            count.steps += again.steps;
            count.calls += stoker_os::sim::calls();
            assert!(world.log == again.log, "the second run of the seed differs");
            assert_eq!(
                world.steps, again.steps,
                "the second run of the seed differs"
            );
        }
        world.ledger.coverage.count_keys(&world.setup);
        (count, std::mem::take(&mut world.ledger.coverage))
    };
    catch_unwind(AssertUnwindSafe(run)).map_err(|panic| rule::text_of(&*panic))
}
