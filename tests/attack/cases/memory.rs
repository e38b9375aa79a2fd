//! Memory: `max_memory` bounds clients that do not read, answers that are too large, and pushes that are too many.

use crate::arena::{Arena, pause as pause_queue, push_all};
use crate::bounds::Bounds;
use crate::case::Group;
use serde_json::json;
use std::time::Duration;
use stoker_testkit::{Client, Request, pause, pool_of};
use stoker_wire::{Codec, Key, Status};

/// The memory in MB that the server may use besides bodies: the bar of the issue.
const OVERHEAD_MB: u64 = 64;
const MAX_MEMORY_MB: u64 = 64;
const CONFIG: &str =
    "workers = 4\ntask_timeout = \"20s\"\n[stoker]\nmax_memory = \"64MB\"\n[queue.q]";
/// How long unread answers may accumulate.
const WAIT: Duration = Duration::from_secs(3);

pub(crate) fn groups() -> Vec<Group> {
    vec![
        unread_answers("100 unread answers of 15 MB", 100, 15_000_000, 1),
        unread_answers("1,000 unread answers of 1 MB", 1_000, 1_000_000, 1).slow(),
        unread_answers("unread answers of 4 MB to 50 clients", 4, 4_000_000, 50).slow(),
        unread_admin_answers(
            "show of a job of 15 MB, 100 times",
            100,
            |id| json!({"op": "show", "id": id}),
        ),
        unread_admin_answers(
            "export of a job of 15 MB, 100 times",
            100,
            |id| json!({"op": "export", "id": id}),
        )
        .slow(),
        unread_admin_answers(
            "a list of jobs, 2,000 times",
            2_000,
            |_| json!({"op": "list"}),
        )
        .slow(),
        edited_many_times(),
        pushes_of_paused_queue().slow(),
        calls_that_wait(),
        metadata().slow(),
        output("stdout, 40 MB in a line", "line 40000000;ok"),
        output("40 log events of 1 MB", "logs").slow(),
        output("a last word of 10 MB", "words").slow(),
        output("progress of 10 MB", "progress").slow(),
        large_import(),
    ]
}

fn bounded(name: &str) -> Group {
    Group::new("A4", name)
        .config(pool_of("serve", CONFIG))
        .bounds(Bounds {
            rss_mb: MAX_MEMORY_MB + OVERHEAD_MB,
            log_mb: 64,
            ..Bounds::USUAL
        })
}

fn unread_answers(name: &str, calls: usize, bytes: usize, clients: usize) -> Group {
    bounded(name).attack(move |arena| {
        let server = arena.app().server();
        let mut held: Vec<Client> = (0..clients).map(|_| arena.client()).collect();
        for client in &mut held {
            let ask = Request::call("t.run", format!("big {bytes}")).ttl(20_000);
            client.send_all(&vec![ask; calls]);
        }
        pause(WAIT);
        // Other clients are still served, though more slowly.
        assert_eq!(
            arena
                .app()
                .call("stoker.queue", r#"{"op":"list"}"#)
                .status(),
            Status::OK
        );
        drop(held);
        stoker_testkit::until("calls are served", || {
            (arena.app().call("t.run", "ok").status() == Status::OK).then_some(())
        });
        assert_eq!(arena.app().server(), server);
    })
}

fn unread_admin_answers(name: &str, times: usize, ask: fn(&str) -> serde_json::Value) -> Group {
    bounded(name).attack(move |arena| {
        let server = arena.app().server();
        let mut client = arena.client();
        pause_queue(&mut client, "q");
        let id = client.push(&Request::push("q", vec![b'x'; 15_000_000]));
        let mut silent = arena.client();
        let body = ask(&id).to_string();
        silent.send_all(&vec![
            Request::call("stoker.job", body).codec(Codec::JSON);
            times
        ]);
        pause(WAIT);
        drop(silent);
        arena.still_serves(server);
    })
}

fn edited_many_times() -> Group {
    bounded("a job of 10 MB edited 10 times, and shown")
        .slow()
        .attack(|arena| {
            let server = arena.app().server();
            let mut client = arena.client();
            pause_queue(&mut client, "q");
            let id = client.push(&Request::push("q", "x"));
            client.call_server("stoker.job", &json!({"op": "suspend", "id": id}));
            for number in 0..10 {
                let body = format!("{number}{}", "x".repeat(10_000_000));
                let ask = json!({"op": "edit", "id": id, "body": body});
                let answer = client
                    .request(&Request::call("stoker.job", ask.to_string()).codec(Codec::JSON));
                let typed = [
                    Status::OK,
                    Status::RESOURCE_EXHAUSTED,
                    Status::INVALID_ARGUMENT,
                ];
                assert!(typed.contains(&answer.status()), "{}", answer.text());
            }
            for _ in 0..20 {
                client.call("stoker.job", &json!({"op": "show", "id": id}).to_string());
            }
            arena.still_serves(server);
        })
}

/// Each push is accepted or rejected temporarily, and the server stays within its memory limit.
fn pushes_of_paused_queue() -> Group {
    bounded("60 pushes of 10 MB to a paused queue").attack(|arena| {
        let server = arena.app().server();
        let mut client = arena.client();
        pause_queue(&mut client, "q");
        let asks: Vec<Request> = (0..60)
            .map(|_| Request::push("q", vec![b'x'; 10_000_000]))
            .collect();
        for chunk in asks.chunks(10) {
            for id in client.send_all(chunk) {
                let answer = client.answer(id);
                let typed = [Status::OK, Status::RESOURCE_EXHAUSTED];
                assert!(typed.contains(&answer.status()), "{}", answer.text());
            }
        }
        arena.still_serves(server);
    })
}

fn calls_that_wait() -> Group {
    bounded("60 calls of 10 MB that wait").attack(|arena| {
        let server = arena.app().server();
        let mut client = arena.client();
        let body = [b"sleep 50;ok;".to_vec(), vec![b' '; 10_000_000]].concat();
        let ask = Request::call("t.run", body);
        let mut served = 0;
        for _ in 0..6 {
            for id in client.send_all(&vec![ask.clone(); 10]) {
                let answer = client.answer(id);
                served += usize::from(answer.status() == Status::OK);
                let typed = [
                    Status::OK,
                    Status::RESOURCE_EXHAUSTED,
                    Status::DEADLINE_EXCEEDED,
                ];
                assert!(typed.contains(&answer.status()), "{}", answer.text());
            }
        }
        assert!(served > 0, "some of them are served");
        arena.still_serves(server);
    })
}

/// Metadata counts like the body.
fn metadata() -> Group {
    bounded("3,000 jobs with 28 KB of metadata").attack(|arena| {
        let server = arena.app().server();
        let mut client = arena.client();
        pause_queue(&mut client, "q");
        let ask = Request::push("q", "ok").meta(Key(0x80), vec![b'm'; 28_000]);
        for _ in 0..6 {
            for id in client.send_all(&vec![ask.clone(); 500]) {
                let answer = client.answer(id);
                let typed = [Status::OK, Status::RESOURCE_EXHAUSTED];
                assert!(typed.contains(&answer.status()), "{}", answer.text());
            }
        }
        arena.still_serves(server);
    })
}

fn output(name: &str, script: &'static str) -> Group {
    // Long scripts are only created when they are sent.
    let long = move || match script {
        "logs" => format!("{}ok", format!("log {};", "l".repeat(1_000_000)).repeat(12)),
        "words" => format!("last-words {};ok", "w".repeat(10_000_000)),
        "progress" => {
            let text = "p".repeat(10_000_000);
            format!("progress {{\"percent\":1,\"text\":\"{text}\"}};ok")
        }
        script => script.to_owned(),
    };
    bounded(&format!("a worker's {name}")).attack(move |arena| {
        let server = arena.app().server();
        let mut client = arena.client();
        for _ in 0..4 {
            client.request(&Request::call("t.run", long()).ttl(20_000));
        }
        arena.still_serves(server);
    })
}

fn large_import() -> Group {
    bounded("imports of 10 MB, 20 times")
        .slow()
        .attack(|arena: &mut Arena| {
            let server = arena.app().server();
            let mut client = arena.client();
            pause_queue(&mut client, "q");
            let job =
                json!({"queue": "q", "priority": 3, "codec": 1, "body": "x".repeat(10_000_000)});
            for _ in 0..20 {
                let ask = json!({"op": "import", "jobs": [job]}).to_string();
                let answer = client.request(&Request::call("stoker.job", ask).codec(Codec::JSON));
                let typed = [Status::OK, Status::RESOURCE_EXHAUSTED];
                assert!(typed.contains(&answer.status()), "{}", answer.text());
            }
            push_all(&mut client, &[Request::push("other", "ok")]);
            arena.still_serves(server);
        })
}
