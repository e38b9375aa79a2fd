//! `reload` applies what can be applied, keeps the overrides of operators, and reports what needs a restart.

use crate::arena::Arena;
use crate::case::Group;
use serde_json::{Value, json};
use stoker_testkit::{Request, pool_of, until};
use stoker_wire::Status;

type Look = fn(&mut Arena);

/// The name, the configuration after the reload, and the condition that must hold then.
fn changes() -> Vec<(&'static str, String, Look)> {
    vec![
        (
            "a queue's weight",
            pool_of("serve", "workers = 1\n[queue.q]\nweight = 5"),
            |arena| {
                assert_eq!(arena.client().queue("q")["weight"], 5);
            },
        ),
        (
            "a queue's limit",
            pool_of("serve", "workers = 1\n[queue.q]\nlimit = 1"),
            |arena| {
                assert_eq!(arena.client().queue("q")["limit"], 1);
            },
        ),
        (
            "a new queue",
            pool_of("serve", "workers = 1\n[queue.q]\n[queue.new]\nweight = 3"),
            |arena| {
                assert_eq!(arena.client().queue("new")["weight"], 3);
            },
        ),
        (
            "a removed queue",
            pool_of("serve", "workers = 1"),
            |arena| {
                let id = arena.client().push(&Request::push("q", "ok"));
                arena.client().job_in(&id, "done");
            },
        ),
        (
            "more workers",
            pool_of("serve", "workers = 3\n[queue.q]"),
            |arena| {
                until("there are three", || {
                    (arena.app().workers().len() == 3).then_some(())
                });
            },
        ),
        (
            "a new pool",
            format!(
                "{}{}",
                pool_of("serve", "workers = 1\n[queue.q]\npool = \"p\""),
                pool_of("calls u.run;serve", "workers = 1").replace("[pool.p]", "[pool.second]")
            ),
            |arena| {
                until("the new pool serves", || {
                    (arena.app().call("u.run", "ok").status() == Status::OK).then_some(())
                });
            },
        ),
        (
            "a shorter timeout",
            pool_of(
                "serve",
                "workers = 1\ntask_timeout = \"200ms\"\nkill_grace = \"50ms\"\n[queue.q]",
            ),
            |arena| {
                let answer = arena
                    .client()
                    .request(&Request::call("t.run", "silence").ttl(8_000));
                assert_eq!(answer.status(), Status::DEADLINE_EXCEEDED);
                assert!(arena.app().log().contains("timeout"));
            },
        ),
    ]
}

pub(crate) fn groups() -> Vec<Group> {
    let before = || pool_of("serve", "workers = 1\n[queue.q]");
    let mut groups: Vec<Group> = changes()
        .into_iter()
        .map(|(name, after, look)| {
            let group = Group::new("A25", format!("reload with {name}")).config(before());
            group.attack(move |arena| {
                arena.app().dir.write("stoker.toml", &after);
                let output = arena.app().cli(&["reload"]);
                assert_eq!(output.code, 0, "{}{}", output.stdout, output.stderr);
                look(arena);
            })
        })
        .collect();
    groups.push(
        Group::new("A25", "reload keeps what was set by hand")
            .config(before())
            .attack(overrides),
    );
    groups.push(
        Group::new("A25", "reload with a configuration that is wrong")
            .config(before())
            .attack(|arena| {
                let server = arena.app().server();
                arena
                    .app()
                    .dir
                    .write("stoker.toml", "[pool.p]\ncommand = 7\n");
                assert_ne!(arena.app().cli(&["reload"]).code, 0);
                arena.still_serves(server);
            }),
    );
    groups.push(
        Group::new("A23", "reload reports a new group of the socket")
            .config(before())
            .attack(|arena| {
                let after = pool_of(
                    "serve",
                    "workers = 1\n[queue.q]\n[stoker]\nsocket_group = \"nogroup\"",
                );
                arena.app().dir.write("stoker.toml", after);
                let output = arena.app().cli(&["reload"]);
                let said = format!("{}{}", output.stdout, output.stderr);
                assert!(said.contains("socket_group"), "{said}");
            }),
    );
    groups.push(
        Group::new("A25", "200 reloads at once")
            .config(before())
            .attack(|arena| {
                let server = arena.app().server();
                let mut clients: Vec<_> = (0..20).map(|_| arena.client()).collect();
                for client in &mut clients {
                    client.send_all(&vec![
                        Request::call("stoker.pool", r#"{"op":"reload"}"#);
                        10
                    ]);
                }
                drop(clients);
                arena.still_serves(server);
                until("it has settled", || {
                    (arena.app().processes().len() <= 3).then_some(())
                });
            }),
    );
    groups
}

fn overrides(arena: &mut Arena) {
    let mut client = arena.client();
    client.call_server(
        "stoker.pool",
        &json!({"op": "scale", "pool": "p", "min": 2, "max": 2}),
    );
    client.call_server(
        "stoker.queue",
        &json!({"op": "set", "queue": "q", "weight": 9}),
    );
    let after = pool_of("serve", "workers = 4\n[queue.q]\nweight = 5");
    arena.app().dir.write("stoker.toml", after);
    let output = arena.app().cli(&["reload"]);
    assert_eq!(output.code, 0, "{}", output.stderr);
    assert_eq!(
        client.queue("q")["weight"],
        9,
        "set goes before the configuration"
    );
    let pool: Value = arena.app().pool();
    assert_eq!(pool["max"], 2, "scale goes before the configuration");
}
