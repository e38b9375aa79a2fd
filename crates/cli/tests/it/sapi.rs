//! PHP scripts that run in the PHP host: calls, jobs, and requests of sites. The scripts are in `tests/php-behaviour`.

use crate::setup;
use serde_json::{Value, json};
use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use stoker_testkit::{App, Client, Http, Request, Spawn, php_host, procs, repository, run, until};
use stoker_wire::{Key, Status};

fn script(name: &str) -> String {
    let path = repository().join("tests/php-behaviour").join(name);
    path.to_string_lossy().into_owned()
}

fn config(keys: &str) -> String {
    let script = script("task.php");
    format!(
        "[pool.p]\ncommand = [\"-d\", \"display_errors=0\", {script:?}, \"one\", \"two\"]\nstrategy = \"sapi\"\n\
         workers = 1\n{keys}\n[queue.q]\npool = \"p\"\nbackoff = [\"0s\"]\n[service.s]\npool = \"p\"\n"
    )
}

/// A pool with one worker that runs `task.php`.
fn start(keys: &str) -> App {
    php_host();
    setup().config(&config(keys)).start()
}

fn job(client: &mut Client, body: &str, tries: u16) -> String {
    client.push(&Request::push("q", body).meta(Key::TRIES, tries.to_be_bytes()))
}

/// The pid that a script has written into a file.
fn pid_in(app: &App, file: &str) -> i32 {
    until("the script has begun", || {
        let text = fs::read_to_string(app.dir.file(file)).ok()?;
        text.parse().ok()
    })
}

#[test]
fn output_is_the_result() {
    let app = start("");
    assert_eq!(app.call("s.run", "hello").text(), "hello, s.run");
    let mut client = app.client();
    let id = job(&mut client, "hello", 1);
    assert_eq!(client.job_in(&id, "done")["result"], "hello, q");
    let id = job(&mut client, "answer", 1);
    let done = client.job_in(&id, "done");
    assert_eq!(done["result"], "given");
    assert_eq!(done["output"], "printed\nnoted\n");
    let id = job(&mut client, "large 70000", 1);
    let done = client.job_in(&id, "done");
    assert_eq!(done["result"].as_str().unwrap_or_default(), "");
    assert!(
        done["output"].to_string().contains("exceeds the maximum"),
        "{done}"
    );
    assert_eq!(app.call("s.run", "large 9000000").body.len(), 9_000_000);
    let large = app.call("s.run", "large 17000000");
    assert_eq!(large.status(), Status::EXCEPTION);
}

#[test]
fn a_script_knows_its_task() {
    let app = start("");
    let mut client = app.client();
    let id = job(&mut client, "know", 1);
    let result = client.job_in(&id, "done")["result"].to_string();
    let text: String = serde_json::from_str(&result).expect("a string");
    let known: Value = serde_json::from_str(&text).expect("JSON");
    let directory = app.dir.path();
    assert_eq!(
        known,
        json!({"payload": "know", "words": ["one", "two"], "name": "q", "id": id, "attempt": "0", "streams": true,
               "directory": directory, "sapi": "cli", "method": null})
    );
}

#[test]
fn the_end_of_a_script_decides_the_outcome() {
    let app = start("");
    let mut client = app.client();
    for (body, attempt, message, class) in [
        ("throw", 2, "no such thing", json!("DomainException")),
        ("exit 3", 2, "exit code 3", json!("EXCEPTION")),
        ("exit 75", 2, "exit code 75", json!("RETRY")),
        (
            "greedy",
            2,
            "Allowed memory size of 16777216 bytes exhausted",
            json!("E_ERROR"),
        ),
    ] {
        let id = job(&mut client, body, 2);
        let failed = client.job_in(&id, "failed");
        let text = failed["error"]["message"].as_str().unwrap_or_default();
        assert!(text.starts_with(message), "{body}: {failed}");
        assert_eq!(failed["error"]["class"], class, "{body}: {failed}");
        assert_eq!(failed["attempt"], attempt, "{body}: {failed}");
    }
    assert_eq!(app.call("s.run", "exit 75").status(), Status::EXCEPTION);
    assert_eq!(app.call("s.run", "exit 0").status(), Status::OK);
    assert_eq!(app.pool()["restarts"], 0, "the process lives on");
}

#[test]
fn nothing_is_left_behind() {
    let app = start("");
    let mut client = app.client();
    let folder = fs::read_dir(repository().join("tests/http-behaviour")).expect("it can be read");
    let names = folder.filter_map(|entry| {
        let name = entry.ok()?.file_name().into_string().ok()?;
        Some(name.strip_prefix("leak-")?.strip_suffix(".php")?.to_owned())
    });
    let names: Vec<String> = names.collect();
    assert!(names.len() > 10, "{names:?}");
    for name in names.iter().chain(&names) {
        let got = client.request(&Request::call("s.run", format!("leak {name}")));
        assert_eq!(got.text(), "clean", "{name}");
    }
    assert_eq!(app.pool()["restarts"], 0);
}

#[test]
fn a_crash_costs_one_task() {
    let app = start("");
    let mut client = app.client();
    let crash = job(&mut client, "crash", 5);
    let after = job(&mut client, "hello", 1);
    assert_eq!(client.job_in(&after, "done")["crashes"], 0);
    let failed = client.job_in(&crash, "failed");
    assert_eq!(
        (&failed["crashes"], &failed["attempt"]),
        (&json!(3), &json!(0)),
        "{failed}"
    );
    let text = failed["error"]["message"].to_string();
    assert!(
        text.contains("task.php:"),
        "the last words say where it was: {text}"
    );
    assert_eq!(app.call("s.run", "crash").status(), Status::WORKER_DIED);
    assert_eq!(app.call("s.run", "hello").status(), Status::OK);
}

#[test]
fn an_endless_loop_is_killed_and_a_call_is_interrupted() {
    let app = start("task_timeout = \"500ms\"");
    let mut client = app.client();
    let mine = app.dir.file("spin").display().to_string();
    let id = job(&mut client, &format!("spin {mine}"), 1);
    let failed = client.job_in(&id, "failed");
    let text = failed["error"]["message"].as_str().unwrap_or_default();
    assert!(text.contains("time"), "{failed}");
    let app = start("task_timeout = \"60s\"");
    let file = app.dir.file("sleep").display().to_string();
    let request = Request::call("s.run", format!("sleep {file}")).ttl(500);
    let got = app.client().request(&request);
    assert_eq!(got.status(), Status::DEADLINE_EXCEEDED);
    let pid = pid_in(&app, "sleep");
    until(
        "the script has ended, and its shutdown functions have run",
        || app.dir.file("sleep.over").exists().then_some(()),
    );
    assert_eq!(app.call("s.run", "hello").text(), "hello, s.run");
    assert!(procs::is_alive(pid), "the process lives on");
}

#[test]
fn output_without_end_harms_nobody() {
    let app = start("task_timeout = \"500ms\"");
    assert_ne!(app.call("s.run", "flood").status(), Status::OK);
    assert_eq!(app.call("s.run", "hello").text(), "hello, s.run");
}

#[test]
fn a_forked_child_does_not_answer() {
    let app = start("");
    let got = app.call("s.run", "fork");
    assert_eq!(got.text(), "the child exited with 7");
    assert_eq!(app.call("s.run", "hello").text(), "hello, s.run");
}

#[test]
fn a_script_continues_after_its_answer() {
    let app = start("");
    let file = app.dir.file("after").display().to_string();
    assert_eq!(
        app.call("s.run", &format!("finish {file}")).text(),
        "answered"
    );
    until("it went on", || {
        (fs::read_to_string(app.dir.file("after")).ok()? == "went on").then_some(())
    });
    assert_eq!(app.call("s.run", "hello").text(), "hello, s.run");
}

#[test]
fn a_reload_finishes_running_scripts() {
    let app = start("stop_grace = \"20s\"");
    let mut client = app.client();
    let before = app.pids();
    let ids: Vec<String> = (0..50).map(|_| job(&mut client, "hello", 1)).collect();
    assert_eq!(app.cli(&["reload"]).code, 0);
    for id in ids {
        let done = client.job_in(&id, "done");
        assert_eq!((&done["crashes"], &done["attempt"]), (&json!(0), &json!(1)));
    }
    assert_ne!(before, app.pids());
}

/// A site whose front controller is `page.php`.
fn site(keys: &str) -> App {
    php_host();
    let root = repository()
        .join("tests/php-behaviour")
        .display()
        .to_string();
    let config = format!(
        "[pool.p]\nstrategy = \"sapi\"\nworkers = 1\ncommand = [\"-d\", \"display_errors=0\"]\n{keys}\n\
         [site.shop]\nlisten = [\"127.0.0.1:0\"]\nroot = {root:?}\nindex = \"page.php\"\n"
    );
    let app = setup().config(&config).start();
    app.wait_for_log("gateway sites: listening on http://");
    app
}

#[track_caller]
fn get(app: &App, path: &str) -> (u16, String) {
    let mut http = Http::tcp(app.site_address(0), None).expect("the angel listens");
    let answer = http.request("GET", path, &[], "").expect("an answer");
    (answer.status, answer.text())
}

#[test]
fn a_site_is_answered() {
    let app = site("");
    assert_eq!(
        get(&app, "/a?b=c"),
        (200, "fpm-fcgi /a?b=c true".to_owned())
    );
    assert_eq!(get(&app, "/?do=throw").0, 500);
    assert_eq!(get(&app, "/?do=large&bytes=300000").1.len(), 300_000);
    assert_eq!(get(&app, "/?do=large&bytes=20000000").1.len(), 20_000_000);
    assert_eq!(
        get(&app, "/?do=crash").0,
        500,
        "it was repeated, and is quarantined"
    );
    assert_eq!(get(&app, "/a").0, 200);
}

#[test]
fn a_large_upload_arrives() {
    let app = site("");
    let file = "y".repeat(1 << 20);
    let body = format!(
        "--b\r\ncontent-disposition: form-data; name=\"f\"; filename=\"f\"\r\n\r\n{file}\r\n--b--\r\n"
    );
    let mut http = Http::tcp(app.site_address(0), None).expect("the angel listens");
    let headers = [("content-type", "multipart/form-data; boundary=b")];
    let answer = http
        .request("POST", "/?do=upload", &headers, &body)
        .expect("an answer");
    assert_eq!(answer.text(), format!("{} 0", file.len()));
    let headers = [("content-type", "a/b")];
    let answer = http
        .request("POST", "/?do=upload", &headers, &file)
        .expect("an answer");
    assert_eq!(answer.text(), format!("0 {}", file.len()));
}

/// What a client reads until `text` has come, or the connection has ended.
fn read_until(stream: &mut TcpStream, text: &str) -> String {
    let (mut got, mut piece) = (String::new(), [0; 4096]);
    while !got.contains(text) {
        match stream.read(&mut piece) {
            Ok(0) | Err(_) => break,
            Ok(count) => got.push_str(&String::from_utf8_lossy(&piece[..count])),
        }
    }
    got
}

fn open(app: &App, path: &str) -> TcpStream {
    let mut stream = TcpStream::connect(app.site_address(0)).expect("the angel listens");
    let request = format!("GET {path} HTTP/1.1\r\nhost: a\r\n\r\n");
    stream.write_all(request.as_bytes()).expect("it is read");
    stream
}

#[test]
fn a_page_is_streamed() {
    let app = site("");
    let gate = app.dir.gate("gate");
    let path = app.dir.file("gate");
    let mut stream = open(&app, &format!("/?do=stream&gate={}", path.display()));
    let first = read_until(&mut stream, "first");
    assert!(
        first.contains("first") && !first.contains("second"),
        "{first}"
    );
    drop(gate.wait_for_worker());
    let rest = read_until(&mut stream, "third");
    assert!(
        rest.contains(" second") && rest.contains(" third"),
        "{rest}"
    );
    let mut stream = open(&app, &format!("/?do=broken&gate={}", path.display()));
    assert!(read_until(&mut stream, "first").contains("first"));
    drop(gate.wait_for_worker());
    let rest = read_until(&mut stream, "\r\n0\r\n");
    assert!(!rest.ends_with("0\r\n\r\n"), "it is cut off: {rest}");
    assert_eq!(get(&app, "/a").0, 200);
}

#[test]
fn a_client_that_leaves_ends_the_script() {
    let app = site("");
    let over = app.dir.file("over");
    let mut stream = open(&app, &format!("/?do=endless&over={}", over.display()));
    assert!(read_until(&mut stream, "zzz").contains("200"));
    drop(stream);
    until("its shutdown functions have run", || {
        over.exists().then_some(())
    });
    assert_eq!(get(&app, "/a").0, 200);
    assert_eq!(app.pool()["restarts"], 0, "the process lives on");
}

/// It would wait for tasks inside of one.
#[test]
fn a_worker_of_the_sdk_is_rejected() {
    php_host();
    let script = repository().join("tests/php-strategies/reboots.php");
    let app = setup()
        .config(&format!(
            "[pool.p]\ncommand = [{script:?}]\nstrategy = \"sapi\"\nworkers = 1\n[service.t]\npool = \"p\"\n"
        ))
        .start();
    let answer = app.call("t.run", "");
    assert_eq!(answer.status(), Status::EXCEPTION);
    let text = answer.text();
    assert!(
        text.contains("get the task from stoker_payload()"),
        "{text}"
    );
}

#[test]
fn a_missing_host_is_reported() {
    let app = start("");
    let stoker = app.dir.file("stoker");
    fs::copy(env!("CARGO_BIN_EXE_stoker"), &stoker).expect("it can be copied");
    let checked = run(Spawn::new(&stoker).args(&["check"]).within(app.dir.path()));
    assert_eq!(checked.code, 78, "{}", checked.stdout);
    let text = checked.stdout + &checked.stderr;
    assert!(
        text.contains("stoker-php is missing") && text.contains("make php"),
        "{text}"
    );
    let checked = app.cli(&["check"]);
    assert!(
        checked.stdout.contains("pool p: 1 worker of: -d "),
        "{}",
        checked.stdout
    );
}
