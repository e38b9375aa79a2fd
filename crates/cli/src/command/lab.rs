//! `stoker lab`: measures on this machine.

use crate::args;
use crate::exit::{Failure, Result};
use crate::output::print_either;
use crate::table::{Cell, table};
use std::fs;
use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};
use stoker_lab::{
    ASPECTS, CONNECTIONS, Error, FIGURES, History, Isolation, Kind, Measured, Options, Progress,
    Report, Row, Unit, confidence, range, shown,
};

/// The exit code after a signal. Shells report the same code for SIGINT.
const INTERRUPTED: u8 = 130;
const BAR: usize = 24;

pub(crate) fn lab(what: args::Lab, json: bool) -> Result {
    match what {
        args::Lab::Isolation(options) => isolation(options, json),
    }
}

fn isolation(given: args::Isolation, json: bool) -> Result {
    let html = given.html.as_deref().map(writable).transpose()?;
    let options = Options {
        application: given.app,
        path: given.path,
        strategies: given.strategies,
        rounds: given.rounds,
        seconds: given.seconds,
        workers: given.workers,
    };
    let is_terminal = io::stderr().is_terminal();
    let mut show = |progress: &Progress| {
        if is_terminal {
            // An error while writing to a terminal can't be reported anywhere.
            write!(io::stderr(), "\r\x1b[K{}", bar(progress)).ok();
        }
    };
    let report = stoker_lab::run(&options, &mut show);
    if is_terminal {
        write!(io::stderr(), "\r\x1b[K").ok();
    }
    let report = report.map_err(|error| match error {
        Error::Invalid(text) => Failure::Usage(text),
        Error::Failed(text) => Failure::Failed(text),
        Error::Interrupted => Failure::Code(INTERRUPTED),
    })?;
    if let Some(file) = html {
        let written = fs::write(&file, report.page());
        written.map_err(|error| {
            Failure::Failed(format!(
                "cannot write {} ({error}): name another file with --html",
                file.display()
            ))
        })?;
    }
    let value = serde_json::to_string_pretty(&report.json()).map_err(io::Error::other)?;
    print_either(json, &value, &text(&report))?;
    match report.rows.iter().any(|row| row.result.is_ok()) {
        true => Ok(()),
        false => Err(Failure::Failed(
            "no strategy could be measured: the table says why".to_owned(),
        )),
    }
}

/// Rejects a file that can't be written, before anything is measured.
fn writable(file: &Path) -> Result<PathBuf> {
    let file = std::path::absolute(file)?;
    let parent = file.parent().is_some_and(Path::is_dir);
    match parent && !file.is_dir() {
        true => Ok(file),
        false => Err(Failure::Usage(format!(
            "cannot write {}: set --html to a file in a directory that exists",
            file.display()
        ))),
    }
}

fn bar(progress: &Progress) -> String {
    let filled = BAR * progress.done / progress.steps.max(1);
    let percent = 100 * progress.done / progress.steps.max(1);
    format!(
        "[{}{}] {percent:>3} %  {}",
        "#".repeat(filled),
        ".".repeat(BAR - filled),
        progress.step
    )
}

/// The report as tables.
fn text(report: &Report) -> String {
    let measured: Vec<(&Report, &Row, &Measured)> = report
        .rows
        .iter()
        .filter_map(|row| Some((report, row, row.result.as_ref().ok()?)))
        .collect();
    let mut parts = vec![introduction(report)];
    parts.push(table(
        &measured,
        &[
            ("STRATEGY", |row| row.1.name.as_str().into()),
            ("AVERAGE", |row| with_interval(row, "average_us")),
            ("MIN", |row| value(row.2, "minimum_us")),
            ("P50", |row| with_interval(row, "p50_us")),
            ("P99", |row| value(row.2, "p99_us")),
            ("P50 PACED", |row| with_interval(row, "paced_p50_us")),
            ("TASKS/S", |row| with_interval(row, "requests_per_second")),
            ("CPU/TASK", |row| value(row.2, "cpu_us")),
            ("FAILED", |row| row.2.failed.into()),
            ("2018 AVG/MIN", |row| in_2018(row.0, row.1)),
        ],
    ));
    parts.push(table(
        &measured,
        &[
            ("STRATEGY", |row| row.1.name.as_str().into()),
            ("WORKER RSS", |row| value(row.2, "worker_rss_bytes")),
            ("WORKER PSS", |row| value(row.2, "worker_pss_bytes")),
            ("TOTAL RSS", |row| value(row.2, "total_rss_bytes")),
            ("TOTAL PSS", |row| value(row.2, "total_pss_bytes")),
            ("BOOT", |row| with_interval(row, "boot_us")),
            ("FIRST REQUEST", |row| value(row.2, "cold_us")),
        ],
    ));
    parts.push(isolation_table(&report.rows));
    let notes = notes(report);
    parts.extend((!notes.is_empty()).then(|| notes.join("\n")));
    parts.join("\n\n")
}

fn introduction(report: &Report) -> String {
    let rounds = match report.rounds {
        1 => "one round, so there are no confidence intervals".to_owned(),
        rounds => format!(
            "medians of {rounds} rounds [confidence interval of {:.0} %]",
            confidence(rounds as usize) * 100.0
        ),
    };
    format!(
        "{}: GET {}, {} s of load in each round, {} workers, {} processors; {rounds}\n\
         times: one request after the other (PACED: with 10 ms between their beginnings); TASKS/S and CPU/TASK: {CONNECTIONS} connections at once",
        report.application, report.path, report.seconds, report.workers, report.processors,
    )
}

fn isolation_table(rows: &[Row]) -> String {
    let known = rows
        .iter()
        .filter_map(|row| Some((row.name.clone(), row.isolation?)));
    let known: Vec<(String, Isolation)> = known.collect();
    table(
        &known,
        &[
            ("STRATEGY", |row| (&row.0).into()),
            ("GLOBALS", |row| verdict(row, "globals")),
            ("STATICS", |row| verdict(row, "statics")),
            ("CONSTANTS", |row| verdict(row, "constants")),
            ("SETTINGS", |row| verdict(row, "settings")),
            ("MEMORY", |row| verdict(row, "memory")),
            ("CONNECTIONS", |row| verdict(row, "connections")),
            ("PERSISTENT CONN.", |row| {
                verdict(row, "persistent connections")
            }),
            ("CRASH", |row| verdict(row, "crash")),
            ("SOURCE", |row| {
                if row.1.measured {
                    "measured"
                } else {
                    "documented"
                }
                .into()
            }),
        ],
    )
}

fn verdict((_, isolation): &(String, Isolation), aspect: &str) -> Cell {
    let found = ASPECTS
        .iter()
        .zip(isolation.verdicts)
        .find(|(name, _)| **name == aspect);
    match found.and_then(|(_, verdict)| verdict) {
        Some(true) => "isolated".into(),
        Some(false) => "shared".into(),
        None => Cell::None,
    }
}

fn number(key: &str, value: f64) -> String {
    shown(unit(key), value)
}

fn unit(key: &str) -> Unit {
    let figure = FIGURES.iter().find(|figure| figure.key == key);
    figure.map_or(Unit::PerSecond, |figure| figure.unit)
}

fn value(measured: &Measured, key: &str) -> Cell {
    measured.figure(key).map_or(Cell::None, |summary| {
        Cell::Number(number(key, summary.median))
    })
}

fn with_interval((report, _, measured): &(&Report, &Row, &Measured), key: &str) -> Cell {
    measured.figure(key).map_or(Cell::None, |summary| {
        let value = number(key, summary.median);
        Cell::Number(match report.rounds {
            1 => value,
            _ => format!("{value} [{}]", range(unit(key), summary)),
        })
    })
}

fn in_2018(report: &Report, row: &Row) -> Cell {
    let times = History::of(&row.name).and_then(|way| way.with(&report.application));
    times.map_or(Cell::None, |(average, minimum)| {
        Cell::Number(format!("{average}/{minimum} ms"))
    })
}

/// What the tables do not say.
fn notes(report: &Report) -> Vec<String> {
    let mut notes = Vec::new();
    let noise = [report.noise("p50_us"), report.noise("requests_per_second")];
    if let [Some(time), Some(rate)] = noise.map(|ratio| ratio.map(|ratio| (ratio - 1.0) * 100.0)) {
        notes.push(format!(
            "Noise: the first strategy, measured twice, differs by {time:+.1} % (p50) and {rate:+.1} % (tasks/s). Ignore smaller differences."
        ));
    }
    for row in &report.rows {
        match &row.result {
            Ok(_) if row.makes_calls => notes.push(format!(
                "{}: answers no HTTP requests, so a task is a call over Stoker's HTTP API that runs the front controller with php.",
                row.name
            )),
            Ok(_) if row.kind == Kind::Reference => notes.push(format!("{}: nginx and php-fpm, without Stoker.", row.name)),
            Ok(_) => {}
            Err(missing) => {
                notes.push(format!("{}: not measured: {}", row.name, missing.reason));
                notes.extend(missing.log.iter().map(|line| format!("    {line}")));
            }
        }
    }
    notes
}
