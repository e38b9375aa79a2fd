//! A worker that requests its tasks: it gets only tasks that it has requested.

use crate::arena::Arena;
use crate::case::Group;
use serde_json::json;
use std::time::Duration;
use stoker_testkit::{Client, Received, Request, frame, pause, pool_of};
use stoker_wire::{Encode, Status, Type};

pub(crate) fn groups() -> Vec<Group> {
    let config = || {
        let own = pool_of("serve", "workers = 1");
        format!(
            "{own}[pool.d]\nworkers = 1\ntask_timeout = \"300ms\"\nstop_grace = \"500ms\"\n[queue.pulled]\npool = \"d\"\n"
        )
    };
    let group = |name: &str, attack: fn(&mut Arena)| {
        let config = config();
        Group::new("A28", name).attack(move |arena| {
            let setup = arena.setup().config(&config);
            arena.take(setup.launch());
            attack(arena);
        })
    };
    vec![
        group("a worker that does not ask gets no job", |arena| {
            let mut worker = joined(arena);
            let id = arena.client().push(&Request::push("pulled", "x"));
            pause(Duration::from_millis(800));
            worker.fence();
            assert!(requests(&worker).is_empty(), "nothing was assigned");
            assert_eq!(arena.client().job(&id)["state"], "ready");
        }),
        group("a worker that asks once gets one job", |arena| {
            let mut worker = joined(arena);
            let mut client = arena.client();
            let ids: Vec<String> = (0..3)
                .map(|_| client.push(&Request::push("pulled", "x")))
                .collect();
            worker.write(&ready(1));
            let task = next_request(&mut worker);
            worker.write(&done(task.id));
            client.job_in(&ids[0], "done");
            pause(Duration::from_millis(400));
            worker.fence();
            assert!(requests(&worker).is_empty(), "one question, one job");
        }),
        group("a withdrawn question is confirmed", |arena| {
            let mut worker = joined(arena);
            worker.write(&[ready(1), ready(0)].concat());
            worker.fence();
            assert!(
                worker
                    .other_frames
                    .iter()
                    .any(|got| got.kind == Type::Ready && got.ttl == 0)
            );
            arena.client().push(&Request::push("pulled", "x"));
            pause(Duration::from_millis(400));
            worker.fence();
            assert!(requests(&worker).is_empty(), "nothing was assigned");
        }),
        group("a job that crossed the withdrawal costs nothing", |arena| {
            let mut worker = joined(arena);
            let mut client = arena.client();
            let id = client.push(&Request::push("pulled", "x"));
            for _ in 0..10 {
                worker.write(&ready(1));
                let task = next_request(&mut worker);
                worker.write(&ready(0));
                worker.write(&answer(task.id, Status::RETURNED));
                worker.fence();
            }
            let job = client.job(&id);
            assert_eq!(
                (&job["state"], &job["crashes"]),
                (&json!("ready"), &json!(0)),
                "{job}"
            );
        }),
        group(
            "an idle process that outlives its GOAWAY is not killed",
            |arena| {
                // A kill would end the test's own process.
                let mut worker = joined(arena);
                arena
                    .client()
                    .call_server("stoker.pool", &json!({"op": "reload", "pool": "d"}));
                while worker.frame().is_some() {}
                pause(Duration::from_millis(1_500));
            },
        ),
        group("1,000 requests and withdrawals", |arena| {
            let mut worker = joined(arena);
            let both = [ready(1), ready(0)].concat();
            worker.write(&both.repeat(1_000));
            worker.fence();
            arena.still_serves(arena.app().server());
        }),
    ]
}

fn joined(arena: &Arena) -> Client {
    let hello = json!({"v": [1], "role": "worker", "name": "puller", "pool": "d", "jobs": ["pulled"], "pull": true});
    Client::connect_as(&arena.app().socket(), &hello)
}

fn ready(ttl: u32) -> Vec<u8> {
    frame(Encode {
        ttl,
        ..Encode::new(Type::Ready, 0)
    })
}

fn answer(id: u32, status: Status) -> Vec<u8> {
    frame(Encode {
        code: status.0,
        ttl: 1,
        ..Encode::new(Type::Res, id)
    })
}

fn done(id: u32) -> Vec<u8> {
    answer(id, Status::OK)
}

fn requests(worker: &Client) -> Vec<&Received> {
    worker
        .other_frames
        .iter()
        .filter(|got| got.kind == Type::Req)
        .collect()
}

fn next_request(worker: &mut Client) -> Received {
    loop {
        let got = worker.frame().expect("the connection stays");
        if got.kind == Type::Req {
            return got;
        }
    }
}
