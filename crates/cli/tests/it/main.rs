//! Tests of the built `stoker` with real processes: `bad-worker` for every fault, and real PHP.
//!
//! `cargo test --workspace` builds what is needed. `STOKER_PATIENCE=3` multiplies all deadlines.

mod angel;
mod boot;
mod chaos;
mod check;
mod claims;
mod cli;
mod counts;
mod deploys;
mod drain;
mod exec;
mod fork;
mod full;
mod hostile;
mod http;
mod jobs;
mod lab;
mod limits;
mod logs;
mod memory;
mod names;
mod operate;
mod parts;
mod php;
mod places;
mod plain_program;
mod poison;
mod pull;
mod quotas;
mod relay;
mod reload;
mod requests;
mod retention;
mod retries;
mod roles;
mod room;
mod rpc;
mod sapi;
mod signals;
mod sites;
mod snapshot;
mod socket;
mod steering;
mod store;
mod strategies;
mod supervision;
mod upstreams;

use rustix::process::Signal;
use stoker_testkit::{App, Client, Request, Setup, procs};

pub(crate) use stoker_testkit::pool_of;

fn setup() -> Setup {
    Setup::new(env!("CARGO_BIN_EXE_stoker"))
}

/// Starts a pool of bad-workers that serve tasks.
#[track_caller]
fn start(rest: &str) -> App {
    start_of("serve", rest)
}

#[track_caller]
fn start_of(script: &str, rest: &str) -> App {
    setup().config(&pool_of(script, rest)).start()
}

/// Runs short jobs, one after the other, until the server prefetches such jobs.
#[track_caller]
fn run_short_jobs(client: &mut Client) {
    for _ in 0..64 {
        let id = client.push(&Request::push("mails", "ok"));
        client.job_in(&id, "done");
    }
}

/// Signals all processes, as systemd does by default, and as `kill $(pgrep -s SID)` does.
fn signal_all(app: &App, signal: Signal) {
    let all = app.processes();
    assert!(all.contains(&app.server()) && all.contains(&app.angel()));
    // The angel comes last, so that it can't have notified any other process before.
    let others = all.into_iter().filter(|pid| *pid != app.angel());
    others.for_each(|pid| procs::signal(pid, signal));
    procs::signal(app.angel(), signal);
}
