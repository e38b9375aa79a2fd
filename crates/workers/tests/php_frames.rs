//! The wire codec and the loop of the PHP host, checked with the golden vectors of `sdk/conformance`.

use serde_json::Value;
use std::fmt::Write;
use std::io::{Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::process::Stdio;
use stoker_testkit::{Inbox, Spawn, php_host, repository, run};

/// Faults that an SDK need not detect, besides those of the JSON in HELLO: `sdk/conformance/README.md`.
const SERVER_CHECKS: [&str; 6] = [
    "bad_meta_value",
    "bad_id",
    "bad_name",
    "bad_hello",
    "no_credit",
    "not_zero",
];

/// What the program prints for each of these frames, given in hexadecimal digits.
fn read(frames: &[String]) -> Vec<String> {
    let program = php_host().with_file_name("stoker-php-frames");
    let spawn = Spawn::new(program)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped());
    let mut child = spawn.start();
    let mut input = child.stdin.take().expect("it is a pipe");
    let lines = frames.join("\n") + "\n";
    let writer = std::thread::spawn(move || input.write_all(lines.as_bytes()));
    let output = child.wait_with_output().expect("it ends");
    let written = writer.join().expect("it does not panic");
    assert!(written.is_ok() && output.status.success());
    let text = String::from_utf8(output.stdout).expect("it is text");
    text.lines().map(str::to_owned).collect()
}

fn vectors() -> Value {
    let path = repository().join("sdk/conformance/frames.json");
    let text = std::fs::read_to_string(path).expect("it can be read");
    serde_json::from_str(&text).expect("it is JSON")
}

fn list<'a>(vectors: &'a Value, name: &str) -> &'a Vec<Value> {
    vectors[name].as_array().expect("a list")
}

fn text(value: &Value) -> &str {
    value.as_str().expect("a string")
}

fn body(frame: &Value) -> String {
    match frame["body_repeat"].as_array() {
        Some(repeat) => text(&repeat[0]).repeat(repeat[1].as_u64().expect("a number") as usize),
        None => text(&frame["body_hex"]).to_owned(),
    }
}

/// The whole frame in hexadecimal digits. The longest one would take long to compare as text.
fn whole(vector: &Value) -> Option<String> {
    let frame = &vector["frame"];
    let appended = match frame["body_repeat"].is_array() {
        true => body(frame),
        false => String::new(),
    };
    (appended.len() < 1 << 20).then(|| text(&vector["hex"]).to_owned() + &appended)
}

fn expected(frame: &Value) -> String {
    let mut line = String::new();
    for field in ["type", "flags", "code", "prio", "id", "ttl", "attempt"] {
        write!(line, "{} ", frame[field]).expect("a text");
    }
    write!(line, "{} [", text(&frame["name"])).expect("a text");
    for entry in frame["meta"].as_array().expect("a list") {
        write!(line, "{}:{},", entry[0], text(&entry[1])).expect("a text");
    }
    line + "] " + &body(frame)
}

#[test]
fn reads_and_writes_valid_frames() {
    let vectors = vectors();
    for (name, writes) in [("valid", true), ("decode_only", false)] {
        let all = list(&vectors, name).iter();
        let all: Vec<_> = all
            .filter_map(|vector| Some((vector, whole(vector)?)))
            .collect();
        let frames: Vec<_> = all.iter().map(|(_, hex)| hex.clone()).collect();
        let got = read(&frames);
        assert_eq!(got.len(), all.len());
        for ((vector, hex), got) in all.iter().zip(got) {
            let what = text(&vector["name"]);
            let (start, _) = got.rsplit_once(' ').expect("a key at the end");
            let expected = expected(&vector["frame"]);
            let start = start.strip_prefix(&expected);
            let start = start.unwrap_or_else(|| panic!("{what}: {got} is not {expected}"));
            if writes {
                assert_eq!(start.trim_start(), hex, "{what}");
            }
        }
    }
}

#[test]
fn rejects_invalid_frames() {
    let vectors = vectors();
    let all = list(&vectors, "invalid").iter();
    let all: Vec<_> = all
        .filter(|vector| !SERVER_CHECKS.contains(&text(&vector["error"])))
        .filter(|vector| !text(&vector["name"]).starts_with("hello:"))
        .collect();
    let frames: Vec<_> = all
        .iter()
        .map(|vector| text(&vector["hex"]).to_owned())
        .collect();
    for (vector, got) in all.iter().zip(read(&frames)) {
        assert_eq!(got, "invalid", "{}", text(&vector["name"]));
    }
}

#[test]
fn knows_the_keys_of_critical_frames() {
    let vectors = vectors();
    let all = list(&vectors, "critical");
    let frames: Vec<_> = all
        .iter()
        .map(|vector| text(&vector["hex"]).to_owned())
        .collect();
    for (vector, got) in all.iter().zip(read(&frames)) {
        let unknown = vector["unknown"].as_u64().unwrap_or(0).to_string();
        let key = got.rsplit(' ').next();
        assert_eq!(key, Some(unknown.as_str()), "{}", text(&vector["name"]));
    }
}

/// The frames with the microseconds that tasks ran set to 0.
fn without_times(hex: &str) -> String {
    format!("{}00000000{}", &hex[..24], &hex[32..])
}

/// Exchanges in which ids are used again. The script answers with its payload.
#[test]
fn distinguishes_a_late_cancel_from_an_early_one() {
    let vectors = repository().join("sdk/conformance/worker.json");
    let vectors = std::fs::read(vectors).expect("it can be read");
    let vectors: Value = serde_json::from_slice(&vectors).expect("it is JSON");
    let script = repository().join("tests/php-behaviour/echo.php");
    for exchange in list(&vectors, "reused") {
        let (mut socket, theirs) = UnixStream::pair().expect("a pair of sockets can be made");
        let spawn = Spawn::new(php_host()).args(&["-n", &script.to_string_lossy()]);
        let spawn = spawn.env("STOKER_FD", "0").stdin(OwnedFd::from(theirs));
        let mut child = spawn.start();
        let mut inbox =
            Inbox::of(socket.try_clone().expect("a socket can be cloned")).with_deadline();
        let hello = inbox.receive().expect("a frame").expect("HELLO");
        assert_eq!(hello.kind, stoker_wire::Type::Hello);
        for step in exchange["steps"].as_array().expect("a list") {
            let hex = |key: &str| step[key].as_array().cloned().unwrap_or_default();
            let sent: String = hex("to").iter().map(text_of).collect();
            socket.write_all(&from_hex(&sent)).expect("it reads");
            for expected in hex("from") {
                let mut got = vec![0; text_of(&expected).len() / 2];
                socket.read_exact(&mut got).expect("an answer");
                let got: String = got.iter().map(|byte| format!("{byte:02x}")).collect();
                let what = text(&exchange["name"]);
                assert_eq!(without_times(&got), text_of(&expected), "{what}");
            }
        }
        drop((socket, inbox));
        assert!(child.wait().expect("it ends").success());
    }
}

fn text_of(value: &Value) -> String {
    text(value).to_owned()
}

fn from_hex(hex: &str) -> Vec<u8> {
    let pairs = hex.as_bytes().chunks(2);
    let digits = pairs.map(|pair| std::str::from_utf8(pair).expect("it is ASCII"));
    digits
        .map(|pair| u8::from_str_radix(pair, 16).expect("hexadecimal digits"))
        .collect()
}

/// Mutated requests and random frames, with the sanitizers of the C compiler.
#[test]
fn hostile_input_harms_nothing() {
    let program = php_host().with_file_name("stoker-php-hostile");
    for seed in ["1", "2", "3"] {
        let output = run(Spawn::new(&program).args(&[seed]));
        assert_eq!(
            output.code, 0,
            "seed {seed}: {}{}",
            output.stdout, output.stderr
        );
    }
}
