//! Bytes of the store are changed while it is not open: `store check` must find the damage, and a server must set the
//! damaged job aside at its start and serve the others.

use super::config;
use crate::arena::{Arena, pause, resume};
use crate::bounds::Bounds;
use crate::case::Group;
use crate::random::Random;
use std::fs;
use std::path::Path;
use stoker_testkit::{Dir, Request, Spawn, run, until};
use stoker_wire::Key;

const JOBS: usize = 40;

/// The part of a job that is damaged. Each text occurs once in the file.
const TARGETS: &[(&str, &str)] = &[
    ("a payload", "payload-17-"),
    ("a unique key", "unique-17-"),
    ("a tenant", "tenant-17-"),
    ("a type", "type-17-"),
    ("metadata", "meta-17-"),
];

pub(crate) fn groups(seed: u64) -> Vec<Group> {
    let mut check = Group::new("A19", "store check after damage").bounds(Bounds::NO_ADMIN);
    for (name, target) in TARGETS {
        for bit in [0x01, 0x20, 0x80] {
            check.add(format!("bit {bit:#04x} of {name} flipped"), move |arena| {
                let (_dir, path) = made(arena);
                flip(&path, target, bit);
                is_found(arena, &path);
            });
        }
    }
    for number in 0..6 {
        check.add(format!("a page of zeros, draw {number}"), move |arena| {
            let (_dir, path) = made(arena);
            let mut bytes = fs::read(&path).expect("it is there");
            let mut random = Random::new(seed, &format!("page {number}"));
            // Pages that are all zero already belong to no job.
            let pages: Vec<usize> = (1..bytes.len() / 4_096)
                .filter(|page| bytes[page * 4_096..][..4_096].iter().any(|byte| *byte != 0))
                .collect();
            let page = random.pick(&pages);
            bytes[page * 4_096..][..4_096].fill(0);
            fs::write(&path, bytes).expect("it can be written");
            is_found(arena, &path);
        });
    }
    check.add("its last page cut off", |arena| {
        let (_dir, path) = made(arena);
        let bytes = fs::read(&path).expect("it is there");
        fs::write(&path, &bytes[..bytes.len() - 4_096]).expect("it can be written");
        is_found(arena, &path);
    });
    let served = Group::new(
        "A19",
        "a store with a damaged payload is served without that job",
    );
    let tools = Group::new("A19", "a row that another program wrote is not damage");
    vec![
        check.bounds(Bounds {
            seconds: 90.0,
            ..Bounds::NO_ADMIN
        }),
        served.bounds(Bounds::NO_ADMIN).attack(serve_damaged),
        tools.bounds(Bounds::NO_ADMIN).attack(written_by_others),
    ]
}

/// A store with jobs that no process has open.
fn made(arena: &mut Arena) -> (Dir, std::path::PathBuf) {
    let dir = Dir::new();
    let path = dir.file("jobs.db");
    // The store is made once for all cases of the group.
    let kept = std::env::temp_dir().join(format!("stoker-attack-store-{}", std::process::id()));
    if !kept.exists() {
        make(arena, &path);
        fs::copy(&path, &kept).expect("there is room");
    }
    fs::copy(&kept, &path).expect("there is room");
    (dir, path)
}

fn make(arena: &mut Arena, path: &Path) {
    let setup = arena.setup().config(&config(path));
    arena.start(setup);
    let mut client = arena.client();
    pause(&mut client, "q");
    for number in 0..JOBS {
        let text = |what: &str| format!("{what}-{number}-{number}");
        let push = Request::push("q", format!("note {number};ok payload-{number}-"));
        let push = push.key(&text("tenant")).meta(Key::UNIQUE, text("unique"));
        client.push(
            &push
                .meta(Key::JOB_TYPE, text("type"))
                .meta(Key(0x80), text("meta")),
        );
    }
    arena.stop();
}

/// Changes a text everywhere in the file, because a page may contain remains of a row that was moved.
fn flip(path: &Path, target: &str, bit: u8) {
    let mut bytes = fs::read(path).expect("it is there");
    let places = bytes.windows(target.len()).enumerate();
    let found: Vec<usize> = places
        .filter(|(_, part)| *part == target.as_bytes())
        .map(|(at, _)| at)
        .collect();
    assert!(!found.is_empty(), "the text is in the file");
    found.into_iter().for_each(|at| bytes[at] ^= bit);
    fs::write(path, bytes).expect("it can be written");
}

fn is_found(arena: &Arena, path: &Path) {
    let store = path.display().to_string();
    let output = run(Spawn::new(&arena.binary).args(&["store", "check", "--store", &store]));
    assert_ne!(output.code, 0, "the check finds it: {}", output.stdout);
}

fn serve_damaged(arena: &mut Arena) {
    let (_dir, path) = made(arena);
    flip(&path, "payload-17-", 0x20);
    let setup = arena.setup().config(&config(&path));
    arena.start(setup);
    let mut client = arena.client();
    resume(&mut client, "q");
    until("the other jobs have run", || {
        (arena.app().dir.notes().len() >= JOBS - 1).then_some(())
    });
    let notes = arena.app().dir.notes();
    assert!(
        !notes.contains(&"17".to_owned()),
        "the damaged job was not given to a worker"
    );
    assert_eq!(notes.len(), JOBS - 1);
}

fn written_by_others(arena: &mut Arena) {
    let (_dir, path) = made(arena);
    let script = "import sqlite3, sys\ndb = sqlite3.connect(sys.argv[1])\n\
                  db.execute('UPDATE jobs SET class = 5 WHERE id = (SELECT min(id) FROM jobs)')\ndb.commit()\n";
    let store = path.display().to_string();
    let output = run(Spawn::new("python3").args(&["-c", script, &store]));
    assert_eq!(output.code, 0, "{}", output.stderr);
    let setup = arena.setup().config(&config(&path));
    arena.start(setup);
    let mut client = arena.client();
    resume(&mut client, "q");
    until("all jobs have run", || {
        (arena.app().dir.notes().len() == JOBS).then_some(())
    });
}
