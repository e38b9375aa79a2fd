//! A store that is replaced, truncated or removed under a running server: acknowledged jobs exist after a restart, and
//! a job that can't be stored is not acknowledged.

use super::config;
use crate::arena::Arena;
use crate::bounds::Bounds;
use crate::case::Group;
use std::fs::{self, OpenOptions};
use std::path::{Path, PathBuf};
use stoker_testkit::{Client, Dir, Request, procs};
use stoker_wire::Status;

type Attack = fn(&Path);

fn beside(store: &Path, suffix: &str) -> PathBuf {
    PathBuf::from(format!("{}{suffix}", store.display()))
}

fn cut(path: &Path, len: u64) {
    let file = OpenOptions::new()
        .write(true)
        .open(path)
        .expect("it is there");
    file.set_len(len).expect("it can be cut");
}

const ATTACKS: &[(&str, Attack)] = &[
    ("the log unlinked", |store| {
        fs::remove_file(beside(store, "-wal")).expect("it is there");
    }),
    ("the log cut to nothing", |store| {
        cut(&beside(store, "-wal"), 0);
    }),
    ("the log cut in half", |store| {
        let log = beside(store, "-wal");
        let len = fs::metadata(&log).expect("it is there").len();
        cut(&log, len / 2);
    }),
    ("the database unlinked", |store| {
        fs::remove_file(store).expect("it is there");
    }),
    ("the database replaced by a copy", |store| {
        let copy = beside(store, ".copy");
        fs::copy(store, &copy).expect("there is room");
        fs::rename(copy, store).expect("it can be replaced");
    }),
    ("the database replaced by an empty file", |store| {
        let empty = beside(store, ".empty");
        fs::write(&empty, "").expect("it can be written");
        fs::rename(empty, store).expect("it can be replaced");
    }),
    ("the database renamed", |store| {
        fs::rename(store, beside(store, ".away")).expect("it is there");
    }),
    ("the database cut to one page", |store| cut(store, 4_096)),
    ("all its files removed", |store| {
        for suffix in ["", "-wal", "-shm"] {
            fs::remove_file(beside(store, suffix)).ok();
        }
    }),
];

pub(crate) fn groups() -> Vec<Group> {
    let group = |(name, attack): &(&str, Attack)| {
        let attack = *attack;
        let group = Group::new("A18", format!("{name} while it is used"));
        group
            .bounds(Bounds::NO_ADMIN)
            .attack(move |arena| replaced(arena, attack))
    };
    ATTACKS.iter().map(group).collect()
}

fn replaced(arena: &mut Arena, attack: Attack) {
    let store = Dir::new();
    let path = store.file("jobs.db");
    let setup = arena.setup().config(&config(&path));
    arena.start(setup);
    let mut client = arena.client();
    crate::arena::pause(&mut client, "q");
    for _ in 0..5 {
        client.push(&Request::push("q", "ok"));
    }
    attack(&path);
    let mut accepted = Vec::new();
    for _ in 0..10 {
        let id = client.send(&Request::push("q", "ok"));
        match client.try_answer(id) {
            Some(answer) if answer.status() == Status::OK => accepted.push(answer.text()),
            Some(answer) => assert!(!answer.text().is_empty(), "it says why"),
            None => break,
        }
    }
    // Whatever happens to the server, the jobs that it accepted are in the file with that name.
    procs::kill(arena.app().angel());
    for pid in arena.app().processes() {
        procs::wait_for_exit(pid, 5.0);
    }
    arena.abandon();
    if accepted.is_empty() {
        return;
    }
    let setup = arena.setup().config(&config(&path));
    arena.start(setup);
    let mut client: Client = arena.client();
    for id in accepted {
        client.job(&id);
    }
}
