//! Tasks that harm their process: only the guilty task suffers. Others of its pool are answered meanwhile and afterwards.

use super::kind::Kind;
use serde_json::{Value, json};
use stoker_testkit::{App, Client, Request, WaitingWorker, until};
use stoker_wire::{Key, Status};

/// The number of workers that may die of one task.
const BUDGET: u64 = 2;

/// How a guilty task ends.
struct End {
    /// The status of a call.
    status: Status,
    /// The class of the error of a job.
    class: &'static str,
    /// How many processes a job has killed.
    crashes: u64,
    /// What the error of the job says.
    reason: &'static str,
    /// What the log says about the run.
    logged: &'static str,
}

impl End {
    fn crash(reason: &'static str) -> Self {
        Self {
            status: Status::WORKER_DIED,
            class: "Quarantined",
            crashes: BUDGET,
            reason,
            logged: "crashed",
        }
    }

    fn failure(class: &'static str, reason: &'static str) -> Self {
        Self {
            status: Status::EXCEPTION,
            class,
            crashes: 0,
            reason,
            logged: "failed",
        }
    }
}

/// A pool with a job that runs until the end of the test.
struct Pool {
    app: App,
    client: Client,
    waiting: String,
    held: WaitingWorker,
}

impl Pool {
    #[track_caller]
    fn start(kind: Kind, script: &str, keys: &str) -> Self {
        let keys = format!("workers = 3\ncrash_budget = {BUDGET}\n{keys}");
        let setup = kind.pool(script, &keys);
        let gate = setup.dir().gate("gate");
        let app = setup.start();
        let mut client = app.client();
        let wait = Request::push("q", "wait").meta(Key::TIMEOUT, 60_000u32.to_be_bytes());
        let waiting = client.push(&wait);
        let held = gate.wait_for_worker();
        Self {
            app,
            client,
            waiting,
            held,
        }
    }

    /// Runs the guilty task as a call and as a job, among others. Returns the status and text of the call, and the job.
    #[track_caller]
    fn run_guilty(&mut self) -> (Status, String, Value) {
        let client = &mut self.client;
        let call = |body: &str| Request::call("t.run", body).ttl(30_000);
        let push = |body: &str| Request::push("q", body).meta(Key::TRIES, 1u16.to_be_bytes());
        let (mut calls, mut jobs) = (Vec::new(), Vec::new());
        let mut innocent = |client: &mut Client, name: &str| {
            for number in 0..5 {
                let body = format!("{name} {number}");
                jobs.push((client.push(&push(&body)), body.clone()));
                calls.push((client.send(&call(&body)), body));
            }
        };
        innocent(client, "before");
        let guilty_call = client.send(&call("act"));
        innocent(client, "between");
        let guilty_job = client.push(&push("act"));
        innocent(client, "after");
        for (id, body) in calls {
            let answer = client.answer(id);
            assert_eq!(answer.text(), format!("done: {body}"));
        }
        for (id, body) in jobs {
            let job = client.job_in(&id, "done");
            assert_eq!(job["result"], format!("done: {body}"));
            assert_eq!((&job["attempt"], &job["crashes"]), (&json!(1), &json!(0)));
        }
        let answer = client.answer(guilty_call);
        let ended = |job: &Value| matches!(job["state"].as_str(), Some("done" | "failed"));
        let job = until("the guilty job has ended", || {
            Some(client.job(&guilty_job)).filter(ended)
        });
        (answer.status(), answer.text(), job)
    }

    /// The pool works after all that has happened, and the job that ran meanwhile is done.
    #[track_caller]
    fn finish(mut self) {
        drop(self.held);
        let waited = self.client.job_in(&self.waiting, "done");
        assert_eq!(waited["result"], "done: wait");
        assert_eq!(
            (&waited["attempt"], &waited["crashes"]),
            (&json!(1), &json!(0))
        );
        for number in 0..6 {
            let answer = self.client.call("t.run", &number.to_string());
            assert_eq!(answer.text(), format!("done: {number}"));
        }
        self.app.ready();
        let ended = self.app.stop();
        assert_eq!(ended.code, 0, "{}", ended.log);
    }
}

#[track_caller]
fn check(kind: Kind, script: &str, keys: &str, end: &End) {
    let mut pool = Pool::start(kind, script, keys);
    let (status, text, job) = pool.run_guilty();
    assert_eq!(status, end.status, "{text}");
    let error = &job["error"];
    let reason = error["message"].as_str().unwrap_or_default();
    assert_eq!(
        (&job["state"], &error["class"], &job["crashes"]),
        (&json!("failed"), &json!(end.class), &json!(end.crashes)),
        "{job}"
    );
    assert!(reason.contains(end.reason), "{job}");
    let (id, logged) = (job["id"].as_str().unwrap_or_default(), end.logged);
    pool.app.wait_for_log(&format!("job {id}*{logged}"));
    pool.app.wait_for_log(&format!("call t.run#*{logged}"));
    pool.finish();
}

pub(super) fn kill(kind: Kind) {
    check(kind, "kill.php", "", &End::crash("signal 9 (KILL)"));
}

pub(super) fn segfault(kind: Kind) {
    check(kind, "segfault.php", "", &End::crash("signal 11 (SEGV)"));
}

pub(super) fn endless_loop(kind: Kind) {
    let end = End {
        status: Status::DEADLINE_EXCEEDED,
        class: "TimedOut",
        crashes: 0,
        reason: "",
        logged: "timed out",
    };
    check(kind, "endless.php", "task_timeout = \"1s\"", &end);
}

/// The limit of the pool: the process is killed, and its task counts as a crash.
pub(super) fn memory(kind: Kind) {
    let end = End::crash("it used more memory than memory_limit allows");
    check(kind, "memory.php", "memory_limit = \"64MB\"", &end);
}

/// PHP's own limit: an error that ends the script, which only Stoker's host outlives.
pub(super) fn memory_of_php(kind: Kind) {
    let reason = "Allowed memory size of 33554432 bytes exhausted";
    let end = match kind {
        Kind::Sapi | Kind::Snapshot => End::failure("E_ERROR", reason),
        Kind::Exec => End::failure("EXCEPTION", reason),
        Kind::Loop | Kind::Spare | Kind::Fork => End::crash(reason),
    };
    check(kind, "memory-of-php.php", "", &end);
}

pub(super) fn exit(kind: Kind) {
    let end = match kind {
        Kind::Loop | Kind::Spare | Kind::Fork => {
            End::failure("Stoker\\ExitCalled", "exit() or die() was called")
        }
        Kind::Exec | Kind::Sapi | Kind::Snapshot => End::failure("EXCEPTION", "exit code 3"),
    };
    check(kind, "exit.php", "", &end);
}

/// Nothing of the output is lost, and each line names the task that wrote it.
pub(super) fn flood(kind: Kind) {
    const LINES: usize = 20_000;
    let mut pool = Pool::start(kind, "flood.php", "");
    let (status, text, job) = pool.run_guilty();
    assert_eq!((status, &job["state"]), (Status::OK, &json!("done")));
    assert!(text.ends_with("flooded"), "{:.1000}", text);
    let id = job["id"].as_str().unwrap_or_default();
    // The output of a program is the result of its task.
    let streams = match kind.has_adapter() {
        true => &["err"][..],
        false => &["out", "err"],
    };
    for stream in streams {
        let tag = format!("] std{stream} {id}: {stream} 0");
        pool.app.wait_for_log(&format!("{tag}*{}", LINES - 1));
        let log = pool.app.log();
        let count = |text: &str| log.lines().filter(|line| line.contains(text)).count();
        assert_eq!(count(&tag), LINES, "{tag}");
        assert_eq!(count(&format!("] std{stream} t.run#")), LINES);
    }
    pool.finish();
}

/// The process dies after it has written a part of its answer.
pub(super) fn half_written_answer(kind: Kind) {
    check(kind, "half.php", "", &End::crash("signal 9 (KILL)"));
}
