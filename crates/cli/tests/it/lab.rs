//! `stoker lab`, which starts servers, measures them, and leaves nothing behind.

use rustix::process::Signal;
use serde_json::{Value, json};
use std::fs::{self, File};
use std::path::Path;
use std::process::Child;
use stoker_testkit::{Dir, Output, Spawn, php_host, procs, run, until};

/// An environment variable that marks all processes of a test.
const MARK: &str = "LAB_TEST";

fn lab(dir: &Dir, args: &[&str]) -> Spawn {
    php_host();
    let args = [&["lab", "isolation"], args].concat();
    let temporary = dir.file("tmp");
    fs::create_dir_all(&temporary).expect("a folder can be made");
    let spawn = Spawn::new(env!("CARGO_BIN_EXE_stoker"))
        .args(&args)
        .within(dir.path());
    spawn.env("TMPDIR", &temporary).env(MARK, dir.path())
}

#[track_caller]
fn nothing_is_left(dir: &Dir) {
    let mark = format!("{MARK}={}", dir.path().display());
    let left: Vec<String> = procs::marked(&mark)
        .into_iter()
        .map(procs::command)
        .collect();
    assert!(left.is_empty(), "{left:?}");
    let files: Vec<_> = fs::read_dir(dir.file("tmp"))
        .expect("it is there")
        .flatten()
        .map(|entry| entry.path())
        .collect();
    assert!(files.is_empty(), "{files:?}");
}

/// What the lab prints if it can measure.
#[track_caller]
fn measured(dir: &Dir, args: &[&str]) -> String {
    let Output {
        code,
        stdout,
        stderr,
    } = run(lab(dir, args));
    assert_eq!((code, stderr.as_str()), (0, ""), "{stdout}");
    nothing_is_left(dir);
    stdout
}

fn is_isolated(verdicts: &Value) -> Vec<bool> {
    let names = [
        "globals",
        "statics",
        "constants",
        "settings",
        "memory",
        "connections",
        "persistent_connections",
        "crash",
    ];
    names
        .iter()
        .map(|name| {
            verdicts[name]
                .as_bool()
                .unwrap_or_else(|| panic!("{name}: {verdicts}"))
        })
        .collect()
}

#[test]
fn every_strategy_has_a_row_with_figures_and_what_it_isolates() {
    let dir = Dir::new();
    let args = [
        "--rounds",
        "1",
        "--seconds",
        "0.1",
        "--strategies",
        "loop,snapshot,sapi,exec",
        "--html",
        "lab.html",
        "--json",
    ];
    let stdout = measured(&dir, &args);
    let report: Value = serde_json::from_str(&stdout).expect("JSON");
    assert_eq!(
        (&report["application"], &report["rounds"]),
        (&json!("hello"), &json!(1))
    );
    let rows = report["rows"].as_array().expect("rows");
    let names: Vec<&str> = rows.iter().filter_map(|row| row["name"].as_str()).collect();
    assert_eq!(names, ["loop", "snapshot", "sapi", "exec", "loop again"]);
    let page = fs::read_to_string(dir.file("lab.html")).expect("the page is there");
    for row in rows {
        assert_eq!(
            (&row["not_measured"], &row["failed"]),
            (&Value::Null, &json!(0)),
            "{row}"
        );
        for (name, figure) in row["figures"].as_object().expect("figures") {
            // How many requests there are depends on the machine, and CPU time is counted in ticks of 10 ms.
            let may_be_missing = matches!(name.as_str(), "p99_us" | "cpu_us")
                || (row["name"] == "exec" && name.starts_with("worker"));
            if !may_be_missing {
                assert!(
                    figure["median"].as_f64().is_some_and(|median| median > 0.0),
                    "{name}: {row}"
                );
            }
        }
        assert!(
            page.contains(&format!("<th>{}", row["name"].as_str().expect("a name"))),
            "{row}"
        );
    }
    let expected = [
        vec![false, false, false, false, false, false, false, true],
        vec![true; 8],
        vec![true, true, true, true, true, true, false, true],
        vec![true; 8],
    ];
    for (row, expected) in rows.iter().zip(expected) {
        assert_eq!(row["isolation"]["measured"], true, "{row}");
        assert_eq!(
            is_isolated(&row["isolation"]["isolated"]),
            expected,
            "{row}"
        );
    }
    assert_eq!(rows[3]["task"], "call");
}

#[test]
fn what_cannot_be_measured_has_a_reason() {
    let dir = Dir::new();
    let front = dir.file("app/public");
    fs::create_dir_all(&front).expect("a folder can be made");
    fs::write(front.join("index.php"), "<?php echo 'it works';").expect("it can be written");
    fs::write(
        dir.file("app/snapshot.php"),
        "<?php throw new DomainException('no database');",
    )
    .expect("it can be written");
    let args = [
        "--app",
        "app",
        "--rounds",
        "1",
        "--seconds",
        "0.1",
        "--strategies",
        "spare,snapshot,sapi",
    ];
    let stdout = measured(&dir, &args);
    for text in [
        "spare: not measured: the application has no worker.php",
        "snapshot: not measured: its workers can't start",
        "no database",
        "sapi again",
        "documented",
    ] {
        assert!(stdout.contains(text), "{text}: {stdout}");
    }
}

#[test]
fn bad_options_are_rejected_before_anything_is_started() {
    let dir = Dir::new();
    for (args, code, reason) in [
        (
            &["--strategies", "lop"][..],
            2,
            "unknown strategy \"lop\" in --strategies: expected some of loop, spare",
        ),
        (&["--strategies", "loop,loop"], 2, "names loop twice"),
        (
            &["--rounds", "0"],
            2,
            "invalid --rounds 0: expected 1 to 50",
        ),
        (
            &["--seconds", "0.01"],
            2,
            "invalid --seconds 0.01: expected 0.1 to 60",
        ),
        (
            &["--workers", "65"],
            2,
            "invalid --workers 65: expected 1 to 64",
        ),
        (&["--app", "nowhere"], 2, "nowhere/public/index.php"),
        (&["--path", "orders"], 2, "invalid --path \"orders\""),
        (
            &["--html", "nowhere/lab.html"],
            2,
            "set --html to a file in a directory that exists",
        ),
        (
            &["--socket", "stoker.sock"],
            2,
            "`stoker lab` starts servers of its own",
        ),
    ] {
        let output = run(lab(&dir, args));
        assert_eq!(
            (output.code, output.stdout.as_str()),
            (code, ""),
            "{args:?}: {}",
            output.stderr
        );
        assert!(
            output.stderr.contains(reason),
            "{args:?}: {}",
            output.stderr
        );
    }
    nothing_is_left(&dir);
}

/// A lab that measures a server, and its pid.
fn measuring(dir: &Dir) -> (Child, i32) {
    let out = File::create(dir.file("out")).expect("a file can be made");
    let child = lab(dir, &["--seconds", "60", "--strategies", "loop"])
        .stdout(out)
        .start();
    let pid = child.id() as i32;
    until("a server runs", || {
        (!procs::children(pid).is_empty()).then_some(())
    });
    (child, pid)
}

#[test]
fn a_signal_ends_it_and_all_servers() {
    let dir = Dir::new();
    let (mut child, pid) = measuring(&dir);
    procs::signal(pid, Signal::INT);
    assert!(procs::wait_for_exit(pid, 30.0));
    assert_eq!(child.wait().expect("it is a child").code(), Some(130));
    assert!(Path::new(&dir.file("tmp")).is_dir());
    nothing_is_left(&dir);
}

#[test]
fn servers_end_if_it_is_killed() {
    let dir = Dir::new();
    let (mut child, pid) = measuring(&dir);
    procs::signal(pid, Signal::KILL);
    child.wait().expect("it is a child");
    let mark = format!("{MARK}={}", dir.path().display());
    until("all servers have ended", || {
        procs::marked(&mark).is_empty().then_some(())
    });
}
