//! Calls: shedding, quarantine, deadlines and cancellation.

use crate::arena::Arena;
use crate::bounds::Bounds;
use crate::case::Group;
use std::time::Duration;
use stoker_testkit::{Request, pause, pool_of, until};
use stoker_wire::Status;

pub(crate) fn groups() -> Vec<Group> {
    let soft = || {
        pool_of(
            "soft-cancel;serve",
            "workers = 1\ntask_timeout = \"60s\"\nkill_grace = \"20s\"",
        )
    };
    vec![
        Group::new("A11", "400 calls to a worker of 100 slots")
            .config(pool_of(
                "slots 100;serve",
                "workers = 1\n[service.t]\nmax_wait = \"1s\"",
            ))
            .attack(wide_worker),
        Group::new("A12", "a call that killed three workers")
            .config(pool_of("serve", "workers = 2"))
            .case("is let in again by a reload", |arena| {
                quarantined(arena, "once-reload");
                assert_eq!(arena.app().cli(&["reload"]).code, 0);
                let_in(arena, "once-reload");
            })
            .case("is let in again by `quarantine clear`", |arena| {
                quarantined(arena, "once-clear");
                let output = arena.app().cli(&["quarantine", "clear"]);
                assert_eq!(output.code, 0, "{}", output.stderr);
                let_in(arena, "once-clear");
            }),
        Group::new("A22", "a call past its deadline leaves its worker")
            .config(soft())
            .bounds(Bounds {
                seconds: 40.0,
                ..Bounds::USUAL
            })
            .attack(|arena| {
                let script = "await-signal;note interrupted;fail 64 interrupted";
                let answer = arena
                    .client()
                    .request(&Request::call("t.run", script).ttl(300));
                assert_eq!(answer.status(), Status::DEADLINE_EXCEEDED);
                is_free(arena);
            }),
        Group::new("A22", "a cancelled call leaves its worker")
            .config(soft())
            .attack(|arena| {
                let mut client = arena.client();
                let id = client.send(&Request::call(
                    "t.run",
                    "note began;await-signal;note interrupted",
                ));
                until("it runs", || arena.app().dir.notes().first().cloned());
                client.cancel(id);
                is_free(arena);
            }),
        Group::new("A22", "a client that goes leaves no worker busy")
            .config(soft())
            .attack(|arena| {
                let mut client = arena.client();
                client.send(&Request::call(
                    "t.run",
                    "note began;await-signal;note interrupted",
                ));
                until("it runs", || arena.app().dir.notes().first().cloned());
                drop(client);
                is_free(arena);
            }),
    ]
}

fn wide_worker(arena: &mut Arena) {
    let mut client = arena.client();
    // The server must first learn how long a run takes.
    let warm = client.send_all(&vec![Request::call("t.run", "sleep 100;ok"); 100]);
    warm.into_iter().for_each(|id| drop(client.answer(id)));
    let ids = client.send_all(&vec![Request::call("t.run", "sleep 100;ok"); 400]);
    let served = ids
        .into_iter()
        .filter(|id| client.answer(*id).status() == Status::OK)
        .count();
    assert_eq!(served, 400, "four rounds of 100 ms are within 1 s");
}

fn quarantined(arena: &mut Arena, file: &str) {
    // The call kills its worker while the file exists.
    arena.app().dir.write(file, "");
    let script = format!("if {file} kill");
    until("it is refused", || {
        let answer = arena.app().call("t.run", &script);
        (answer.status() == Status::QUARANTINED).then_some(())
    });
    std::fs::remove_file(arena.app().dir.file(file)).expect("it is there");
}

fn let_in(arena: &mut Arena, file: &str) {
    until("it is served", || {
        let answer = arena.app().call("t.run", &format!("if {file} kill"));
        (answer.status() == Status::OK).then_some(())
    });
}

/// The only worker takes the next call soon, and not only after `task_timeout`.
fn is_free(arena: &mut Arena) {
    let answer = arena
        .client()
        .request(&Request::call("t.run", "ok free").ttl(8_000));
    assert_eq!(
        (answer.status(), answer.text()),
        (Status::OK, "free".to_owned())
    );
    assert!(
        arena.app().dir.notes().contains(&"interrupted".to_owned()),
        "it was interrupted"
    );
    pause(Duration::from_millis(10));
    assert_eq!(arena.app().pool()["restarts"], 0, "no worker was killed");
}
