//! Runs one group in this process, and prints a line of JSON for each case.

use crate::arena::Arena;
use crate::case::{Case, Group};
use crate::options::Options;
use crate::watch::Peaks;
use serde_json::json;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ExitCode;
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

/// The message of the first panic.
static PANIC: Mutex<Option<String>> = Mutex::new(None);

pub(crate) fn run(group: &Group, options: &Options) -> ExitCode {
    std::panic::set_hook(Box::new(|info| {
        let mut said = PANIC.lock().unwrap_or_else(PoisonError::into_inner);
        let place = info
            .location()
            .map_or(String::new(), |at| format!(" ({at})"));
        let payload = info.payload();
        let text = payload.downcast_ref::<String>().map(String::as_str);
        let text = text.or(payload.downcast_ref::<&str>().copied());
        let text = text.unwrap_or("a panic without a text");
        eprintln!("{text}{place}");
        said.get_or_insert(format!("{text}{place}"));
    }));
    let mut arena = Arena::new(options.binary.clone());
    let started = group.prepare.as_ref().map_or(Ok(()), |prepare| {
        guarded(|| {
            let setup = prepare(arena.setup());
            arena.start(setup);
        })
    });
    let chosen = |case: &&Case| {
        options
            .filter
            .as_ref()
            .is_none_or(|part| case.name.contains(part))
    };
    let cases: Vec<&Case> = group.cases.iter().filter(chosen).collect();
    let mut results: Vec<(&str, u128, Option<String>)> = Vec::new();
    for case in cases {
        let began = Instant::now();
        let result = started
            .clone()
            .and_then(|()| guarded(|| (case.attack)(&mut arena)));
        results.push((&case.name, began.elapsed().as_millis(), result.err()));
    }
    if results.iter().any(|(_, _, error)| error.is_some()) {
        eprintln!("--- end of the log\n{}\n---", arena.last_lines());
    }
    let mut peaks = Vec::new();
    let mut wrong: Vec<String> = guarded(|| peaks = arena.finish())
        .err()
        .into_iter()
        .collect();
    let exceeded = |peaks: &Peaks| group.bounds.exceeded(peaks, options.strict);
    wrong.extend(peaks.iter().flat_map(exceeded));
    report(results, wrong, &peaks);
    ExitCode::SUCCESS
}

/// The bounds are checked for the group. If the group has only one case, violations count as that case's.
fn report(mut results: Vec<(&str, u128, Option<String>)>, wrong: Vec<String>, peaks: &[Peaks]) {
    let mut rest = wrong;
    if let [(_, _, error)] = &mut *results {
        let all = error.take().into_iter().chain(std::mem::take(&mut rest));
        let all: Vec<String> = all.collect();
        *error = (!all.is_empty()).then(|| all.join("; "));
    }
    for (name, ms, error) in results {
        println!("{}", json!({"case": name, "ms": ms as u64, "error": error}));
    }
    let figures: Vec<String> = peaks.iter().map(Peaks::text).collect();
    println!("{}", json!({"figures": figures.join(" | "), "wrong": rest}));
}

/// Runs `work`, and returns the message of a panic as an error.
fn guarded(work: impl FnOnce()) -> Result<(), String> {
    let said = || PANIC.lock().unwrap_or_else(PoisonError::into_inner).take();
    said();
    let done = catch_unwind(AssertUnwindSafe(work));
    let text = said();
    done.map_err(|_| text.unwrap_or_default())
}
