//! The server's memory under attack, as measured by the kernel.

use crate::{setup, start};
use serde_json::json;
use std::time::Duration;
use stoker_testkit::{App, Client, Request, pause, procs, until};
use stoker_wire::{Flags, Key, Status};

/// Memory in KiB besides `max_memory`: the program itself, its stacks and caches, and one frame in transit.
const BESIDE: u64 = 64 << 10;

/// A memory limit of 64 MB, for jobs on disk.
const SMALL: &str = "[stoker]\nmax_memory = \"64MB\"";

#[track_caller]
fn within_budget(app: &App, what: &str) {
    let peak = procs::peak_kib(app.server());
    assert!(
        peak <= (64 << 10) + BESIDE,
        "{what}: the server took {} MiB at max_memory = 64 MiB",
        peak >> 10
    );
}

/// Waits until the server's resident memory no longer grows.
fn settled(app: &App) {
    let mut last = 0;
    until("its memory stays as it is", || {
        pause(Duration::from_millis(250));
        let now = procs::resident_kib(app.server());
        let grows = now > last + 1024;
        last = last.max(now);
        (!grows).then_some(())
    });
}

/// Checks that an operator's command is answered, and soon.
#[track_caller]
fn queues_answer(app: &App) {
    let mut operator = app.client();
    operator.call_server("stoker.queue", &json!({"op": "list"}));
}

/// All clients read their answers at the same time.
fn read_all(clients: Vec<Client>, ids: &[Vec<u32>], len: usize) {
    std::thread::scope(|scope| {
        for (mut client, ids) in clients.into_iter().zip(ids) {
            scope.spawn(move || {
                for id in ids {
                    let answer = client.answer(*id);
                    assert_eq!(answer.body.len(), len, "{:.200}", answer.text());
                }
            });
        }
    });
}

// Issue 9, A4
#[test]
fn answers_that_are_not_read_stay_with_their_workers() {
    let app = start(&format!(
        "workers = 4\n[service.t]\ntimeout = \"60s\"\n{SMALL}"
    ));
    let ask = Request::call("t.run", "big 15000000").ttl(60_000);
    let mut clients: Vec<Client> = (0..6).map(|_| app.client()).collect();
    let ids: Vec<Vec<u32>> = clients
        .iter_mut()
        .map(|client| client.send_all(&vec![ask.clone(); 10]))
        .collect();
    settled(&app);
    queues_answer(&app);
    within_budget(&app, "60 answers of 15 MB that nobody read");
    // All answers arrive once their clients read.
    read_all(clients, &ids, 15_000_000);
    within_budget(&app, "60 answers of 15 MB");
    assert_eq!(app.pool()["restarts"], 0, "no worker was killed for it");
}

// Issue 9, A4
#[test]
fn showing_a_large_job_repeatedly_takes_no_more_memory() {
    let app = start(&format!("workers = 1\n{SMALL}"));
    let mut client = app.client();
    let body = format!("\"note \u{1}{}\"", "x".repeat(15_000_000));
    client.call_server(
        "stoker.queue",
        &json!({"op": "pause", "queue": "mails", "create": true}),
    );
    let id = client.push(&Request::push("mails", body));
    let show = Request::call("stoker.job", json!({"op": "show", "id": id}).to_string());
    let mut readers: Vec<Client> = (0..3).map(|_| app.client()).collect();
    let ids: Vec<Vec<u32>> = readers
        .iter_mut()
        .map(|reader| reader.send_all(&vec![show.clone(); 4]))
        .collect();
    settled(&app);
    queues_answer(&app);
    within_budget(&app, "12 times a job of 15 MB");
    let mut whole = 0;
    for (reader, ids) in readers.iter_mut().zip(&ids) {
        for id in ids {
            let status = reader.answer(*id).status();
            assert!(
                matches!(status, Status::OK | Status::RESOURCE_EXHAUSTED),
                "{status:?}"
            );
            whole += u32::from(status == Status::OK);
        }
    }
    assert!(whole >= 2, "some had room: {whole}");
    within_budget(&app, "12 times a job of 15 MB, read");
    assert_eq!(client.job(&id)["id"], json!(id));
}

// Issue 9, A4
#[test]
fn small_unread_answers_count_like_large_ones() {
    let app = start(&format!("workers = 2\n{SMALL}"));
    let ask = Request::call("t.run", "big 60000").ttl(60_000);
    let mut clients: Vec<Client> = (0..20).map(|_| app.client()).collect();
    let ids: Vec<Vec<u32>> = clients
        .iter_mut()
        .map(|client| client.send_all(&vec![ask.clone(); 150]))
        .collect();
    settled(&app);
    queues_answer(&app);
    within_budget(&app, "3000 answers of 60 KB that nobody read");
    read_all(clients, &ids, 60_000);
}

// Issue 9, A4
#[test]
fn a_large_job_is_in_memory_only_once_while_its_worker_reads_it() {
    let workers = "slots 4;hello;silence";
    let rest = format!("workers = 1\ntask_timeout = \"none\"\nstop_grace = \"1s\"\n{SMALL}");
    let app = setup().config(&crate::pool_of(workers, rest)).start();
    let mut client = app.client();
    for _ in 0..4 {
        client.push(&Request::push("mails", vec![b' '; 14_000_000]));
    }
    settled(&app);
    within_budget(&app, "4 jobs of 14 MB at a worker that does not read");
}

// Issue 9, A4
#[test]
fn a_request_without_memory_for_its_body_is_rejected_and_its_connection_stays_open() {
    let app = start(&format!("workers = 1\n{SMALL}"));
    let ask = Request::call("t.run", [b"ok;".to_vec(), vec![b' '; 15_000_000]].concat());
    let body = ask.bytes(77);
    let begin = |_| {
        let mut client = app.client();
        client.write(&body[..body.len() - 1]);
        client
    };
    // The first ones take all the available memory.
    let mut clients: Vec<Client> = (0..6).map(begin).collect();
    let refused = clients[5].answer(77);
    assert_eq!(
        refused.status(),
        Status::RESOURCE_EXHAUSTED,
        "{}",
        refused.text()
    );
    assert!(refused.flags.has(Flags::NOT_PROCESSED));
    within_budget(&app, "6 requests of 15 MB that are half read");
    for client in &mut clients {
        client.write(&body[body.len() - 1..]);
        assert_eq!(client.call("t.run", "ok next").text(), "next");
    }
}

// Issue 9, A4
#[test]
fn a_start_with_many_large_jobs_loads_only_those_that_fit_into_memory() {
    let config = crate::pool_of("serve", format!("workers = 1\n{SMALL}"));
    let app = setup().config(&config).start();
    let mut client = app.client();
    client.call_server(
        "stoker.queue",
        &json!({"op": "pause", "queue": "mails", "create": true}),
    );
    let first = client.push(&Request::push("mails", "ok").key("a"));
    for n in 0..24 {
        let push = Request::push("mails", vec![b' '; 10_000_000]).key(&format!("k{}", n % 6));
        until("there is room", || {
            let answer = client.request(&push);
            (answer.status() == Status::OK).then_some(())
        });
    }
    let server = app.server();
    procs::kill(server);
    app.ready();
    assert_ne!(app.server(), server);
    settled(&app);
    within_budget(&app, "a start with 24 waiting jobs of 10 MB");
    let mut client = app.client();
    client.call_server("stoker.queue", &json!({"op": "resume", "queue": "mails"}));
    until("all of them have run", || {
        let queue = client.queue("mails");
        (queue["done"] == 25).then_some(())
    });
    client.job_in(&first, "done");
    within_budget(&app, "24 jobs of 10 MB");
}

/// While paused jobs fill the memory, the jobs of other queues are loaded one at a time, and all of them run.
#[test]
fn jobs_are_loaded_one_at_a_time_while_paused_jobs_fill_the_memory() {
    let config = crate::pool_of(
        "serve",
        "workers = 1\n[stoker]\nmax_memory = \"2MB\"\n[queue.ordered]\nordered = true\ntries = 3\nbackoff = [\"10ms\"]",
    );
    let app = setup().config(&config).start();
    let mut client = app.client();
    let large = |script: &str| format!("{script}{}", " ".repeat(200_000));
    client.call_server(
        "stoker.queue",
        &json!({"op": "pause", "queue": "paused", "create": true}),
    );
    for _ in 0..12 {
        client.push(&Request::push("paused", large("ok")));
    }
    let others: Vec<String> = (0..4)
        .map(|n| client.push(&Request::push("mails", large("ok")).key(&format!("k{n}"))))
        .collect();
    for id in &others {
        client.job_in(id, "done");
    }
    let retried: Vec<String> = (0..2)
        .map(|n| {
            let push = Request::push("ordered", large("fail 64 no"));
            client.push(&push.key(&format!("k{n}")))
        })
        .collect();
    for id in &retried {
        assert_eq!(client.job_in(id, "failed")["attempt"], 3);
    }
    assert_eq!(client.queue("paused")["ready"], 12);
}

// Issue 9, A4
#[test]
fn the_task_timeout_applies_while_a_worker_is_not_read() {
    let rest =
        format!("workers = 4\ntask_timeout = \"1s\"\n[service.t]\ntimeout = \"60s\"\n{SMALL}");
    let app = start(&rest);
    let mut client = app.client();
    let ask = Request::call("t.run", "big 15000000").ttl(60_000);
    let ids = client.send_all(&vec![ask; 12]);
    // Longer than a task may take, but not so long that the client is disconnected.
    pause(Duration::from_secs(4));
    for id in ids {
        let answer = client.answer(id);
        assert_eq!(
            (answer.status(), answer.body.len()),
            (Status::OK, 15_000_000)
        );
    }
    assert_eq!(app.pool()["restarts"], 0);
}

// Issue 9, A4
#[test]
fn idle_connections_keep_no_large_buffers() {
    let app = start(&format!("workers = 2\n{SMALL}"));
    let mut clients: Vec<Client> = (0..400).map(|_| app.client()).collect();
    for client in &mut clients {
        // A request that arrives in parts, and an answer of the same size.
        let body = format!("\"ok {}\"", "x".repeat(250_000));
        let answer = client.request(&Request::call("t.run", body).meta(Key::CALLER, "test"));
        assert_eq!(answer.body.len(), 250_000);
    }
    within_budget(&app, "400 idle connections that had 250 KB each");
}
