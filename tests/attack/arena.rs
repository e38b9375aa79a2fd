//! The environment of an attack: a running Stoker, and what is measured of it.

use crate::watch::{Peaks, Watch};
use serde_json::{Value, json};
use std::path::PathBuf;
use stoker_testkit::{App, Client, Ended, Output, Received, Request, Setup, Spawn, run, until};
use stoker_wire::Status;

pub(crate) struct Arena {
    pub(crate) binary: PathBuf,
    app: Option<(App, Watch)>,
    /// The peaks of servers that have ended.
    peaks: Vec<Peaks>,
}

impl Arena {
    pub(crate) fn new(binary: PathBuf) -> Self {
        Self {
            binary,
            app: None,
            peaks: Vec::new(),
        }
    }

    pub(crate) fn setup(&self) -> Setup {
        Setup::new(&self.binary.display().to_string())
    }

    /// Takes a running Stoker, and watches it.
    pub(crate) fn take(&mut self, app: App) {
        let log = app.log_counter();
        let watch = Watch::of(&app, log);
        self.app = Some((app, watch));
    }

    pub(crate) fn start(&mut self, setup: Setup) -> &App {
        self.take(setup.start());
        self.app()
    }

    pub(crate) fn app(&self) -> &App {
        &self.app.as_ref().expect("a Stoker runs").0
    }

    pub(crate) fn client(&self) -> Client {
        self.app().client()
    }

    /// Stops Stoker gracefully.
    pub(crate) fn stop(&mut self) -> Ended {
        let (app, watch) = self.app.take().expect("a Stoker runs");
        self.peaks.push(watch.end());
        app.stop()
    }

    /// Drops a Stoker that was killed with all its processes.
    pub(crate) fn abandon(&mut self) {
        let (app, watch) = self.app.take().expect("a Stoker runs");
        self.peaks.push(watch.end());
        drop(app.wait_for_exit());
    }

    /// Ends a Stoker that still runs, and returns all peaks.
    pub(crate) fn finish(&mut self) -> Vec<Peaks> {
        if let Some((app, watch)) = self.app.take() {
            self.peaks.push(watch.end());
            drop(app);
        }
        std::mem::take(&mut self.peaks)
    }

    /// The end of the log, for messages about failures.
    pub(crate) fn last_lines(&self) -> String {
        let log = self
            .app
            .as_ref()
            .map_or(String::new(), |(app, _)| app.log());
        let lines: Vec<&str> = log.lines().rev().take(40).collect();
        let lines: Vec<String> = lines
            .iter()
            .rev()
            .map(|line| format!("{line:.300}"))
            .collect();
        lines.join("\n")
    }

    /// Runs a command of `stoker` in a directory, without a server of its own.
    pub(crate) fn stoker(&self, dir: &std::path::Path, args: &[&str]) -> Output {
        run(Spawn::new(&self.binary).args(args).within(dir))
    }

    /// Checks that the server is alive, serves calls, and is still the same process.
    #[track_caller]
    pub(crate) fn still_serves(&self, server: i32) {
        assert_eq!(self.app().server(), server, "it is the same server process");
        let answer = self.app().call("t.run", "ok alive");
        assert_eq!(
            (answer.status(), answer.text()),
            (Status::OK, "alive".to_owned())
        );
    }
}

/// The number of jobs that a filter selects.
#[track_caller]
pub(crate) fn count(client: &mut Client, filter: &Value) -> u64 {
    let mut ask = filter.clone();
    ask["op"] = json!("count");
    client.call_server("stoker.job", &ask)["count"]
        .as_u64()
        .unwrap_or(0)
}

#[track_caller]
pub(crate) fn pause(client: &mut Client, queue: &str) {
    client.call_server(
        "stoker.queue",
        &json!({"op": "pause", "queue": queue, "create": true}),
    );
}

#[track_caller]
pub(crate) fn resume(client: &mut Client, queue: &str) {
    client.call_server("stoker.queue", &json!({"op": "resume", "queue": queue}));
}

/// Waits until no job of a queue waits, and no worker runs anything. Idle workers are checked too, because a job that
/// is acknowledged on delivery is done before it runs.
#[track_caller]
pub(crate) fn drained(client: &mut Client, queue: &str) -> Value {
    until(&format!("nothing is left to do in {queue}"), || {
        let found = client.queue(queue);
        let mut left = ["ready", "delayed", "running"].iter();
        let waits = left.any(|key| found[*key] != 0);
        let state = client.call_server("stoker.worker", &json!({"op": "list"}));
        let mut workers = state["workers"].as_array().into_iter().flatten();
        (!waits && workers.all(|worker| worker["state"] != "busy")).then_some(found)
    })
}

/// Pushes many jobs in one write; returns their ids in order.
#[track_caller]
pub(crate) fn push_all(client: &mut Client, asks: &[Request]) -> Vec<String> {
    let ids: Vec<u32> = asks
        .chunks(500)
        .flat_map(|chunk| client.send_all(chunk))
        .collect();
    let answers = ids.into_iter().map(|id| client.answer(id));
    let text = |got: Received| {
        assert_eq!(
            got.status(),
            Status::OK,
            "a push is accepted: {}",
            got.text()
        );
        got.text()
    };
    answers.map(text).collect()
}
