//! Workers that do not become ready.

use crate::{pool_of, setup, start_of};
use stoker_testkit::{App, Request, Setup, until};
use stoker_wire::Status;

fn launch(script: &str, rest: &str) -> App {
    setup().config(&pool_of(script, rest)).launch()
}

/// A pool whose workers can't boot while the file `broken` exists.
fn breakable(rest: &str) -> Setup {
    let setup = setup().config(&pool_of("if broken stderr cannot boot,exit 3;serve", rest));
    setup.dir().write("broken", "");
    setup
}

fn repair(app: &App) {
    std::fs::remove_file(app.dir.file("broken")).expect("it was broken");
}

/// The delays between boots that the log reports, in milliseconds.
fn restart_delays(app: &App) -> Vec<u64> {
    let log = app.log();
    let told = log
        .lines()
        .filter_map(|line| line.split_once("next boot in "));
    let told = told.filter_map(|(_, rest)| rest.split_once(" ms"));
    told.map(|(ms, _)| ms.parse().expect("a number")).collect()
}

#[test]
fn a_worker_that_dies_at_boot_is_restarted_with_backoff() {
    let app = breakable("workers = 1").launch();
    app.wait_for_log("p-1 did not become ready (exit code 3): cannot boot; next boot in");
    app.wait_for_log("pool p is unhealthy: 3 boots in a row failed");
    assert_eq!(app.pool()["state"], "unhealthy");
    let restart_delays = restart_delays(&app);
    for (wait, full) in restart_delays.iter().zip([200, 400, 800]) {
        assert!((full / 2..=full).contains(wait), "{restart_delays:?}");
    }
    repair(&app);
    app.wait_for_log("pool p is healthy");
    app.ready();
    assert_eq!(app.call("t.run", "ok up").text(), "up");
    assert_eq!(app.pool()["state"], "healthy");
}

#[test]
fn an_unhealthy_pool_rejects_calls_and_keeps_jobs() {
    let app = breakable("workers = 1\n[service.t]\n[queue.mails]").launch();
    app.wait_for_log("pool p is unhealthy");
    let mut client = app.client();
    let refused = client.call("t.run", "ok");
    assert_eq!(refused.status(), Status::UNAVAILABLE, "{}", refused.text());
    assert!(refused.uint(stoker_wire::Key::RETRY_AFTER).is_some());
    let job = client.push(&Request::push("mails", "ok"));
    assert_eq!(client.job(&job)["state"], "ready");
    repair(&app);
    client.job_in(&job, "done");
}

#[test]
fn calls_wait_for_a_booting_pool() {
    let setup = setup().config(&pool_of("gate boot;serve", "workers = 1"));
    let gate = setup.dir().gate("boot");
    let app = setup.launch();
    let held = gate.wait_for_worker();
    let mut client = app.client();
    let early = client.send(&Request::call("t.run", "ok early"));
    let unknown = client.send(&Request::call("nobody.serves", ""));
    let job = client.push(&Request::push("mails", "ok"));
    assert!(!client.has_answer(early));
    drop(held);
    assert_eq!(client.answer(early).text(), "early");
    assert_eq!(client.answer(unknown).status(), Status::NO_WORKER);
    client.job_in(&job, "done");
}

#[test]
fn a_worker_that_never_says_hello_is_killed_after_its_boot_timeout() {
    let app = launch("silence", "workers = 1\nboot_timeout = \"200ms\"");
    app.wait_for_log("p-1 is killed: it was not ready within boot_timeout");
    app.wait_for_log("p-1 did not become ready (signal 9 (KILL)); next boot in");
    app.wait_for_log("p-2 is killed: it was not ready within boot_timeout");
}

#[test]
fn garbage_before_hello_is_a_failed_boot() {
    let app = launch("garbage;silence", "workers = 1");
    app.wait_for_log("p-1 broke the protocol: frame length * is above the limit");
    app.wait_for_log("p-1 did not become ready (signal 9 (KILL)); next boot in");
    app.wait_for_log("p-2 broke the protocol");
}

#[test]
fn a_response_before_hello_is_a_protocol_error() {
    let app = launch("wrong-id;silence", "workers = 1");
    app.wait_for_log("p-1 is killed: it broke the protocol");
}

#[test]
fn a_missing_command_is_reported_by_name() {
    let app = setup()
        .config("[pool.p]\ncommand = [\"/no/such/program\"]\nworkers = 1")
        .launch();
    app.wait_for_log(
        "p-1 did not become ready (a failed start): cannot start '/no/such/program'*No such file",
    );
    app.wait_for_log("pool p is unhealthy");
}

#[test]
fn a_missing_directory_is_reported_by_name() {
    let app = launch("serve", "workers = 1\ndirectory = \"/no/such/place\"");
    app.wait_for_log("p-1 did not become ready*in /no/such/place");
}

#[test]
fn an_unknown_user_is_reported_by_name() {
    let app = launch("serve", "workers = 1\nuser = \"no-such-user\"");
    app.wait_for_log("p-1 did not become ready*unknown user 'no-such-user'");
}

#[test]
fn the_number_of_concurrent_boots_is_limited() {
    let script = "note boot;gate boot;serve";
    let setup = setup().config(&pool_of(script, "workers = 5\n[stoker]\nboots_at_once = 2"));
    let gate = setup.dir().gate("boot");
    let app = setup.launch();
    until("two boots", || (app.dir.notes().len() == 2).then_some(()));
    let held = gate.wait_for_worker();
    assert_eq!(app.dir.notes().len(), 2);
    drop(held);
    gate.open();
    app.ready();
    assert_eq!(app.workers().len(), 5);
    assert_eq!(app.dir.notes().len(), 5);
}

#[test]
fn a_pool_that_cannot_boot_does_not_delay_another() {
    let good = pool_of("serve", "workers = 1");
    let toml = format!("{good}\n[pool.bad]\ncommand = [\"/bin/false\"]\nworkers = 1\n");
    let app = setup().config(&toml).launch();
    app.wait_for_log("pool bad is unhealthy");
    until("the good pool is ready", || {
        let pools = app.state()["pools"].as_array().cloned()?;
        pools
            .iter()
            .any(|pool| pool["name"] == "p" && pool["ready"] == 1)
            .then_some(())
    });
    assert_eq!(app.call("t.run", "ok fine").text(), "fine");
}

#[test]
fn workers_receive_their_environment_directory_and_names() {
    let app = start_of(
        "if ../marker stdout in the place;serve",
        "workers = 1\nenv = { COLOUR = \"green\" }",
    );
    let told: serde_json::Value =
        serde_json::from_slice(&app.call("t.run", "tell").body).expect("tell answers JSON");
    assert_eq!(told["worker"], "p-1");
    let pid = app.pids()[0];
    let environment = std::fs::read_to_string(format!("/proc/{pid}/environ")).expect("it lives");
    for wanted in [
        "COLOUR=green",
        "STOKER_WORKER=p-1",
        "STOKER_FD=",
        "STOKER_COOKIE=",
    ] {
        assert!(environment.contains(wanted), "{wanted} in {environment}");
    }
    let socket = format!("STOKER_SOCKET={}", app.socket().display());
    assert!(environment.contains(&socket));
    let links = std::fs::read_link(format!("/proc/{pid}/fd/0")).expect("stdin is open");
    assert_eq!(
        links.to_str(),
        Some("/dev/null"),
        "a worker has no terminal"
    );
    app.wait_for_log("p-1 is ready (pid*)");
}
