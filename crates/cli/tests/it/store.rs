//! Jobs on disk: accepted jobs survive the death of any process.

use crate::{pool_of, run_short_jobs, setup, start, start_of};
use serde_json::{Value, json};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use stoker_testkit::failing::{self, Call, Place};
use stoker_testkit::{App, Client, Dir, Output, Request, Spawn, procs, run, until};
use stoker_wire::{Key, Status};

pub(crate) fn pause(client: &mut Client, paused: bool) {
    let ask = match paused {
        true => json!({"op": "pause", "queue": "mails", "create": true}),
        false => json!({"op": "resume", "queue": "mails"}),
    };
    client.call_server("stoker.queue", &ask);
}

/// Kills the server; returns a client of the next one.
pub(crate) fn kill_server(app: &App) -> Client {
    procs::kill(app.server());
    app.wait_for_log("jobs continue from the store");
    app.ready();
    app.client()
}

pub(crate) fn notes(app: &App) -> Vec<String> {
    app.dir.notes()
}

fn refused(client: &mut Client, ask: &Request) -> (Status, String) {
    let got = client.request(ask);
    (got.status(), got.text())
}

/// Runs `stoker serve`, which is expected to fail.
fn serve(config: &str) -> Output {
    let dir = Dir::new();
    dir.write("stoker.toml", config);
    run(Spawn::new(env!("CARGO_BIN_EXE_stoker"))
        .args(&["serve"])
        .within(dir.path()))
}

#[test]
fn waiting_jobs_survive_the_server_in_their_order() {
    let app = start("workers = 1");
    let mut client = app.client();
    pause(&mut client, true);
    let ids: Vec<String> = (0..20)
        .map(|n| client.push(&Request::push("mails", format!("note {n}"))))
        .collect();
    let mut client = kill_server(&app);
    assert_eq!(client.queue("mails")["ready"], 20);
    assert_eq!(client.queue("mails")["paused"], true, "a pause is kept");
    pause(&mut client, false);
    for id in &ids {
        client.job_in(id, "done");
    }
    let order: Vec<String> = (0..20).map(|n| n.to_string()).collect();
    assert_eq!(notes(&app), order);
}

#[test]
fn a_job_that_ran_when_the_server_died_runs_again_and_counts_a_crash() {
    let app = start("workers = 1");
    let mut client = app.client();
    // The first run never ends; the second one finds the file.
    let id = client.push(&Request::push("mails", "note ran;once first;silence"));
    let behind = client.push(&Request::push("mails", "note behind"));
    until("it runs", || {
        (client.job(&id)["state"] == "running").then_some(())
    });
    let mut client = kill_server(&app);
    let job = client.job_in(&id, "done");
    assert_eq!((&job["attempt"], &job["crashes"]), (&json!(1), &json!(1)));
    client.job_in(&behind, "done");
}

/// Jobs that a worker has only prefetched have not begun.
#[test]
fn jobs_prefetched_behind_a_running_one_count_no_crash_when_the_server_dies() {
    let app = start_of("quick;serve", "workers = 1");
    let mut client = app.client();
    run_short_jobs(&mut client);
    let gate = app.dir.gate("gate");
    let first = client.push(&Request::push("mails", "once begun;gate gate"));
    let held = gate.wait_for_worker();
    let behind: Vec<String> = (0..40)
        .map(|_| client.push(&Request::push("mails", "ok")))
        .collect();
    let assigned = app.workers()[0]["assigned"].as_u64();
    assert!(assigned > Some(8), "many are prefetched: {assigned:?}");
    // This push writes, at the latest, which job is running.
    let last = client.push(&Request::push("mails", "ok"));
    let mut client = kill_server(&app);
    drop(held);
    assert_eq!(client.job_in(&first, "done")["crashes"], 1);
    for id in behind.iter().chain([&last]) {
        assert_eq!(client.job_in(id, "done")["crashes"], 0);
    }
}

#[test]
fn a_delayed_job_keeps_its_due_time_over_a_restart() {
    let app = start("workers = 1");
    let mut client = app.client();
    let delay = |ms: u64| ms.to_be_bytes();
    let far = client.push(&Request::push("mails", "ok").meta(Key::DELAY, delay(3_600_000)));
    let near = client.push(&Request::push("mails", "note near").meta(Key::DELAY, delay(300)));
    let due = client.job(&far)["due_at"].clone();
    let mut client = kill_server(&app);
    assert_eq!(client.job(&far)["due_at"], due);
    assert_eq!(client.job(&far)["state"], "delayed");
    client.job_in(&near, "done");
}

#[test]
fn unique_and_idempotency_keys_outlive_the_server() {
    let app = start("workers = 1");
    let mut client = app.client();
    pause(&mut client, true);
    let once = |body: &str| Request::push("mails", body).meta(Key::UNIQUE, "u");
    let holder = client.push(&once("ok"));
    let push = Request::push("mails", "ok").meta(Key::IDEMPOTENCY, "i");
    let first = client.push(&push);
    let mut client = kill_server(&app);
    let (status, text) = refused(&mut client, &once("ok"));
    assert_eq!((status, text), (Status::ALREADY_EXISTS, holder.clone()));
    assert_eq!(client.push(&push), first, "the same job answers");
    pause(&mut client, false);
    client.job_in(&holder, "done");
    client.push(&once("ok"));
}

#[test]
fn a_unique_key_can_be_released_when_its_job_starts() {
    let app = start("workers = 1");
    let gate = app.dir.gate("gate");
    let mut client = app.client();
    let once = |body: &str| {
        Request::push("mails", body)
            .meta(Key::UNIQUE, "u")
            .meta(Key::UNIQUE_UNTIL_START, "")
    };
    pause(&mut client, true);
    client.push(&once("gate gate"));
    assert_eq!(refused(&mut client, &once("ok")).0, Status::ALREADY_EXISTS);
    pause(&mut client, false);
    let running = gate.wait_for_worker();
    client.push(&once("ok"));
    drop(running);
}

#[test]
fn a_restart_loses_no_job_and_uses_no_attempt() {
    let place = Dir::new();
    let path = place.path().join("jobs.db");
    let config = pool_of("serve", format!("workers = 1\n[store]\npath = {path:?}"));
    let first = setup().config(&config).start();
    let mut client = first.client();
    pause(&mut client, true);
    let ids: Vec<String> = (0..5)
        .map(|n| client.push(&Request::push("mails", format!("note {n}"))))
        .collect();
    drop(client);
    let ended = first.stop();
    assert_eq!(ended.code, 0, "{}", ended.log);
    assert!(
        ended.log.contains("5 jobs stay in the store"),
        "{}",
        ended.log
    );

    let second = setup().config(&config).start();
    let mut client = second.client();
    for id in &ids {
        let job = client.job(id);
        assert_eq!((&job["attempt"], &job["crashes"]), (&json!(0), &json!(0)));
    }
    pause(&mut client, false);
    for id in &ids {
        client.job_in(id, "done");
    }
    assert_eq!(notes(&second), ["0", "1", "2", "3", "4"]);
}

/// Issue 9, A2.
#[test]
fn a_second_stoker_cannot_open_the_store_under_any_path() {
    let place = Dir::new();
    let only_ours = std::fs::Permissions::from_mode(0o755);
    std::fs::set_permissions(place.path(), only_ours).expect("its mode is set");
    let path = place.path().join("jobs.db");
    let config = |path: &Path| pool_of("serve", format!("workers = 1\n[store]\npath = {path:?}"));
    let first = setup().config(&config(&path)).start();
    let (link, hard) = (place.file("link.db"), place.file("hard.db"));
    std::os::unix::fs::symlink(&path, &link).expect("a symlink");
    std::fs::hard_link(&path, &hard).expect("a hard link");
    let says = format!("process {} (socket ", first.server());
    let is_refused = |path: &Path| {
        let second = serve(&config(path));
        assert_eq!(second.code, 78);
        let socket = first.dir.file("stoker.sock").display().to_string();
        let text = &second.stderr;
        assert!(text.contains(&says) && text.contains(&socket), "{text}");
    };
    [&path, &link, &hard]
        .into_iter()
        .for_each(|name| is_refused(name));
    std::fs::remove_file(place.file("jobs.db-lock")).expect("it is there");
    [&path, &link, &hard]
        .into_iter()
        .for_each(|name| is_refused(name));
    // The first Stoker is not affected.
    let mut client = first.client();
    let id = client.push(&Request::push("mails", "note ran"));
    client.job_in(&id, "done");
}

/// Issue 9, A18.
#[test]
fn a_deleted_store_rejects_jobs_with_a_reason() {
    let app = start("workers = 1");
    let mut client = app.client();
    let id = client.push(&Request::push("mails", "note kept"));
    client.job_in(&id, "done");
    let (path, away) = (app.dir.file("stoker.db"), app.dir.file("away.db"));
    std::fs::rename(&path, &away).expect("it is renamed");
    let (status, text) = refused(&mut client, &Request::push("mails", "note never"));
    assert_eq!(status, Status::UNAVAILABLE, "{text}");
    assert!(text.contains("stoker.db was deleted or renamed"), "{text}");
    app.wait_for_log("was deleted or renamed");
    std::fs::rename(&away, &path).expect("it is renamed");
    app.wait_for_log("the job store can write again");
    let id = client.push(&Request::push("mails", "note again"));
    client.job_in(&id, "done");
    assert_eq!(notes(&app), ["kept", "again"]);
}

/// Issue 9, A21.
#[test]
fn a_fifo_as_store_does_not_block_the_start() {
    let place = Dir::new();
    let path = place.file("fifo");
    rustix::fs::mkfifoat(rustix::fs::CWD, &path, rustix::fs::Mode::RUSR).expect("a FIFO");
    let refused = serve(&pool_of(
        "serve",
        format!("workers = 1\n[store]\npath = {path:?}"),
    ));
    assert_eq!(refused.code, 78, "{}", refused.stderr);
    assert!(
        refused.stderr.contains("is a FIFO, not a file"),
        "{}",
        refused.stderr
    );
}

/// Issue 9, A21.
#[test]
fn the_store_commands_reject_client_options() {
    let app = start("workers = 1");
    for option in [["--socket", "elsewhere.sock"], ["--timeout", "5s"]] {
        for what in ["show", "check"] {
            let refused = app.cli(&["store", what, option[0], option[1]]);
            assert_eq!(refused.code, 2, "{}", refused.stderr);
            assert!(refused.stderr.contains(option[0]), "{}", refused.stderr);
        }
    }
}

#[test]
fn a_file_that_is_not_a_store_is_named_and_not_changed() {
    let place = Dir::new();
    place.write(
        "jobs.db",
        "this is my diary, and it is longer than a header of a hundred bytes would be ......",
    );
    let path = place.path().join("jobs.db");
    let config = pool_of("serve", format!("workers = 1\n[store]\npath = {path:?}"));
    let ended = serve(&config);
    assert_eq!(ended.code, 78);
    assert!(ended.stderr.contains("jobs.db"), "{}", ended.stderr);
    let content = std::fs::read(&path).expect("it is still there");
    assert!(content.starts_with(b"this is my diary"));
}

#[test]
fn an_acknowledged_job_is_done_and_never_runs_again() {
    let app = start("workers = 1");
    let gate = app.dir.gate("gate");
    let mut client = app.client();
    let id = client.push(
        &Request::push(
            "mails",
            "note ran;stdout before;ack;gate gate;stdout after;kill",
        )
        .meta(Key::TRIES, 5_u16.to_be_bytes()),
    );
    let running = gate.wait_for_worker();
    assert_eq!(client.job(&id)["state"], "done", "while its code goes on");
    let runs = client.call_server("stoker.job", &json!({"op": "list", "state": "running"}));
    assert_eq!(runs["jobs"], json!([]), "it counts as done");
    drop(running);
    app.wait_for_log("died with signal 9");
    app.ready();
    let job = client.job(&id);
    assert_eq!(
        (&job["state"], &job["attempt"]),
        (&json!("done"), &json!(1))
    );
    assert_eq!(notes(&app), ["ran"]);
    let history = until("what came after is noted", || {
        let job = client.job(&id);
        let history = job["history"].as_array().cloned().unwrap_or_default();
        (!history.is_empty()).then_some(history)
    });
    assert_eq!(history[0]["what"], "after_ack");
    let job = client.job(&id);
    let output = job["output"].as_str().unwrap_or_default();
    assert!(
        output.contains("before") && output.contains("after"),
        "{job}"
    );
}

#[test]
fn a_queue_may_acknowledge_on_delivery() {
    let app = start("workers = 1\n[queue.mails]\nack = \"delivery\"\ntries = 5");
    let mut client = app.client();
    let dies = client.push(&Request::push("mails", "note ran;kill"));
    let fails = client.push(&Request::push("mails", "note failed;fail 64 no"));
    client.job_in(&dies, "done");
    client.job_in(&fails, "done");
    app.wait_for_log("died with signal 9");
    let last = client.push(&Request::push("mails", "note last"));
    client.job_in(&last, "done");
    until("the last one ran", || {
        (notes(&app) == ["ran", "failed", "last"]).then_some(())
    });
}

#[test]
fn an_ordered_queue_keeps_its_order_through_retries_and_restarts() {
    let app = start("workers = 4\n[queue.mails]\nordered = true\ntries = 3\nbackoff = [\"200ms\"]");
    let mut client = app.client();
    let first = Request::push(
        "mails",
        "if again note a1;if again ok;once again;fail 64 no",
    )
    .key("a");
    let first = client.push(&first.clone());
    let second = client.push(&Request::push("mails", "note a2").key("a"));
    let other = client.push(&Request::push("mails", "note b1").key("b"));
    client.job_in(&other, "done");
    assert_eq!(
        client.job(&second)["state"],
        "ready",
        "the first is to run again"
    );
    let mut client = kill_server(&app);
    client.job_in(&first, "done");
    client.job_in(&second, "done");
    assert_eq!(notes(&app), ["b1", "a1", "a2"]);
}

/// No job behind it begins, however far away its next run is.
#[test]
fn a_parked_job_keeps_its_key_blocked_over_a_restart() {
    let app = start("workers = 1\n[queue.mails]\nordered = true\ntries = 2\nbackoff = [\"1h\"]");
    let mut client = app.client();
    let push =
        |client: &mut Client, key, script| client.push(&Request::push("mails", script).key(key));
    let first = push(&mut client, "a", "note first;fail 64 no");
    client.job_in(&first, "retrying");
    let second = push(&mut client, "a", "note second");
    let mut client = kill_server(&app);
    let third = push(&mut client, "a", "note third");
    let other = push(&mut client, "b", "note other");
    client.job_in(&other, "done");
    let release = json!({"op": "release", "id": first});
    client.call_server("stoker.job", &release);
    client.job_in(&second, "done");
    client.job_in(&third, "done");
    assert_eq!(notes(&app), ["first", "other", "first", "second", "third"]);
}

#[test]
fn results_output_progress_and_checkpoints_are_kept_by_id() {
    let app = start("workers = 1\n[queue.mails]\ntries = 2\nbackoff = [\"0s\"]");
    let mut client = app.client();
    let script = r#"if saved note-told;if saved ok {"sum":3};once saved;stdout hello there;log and this;progress {"percent":40,"text":"half"};checkpoint page 7;fail 64 no"#;
    let id = client.push(&Request::push("mails", script));
    let job = client.job_in(&id, "done");
    assert_eq!(job["result"], r#"{"sum":3}"#);
    assert_eq!(job["progress"], json!({"percent": 40, "text": "half"}));
    let output = job["output"].as_str().unwrap_or_default();
    assert!(
        output.contains("hello there") && output.contains("and this"),
        "{job}"
    );
    assert_eq!(job["history"][0]["what"], "retried");
    let told: Value = serde_json::from_str(&notes(&app)[0]).expect("JSON");
    assert_eq!(told["checkpoint"], "page 7");
}

#[test]
fn a_null_result_is_not_kept_unless_it_is_text() {
    let app = start("workers = 1");
    let mut client = app.client();
    let mut result = |script: &str| {
        let id = client.push(&Request::push("mails", script));
        client.job_in(&id, "done")["result"].clone()
    };
    assert_eq!(result("json null"), Value::Null);
    assert_eq!(result("ok null"), "null");
    assert_eq!(result("json [1]"), "[1]");
    assert_eq!(result("ok"), Value::Null, "nor is nothing");
}

#[test]
fn a_second_acknowledgement_is_confirmed_too() {
    let app = start("workers = 1");
    let mut client = app.client();
    let id = client.push(&Request::push("mails", "ack;ack;note twice;ok"));
    until("it goes on", || (!notes(&app).is_empty()).then_some(()));
    client.job_in(&id, "done");
}

#[test]
fn frequent_progress_reports_are_shown_with_a_short_delay() {
    let app = start("workers = 1");
    let mut client = app.client();
    let script = r#"progress {"percent":1};progress {"percent":2};gate one;progress {"percent":3};progress {"percent":4};gate two;ok"#;
    let (one, two) = (app.dir.gate("one"), app.dir.gate("two"));
    let id = client.push(&Request::push("mails", script));
    for (gate, percent) in [(one, 2), (two, 4)] {
        let held = gate.wait_for_worker();
        until("the last progress is shown", || {
            (client.job(&id)["progress"]["percent"] == percent).then_some(())
        });
        drop(held);
    }
    client.job_in(&id, "done");
}

#[test]
fn retry_until_and_max_exceptions_end_the_retries() {
    let app = start("workers = 1\n[queue.mails]\ntries = 9\nbackoff = [\"0s\"]");
    let mut client = app.client();
    let until = client.push(
        &Request::push("mails", "note until;fail 64 no")
            .meta(Key::RETRY_UNTIL, 1_u64.to_be_bytes()),
    );
    let exceptions = client.push(
        &Request::push("mails", "note ex;fail 64 no")
            .meta(Key::MAX_EXCEPTIONS, 2_u16.to_be_bytes()),
    );
    assert_eq!(client.job_in(&until, "failed")["attempt"], 1);
    let job = client.job_in(&exceptions, "failed");
    assert_eq!(
        (&job["attempt"], &job["exceptions"]),
        (&json!(2), &json!(2))
    );
}

#[test]
fn a_job_may_fail_at_its_first_timeout() {
    let app =
        start("workers = 1\nkill_grace = \"10ms\"\n[queue.mails]\ntries = 9\nbackoff = [\"0s\"]");
    let mut client = app.client();
    let ask = Request::push("mails", "silence")
        .meta(Key::TIMEOUT, 50_u32.to_be_bytes())
        .meta(Key::FAIL_ON_TIMEOUT, "");
    let id = client.push(&ask);
    let job = client.job_in(&id, "failed");
    assert_eq!(job["error"]["class"], "TimedOut");
    assert_eq!(job["attempt"], 1);
}

#[test]
fn the_store_commands_show_check_back_up_and_compact_the_file() {
    let app = start("workers = 1");
    let mut client = app.client();
    pause(&mut client, true);
    client.push(&Request::push("mails", "note kept"));
    let shown = app.cli(&["store", "show", "--json"]);
    let shown: Value = serde_json::from_str(&shown.stdout).expect("JSON");
    assert_eq!(shown["queues"][0]["name"], "mails");
    let checked = app.cli(&["store", "check"]);
    assert_eq!(checked.code, 0, "{}", checked.stderr);
    assert!(
        checked.stdout.contains("1 job, no damage found"),
        "{}",
        checked.stdout
    );
    let used = app.cli(&["store", "compact"]);
    assert_eq!(used.code, 1, "a server works with it");
    assert!(
        used.stderr.contains("uses the job store"),
        "{}",
        used.stderr
    );

    let copied = app.cli(&["store", "backup", "copy.db"]);
    assert_eq!(copied.code, 0, "{}", copied.stderr);
    let mode = std::fs::metadata(app.dir.file("copy.db")).map(|file| file.permissions().mode());
    assert_eq!(mode.ok().map(|mode| mode & 0o777), Some(0o600));
    let again = app.cli(&["store", "backup", "copy.db"]);
    assert_eq!(again.code, 1, "what is there is not overwritten");
    let small = app.cli(&["store", "compact", "--store", "copy.db"]);
    assert_eq!(small.code, 0, "{}", small.stderr);

    // The copy is a complete store: another Stoker continues with it.
    let path = app.dir.file("copy.db");
    let config = pool_of("serve", format!("workers = 1\n[store]\npath = {path:?}"));
    let other = setup().config(&config).start();
    let mut client = other.client();
    assert_eq!(client.queue("mails")["ready"], 1);
    pause(&mut client, false);
    until("the copied job ran", || {
        (notes(&other) == ["kept"]).then_some(())
    });
}

#[test]
fn progress_reported_before_an_acknowledgement_is_kept() {
    let app = start("workers = 1");
    let mut client = app.client();
    let script = r#"progress {"percent":10};progress {"percent":90};stdout said;ack;ok"#;
    let id = client.push(&Request::push("mails", script));
    let job = client.job_in(&id, "done");
    assert_eq!(job["progress"]["percent"], 90, "{job}");
}

#[test]
fn a_crash_is_recorded_in_the_history() {
    let app = start("workers = 1");
    let mut client = app.client();
    let id = client.push(&Request::push("mails", "once first;kill"));
    let job = client.job_in(&id, "done");
    assert_eq!(
        (&job["crashes"], &job["history"][0]["what"]),
        (&json!(1), &json!("crashed")),
        "{job}"
    );
    assert!(
        job["history"][0]["text"]
            .as_str()
            .is_some_and(|text| text.contains("signal 9")),
        "{job}"
    );
}

/// The job's worker dies right after the second checkpoint, and an operator takes the job back before its next run.
#[test]
fn a_suspended_job_keeps_a_checkpoint_that_was_not_stored_yet() {
    let app = start("workers = 1");
    let mut client = app.client();
    let gate = app.dir.gate("gate");
    let script = "if died note-told;if died ok;once died;gate gate;checkpoint 1;checkpoint 2;kill";
    let id = client.push(&Request::push("mails", script));
    let held = gate.wait_for_worker();
    pause(&mut client, true);
    drop(held);
    app.wait_for_log("*; the job is retried, alone*");
    client.call_server("stoker.job", &json!({"op": "suspend", "id": id}));
    client.call_server("stoker.job", &json!({"op": "release", "id": id}));
    pause(&mut client, false);
    client.job_in(&id, "done");
    let told: serde_json::Value = serde_json::from_str(&notes(&app)[0]).expect("JSON");
    assert_eq!(told["checkpoint"], "2");
}

/// A checkpoint right after the first one is stored a moment later, and not only when the job ends.
#[test]
fn a_second_checkpoint_replaces_the_first() {
    let app = start("workers = 1");
    let gate = app.dir.gate("gate");
    let mut client = app.client();
    let id = client.push(&Request::push(
        "mails",
        "checkpoint 1;checkpoint 2;gate gate",
    ));
    let running = gate.wait_for_worker();
    until("the second checkpoint", || {
        (client.job(&id)["checkpoint"] == "2").then_some(())
    });
    drop(running);
    client.job_in(&id, "done");
}

#[test]
fn a_crash_outlives_a_restart() {
    let app = start("workers = 1\n[queue.mails]\n[queue.other]");
    let mut client = app.client();
    let id = client.push(&Request::push(
        "mails",
        "if died note again;once died;exit 3",
    ));
    client.job_in(&id, "done");
    assert_eq!(client.job(&id)["crashes"], 1);
    let id = client.push(&Request::push(
        "mails",
        "if gone gate gate;once gone;exit 3",
    ));
    let gate = app.dir.gate("gate");
    let running = gate.wait_for_worker();
    assert_eq!(client.job(&id)["crashes"], 1, "while it runs again, too");
    drop(running);
    client.job_in(&id, "done");
}

/// A worker dies during a job, and the server before the job runs again: the job was not running then.
#[test]
fn a_crash_counts_once_if_the_server_dies_before_the_next_run() {
    let app = start("workers = 1");
    let gate = app.dir.gate("gate");
    let mut client = app.client();
    let id = client.push(&Request::push("mails", "once begun;gate gate;kill"));
    let held = gate.wait_for_worker();
    pause(&mut client, true);
    drop(held);
    until("it waits for its next run", || {
        (client.job(&id)["crashes"] == 1).then_some(())
    });
    // This push is written after the crash.
    client.push(&Request::push("mails", "ok"));
    let mut client = kill_server(&app);
    pause(&mut client, false);
    assert_eq!(client.job_in(&id, "done")["crashes"], 1);
}

/// When a worker with several slots dies, each job that had begun there has the crash in its history.
#[test]
fn every_job_of_a_dead_worker_records_its_crash() {
    let app = start_of("slots 2;serve", "workers = 1");
    let gate = app.dir.gate("gate");
    let mut client = app.client();
    let beside = client.push(&Request::push("mails", "once begun;gate gate"));
    let held = gate.wait_for_worker();
    let killer = client.push(&Request::push("mails", "once died;segv"));
    for id in [&beside, &killer] {
        let job = client.job_in(id, "done");
        let history = job["history"].as_array().expect("a list");
        let crashes = history.iter().filter(|note| note["what"] == "crashed");
        assert_eq!(crashes.count(), 1, "{job}");
        assert_eq!(job["crashes"], 1, "{job}");
    }
    drop(held);
}

/// The end of the output is kept, up to 64 KiB, however long it is and in whatever pieces it comes.
#[test]
fn the_last_64_kib_of_output_of_a_job_are_kept() {
    const KEPT: usize = 64 << 10;
    let app = start("workers = 1");
    let mut client = app.client();
    for lens in [
        &[100][..],
        &[KEPT - 1],
        &[KEPT],
        &[2 * KEPT, 10],
        &[KEPT - 1, KEPT - 1, 10],
        &[1 << 20, 10, 10],
    ] {
        let lines: String = lens.iter().map(|len| format!("line {len};")).collect();
        let id = client.push(&Request::push("mails", format!("{lines}line 7;ok")));
        let job = client.job_in(&id, "done");
        let output = job["output"].as_str().expect("it wrote");
        let written: usize = lens.iter().map(|len| len + 1).sum();
        assert_eq!(output.len(), KEPT.min(written + 8), "{lens:?}");
        assert!(output.ends_with("x\nxxxxxxx\n"), "{lens:?}");
    }
}

#[test]
fn a_lost_store_is_reported_and_its_wal_is_not_removed() {
    let dir = Dir::new();
    let store = dir.file("jobs.db");
    let config = |path: &Path| {
        let path = path.display();
        pool_of("serve", format!("workers = 1\n[store]\npath = \"{path}\""))
    };
    let app = setup().config(&config(&store)).start();
    assert!(
        !app.log().contains("created a new, empty job store"),
        "{}",
        app.log()
    );
    let mut client = app.client();
    pause(&mut client, true);
    client.push(&Request::push("mails", "note 1"));
    let log = dir.file("jobs.db-wal");
    let bytes = std::fs::read(&log).expect("a log");
    app.stop();
    std::fs::write(&store, "").expect("emptied");
    std::fs::write(&log, &bytes).expect("as after a kill");
    dir.write("stoker.toml", config(&store));
    let serve = || {
        let spawn = Spawn::new(env!("CARGO_BIN_EXE_stoker"));
        run(spawn.args(&["serve"]).within(dir.path()))
    };
    let output = serve();
    assert_eq!(output.code, 78, "{}", output.stderr);
    assert!(
        output.stderr.contains("its database file is empty"),
        "{}",
        output.stderr
    );
    assert_eq!(std::fs::read(&log).expect("it is there"), bytes);

    std::fs::remove_file(&log).expect("removed");
    let app = setup().config(&config(&store)).start();
    app.wait_for_log("created a new, empty job store *: the file of the earlier one was missing");
    app.stop();
}

/// The sync of the log fails, and so does the repair: it is unknown which part of the commit is in the file.
#[test]
fn a_request_whose_commit_is_in_doubt_is_answered_with_unknown() {
    let sync = Call {
        sort: "sync".to_owned(),
        file: "jobs.db-wal".to_owned(),
        number: 1,
    };
    let config = pool_of("serve", "workers = 1\n[store]\npath = \"store/jobs.db\"");
    let app = setup()
        .config(&config)
        .failing(&sync, failing::IO_UNTIL_HEALED)
        .start();
    let mut client = app.client();
    let before = client.push(&Request::push("mails", "note 1"));
    client.job_in(&before, "done");
    let place = Place(app.dir.path());
    std::fs::write(place.arm(), "").unwrap();

    let push = || Request::push("mails", "note 2").meta(Key::IDEMPOTENCY, "once");
    let (status, text) = refused(&mut client, &push());
    assert_eq!(status, Status::UNKNOWN, "{text}");
    assert!(text.contains("not known"), "{text}");
    let (status, text) = refused(&mut client, &push());
    assert_eq!(status, Status::UNAVAILABLE, "{text}");

    std::fs::write(place.heal(), "").unwrap();
    app.wait_for_log("the job store can write again");
    let id = client.push(&push());
    client.job_in(&id, "done");
    assert_eq!(notes(&app), ["1", "2"]);
    let fails = std::fs::read_to_string(place.report()).unwrap();
    assert!(fails.contains("fails sync jobs.db-wal 1"), "{fails}");
}

/// A worker repeats its acknowledgement while the first one waits for the disk. Simulation, seed 115849.
#[test]
fn a_repeated_acknowledgement_is_confirmed_only_after_it_is_stored() {
    let write = Call {
        sort: "write".to_owned(),
        file: "jobs.db-wal".to_owned(),
        number: 1,
    };
    let config = pool_of("serve", "workers = 1\n[store]\npath = \"store/jobs.db\"");
    let app = setup()
        .config(&config)
        .failing(&write, failing::IO_UNTIL_HEALED)
        .start();
    let place = Place(app.dir.path());
    let (begun, asked) = (app.dir.gate("begun"), app.dir.gate("asked"));
    let script = "gate begun;ack-on;gate asked;ack-on;log twice;ack;note safe";
    let id = app.client().push(&Request::push("mails", script));
    let running = begun.wait_for_worker();
    std::fs::write(place.arm(), "").unwrap();
    drop(running);
    app.wait_for_log("can't write");
    drop(asked.wait_for_worker());
    app.wait_for_log("twice");
    procs::kill(app.server());
    std::fs::write(place.heal(), "").unwrap();
    // The acknowledgement was never written, so the job runs again.
    drop(begun.wait_for_worker());
    drop(asked.wait_for_worker());
    app.client().job_in(&id, "done");
    until("it goes on", || (!notes(&app).is_empty()).then_some(()));
    assert_eq!(notes(&app), ["safe"]);
}

#[test]
fn jobs_that_no_pool_serves_are_logged_at_the_start() {
    let app = start_of("if narrow jobs mails;serve", "workers = 1\n[queue.kept]");
    let mut client = app.client();
    for queue in ["mails", "kept", "old", "older"] {
        let pause = json!({"op": "pause", "create": true, "queue": queue});
        client.call_server("stoker.queue", &pause);
    }
    for queue in ["mails", "kept", "old", "older", "older"] {
        client.push(&Request::push(queue, "ok"));
    }
    app.dir.write("narrow", "");
    let from = app.log().len();
    procs::kill(app.server());
    let told = "has 2 unfinished jobs, but no pool serves it: *stoker jobs move --queue older --to";
    app.wait_for_log_after(from, &format!("warn queue older {told}"));
    let log = app.log();
    let told = log[from..]
        .lines()
        .filter(|line| line.contains("no pool serves it"));
    assert_eq!(told.count(), 2, "{log}");
    assert!(
        log[from..].contains("queue old has 1 unfinished job, but"),
        "{log}"
    );
}
