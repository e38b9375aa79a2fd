//! The log: its size is bounded whatever workers print, and each run that did not go well has a line.

use crate::arena::{Arena, drained, push_all};
use crate::bounds::Bounds;
use crate::case::Group;
use serde_json::Value;
use std::time::Duration;
use stoker_testkit::{Request, pause, pool_of};

pub(crate) fn groups() -> Vec<Group> {
    let file = "[log]\nfile = \"stoker.log\"";
    let json = "workers = 1\n[queue.q]\n[log]\nfile = \"stoker.log\"\nformat = \"json\"";
    let flood = |name: &str, script: &'static str| {
        let config = pool_of("serve", format!("workers = 2\n{file}"));
        let group = Group::new("A21", format!("two workers that print {name}")).config(config);
        group
            .bounds(Bounds {
                log_mb: 128,
                ..Bounds::USUAL
            })
            .attack(move |arena| print(arena, script))
    };
    vec![
        flood("lines without end", "flood-stdout 300000"),
        flood("one line without end", "line 60000000").slow(),
        flood("to standard error", "stderr-without-end").slow(),
        Group::new("A26", "300 jobs that fail leave 300 lines")
            .config(pool_of("serve", json))
            .attack(|arena| failed(arena, "fail 64 no such thing", 300)),
        Group::new("A26", "20 jobs that crash leave 20 lines")
            .config(pool_of("serve", json))
            .bounds(Bounds {
                seconds: 90.0,
                ..Bounds::USUAL
            })
            .attack(|arena| failed(arena, "exit 9", 20)),
        Group::new("A26", "5 jobs that take too long leave 5 lines")
            .config(pool_of(
                "serve",
                json.replacen(
                    "workers = 1",
                    "workers = 1\ntask_timeout = \"100ms\"\nkill_grace = \"50ms\"",
                    1,
                ),
            ))
            .attack(|arena| failed(arena, "silence", 5)),
    ]
}

fn print(arena: &mut Arena, script: &str) {
    let server = arena.app().server();
    let script = match script {
        "stderr-without-end" => format!("stderr {};", "e".repeat(1_000_000)).repeat(12),
        script => script.to_owned(),
    };
    let mut client = arena.client();
    for _ in 0..3 {
        let ids = client.send_all(&[
            Request::call("t.run", &*script).ttl(9_000),
            Request::call("t.run", &*script).ttl(9_000),
        ]);
        ids.into_iter().for_each(|id| drop(client.answer(id)));
    }
    pause(Duration::from_millis(200));
    arena.still_serves(server);
}

/// Checks that each job that does not go well has a log line with its fields.
fn failed(arena: &mut Arena, script: &str, jobs: usize) {
    let mut client = arena.client();
    let asks: Vec<Request> = (0..jobs)
        .map(|n| Request::push("q", format!("{script};ok {n}")))
        .collect();
    let ids = push_all(&mut client, &asks);
    drained(&mut client, "q");
    pause(Duration::from_millis(200));
    let log = std::fs::read_to_string(arena.app().dir.file("stoker.log")).unwrap_or_default();
    let lines: Vec<Value> = log
        .lines()
        .filter_map(|line| serde_json::from_str(line).ok())
        .collect();
    let named = |id: &&String| {
        let mut of_job = lines.iter().filter(|line| line["job"] == id.as_str());
        of_job.any(|line| {
            line["event"].is_string() && line["queue"] == "q" && !line["attempt"].is_null()
        })
    };
    let found = ids.iter().filter(named).count();
    assert_eq!(found, jobs, "jobs with a line of their own: {:.300}", log);
}
