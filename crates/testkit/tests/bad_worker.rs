//! Tests of the test kit itself. This file also makes `cargo test --workspace` build `bad-worker`.

use stoker_testkit::{Dir, Spawn, bad_worker, matches, procs, run};

#[test]
fn unknown_steps_are_errors() {
    let output = run(Spawn::new(bad_worker())
        .args(&["note a;wobble;note b"])
        .within(Dir::new().path()));
    assert_eq!(output.code, 64);
    assert!(
        output.stderr.contains("no step 'wobble'"),
        "{}",
        output.stderr
    );
}

#[test]
fn steps_run_in_order_until_one_ends_the_script() {
    let dir = Dir::new();
    let script = "note a;if here note no;once here;note b;if here note c,note d;once here;note e";
    let output = run(Spawn::new(bad_worker()).args(&[script]).within(dir.path()));
    assert_eq!(output.code, 0, "{}", output.stderr);
    assert_eq!(dir.notes(), ["a", "b", "c", "d"]);
}

#[test]
fn a_signal_ends_the_worker() {
    for (script, code) in [("segv", 139), ("kill", 137), ("abort", 134), ("exit 7", 7)] {
        let output = run(Spawn::new(bad_worker()).args(&[script]));
        assert_eq!(output.code, code, "{script}");
    }
}

#[test]
fn processes_are_found_by_their_mark() {
    let dir = Dir::new();
    // The kernel shows a program's environment only some time after `spawn` has returned, so the test searches for the
    // processes after both have come to the gate.
    let start = |value: &str| {
        let gate = dir.gate(value);
        let script = format!("gate {value};silence");
        let spawn = Spawn::new(bad_worker()).args(&[&script]).within(dir.path());
        let child = spawn.env("BAD_WORKER_TEST", value).start();
        drop(gate.wait_for_worker());
        child
    };
    let (mut one, mut other) = (start("this"), start("other"));
    let pid = one.id() as i32;
    assert_eq!(procs::marked("BAD_WORKER_TEST=this"), [pid]);
    procs::kill(pid);
    assert!(procs::wait_for_exit(pid, 5.0));
    assert!(!procs::is_alive(pid), "a zombie is not alive");
    assert!(procs::marked("BAD_WORKER_TEST=this").is_empty());
    procs::kill(other.id() as i32);
    one.wait().expect("it has ended");
    other.wait().expect("it has ended");
}

#[test]
fn patterns_match_their_parts_in_order() {
    assert!(matches("p-1 died with signal 9", "p-1 died"));
    assert!(matches("p-1 died with signal 9", "p-*died*9"));
    assert!(!matches("p-1 died with signal 9", "9*died"));
    assert!(!matches("p-1 died", "p-1 died*died"));
}
