//! The configuration: each key with values of a wrong type, misspelled names, and paths that are not regular files; and
//! reloads.

mod keys;
mod reload;

use crate::arena::Arena;
use crate::bounds::Bounds;
use crate::case::Group;
use stoker_testkit::{Dir, Output, bad_worker};

pub(crate) fn groups() -> Vec<Group> {
    let mut groups = keys::groups();
    groups.extend(reload::groups());
    groups.push(scripts());
    groups.push(files());
    groups
}

/// Runs `stoker check` on a configuration.
fn check(arena: &Arena, toml: &str) -> Output {
    let dir = Dir::new();
    dir.write("stoker.toml", toml);
    arena.stoker(dir.path(), &["check"])
}

/// A command that can't work is found before it is started.
fn scripts() -> Group {
    let worker = bad_worker();
    let cases = [
        (
            "a script that is not there",
            "[pool.p]\ncommand = [\"php\", \"no-such-worker.php\"]\n".to_owned(),
        ),
        (
            "a program that is not there",
            "[pool.p]\ncommand = [\"/no/such/program\"]\n".to_owned(),
        ),
        (
            "a program that cannot be executed",
            "[pool.p]\ncommand = [\"/etc/passwd\"]\n".to_owned(),
        ),
        (
            "a directory that is not there",
            format!("[pool.p]\ncommand = [{worker:?}, \"serve\"]\ndirectory = \"nowhere\"\n"),
        ),
        (
            "a minimum above its maximum",
            format!("[pool.p]\ncommand = [{worker:?}]\nworkers = {{ min = 5, max = 2 }}\n"),
        ),
        (
            "a reserve above the minimum",
            format!("[pool.p]\ncommand = [{worker:?}]\nworkers = 1\n[queue.q]\nreserve = 3\n"),
        ),
        (
            "a queue of no pool",
            format!("[pool.p]\ncommand = [{worker:?}]\n[queue.q]\npool = \"x\"\n"),
        ),
        (
            "a user that is not there",
            format!("[pool.p]\ncommand = [{worker:?}]\nuser = \"no-such-user\"\n"),
        ),
    ];
    let mut group = Group::new("A27", "check of what can not work").bounds(Bounds::NO_ADMIN);
    for (name, toml) in cases {
        group.add(name, move |arena| {
            let output = check(arena, &toml);
            let said = format!("{}{}", output.stdout, output.stderr);
            assert!(
                output.code != 0 || said.contains("warning"),
                "it says so: {said}"
            );
        });
    }
    group
}

/// Creates something in place of the configuration.
type Make = fn(&Dir);

/// Files that are not a configuration.
fn files() -> Group {
    let mut group =
        Group::new("A27", "a configuration that is not a file").bounds(Bounds::NO_ADMIN);
    let cases: [(&str, Make); 8] = [
        ("missing", |_| {}),
        ("empty", |dir| drop(dir.write("stoker.toml", ""))),
        ("a directory", |dir| {
            std::fs::create_dir(dir.file("stoker.toml")).expect("it is new");
        }),
        ("zeros", |dir| drop(dir.write("stoker.toml", [0; 5_000]))),
        ("not UTF-8", |dir| {
            drop(dir.write("stoker.toml", b"[pool.p]\ncommand = [\"\xff\xfe\"]\n"));
        }),
        ("1,000 levels", |dir| {
            drop(dir.write(
                "stoker.toml",
                format!("a = {}{}", "[".repeat(1_000), "]".repeat(1_000)),
            ));
        }),
        ("20 MB of comments", |dir| {
            drop(dir.write("stoker.toml", "# comment\n".repeat(2_000_000)));
        }),
        ("a symlink to itself", |dir| {
            std::os::unix::fs::symlink("stoker.toml", dir.file("stoker.toml")).expect("it is new");
        }),
    ];
    for (name, make) in cases {
        group.add(name, move |arena| {
            let dir = Dir::new();
            make(&dir);
            let output = arena.stoker(dir.path(), &["check"]);
            assert_eq!(output.code, 78, "{}", output.stderr);
            assert!(
                output.stderr.contains("stoker.toml"),
                "it names the file: {}",
                output.stderr
            );
            assert!(output.stderr.len() < 4_096, "in a few words");
        });
    }
    group
}
