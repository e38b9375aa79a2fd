//! Tasks that kill their workers: at most as many as the crash budget allows, then the task is put in quarantine, with
//! the last words of the last worker.

use crate::start;
use serde_json::json;
use stoker_testkit::{App, Request, until};
use stoker_wire::Status;

fn quarantine(app: &App) -> Vec<serde_json::Value> {
    let list = app
        .client()
        .call_server("stoker.quarantine", &json!({"op": "list"}));
    list["quarantine"].as_array().cloned().unwrap_or_default()
}

#[test]
fn a_poison_job_kills_at_most_three_workers() {
    let app = start("workers = 2");
    let mut client = app.client();
    let script = "note run;last-words {\"class\":\"E_ERROR\",\"message\":\"boom\",\"file\":\"a.php\",\"line\":7};exit 255";
    let id = client.push(&Request::push("mails", script));
    let job = client.job_in(&id, "failed");
    assert_eq!(job["crashes"], 3);
    assert_eq!(job["attempt"], 0, "a crash is not an attempt: {job}");
    assert_eq!(job["error"]["class"], "Quarantined");
    assert_eq!(
        job["error"]["message"],
        "it killed 3 workers, the last one with exit code 255: E_ERROR: boom at a.php:7"
    );
    assert_eq!(app.dir.notes(), ["run"; 3]);
    let found = quarantine(&app);
    assert_eq!(found.len(), 1);
    assert_eq!(found[0]["kind"], "job");
    assert_eq!(found[0]["name"], "mails");
    assert_eq!(found[0]["task"], id.as_str());
    assert_eq!(found[0]["last_words"], "E_ERROR: boom at a.php:7");
    assert_eq!(found[0]["exit"], "exit code 255");
    let shown = client.call_server("stoker.quarantine", &json!({"op": "show", "id": id}));
    assert_eq!(shown["body"], script);
    app.wait_for_log(
        "p-*died with exit code 255 while it ran a task; last words: E_ERROR: boom at a.php:7",
    );
    app.wait_for_log("job mails (*) is quarantined: it killed 3 workers");
    app.ready();
}

#[test]
fn other_tasks_continue_while_a_poison_job_kills_workers() {
    let app = start("workers = 2");
    let mut client = app.client();
    let poison = client.push(&Request::push("mails", "exit 1"));
    let good: Vec<String> = (0..200)
        .map(|n| client.push(&Request::push("mails", format!("note n{n}"))))
        .collect();
    client.job_in(&poison, "failed");
    good.iter().for_each(|id| drop(client.job_in(id, "done")));
    let mut notes = app.dir.notes();
    notes.sort();
    notes.dedup();
    assert_eq!(notes.len(), 200, "each of them ran");
    assert_eq!(app.pool()["restarts"], 3);
}

#[test]
fn a_poison_call_fails_only_for_its_own_caller() {
    let app = start("workers = 2");
    let mut client = app.client();
    let poison = client.send(&Request::call("t.again", "note run;stderr it burns;segv"));
    let good: Vec<u32> = (0..50)
        .map(|n| client.send(&Request::call("t.again", format!("ok {n}"))))
        .collect();
    for (n, id) in good.iter().enumerate() {
        assert_eq!(client.answer(*id).text(), n.to_string());
    }
    let answer = client.answer(poison);
    assert_eq!(answer.status(), Status::QUARANTINED);
    assert!(
        answer
            .text()
            .contains("it killed 3 workers, the last one with signal 11 (SEGV)")
    );
    assert_eq!(app.dir.notes(), ["run"; 3]);
    assert_eq!(quarantine(&app)[0]["last_words"], "it burns");
}

#[test]
fn a_call_that_killed_three_workers_is_rejected_from_then_on() {
    let app = start("workers = 1");
    let mut client = app.client();
    for _ in 0..3 {
        let answer = client.call("t.run", "note run;exit 1");
        assert_eq!(answer.status(), Status::WORKER_DIED);
        app.ready();
    }
    let refused = client.call("t.run", "note run;exit 1");
    assert_eq!(refused.status(), Status::QUARANTINED);
    assert!(
        refused
            .text()
            .contains("killed 3 workers; they are rejected for 10 min"),
        "{}",
        refused.text()
    );
    assert!(refused.flags.has(stoker_wire::Flags::NOT_PROCESSED));
    assert_eq!(app.dir.notes().len(), 3);
    assert_eq!(client.call("t.run", "note other").status(), Status::OK);
}

/// The quarantine keeps only the beginning of a long body for display, and still recognizes the whole body.
#[test]
fn a_long_call_that_killed_three_workers_is_rejected_too() {
    let app = start("workers = 1");
    let mut client = app.client();
    let deadly = format!("note run;exit 1;{}", "x".repeat(100 << 10));
    for _ in 0..3 {
        let answer = client.call("t.run", &deadly);
        assert_eq!(answer.status(), Status::WORKER_DIED);
        app.ready();
    }
    let refused = client.call("t.run", &deadly);
    assert_eq!(refused.status(), Status::QUARANTINED);
    let other = format!("ok {}", "x".repeat(100 << 10));
    assert_eq!(client.call("t.run", &other).status(), Status::OK);
}

#[test]
fn crash_budget_is_set_per_pool() {
    let app = start("workers = 1\ncrash_budget = 2");
    let mut client = app.client();
    let id = client.push(&Request::push("mails", "note run;exit 1"));
    client.job_in(&id, "failed");
    assert_eq!(app.dir.notes(), ["run"; 2]);
}

#[test]
fn a_job_that_succeeds_after_a_crash_keeps_its_crash_count() {
    let app = start("workers = 1");
    let mut client = app.client();
    let id = client.push(&Request::push("mails", "once died;segv"));
    assert_eq!(client.job_in(&id, "done")["crashes"], 1);
    assert!(quarantine(&app).is_empty());
    let told = client.push(&Request::push("mails", "once again;segv;tell"));
    client.job_in(&told, "done");
}

#[test]
fn suspects_run_alone_and_one_at_a_time() {
    let app = start("workers = 2");
    let gate = app.dir.gate("gate");
    let mut client = app.client();
    // Both kill once; then they are suspects, and must not run at the same time.
    let suspects: Vec<String> = ["a", "b"]
        .iter()
        .map(|name| {
            let script = format!("once {name};note died;segv");
            let again = format!("if {name} note again,gate gate;{script}");
            client.push(&Request::push("mails", again))
        })
        .collect();
    let held = gate.wait_for_worker();
    until("the second one has died too", || {
        (app.dir
            .notes()
            .iter()
            .filter(|note| *note == "died")
            .count()
            == 2)
            .then_some(())
    });
    app.ready();
    let calm = client.call("t.run", "ok meanwhile");
    assert_eq!(calm.text(), "meanwhile", "the other worker serves others");
    let again = |app: &App| {
        app.dir
            .notes()
            .iter()
            .filter(|note| *note == "again")
            .count()
    };
    assert_eq!(again(&app), 1, "the other suspect waits");
    drop(held);
    gate.open();
    suspects
        .iter()
        .for_each(|id| drop(client.job_in(id, "done")));
    assert_eq!(again(&app), 2);
}

#[test]
fn a_version_whose_workers_are_killed_by_many_tasks_is_blamed() {
    let app = start("workers = 2");
    let mut client = app.client();
    let kills = |n: usize| Request::push("mails", format!("once n{n};exit 9"));
    let jobs: Vec<String> = (0..8).map(|n| client.push(&kills(n))).collect();
    app.wait_for_log("pool p: many different tasks kill its workers; the cause is probably the version of the code");
    assert_eq!(app.pool()["state"], "blamed");
    // If the version were not blamed, the third death would be the last.
    let script = "if c ok;if b once c;if b exit 9;if a once b;if a exit 9;once a;exit 9";
    let patient = client.push(&Request::push("mails", script));
    assert_eq!(client.job_in(&patient, "done")["crashes"], 3);
    jobs.iter().for_each(|id| drop(client.job_in(id, "done")));
}

/// A rejected call runs again after an operator clears it or its pool gets a new version (issue 9, A12).
#[test]
fn a_quarantined_call_runs_again_after_a_clear_or_a_new_pool_version() {
    let app = start("workers = 1");
    let mut client = app.client();
    let script = "if cured ok;kill";
    for _ in 0..3 {
        assert_eq!(client.call("t.run", script).status(), Status::WORKER_DIED);
        app.ready();
    }
    assert_eq!(client.call("t.run", script).status(), Status::QUARANTINED);
    assert_eq!(app.cli(&["quarantine", "clear", "nobody"]).code, 1);
    let cleared = app.cli(&["quarantine", "clear", "t"]);
    assert_eq!((cleared.code, cleared.stdout.as_str()), (0, "1 call\n"));
    for _ in 0..3 {
        assert_eq!(client.call("t.run", script).status(), Status::WORKER_DIED);
        app.ready();
    }
    assert_eq!(client.call("t.run", script).status(), Status::QUARANTINED);
    std::fs::write(app.dir.file("cured"), "").expect("the directory can be written");
    client.call_server("stoker.pool", &json!({"op": "reload"}));
    assert_eq!(client.call("t.run", script).status(), Status::OK);
}

/// What a worker wrote during an earlier task says nothing about its death in a later one.
#[test]
fn last_words_of_an_earlier_task_are_not_given_as_the_reason() {
    let app = start("workers = 1");
    let pid = app.pids()[0];
    let script = "stderr an old line;last-words {\"class\":\"Old\",\"message\":\"old words\"};ok";
    assert_eq!(app.call("t.run", script).status(), Status::OK);
    assert_eq!(app.pids()[0], pid, "the same worker goes on");
    let died = app.call("t.run", "exit 9");
    assert_eq!(died.status(), Status::WORKER_DIED);
    let text = died.text();
    assert!(!text.contains("old"), "{text}");
}
