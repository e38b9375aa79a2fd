//! A second Stoker can't open a store under any of its names; a file that is not a store is rejected.

use super::{config, refused};
use crate::arena::Arena;
use crate::bounds::Bounds;
use crate::case::Group;
use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use stoker_testkit::{Dir, Request, Spawn, as_nobody, run};

/// Makes another path to the store, and returns it.
type Way = fn(&Path, &Path) -> PathBuf;

const WAYS: &[(&str, Way)] = &[
    ("its own path", |store, _| store.to_owned()),
    ("a symlink", |store, dir| {
        symlink(store, dir.join("link.db")).expect("it is new");
        dir.join("link.db")
    }),
    ("a symlinked directory", |store, dir| {
        symlink(
            store.parent().expect("a file has a directory"),
            dir.join("linked"),
        )
        .expect("it is new");
        dir.join("linked/jobs.db")
    }),
    ("a chain of symlinks", |store, dir| {
        symlink(store, dir.join("one.db")).expect("it is new");
        symlink("one.db", dir.join("two.db")).expect("it is new");
        dir.join("two.db")
    }),
    ("a hard link", |store, dir| {
        fs::hard_link(store, dir.join("hard.db")).expect("it is new");
        dir.join("hard.db")
    }),
    ("its path, the lock removed", |store, _| {
        remove_locks(store);
        store.to_owned()
    }),
    ("a hard link, the lock removed", |store, dir| {
        remove_locks(store);
        fs::hard_link(store, dir.join("hard.db")).expect("it is new");
        dir.join("hard.db")
    }),
    ("a new name, the file renamed", |store, dir| {
        fs::rename(store, dir.join("moved.db")).expect("it is there");
        dir.join("moved.db")
    }),
];

fn remove_locks(store: &Path) {
    let folder = fs::read_dir(store.parent().expect("a file has a directory"));
    let files = folder.expect("it is there").flatten();
    let locks = files.filter(|file| file.file_name().to_string_lossy().contains("lock"));
    locks.for_each(|lock| fs::remove_file(lock.path()).expect("it is there"));
}

/// Creates something in place of the store.
type Thing = fn(&Path);

const THINGS: &[(&str, Thing)] = &[
    ("a FIFO", |path| {
        let output = run(Spawn::new("mkfifo").args(&[&path.display().to_string()]));
        assert_eq!(output.code, 0);
    }),
    ("a directory", |path| {
        fs::create_dir(path).expect("it is new");
    }),
    ("a symlink to /dev/zero", |path| {
        symlink("/dev/zero", path).expect("it is new");
    }),
    ("a symlink to /dev/full", |path| {
        symlink("/dev/full", path).expect("it is new");
    }),
    ("a symlink to itself", |path| {
        symlink(path, path).expect("it is new");
    }),
    ("a text", |path| {
        fs::write(path, "this is no database at all\n".repeat(20)).expect("it is new");
    }),
    ("a socket", |path| {
        drop(std::os::unix::net::UnixListener::bind(path).expect("it is new"));
    }),
];

pub(crate) fn groups() -> Vec<Group> {
    let mut groups: Vec<Group> = WAYS
        .iter()
        .map(|(name, way)| {
            let group = Group::new("A2", format!("a second Stoker on a store by {name}"));
            group
                .bounds(Bounds::NO_ADMIN)
                .attack(|arena| second(arena, *way))
        })
        .collect();
    let mut things = Group::new("A21", "a store that is not a file").bounds(Bounds::NO_ADMIN);
    for (name, make) in THINGS {
        things.add(name, |arena| {
            let dir = Dir::new();
            let path = dir.file("jobs.db");
            make(&path);
            dir.write("stoker.toml", config(&path));
            let (code, said) = refused(&arena.binary, dir.path()).expect("it does not start");
            assert_eq!(code, 78, "{said}");
            assert!(said.contains("jobs.db"), "it names the file: {said}");
        });
    }
    groups.push(things);
    groups.push(links());
    groups
}

/// A directory that only its owner can write to.
fn own_dir() -> Dir {
    let dir = Dir::new();
    fs::set_permissions(dir.path(), Permissions::from_mode(0o755)).expect("it is ours");
    dir
}

fn second(arena: &mut Arena, way: Way) {
    let (store, other) = (own_dir(), own_dir());
    let path = store.file("jobs.db");
    let setup = arena.setup().config(&config(&path));
    let server = arena.start(setup).server();
    let mut client = arena.client();
    client.push(&Request::push("q", "ok"));
    let by = way(&path, other.path());
    other.write("stoker.toml", config(&by));
    let (code, said) = refused(&arena.binary, other.path()).expect("the second one is refused");
    assert_eq!(code, 78, "{said}");
    assert!(
        said.contains(&server.to_string()),
        "it names the process {server}: {said}"
    );
    // The first Stoker continues, unless its file has another name now.
    if path.exists() {
        client.push(&Request::push("q", "ok"));
    }
}

/// A symlink works if only its owner can change it, and is rejected if others can.
fn links() -> Group {
    let group = Group::new("A2", "a store behind a symlink").bounds(Bounds::NO_ADMIN);
    let through = |arena: &mut Arena, mode: u32| {
        let (store, links) = (Dir::new(), Dir::new());
        fs::set_permissions(store.path(), Permissions::from_mode(0o755)).expect("it is ours");
        let link = links.file("link.db");
        symlink(store.file("jobs.db"), &link).expect("it is new");
        fs::set_permissions(links.path(), Permissions::from_mode(mode)).expect("it is ours");
        if mode == 0o777 {
            // Without this check the test would not prove that others can write there.
            let other = links.file("by-nobody");
            as_nobody(|| fs::write(&other, "").expect("others may write there"));
        }
        let dir = Dir::new();
        dir.write("stoker.toml", config(&link));
        refused(&arena.binary, dir.path())
    };
    group
        .case("in a directory of its owner", move |arena| {
            assert!(through(arena, 0o755).is_none(), "it serves");
        })
        .case("in a directory that others can write to", move |arena| {
            let (code, said) = through(arena, 0o777).expect("it is refused");
            assert_eq!(code, 78, "{said}");
        })
}
