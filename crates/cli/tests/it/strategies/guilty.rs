//! Tasks that harm their process: only the guilty task suffers. Others of its pool are answered meanwhile and afterwards.

use super::kind::Kind;
use super::pool::{BUDGET, Pool};
use serde_json::{Value, json};
use stoker_wire::Status;

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

    /// The process dies of a signal, which is known if Stoker has started the process.
    fn killed(kind: Kind, signal: &'static str) -> Self {
        Self::crash(match kind.has_upstream() {
            true => "closed the connection",
            false => signal,
        })
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
    check(kind, "kill.php", "", &End::killed(kind, "signal 9 (KILL)"));
}

pub(super) fn segfault(kind: Kind) {
    let end = End::killed(kind, "signal 11 (SEGV)");
    check(kind, "segfault.php", "", &end);
}

pub(super) fn endless_loop(kind: Kind) {
    let end = End {
        status: Status::DEADLINE_EXCEEDED,
        class: "TimedOut",
        crashes: 0,
        reason: "",
        logged: "timed out",
    };
    // Long enough for the other tasks on a busy machine, each of which may start PHP.
    check(kind, "endless.php", "task_timeout = \"4s\"", &end);
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
        Kind::Cgi | Kind::FastCgi | Kind::Http => End::failure("HTTP 500", reason),
        Kind::Loop | Kind::Spare | Kind::Fork => End::crash(reason),
    };
    check(kind, "memory-of-php.php", "", &end);
}

pub(super) fn exit(kind: Kind) {
    let end = match kind {
        Kind::Loop | Kind::Spare | Kind::Fork => {
            End::failure("Stoker\\ExitCalled", "exit() or die() was called")
        }
        Kind::Exec | Kind::Cgi | Kind::Sapi | Kind::Snapshot => {
            End::failure("EXCEPTION", "exit code 3")
        }
        Kind::FastCgi | Kind::Http => return exit_behind_a_server(kind),
    };
    check(kind, "exit.php", "", &end);
}

/// A server does not report the exit code, only the status of its answer.
fn exit_behind_a_server(kind: Kind) {
    let mut pool = Pool::start(kind, "exit.php", "");
    let (status, text, job) = pool.run_guilty();
    assert_eq!((status, text.as_str()), (Status::OK, ""));
    assert_eq!(
        (&job["state"], &job["result"]),
        (&json!("done"), &Value::Null)
    );
    pool.finish();
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
    check(kind, "half.php", "", &End::killed(kind, "signal 9 (KILL)"));
}
