//! Text from users reaches the terminal and the log only without control characters.

use crate::arena::Arena;
use crate::case::Group;
use serde_json::json;
use stoker_testkit::{Request, pool_of};
use stoker_wire::{Codec, Key};

/// Names, and the text that is put into every field.
const EVIL: &[(&str, &str)] = &[
    ("clear the screen", "a\u{1b}[2Jb"),
    ("a title of the window", "a\u{1b}]0;owned\u{7}b"),
    ("carriage return", "real\rfake"),
    ("line feed", "line\n2026-01-01T00:00:00Z info forged"),
    ("backspace", "a\u{8}\u{8}b"),
    ("zero", "a\0b"),
    ("delete", "a\u{7f}b"),
    ("C1 control", "a\u{9b}2Jb"),
    ("right-to-left override", "a\u{202e}b"),
    ("a separator of lines", "a\u{2028}b"),
];

pub(crate) fn groups() -> Vec<Group> {
    let mut groups = Vec::new();
    for (name, evil) in EVIL {
        let config = pool_of(
            "serve",
            "workers = 1\n[queue.q]\n[log]\nfile = \"stoker.log\"",
        );
        let mut group = Group::new("A15", format!("text with {name}")).config(config);
        group.add("a job that fails", move |arena| failed_job(arena, evil));
        group.add("a crash with last words", move |arena| crash(arena, evil));
        group.add("output of a worker", move |arena| output(arena, evil));
        group.add("a name that is asked for", move |arena| {
            wrong_names(arena, evil);
        });
        group.add("an import", move |arena| import(arena, evil));
        groups.push(group);
    }
    groups
}

fn is_evil(letter: char) -> bool {
    let unseen = matches!(letter, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{2028}' | '\u{2029}');
    unseen || (letter.is_control() && letter != '\n')
}

#[track_caller]
fn is_harmless(what: &str, text: &str) {
    let found = text.lines().find(|line| line.chars().any(is_evil));
    assert!(found.is_none(), "{what} prints {found:?}");
    assert!(
        !text.lines().any(|line| line.starts_with("2026-01-01")),
        "{what} prints a forged line"
    );
}

/// Checks every table of the command line, and the log.
#[track_caller]
fn nothing_is_printed(arena: &Arena, id: Option<&str>) {
    let app = arena.app();
    for args in [
        &["jobs", "list"][..],
        &["jobs", "list", "--state", "failed"],
        &["jobs", "failures"],
        &["queues"],
        &["workers"],
        &["quarantine", "list"],
    ] {
        let output = app.cli(args);
        is_harmless(
            &args.join(" "),
            &format!("{}{}", output.stdout, output.stderr),
        );
    }
    if let Some(id) = id {
        let output = app.cli(&["jobs", "show", id]);
        is_harmless("jobs show", &format!("{}{}", output.stdout, output.stderr));
    }
    let log = std::fs::read(app.dir.file("stoker.log")).unwrap_or_default();
    is_harmless("the log", &String::from_utf8_lossy(&log));
}

fn failed_job(arena: &mut Arena, evil: &str) {
    let mut client = arena.client();
    let push = Request::push("q", format!("stdout {evil};fail 64 {evil}"));
    let push = push
        .meta(Key::JOB_TYPE, evil)
        .key(evil)
        .meta(Key::UNIQUE, evil);
    let id = client.push(&push);
    client.job_in(&id, "failed");
    nothing_is_printed(arena, Some(&id));
}

fn crash(arena: &mut Arena, evil: &str) {
    let mut client = arena.client();
    let words = json!({"class": evil, "message": evil, "file": evil, "line": 1}).to_string();
    client.call("t.run", &format!("last-words {words};stderr {evil};exit 9"));
    nothing_is_printed(arena, None);
}

fn output(arena: &mut Arena, evil: &str) {
    let mut client = arena.client();
    let script = format!(
        "stdout {evil};stderr {evil};log {evil};progress {{\"percent\":1,\"text\":{evil:?}}}"
    );
    client.push(&Request::push("q", script));
    crate::arena::drained(&mut client, "q");
    nothing_is_printed(arena, None);
}

fn wrong_names(arena: &mut Arena, evil: &str) {
    if evil.contains('\0') {
        return; // No argument can contain a zero byte.
    }
    let app = arena.app();
    for args in [
        &["pause", evil][..],
        &["scale", evil, "2"],
        &["jobs", "list", "--queue", evil],
        &["jobs", "show", evil],
        &["call", evil],
        &["push", evil, "{}"],
        &["jobs", "list", "--state", evil],
        &["check", evil],
    ] {
        let output = app.cli(args);
        is_harmless(args[0], &format!("{}{}", output.stdout, output.stderr));
    }
    nothing_is_printed(arena, None);
}

/// An import checks a queue's name as a push does; all other texts are escaped in output.
fn import(arena: &mut Arena, evil: &str) {
    let mut client = arena.client();
    let error = json!({"class": evil, "message": evil, "place": evil, "at_ms": 1});
    let job = json!({"queue": "q", "state": "failed", "priority": 3, "codec": 1, "body": evil,
        "options": {"type": evil}, "key": evil, "error": error});
    let mut named = job.clone();
    named["queue"] = json!(evil);
    let ask = json!({"op": "import", "jobs": [named]});
    assert!(
        client.try_call_server("stoker.job", &ask).is_err(),
        "there is no such name"
    );
    client.request(
        &Request::call(
            "stoker.job",
            json!({"op": "import", "jobs": [job]}).to_string(),
        )
        .codec(Codec::JSON),
    );
    nothing_is_printed(arena, None);
}
