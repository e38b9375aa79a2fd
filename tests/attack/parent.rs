//! Chooses groups, runs each in a process of its own, and reports the results.

use crate::case::Group;
use crate::expected;
use crate::options::Options;
use serde_json::Value;
use std::fs::File;
use std::process::ExitCode;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;
use stoker_testkit::{Dir, Spawn, limit, procs};

#[derive(Default)]
struct Totals {
    passed: usize,
    /// The name of the case, and what was wrong.
    failed: Vec<(String, String)>,
    expected: Vec<(&'static str, String, String)>,
    /// Cases that are marked as expected to fail, and passed.
    unmarked: Vec<String>,
}

pub(crate) fn run(groups: &[Group], options: &Options) -> ExitCode {
    let chosen: Vec<&Group> = groups
        .iter()
        .filter(|group| is_chosen(group, options))
        .collect();
    if options.list {
        return list(&chosen, options);
    }
    let (began, next) = (Instant::now(), AtomicUsize::new(0));
    let totals = Mutex::new(Totals::default());
    std::thread::scope(|scope| {
        for _ in 0..options.jobs.min(chosen.len()) {
            scope.spawn(|| {
                while let Some(group) = chosen.get(next.fetch_add(1, Ordering::Relaxed)) {
                    run_group(group, options, &totals);
                }
            });
        }
    });
    let totals = totals.into_inner().unwrap_or_else(PoisonError::into_inner);
    conclude(&totals, options.strict, began.elapsed().as_secs_f64())
}

fn is_chosen(group: &Group, options: &Options) -> bool {
    match &options.filter {
        Some(filter) => group.cases.iter().any(|case| case.name.contains(filter)),
        None => group.quick || options.all,
    }
}

fn list(groups: &[&Group], options: &Options) -> ExitCode {
    let mut count = 0;
    for group in groups {
        for case in &group.cases {
            if options
                .filter
                .as_ref()
                .is_none_or(|part| case.name.contains(part))
            {
                println!("{}\t{}", group.issue, case.name);
                count += 1;
            }
        }
    }
    println!("{count} cases in {} groups", groups.len());
    ExitCode::SUCCESS
}

fn run_group(group: &Group, options: &Options, totals: &Mutex<Totals>) {
    let dir = Dir::new();
    let began = Instant::now();
    // This mark identifies the processes that a hanging case has started.
    let mark = dir.path().display().to_string();
    let (out, err) = (dir.file("out"), dir.file("err"));
    let this = std::env::current_exe().expect("a program knows its own path");
    let (seed, binary) = (
        options.seed.to_string(),
        options.binary.display().to_string(),
    );
    let mut args = vec!["--group", &group.name, "--seed", &seed, "--binary", &binary];
    args.extend(options.strict.then_some("--strict"));
    args.extend(options.filter.as_deref());
    let file = |path| File::create(path).expect("a file of the directory can be made");
    let spawn = Spawn::new(this).args(&args).env("ATTACK_RUN", &mark);
    let mut child = spawn.stdout(file(&out)).stderr(file(&err)).start();
    let in_time = procs::wait_for_exit(child.id() as i32, group.bounds.seconds);
    let tree = procs::tree(child.id() as i32);
    let left = procs::marked(&format!("ATTACK_RUN={mark}"));
    tree.into_iter().chain(left).for_each(procs::kill);
    child.wait().ok();
    let read =
        |path| String::from_utf8_lossy(&std::fs::read(path).unwrap_or_default()).into_owned();
    let mut totals = totals.lock().unwrap_or_else(PoisonError::into_inner);
    let (text, failed_before) = (read(&out), totals.failed.len());
    let figures = take_results(group, options, &text, in_time, &mut totals);
    let seconds = began.elapsed().as_secs_f64();
    println!(
        "{:4} {} ({seconds:.1} s; {figures})",
        group.issue, group.name
    );
    if totals.failed.len() > failed_before {
        println!("{}", read(&err));
    }
}

/// Reads the child's lines; returns the measured figures.
fn take_results(
    group: &Group,
    options: &Options,
    text: &str,
    in_time: bool,
    totals: &mut Totals,
) -> String {
    let lines: Vec<Value> = text
        .lines()
        .filter_map(|line| serde_json::from_str(line).ok())
        .collect();
    let of = |name: &str| lines.iter().find(|line| line["case"] == name);
    for case in &group.cases {
        if options
            .filter
            .as_ref()
            .is_some_and(|part| !case.name.contains(part))
        {
            continue;
        }
        let error = match of(&case.name) {
            Some(line) => line["error"].as_str().map(str::to_owned),
            None if in_time => Some("the process of its group ended early".to_owned()),
            None => Some(format!(
                "not finished within {:?}",
                limit(group.bounds.seconds)
            )),
        };
        totals.take(group.issue, &case.name, error);
    }
    let last = lines.iter().find(|line| line["figures"].is_string());
    if let Some(wrong) = last.and_then(|line| line["wrong"].as_array())
        && !wrong.is_empty()
    {
        let wrong: Vec<&str> = wrong.iter().filter_map(Value::as_str).collect();
        let name = format!("{}: bounds", group.name);
        totals.take(group.issue, &name, Some(wrong.join("; ")));
    }
    last.map_or("no figures", |line| line["figures"].as_str().unwrap_or(""))
        .to_owned()
}

impl Totals {
    fn take(&mut self, issue: &'static str, name: &str, error: Option<String>) {
        let error = error.map(|error| error.replace('\n', " "));
        match (expected::is_marked(issue, name), error) {
            (false, None) => self.passed += 1,
            (false, Some(error)) => self.failed.push((name.to_owned(), error)),
            (true, None) => self.unmarked.push(name.to_owned()),
            (true, Some(error)) => self.expected.push((issue, name.to_owned(), error)),
        }
    }
}

fn conclude(totals: &Totals, strict: bool, seconds: f64) -> ExitCode {
    println!();
    for (issue, name, error) in &totals.expected {
        println!("expected to fail ({issue}): {name}: {error:.200}");
    }
    // If a mark covers several cases, some may pass before the defect is fixed.
    let unmarked = if strict { &*totals.unmarked } else { &[] };
    for name in unmarked {
        println!("PASSES, remove its mark in expected.rs: {name}");
    }
    for (name, error) in &totals.failed {
        println!("FAILED {name}: {error:.600}");
    }
    println!(
        "{} cases passed, {} failed, {} failed as expected, in {seconds:.0} s",
        totals.passed + totals.unmarked.len(),
        totals.failed.len(),
        totals.expected.len(),
    );
    match totals.failed.is_empty() && unmarked.is_empty() {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    }
}
