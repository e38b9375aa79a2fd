//! The life of the server: stuck, stopped, without its socket, and after a new deploy.

use crate::arena::Arena;
use crate::bounds::Bounds;
use crate::case::Group;
use rustix::process::Signal;
use std::fs;
use std::os::unix::fs::symlink;
use std::time::{Duration, Instant};
use stoker_testkit::{Client, Dir, Request, Spawn, bad_worker, pool_of, procs, until};
use stoker_wire::Status;

const LONG_BOUNDS: Bounds = Bounds {
    seconds: 40.0,
    ..Bounds::NO_ADMIN
};

pub(crate) fn groups() -> Vec<Group> {
    let config = || pool_of("serve", "workers = 1\nstop_grace = \"1s\"");
    let mut groups = vec![
        Group::new("A16", "a stopped server is replaced")
            .config(pool_of("serve", "workers = 1\n[stoker]\nwatchdog = \"1s\""))
            .bounds(LONG_BOUNDS)
            .attack(stopped_server),
        stuck("commands to a stuck server end in time", &STUCK[..2]),
        stuck("more commands to a stuck server end in time", &STUCK[2..]).slow(),
        Group::new("A16", "TERM ends a stuck server")
            .config(config())
            .bounds(LONG_BOUNDS)
            .attack(|arena| {
                procs::signal(arena.app().server(), Signal::STOP);
                let ended = arena.stop();
                assert!(
                    ended.took < stoker_testkit::limit(15.0),
                    "it took {:?}",
                    ended.took
                );
            }),
        releases(),
    ];
    for (name, damage) in SOCKET {
        let group = Group::new("A17", format!("the socket is {name}"));
        groups.push(group.config(config()).bounds(LONG_BOUNDS).attack(|arena| {
            let server = arena.app().server();
            damage(arena);
            until("it is bound again", || {
                let mut client = Client::try_connect_to(&arena.app().socket())?;
                (client.call("t.run", "ok").status() == Status::OK).then_some(())
            });
            assert_eq!(arena.app().server(), server, "by the same server");
        }));
    }
    groups
}

const STUCK: &[(&str, &[&str])] = &[
    ("call", &["call", "t.run"]),
    ("queues", &["queues"]),
    ("workers", &["workers"]),
    ("pause", &["pause", "q"]),
    ("jobs list", &["jobs", "list"]),
    ("jobs cancel", &["jobs", "cancel", "--queue", "q", "--yes"]),
    ("set", &["set", "q", "--weight", "2"]),
    ("reload", &["reload"]),
    ("push", &["push", "q", "{}", "--wait", "500ms"]),
];

fn stuck(name: &str, commands: &'static [(&str, &[&str])]) -> Group {
    let config = pool_of("serve", "workers = 1\nstop_grace = \"1s\"");
    let mut group = Group::new("A16", name).config(config).bounds(LONG_BOUNDS);
    for (name, args) in commands {
        group.add(name, |arena| ends_in_time(arena, args));
    }
    group
}

type Damage = fn(&mut Arena);

const SOCKET: &[(&str, Damage)] = &[
    ("unlinked", |arena| {
        fs::remove_file(arena.app().socket()).expect("it is there");
    }),
    ("renamed", |arena| {
        fs::rename(arena.app().socket(), arena.app().dir.file("away")).expect("it is there");
    }),
    ("unlinked ten times", |arena| {
        for _ in 0..10 {
            until("it is there", || fs::remove_file(arena.app().socket()).ok());
        }
    }),
];

fn stopped_server(arena: &mut Arena) {
    let server = arena.app().server();
    let mut client = arena.client();
    let ids: Vec<String> = (0..5)
        .map(|_| client.push(&Request::push("q", "ok")))
        .collect();
    procs::signal(server, Signal::STOP);
    until("it is replaced", || {
        (procs::server_of(arena.app().angel())? != server).then_some(())
    });
    arena.app().ready();
    let mut client = arena.client();
    ids.iter().for_each(|id| drop(client.job_in(id, "done")));
}

fn ends_in_time(arena: &mut Arena, args: &[&str]) {
    let server = arena.app().server();
    procs::signal(server, Signal::STOP);
    let began = Instant::now();
    let output = arena.app().cli(&[args, &["--timeout", "500ms"]].concat());
    let took = began.elapsed();
    procs::signal(server, Signal::CONT);
    assert_ne!(output.code, 0);
    assert!(took < stoker_testkit::limit(5.0), "it took {took:?}");
}

/// After a deploy has switched a symlink, a second Stoker must not open a new, empty store while the first one runs.
fn releases() -> Group {
    Group::new("A24", "a second Stoker after a switch of releases")
        .bounds(LONG_BOUNDS)
        .attack(|arena| {
            let dir = Dir::new();
            let program = bad_worker();
            for release in ["releases/1", "releases/2"] {
                let folder = dir.file(release);
                fs::create_dir_all(&folder).expect("it is new");
                let config = format!("[pool.p]\ncommand = [{program:?}, \"serve\"]\nworkers = 1\n");
                fs::write(folder.join("stoker.toml"), config).expect("it can be written");
            }
            let current = dir.file("current");
            symlink("releases/1", &current).expect("it is new");
            let serve = || {
                let spawn =
                    Spawn::new(&arena.binary).args(&["serve", "--config", "current/stoker.toml"]);
                spawn.within(dir.path())
            };
            let log = fs::File::create(dir.file("first.log")).expect("it can be made");
            let mut first = serve().stderr(log).start();
            let up = until_some(Duration::from_secs(10), || {
                Client::try_connect_to(&dir.file("releases/1/stoker.sock"))
            });
            fs::remove_file(&current).expect("it is there");
            symlink("releases/2", &current).expect("it has gone");
            let mut second = serve()
                .stderr(fs::File::create(dir.file("second.log")).expect("a file"))
                .start();
            let refused = procs::wait_for_exit(second.id() as i32, 6.0);
            for child in [&mut second, &mut first] {
                procs::signal(child.id() as i32, Signal::TERM);
                child.wait().expect("it is ours");
            }
            let log = fs::read_to_string(dir.file("first.log")).unwrap_or_default();
            assert!(up.is_some(), "the first one serves: {log}");
            assert!(refused, "the second one is refused");
            let empty = dir.file("releases/2/stoker.db");
            assert!(!empty.exists(), "no empty store is opened");
            assert!(
                log.contains("warn"),
                "the first one warned of its store's place: {log}"
            );
        })
}

fn until_some<T>(within: Duration, mut look: impl FnMut() -> Option<T>) -> Option<T> {
    let end = Instant::now() + within;
    while Instant::now() < end {
        if let Some(found) = look() {
            return Some(found);
        }
        stoker_testkit::pause(Duration::from_millis(10));
    }
    None
}
