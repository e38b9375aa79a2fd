//! Workers' output as log lines: complete, attributed, and never blocking anything else.

use crate::{pool_of, setup, start, start_of};
use serde_json::{Value, json};
use std::fs::File;
use std::io::Read;
use stoker_testkit::{App, Client, Ended, Request, until};
use stoker_wire::Status;

const JSON: &str = "\n[log]\nformat = \"json\"";

/// The log's objects that are output of workers.
fn output(log: &str) -> Vec<Value> {
    let objects = log.lines().map(|line| {
        serde_json::from_str(line).unwrap_or_else(|error| panic!("{line:.200}: {error}"))
    });
    let is_output = |object: &Value| object["stream"].is_string();
    objects.filter(is_output).collect()
}

fn messages(log: &str) -> Vec<String> {
    let text = |object: &Value| object["message"].as_str().unwrap_or_default().to_owned();
    output(log).iter().map(text).collect()
}

#[track_caller]
fn stopped(app: App) -> Ended {
    let ended = app.stop();
    assert_eq!(ended.code, 0, "{}", ended.log);
    ended
}

#[test]
fn a_log_line_has_time_worker_stream_and_task() {
    let app = start("workers = 1");
    let pid = app.pids()[0];
    app.call("t.run", "stdout hello;stderr oh");
    let line = app.wait_for_log(&format!("Z p-1[{pid}] stdout t.run#1: hello"));
    assert!(line.ends_with("hello"));
    app.wait_for_log(&format!("Z p-1[{pid}] stderr t.run#1: oh"));
}

#[test]
fn a_json_line_has_the_same_fields() {
    let app = start(&format!("workers = 1{JSON}"));
    let pid = app.pids()[0];
    app.call("t.run", "stderr \"quoted\" text");
    let ended = stopped(app);
    let line = &output(&ended.log)[0];
    assert_eq!(line["pool"], "p");
    assert_eq!(line["worker"], "p-1");
    assert_eq!(line["pid"], pid);
    assert_eq!(line["stream"], "stderr");
    assert_eq!(line["task"], "t.run#1");
    assert_eq!(line["message"], "\"quoted\" text");
    let own = ended.log.lines().next().map(serde_json::from_str::<Value>);
    let own = own.expect("a line").expect("JSON");
    assert_eq!(
        (&own["level"], &own["message"]),
        (&"info".into(), &"serving; pools: p".into())
    );
}

#[test]
fn lines_above_a_mebibyte_are_split_into_numbered_parts() {
    const MIB: usize = 1 << 20;
    let app = start(&format!("workers = 1{JSON}"));
    for bytes in [MIB, MIB + 1, 3 * MIB + 5] {
        app.call("t.run", &format!("line {bytes}"));
    }
    let shape: Vec<(usize, u64)> = output(&stopped(app).log)
        .iter()
        .map(|line| {
            let text = line["message"].as_str().unwrap_or_default();
            (text.len(), line["part"].as_u64().unwrap_or(0))
        })
        .collect();
    let wanted = [
        (MIB, 0),
        (MIB, 1),
        (1, 2),
        (MIB, 1),
        (MIB, 2),
        (MIB, 3),
        (5, 4),
    ];
    assert_eq!(shape, wanted);
}

#[test]
fn a_flood_of_output_is_logged_completely_and_in_order() {
    const LINES: usize = 30_000;
    let app = start(&format!("workers = 2{JSON}"));
    let mut client = app.client();
    let calls: Vec<u32> = (0..2)
        .map(|_| client.send(&Request::call("t.run", format!("flood-stdout {LINES}"))))
        .collect();
    for id in calls {
        assert_eq!(client.answer(id).status(), Status::OK);
    }
    let ended = stopped(app);
    for worker in ["p-1", "p-2"] {
        let of_worker: Vec<Value> = output(&ended.log)
            .into_iter()
            .filter(|line| line["worker"] == worker)
            .collect();
        assert_eq!(of_worker.len(), LINES, "{worker}");
        for (number, line) in of_worker.iter().enumerate() {
            assert_eq!(line["message"], format!("{number:099}").as_str());
        }
    }
}

#[test]
fn a_slow_log_sink_pauses_only_the_worker_that_writes() {
    check_slow_sink("flood-stdout");
}

/// The worker's events come on its socket, which is not read while the sink is slow.
#[test]
fn a_slow_log_sink_pauses_only_the_worker_that_logs_by_events() {
    check_slow_sink("flood-log");
}

#[track_caller]
fn check_slow_sink(flood: &str) {
    let config = pool_of("serve", "workers = 2\n[log]\nfile = \"sink\"");
    let setup = setup().config(&config);
    // The sink is open and not read.
    let sink = setup.dir().gate("sink").reader();
    let app = setup.start();
    let mut client = app.client();
    let flood = client.send(&Request::call(
        "t.run",
        format!("{flood} 20000;note through"),
    ));
    until("the flood has begun", || {
        let workers = app.workers();
        workers
            .iter()
            .any(|worker| worker["state"] == "busy")
            .then_some(())
    });
    for n in 0..50 {
        assert_eq!(app.call("t.run", &format!("ok {n}")).text(), n.to_string());
    }
    let turns = |client: &mut Client| {
        client.call_server("stoker.server", &json!({"op": "stats"}))["turns"].as_u64()
    };
    let before = turns(&mut client);
    // Enough time to write all of it if nothing blocked.
    stoker_testkit::pause(std::time::Duration::from_millis(300));
    let turned = turns(&mut client)
        .zip(before)
        .map(|(now, before)| now - before);
    assert!(
        turned < Some(1_000),
        "nobody looks again and again: {turned:?}"
    );
    assert!(!client.has_answer(flood), "its writer stands");
    assert!(app.dir.notes().is_empty());
    let reader = std::thread::spawn(move || {
        let mut all = Vec::new();
        let mut sink = File::from(sink);
        sink.read_to_end(&mut all).expect("the sink can be read");
        String::from_utf8_lossy(&all).into_owned()
    });
    assert_eq!(client.answer(flood).status(), Status::OK);
    let ended = app.stop();
    assert_eq!(ended.code, 0);
    let log = reader.join().expect("it reads to the end");
    let lines = log.lines().filter(|line| line.contains("] stdout t.run#"));
    assert_eq!(lines.count(), 20_000, "nothing is lost");
}

#[test]
fn a_blocked_log_sink_does_not_block_a_shutdown() {
    let config = pool_of(
        "serve",
        "workers = 1\nstop_grace = \"1s\"\n[log]\nfile = \"sink\"",
    );
    let setup = setup().config(&config);
    let sink = setup.dir().gate("sink").reader();
    let app = setup.start();
    app.client()
        .send(&Request::call("t.run", "flood-stdout 20000"));
    until("the flood has begun", || {
        (app.pool()["busy"] == 1).then_some(())
    });
    let ended = app.stop();
    assert!(ended.took < stoker_testkit::limit(8.0), "{:?}", ended.took);
    drop(sink);
}

#[test]
fn each_line_is_attributed_to_the_task_that_wrote_it() {
    let app = start(&format!("workers = 2{JSON}"));
    let mut client = app.client();
    let asks: Vec<Request> = (0..300)
        .map(|_| Request::call("t.run", "stdout out {id};stderr err {id};log said {id}"))
        .collect();
    for id in client.send_all(&asks) {
        assert_eq!(client.answer(id).status(), Status::OK);
    }
    let lines = output(&stopped(app).log);
    assert_eq!(lines.len(), 900);
    for line in lines {
        let text = line["message"].as_str().unwrap_or_default();
        let number = text.rsplit(' ').next().unwrap_or_default();
        assert_eq!(line["task"], format!("t.run#{number}").as_str(), "{line}");
    }
}

#[test]
fn with_prefetched_tasks_raw_output_names_the_range_and_log_events_the_task() {
    let app = start_of("quick;serve", &format!("workers = 1{JSON}"));
    let mut client = app.client();
    for _ in 0..64 {
        client.call("t.again", "ok");
    }
    let gate = app.dir.gate("gate");
    let first = client.send(&Request::call(
        "t.again",
        "gate gate;stderr error;log echo {id}",
    ));
    let held = gate.wait_for_worker();
    for _ in 0..40 {
        client.send(&Request::call("t.again", "ok"));
    }
    client.fence();
    assert!(app.workers()[0]["assigned"].as_u64() > Some(4));
    drop(held);
    client.answer(first);
    let lines = output(&stopped(app).log);
    let task_of = |text: &str| {
        let line = lines.iter().find(|line| {
            line["message"]
                .as_str()
                .is_some_and(|it| it.starts_with(text))
        });
        line.expect("it was logged")["task"]
            .as_str()
            .unwrap_or_default()
            .to_owned()
    };
    let range = task_of("error");
    assert!(
        range.starts_with("t.again#") && range.contains("..t.again#"),
        "{range}"
    );
    let echo = lines
        .iter()
        .find_map(|line| line["message"].as_str()?.strip_prefix("echo "));
    assert_eq!(
        task_of("echo"),
        format!("t.again#{}", echo.expect("its number"))
    );
}

#[test]
fn output_between_tasks_belongs_to_no_task() {
    let app = start_of(
        "stdout booting;serve;stdout leaving",
        &format!("workers = 1{JSON}"),
    );
    app.call("t.run", "ok;sleep 1");
    let lines = output(&stopped(app).log);
    let texts: Vec<&str> = lines
        .iter()
        .filter_map(|line| line["message"].as_str())
        .collect();
    assert_eq!(texts, ["booting", "leaving"]);
    assert!(lines.iter().all(|line| line["task"].is_null()));
}

#[test]
fn the_last_output_of_a_dying_worker_is_logged() {
    let app = start(&format!("workers = 1{JSON}"));
    app.call("t.run", "stdout a whole line;part and half a one;kill");
    app.ready();
    let texts = messages(&stopped(app).log);
    assert_eq!(texts, ["a whole line", "and half a one"]);
}

#[test]
fn invalid_utf8_is_shown_as_escapes() {
    let app = start("workers = 1");
    app.call("t.run", "binary");
    app.wait_for_log(r"stdout t.run#1: \u{0}\u{1b}[31m\xff\xfe tab");
    assert!(
        !app.log().contains('\u{1b}'),
        "no terminal is coloured by a worker"
    );
}

#[test]
fn the_output_of_a_child_process_belongs_to_its_worker() {
    let app = start("workers = 1");
    let gate = app.dir.gate("gate");
    let mut client = app.client();
    let call = client.send(&Request::call(
        "t.run",
        "child stdout from the child;gate gate",
    ));
    let held = gate.wait_for_worker();
    app.wait_for_log("p-1[*] stdout t.run#1: from the child");
    drop(held);
    assert_eq!(client.answer(call).status(), Status::OK);
}

#[test]
fn a_log_file_is_appended_to() {
    let setup = setup().config(&pool_of(
        "serve",
        "workers = 1\n[log]\nfile = \"stoker.log\"",
    ));
    setup.dir().write("stoker.log", "from before\n");
    let app = setup.start();
    let path = app.dir.file("stoker.log");
    app.call("t.run", "stdout into the file");
    let ended = stopped(app);
    assert_eq!(ended.log, "", "nothing on stderr");
    let log = std::fs::read_to_string(path).expect("it is there");
    assert!(log.starts_with("from before\n"));
    assert!(log.contains("stdout t.run#1: into the file"));
    assert!(log.trim_end().ends_with("drained"));
}

/// Issue 9, A21: one worker wrote 2.9 GB in 15 s.
#[test]
fn output_above_the_log_rate_is_dropped_and_counted() {
    const LINES: u64 = 30_000;
    let limits = "rate_limit = \"1KB\"\nrate_burst = \"200KB\"";
    let app = start(&format!("workers = 2{JSON}\n{limits}"));
    assert_eq!(
        app.call("t.run", &format!("part begun;flood-stdout {LINES}"))
            .status(),
        Status::OK
    );
    let ended = stopped(app);
    let logged = output(&ended.log);
    let bytes: usize = messages(&ended.log).iter().map(String::len).sum();
    assert!(bytes < 400 << 10, "{bytes}");
    assert!(logged.len() > 500, "the burst is there: {}", logged.len());
    let whole = |line: &Value| {
        line["message"]
            .as_str()
            .is_some_and(|text| text.len() >= 99)
    };
    assert!(logged.iter().all(whole), "no line is cut");
    let objects = ended.log.lines().map(serde_json::from_str::<Value>);
    let dropped = objects.map(|object| object.expect("JSON"));
    let dropped = dropped.filter(|object| object["event"] == "output_dropped");
    let lines: u64 = dropped.filter_map(|object| object["lines"].as_u64()).sum();
    assert_eq!(logged.len() as u64 + lines, LINES);
}

/// Issue 9, A21: the report comes while the worker is running.
#[test]
fn dropped_lines_are_reported_while_the_worker_lives() {
    let limits = "[log]\nrate_limit = \"1KB\"\nrate_burst = \"1KB\"";
    let app = start(&format!("workers = 1\n{limits}"));
    app.call("t.run", "flood-stdout 1000");
    let line = app.wait_for_log("p-1[*] wrote more than [log] rate_limit allows; dropped output:");
    assert!(line.contains(" warn ") && line.ends_with(" KB"), "{line}");
}

/// Issue 9, A21.
#[test]
fn the_log_file_is_rotated_by_size_and_old_files_are_removed() {
    let rest = "workers = 1\n[log]\nfile = \"log\"\nmax_size = \"300KB\"\nkeep_files = 2";
    let app = start(rest);
    assert_eq!(app.call("t.run", "flood-stdout 20000").status(), Status::OK);
    let (dir, ended) = (app.dir.clone(), app.stop());
    assert_eq!(ended.code, 0);
    let entries = std::fs::read_dir(dir.path())
        .expect("it is there")
        .flatten();
    let mut logs: Vec<(String, u64)> = entries
        .filter_map(|entry| {
            let name = entry.file_name().into_string().ok()?;
            let size = entry.metadata().ok()?.len();
            name.starts_with("log").then_some((name, size))
        })
        .collect();
    logs.sort();
    let names: Vec<&str> = logs.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["log", "log.1", "log.2"]);
    assert!(logs.iter().all(|(_, size)| *size <= 300 << 10), "{logs:?}");
    let text = std::fs::read_to_string(dir.file("log")).expect("it is text");
    assert!(
        text.ends_with("drained\n"),
        "the newest lines are in the log itself"
    );
}

/// The log lines of an event, as objects.
fn events(app: &App, event: &str) -> Vec<Value> {
    let lines = app.log();
    let lines = lines
        .lines()
        .filter_map(|line| serde_json::from_str::<Value>(line).ok());
    lines.filter(|line| line["event"] == event).collect()
}

/// The lines about an event, once there are this many: a line is written after the change that it reports.
fn await_events(app: &App, event: &str, count: usize) -> Vec<Value> {
    until(&format!("{count} lines about {event}"), || {
        Some(events(app, event)).filter(|lines| lines.len() >= count)
    })
}

// Issue 9, A26
#[test]
fn every_failed_run_is_a_log_line_with_fields() {
    let rest = "workers = 1\ntask_timeout = \"200ms\"\nkill_grace = \"0s\"\n[log]\nformat = \"json\"\n\
                [queue.mails]\ntries = 2\nbackoff = [\"0s\"]";
    let app = start(rest);
    let mut client = app.client();
    let id = client.push(&Request::push("mails", "fail 64 it broke"));
    client.job_in(&id, "failed");
    let failed = await_events(&app, "run_failed", 2);
    let shown = |line: &Value| {
        let keys = ["job", "queue", "attempt", "class", "reason", "final"];
        keys.map(|key| line[key].clone())
    };
    let line = |attempt: u16, last: bool| {
        [
            json!(id),
            json!("mails"),
            json!(attempt),
            failed[0]["class"].clone(),
            json!("it broke"),
            json!(last),
        ]
    };
    let lines: Vec<_> = failed.iter().map(shown).collect();
    assert_eq!(lines, [line(1, false), line(2, true)], "{failed:?}");
    assert_eq!(failed[0]["level"], "warn");
    assert_eq!(failed[0]["worker"], "p-1");
    let id = client.push(&Request::push("mails", "sleep 60000"));
    client.job_in(&id, "failed");
    await_events(&app, "run_timed_out", 2);
    let id = client.push(&Request::push("mails", "exit 3"));
    client.job_in(&id, "failed");
    let crashed = await_events(&app, "run_crashed", 3);
    let crashes: Vec<_> = crashed.iter().map(|line| &line["crashes"]).collect();
    assert_eq!(crashes, [1, 2, 3], "{crashed:?}");
    assert_eq!(crashed[2]["final"], true);
    assert_eq!(crashed[0]["job"], json!(id));
}

// Issue 9, A26
#[test]
fn every_failed_call_is_a_log_line_with_fields() {
    let rest =
        "workers = 1\ntask_timeout = \"300ms\"\nkill_grace = \"0s\"\n[log]\nformat = \"json\"";
    let app = start(rest);
    let mut client = app.client();
    client.request(&Request::call("t.run", "ok"));
    client.request(&Request::call("t.run", "fail 64 it broke"));
    client.request(&Request::call("t.run", "sleep 60000"));
    client.request(&Request::call("t.run", "exit 3"));
    client.request(&Request::call("t.again", "exit 4"));
    let lines = |event: &str| {
        let shown = |line: &Value| {
            let keys = ["type", "name", "pool", "attempt", "reason", "final"];
            keys.map(|key| line[key].clone())
        };
        events(&app, event).iter().map(shown).collect::<Vec<_>>()
    };
    let line = |name: &str, reason: &str, last: bool| {
        [
            json!("call"),
            json!(name),
            json!("p"),
            json!(1),
            json!(reason),
            json!(last),
        ]
    };
    assert_eq!(lines("call_failed"), [line("t.run", "it broke", true)]);
    let timed_out = "it exceeded task_timeout, and its worker was killed";
    assert_eq!(lines("call_timed_out"), [line("t.run", timed_out, true)]);
    let died = "its worker died (exit code 3) during the run";
    let again = "its worker died (exit code 4)";
    let last = "it killed 3 workers, the last one with exit code 4";
    // Another thread writes the log, so its last line may come after the answer.
    until("each death is logged", || {
        (lines("call_crashed").len() == 4).then_some(())
    });
    assert_eq!(
        lines("call_crashed"),
        [
            line("t.run", died, true),
            line("t.again", again, false),
            line("t.again", again, false),
            line("t.again", last, true)
        ]
    );
    let failed = &events(&app, "call_failed")[0];
    assert!(
        failed["task"]
            .as_str()
            .is_some_and(|task| task.starts_with("t.run#")),
        "{failed}"
    );
    assert_eq!(failed["worker"], "p-1");
}

// Issue 9, A26
#[test]
fn every_run_killed_at_a_shutdown_is_a_log_line_with_fields() {
    let rest = "workers = 2\nstop_grace = \"200ms\"\n[log]\nformat = \"json\"";
    let app = start(rest);
    let mut client = app.client();
    let id = client.push(&Request::push("mails", "stubborn;note began;silence"));
    client.send(&Request::call("t.run", "stubborn;note began;silence"));
    until("both run", || (app.dir.notes().len() == 2).then_some(()));
    let log = app.stop().log;
    let of = |event: &str| {
        let lines = log
            .lines()
            .filter_map(|line| serde_json::from_str::<Value>(line).ok());
        let lines: Vec<Value> = lines.filter(|line| line["event"] == event).collect();
        assert_eq!(lines.len(), 1, "{event}: {lines:?}");
        lines[0].clone()
    };
    let (job, call) = (of("run_cut_off"), of("call_cut_off"));
    let reason = json!("it did not end within stop_grace");
    assert_eq!((&job["job"], &job["queue"]), (&json!(id), &json!("mails")));
    assert_eq!((&job["attempt"], &job["final"]), (&json!(1), &json!(false)));
    assert_eq!(
        (&call["name"], &call["pool"]),
        (&json!("t.run"), &json!("p"))
    );
    assert_eq!((&job["reason"], &call["reason"]), (&reason, &reason));
    assert_eq!(call["final"], true);
}

// Issue 9, A26
#[test]
fn a_job_that_must_not_run_again_after_a_shutdown_has_one_log_line() {
    let dir = stoker_testkit::Dir::new();
    let store = dir.file("jobs.db").display().to_string();
    let rest = format!(
        "workers = 1\nstop_grace = \"200ms\"\n[queue.mails]\nack = \"delivery\"\n[log]\nformat = \"json\"\n\
         [store]\npath = {store:?}"
    );
    let app = start(&rest);
    let id = app
        .client()
        .push(&Request::push("mails", "stubborn;note began;silence"));
    until("it runs", || (app.dir.notes().len() == 1).then_some(()));
    let log = app.stop().log;
    let lines = log
        .lines()
        .filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let about_it: Vec<Value> = lines.filter(|line| line["job"] == json!(id)).collect();
    assert_eq!(about_it.len(), 1, "{about_it:?}");
    let line = &about_it[0];
    assert_eq!(
        (&line["event"], &line["attempt"], &line["final"]),
        (&json!("run_cut_off"), &json!(1), &json!(true))
    );
    let ends_well = |text: &Value| {
        text.as_str().is_some_and(|text| {
            text.ends_with("did not end within stop_grace; the job is not retried")
        })
    };
    assert!(ends_well(&line["message"]), "{line}");
    let job = start(&rest).client().job(&id);
    let noted = &job["history"][0];
    assert_eq!(
        (&job["state"], &noted["what"]),
        (&json!("done"), &json!("cut_off")),
        "{job}"
    );
    assert!(ends_well(&noted["text"]), "{job}");
}

// Issue 9, A26
#[test]
fn the_outcome_of_a_job_acknowledged_early_is_a_log_line() {
    let app = start("workers = 1\n[queue.mails]\nack = \"delivery\"\n[log]\nformat = \"json\"");
    let mut client = app.client();
    let ids = ["fail 49 no", "crash"].map(|task| client.push(&Request::push("mails", task)));
    for (id, event) in ids.iter().zip(["run_failed", "run_crashed"]) {
        let line = until("it is logged", || {
            let log = app.log();
            let lines = log.lines().map(serde_json::from_str::<Value>);
            lines.flatten().find(|line| line["job"] == json!(id))
        });
        assert_eq!(
            (&line["event"], &line["attempt"], &line["final"]),
            (&json!(event), &json!(1), &json!(true)),
            "{line}"
        );
    }
}

// Issue 9, A26
#[test]
fn three_hundred_failed_jobs_are_logged_and_a_flood_is_counted() {
    let app = start("workers = 1\n[log]\nformat = \"json\"");
    let mut client = app.client();
    let push = |client: &mut Client, count: usize| {
        let asks: Vec<Request> = (0..count)
            .map(|_| Request::push("mails", "fail 49 no"))
            .collect();
        for id in client.send_all(&asks) {
            client.answer(id);
        }
    };
    push(&mut client, 300);
    let failed = |app: &App, count: u64| {
        until("they have failed", || {
            (app.client().queue("mails")["failed"] == count).then_some(())
        });
    };
    failed(&app, 300);
    until("they are logged", || {
        (events(&app, "run_failed").len() == 300).then_some(())
    });
    for _ in 0..5 {
        push(&mut client, 500);
    }
    failed(&app, 2_800);
    let left_out = until("the rest is counted", || {
        let lines = events(&app, "runs_not_logged");
        let left_out: u64 = lines.iter().filter_map(|line| line["runs"].as_u64()).sum();
        let logged = events(&app, "run_failed").len() as u64;
        (logged + left_out == 2_800).then_some(left_out)
    });
    assert!(left_out > 0);
}

// Issue 9, A26
#[test]
fn the_reason_for_replacing_a_worker_is_logged() {
    let app = start("workers = 1\nmax_tasks = 2\n[log]\nformat = \"json\"");
    app.call("t.run", "ok");
    app.call("t.run", "ok");
    let line = until("it is replaced", || events(&app, "worker_recycled").pop());
    assert_eq!(
        (&line["worker"], &line["reason"]),
        (&json!("p-1"), &json!("max_tasks"))
    );
    assert!(
        line["message"]
            .as_str()
            .is_some_and(|text| text == "p-1 is replaced: max_tasks")
    );
}

// Issue 9, A26
#[test]
fn stokers_own_log_lines_have_an_event_and_fields() {
    let app = start("workers = 1\n[log]\nformat = \"json\"");
    app.cli(&["reload"]);
    app.wait_for_log("*p-1 has ended*");
    let log = app.log();
    for line in log.lines() {
        let line: Value = serde_json::from_str(line).expect("each line is JSON");
        assert!(line["event"].is_string(), "{line}");
    }
    let ready = &events(&app, "worker_ready")[0];
    assert_eq!(
        (&ready["worker"], &ready["pool"], &ready["version"]),
        (&json!("p-1"), &json!("p"), &json!(1))
    );
    assert!(ready["pid"].is_u64());
    assert_eq!(events(&app, "worker_gone")[0]["exit"], "exit code 0");
    assert_eq!(events(&app, "reload_done")[0]["version"], 2);
}

// Issue 9, A27
#[test]
fn metrics_reported_by_workers_are_shown() {
    let app = start("workers = 1");
    app.call("t.run", r#"metric {"name":"mails.sent","value":2};ok"#);
    app.call(
        "t.run",
        r#"metric {"name":"mails.sent","value":5.5};metric {"name":3};ok"#,
    );
    let label = r#"metric {"name":"mails.sent","value":1,"labels":{"to":"de"}};ok"#;
    app.call("t.run", label);
    let shown = app.cli(&["workers", "--json"]).stdout;
    let shown: Value = serde_json::from_str(&shown).expect("it is JSON");
    let metrics = json!([
        {"pool": "p", "name": "mails.sent", "labels": {"to": "de"}, "value": 1.0, "reports": 1},
        {"pool": "p", "name": "mails.sent", "labels": {}, "value": 5.5, "reports": 2},
    ]);
    assert_eq!(shown["metrics"], metrics);
}
