//! Undeclared names: they are bounded, and idle, empty queues expire.

use crate::case::Group;
use serde_json::json;
use std::time::Duration;
use stoker_testkit::{App, Client, Request, pause, pool_of, until};
use stoker_wire::{Key, Status};

pub(crate) fn groups() -> Vec<Group> {
    let config = || pool_of("serve", "workers = 1\n[stoker]\nqueue_expiry = \"1s\"");
    let expire = Group::new("A10", "1,100 names of producers make room again").config(config());
    let typos = Group::new("A10", "typos make no queue").config(config());
    let calls = Group::new("A10", "5,000 unknown services make no queue").config(config());
    vec![
        expire.attack(|arena| {
            let mut client = arena.client();
            let refused = push_names(&mut client, 0..1_100);
            pause(Duration::from_millis(1_500));
            until("new names are accepted again", || {
                let answer = client.request(&Request::push("after-all", "ok"));
                (answer.status() == Status::OK).then_some(())
            });
            until("the idle queues have gone", || {
                (queues(arena.app()) < 200).then_some(())
            });
            assert!(refused < 1_100);
        }),
        typos
            .case("dry run", |arena| {
                typo(
                    arena.app(),
                    &["jobs", "cancel", "--queue", "typo", "--all", "--dry-run"],
                );
            })
            .case("pause", |arena| typo(arena.app(), &["pause", "typo"]))
            .case("resume", |arena| typo(arena.app(), &["resume", "typo"]))
            .case("set", |arena| {
                typo(arena.app(), &["set", "typo", "--weight", "2"]);
            })
            .case("jobs list", |arena| {
                typo(arena.app(), &["jobs", "list", "--queue", "typo"]);
            })
            .case("jobs cancel", |arena| {
                typo(arena.app(), &["jobs", "cancel", "--queue", "typo", "--yes"]);
            }),
        calls.attack(|arena| {
            let mut client = arena.client();
            let before = queues(arena.app());
            for chunk in 0..10 {
                let asks: Vec<Request> = (0..500)
                    .map(|n| Request::call(&format!("s{chunk}x{n}.run"), ""))
                    .collect();
                for id in client.send_all(&asks) {
                    assert_eq!(client.answer(id).status(), Status::NO_WORKER);
                }
            }
            assert_eq!(queues(arena.app()), before);
        }),
        kept(),
    ]
}

/// Pushes one job to each name; each rejection must name a limit and be temporary. Returns the number of rejections.
fn push_names(client: &mut Client, numbers: std::ops::Range<usize>) -> usize {
    let asks: Vec<Request> = numbers
        .map(|n| Request::push(&format!("name-{n}"), "ok"))
        .collect();
    let mut refused = 0;
    for chunk in asks.chunks(100) {
        for id in client.send_all(chunk) {
            let answer = client.answer(id);
            if answer.status() != Status::OK {
                refused += 1;
                assert_eq!(
                    answer.status(),
                    Status::RESOURCE_EXHAUSTED,
                    "{}",
                    answer.text()
                );
                assert!(
                    answer.uint(Key::RETRY_AFTER).is_some(),
                    "the rejection has a retry-after time"
                );
            }
        }
    }
    refused
}

fn queues(app: &App) -> usize {
    let found = app
        .client()
        .call_server("stoker.queue", &json!({"op": "list"}));
    found["queues"].as_array().map_or(0, Vec::len)
}

#[track_caller]
fn typo(app: &App, args: &[&str]) {
    let before = queues(app);
    let output = app.cli(args);
    assert_eq!(queues(app), before, "no queue was made: {}", output.stderr);
}

/// Queues that are paused, have overrides or have failed jobs do not expire.
fn kept() -> Group {
    let config = pool_of("serve", "workers = 1\n[stoker]\nqueue_expiry = \"1s\"");
    Group::new("A10", "queues that somebody needs do not expire")
        .config(config)
        .attack(|arena| {
            let mut client = arena.client();
            for queue in ["paused", "overridden", "failed", "waiting"] {
                client.push(&Request::push(queue, "fail 64 kept"));
            }
            client.call_server("stoker.queue", &json!({"op": "pause", "queue": "paused"}));
            client.call_server(
                "stoker.queue",
                &json!({"op": "set", "queue": "overridden", "weight": 7}),
            );
            let delay = 3_600_000_u64.to_be_bytes();
            client.push(&Request::push("waiting", "ok").meta(Key::DELAY, delay));
            pause(Duration::from_millis(2_500));
            for queue in ["paused", "overridden", "failed", "waiting"] {
                client.queue(queue);
            }
            assert_eq!(client.queue("overridden")["weight"], 7);
            assert_eq!(client.queue("paused")["paused"], true);
        })
}
