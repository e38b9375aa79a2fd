//! The strategy `snapshot`: workers are cloned from a process of the PHP host in which a script has booted an application.

use crate::setup;
use serde_json::{Value, json};
use std::collections::HashSet;
use stoker_testkit::{
    App, Client, Dir, Http, Request, Setup, Spawn, php_host, repository, run, until,
};
use stoker_wire::{Key, Status};

fn pool(script: &str, keys: &str) -> Setup {
    php_host();
    let script = repository().join("tests/php-behaviour").join(script);
    setup().config(&format!(
        "[pool.p]\ncommand = [\"-d\", \"display_errors=0\", {script:?}]\nstrategy = \"snapshot\"\n{keys}\n\
         [queue.q]\npool = \"p\"\nbackoff = [\"0s\"]\n[service.s]\npool = \"p\"\n"
    ))
}

fn start(keys: &str) -> App {
    pool("boot.php", keys).start()
}

fn know(client: &mut Client) -> Value {
    let answer = client.request(&Request::call("s.run", "know"));
    assert_eq!(answer.status(), Status::OK, "{}", answer.text());
    serde_json::from_str(&answer.text()).expect("JSON")
}

/// The number of different values of a field.
fn different(all: &[Value], field: &str) -> usize {
    let values: HashSet<String> = all.iter().map(|one| one[field].to_string()).collect();
    values.len()
}

#[test]
fn each_task_runs_in_a_clone_of_the_booted_process() {
    let app = start("workers = { min = 2, max = 3 }\nenv = { SAMPLE = \"know\" }");
    let mut client = app.client();
    let all: Vec<Value> = (0..8).map(|_| know(&mut client)).collect();
    assert_eq!(different(&all, "zygote"), 1, "it boots once: {all:#?}");
    for field in ["pid", "worker", "random"] {
        assert_eq!(different(&all, field), 8, "{field}: {all:#?}");
    }
    for one in &all {
        assert_eq!(
            one["tasks"], 1,
            "nothing is left of the sample or another task"
        );
        assert_eq!((&one["clone"], &one["group"]), (&one["pid"], &one["pid"]));
        assert_eq!((&one["hidden"], &one["age"]), (&json!(true), &json!(true)));
        assert_eq!(one["body"], "know");
    }
    assert_eq!(app.pool()["restarts"], 0);
    until("all ends are counted", || {
        (app.pool()["spent"] == 8).then_some(())
    });
    let log = app.log();
    assert!(
        log.contains("booted") && !log.contains("did not end normally"),
        "{log}"
    );
    assert!(!log.contains("shutdown function of the boot"), "{log}");
    let ended = app.stop();
    assert_eq!(ended.code, 0, "{}", ended.log);
}

#[test]
fn a_clone_runs_the_number_of_tasks_that_is_configured() {
    let app = start("workers = 1\ntasks_per_fork = 3");
    let mut client = app.client();
    let tasks: Vec<i64> = (0..7)
        .map(|_| know(&mut client)["tasks"].as_i64().expect("a number"))
        .collect();
    assert_eq!(tasks, [1, 2, 3, 1, 2, 3, 1]);
}

/// Those of frameworks show an error page.
#[test]
fn a_task_has_the_application_boot_again() {
    for keys in ["workers = 1", "workers = 1\ntasks_per_fork = 100"] {
        let app = start(keys);
        let mut client = app.client();
        let answer = client.request(&Request::call("s.run", "reboot"));
        assert_eq!(answer.status(), Status::OK, "{}", answer.text());
        let old: Value = serde_json::from_str(&answer.text()).expect("JSON");
        app.wait_for_log("p-zygote has ended (exit code 0)");
        // A process that was cloned before may serve the next call.
        let new = until("a new zygote", || {
            let new = know(&mut client);
            (new["zygote"] != old["zygote"]).then_some(new)
        });
        assert_ne!(new["pid"], old["pid"]);
        assert_eq!(app.pool()["restarts"], 0, "{}", app.log());
    }
}

#[test]
fn shutdown_functions_of_the_boot_run_only_if_a_task_fails() {
    let app = start("workers = 2");
    let mut client = app.client();
    know(&mut client);
    assert!(!app.log().contains("shutdown function of the boot"));
    let answer = client.request(&Request::call("s.run", "throw"));
    assert_eq!(answer.status(), Status::EXCEPTION);
    app.wait_for_log("*the shutdown function of the boot has run*");
}

#[test]
fn jobs_end_as_with_sapi() {
    let app = start("workers = 2");
    let mut client = app.client();
    let mut job = |body: &str| {
        let push = Request::push("q", body).meta(Key::TRIES, 2u16.to_be_bytes());
        let id = client.push(&push);
        until("it has ended", || {
            let job = client.job(&id);
            matches!(job["state"].as_str(), Some("done" | "failed")).then_some(job)
        })
    };
    assert_eq!(job("hello")["result"], "hello, q");
    assert_eq!(
        job("own")["result"],
        "the task has run, and its shutdown function has run"
    );
    let failed = job("throw");
    assert_eq!(failed["error"]["class"], "DomainException", "{failed}");
    assert_eq!(
        (&failed["attempt"], &failed["crashes"]),
        (&json!(2), &json!(0))
    );
}

/// A clone that runs several tasks. The scripts find what an earlier run in the same process has left behind.
#[test]
fn the_state_of_the_process_is_reset_between_two_tasks() {
    let app = start("workers = 1\ntasks_per_fork = 10");
    let mut client = app.client();
    let pid = know(&mut client)["pid"].clone();
    for name in ["directory", "umask", "buffer"] {
        for _ in 0..2 {
            let got = client.request(&Request::call("s.run", format!("leak {name}")));
            assert_eq!(got.text(), "clean", "{name}");
        }
    }
    assert_eq!(know(&mut client)["pid"], pid, "one clone has run them all");
}

#[test]
fn variables_are_left_to_the_next_task_of_a_clone_only() {
    let app = start("workers = 1\ntasks_per_fork = 2");
    let mut client = app.client();
    let mut leak = || {
        let got = client.request(&Request::call("s.run", "leak static"));
        got.text()
    };
    assert_eq!(
        [leak(), leak(), leak(), leak()],
        ["clean", "leaked", "clean", "leaked"]
    );
}

#[test]
fn clones_run_more_tasks_while_others_wait() {
    let app = start("workers = 1\ntasks_per_fork = \"auto\"");
    let mut client = app.client();
    let calls: Vec<u32> = (0..100)
        .map(|_| client.send(&Request::call("s.run", "know")))
        .collect();
    let tasks = calls.into_iter().map(|call| {
        let answer = client.answer(call);
        assert_eq!(answer.status(), Status::OK, "{}", answer.text());
        let answer: Value = serde_json::from_str(&answer.text()).expect("JSON");
        answer["tasks"].as_u64().expect("a number")
    });
    let max = tasks.max().unwrap_or_default();
    assert!(max > 1, "no clone has run more than {max}");
}

#[test]
fn a_sample_that_fails_is_reported() {
    let app = start("workers = 1\nenv = { SAMPLE = \"throw\" }");
    app.wait_for_log("*the sample task of stoker_handle() did not end normally*");
    know(&mut app.client());
}

#[test]
fn check_fork_finds_that_nothing_is_shared() {
    let dir = Dir::new();
    let script = repository().join("tests/php-behaviour/boot.php");
    let toml = format!("[pool.p]\ncommand = [{script:?}]\nstrategy = \"snapshot\"\n");
    dir.write("stoker.toml", toml);
    php_host();
    let spawn = Spawn::new(env!("CARGO_BIN_EXE_stoker")).args(&["check", "--fork"]);
    let checked = run(spawn.within(dir.path()));
    assert_eq!(checked.code, 0, "{}{}", checked.stdout, checked.stderr);
    let end = "pool p can be forked: nothing is shared\n";
    assert!(checked.stdout.ends_with(end), "{}", checked.stdout);
}

#[test]
fn a_site_is_answered_by_clones_with_fresh_variables() {
    php_host();
    let folder = repository().join("tests/php-behaviour");
    let script = folder.join("boot.php");
    let app = setup()
        .config(&format!(
            "[pool.p]\ncommand = [\"-d\", \"display_errors=0\", {script:?}]\nstrategy = \"snapshot\"\nworkers = 1\n\
             tasks_per_fork = 10\nenv = {{ SAMPLE = \"/?do=know\" }}\n[site.shop]\nlisten = [\"127.0.0.1:0\"]\n"
        ))
        .start();
    app.wait_for_log("gateway sites: listening on http://");
    let mut http = Http::tcp(app.site_address(0), None).expect("the angel listens");
    let mut ask = |method: &str, path: &str, headers: &[(&str, &str)], body: &str| {
        http.request(method, path, headers, body)
            .expect("an answer")
    };
    let form = ("content-type", "application/x-www-form-urlencoded");
    let first = ask("POST", "/one?a=1", &[form, ("cookie", "c=1")], "f=1");
    let first: Value = serde_json::from_str(&first.text()).expect("JSON");
    let second = ask("GET", "/two?b=2", &[], "");
    let second: Value = serde_json::from_str(&second.text()).expect("JSON");
    assert_eq!(first["pid"], second["pid"], "one clone runs both");
    let fields = |of: &Value| {
        json!([
            of["uri"],
            of["query"],
            of["form"],
            of["cookies"],
            of["body"],
            of["tasks"]
        ])
    };
    assert_eq!(
        fields(&first),
        json!(["/one?a=1", {"a": "1"}, {"f": "1"}, {"c": "1"}, "f=1", 1])
    );
    assert_eq!(
        fields(&second),
        json!(["/two?b=2", {"b": "2"}, [], [], "", 2])
    );
    let dir = app.dir.path().display().to_string();
    for count in 1..=2 {
        let answer = ask("GET", &format!("/?do=count&dir={dir}"), &[], "");
        assert_eq!(
            answer.header("x-count"),
            Some(count.to_string().as_str()),
            "{}",
            answer.text()
        );
    }
    let answer = ask("GET", "/?do=throw", &[], "");
    assert_eq!((answer.status, answer.header("x-count")), (500, None));
    assert_eq!(ask("GET", "/?do=know", &[], "").status, 200);
    assert_eq!(
        app.pool()["restarts"],
        0,
        "a clone that ends early has left"
    );
}

#[test]
fn a_script_that_registers_no_handler_is_reported() {
    let app = pool("forgets.php", "workers = 1").launch();
    app.wait_for_log("*ended without calling stoker_handle()*");
}
