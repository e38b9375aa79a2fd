//! Process lifetimes: a killed server, a killed angel, and processes that workers leave behind.

use crate::{pool_of, setup, start, start_of};
use rustix::process::Signal;
use serde_json::json;
use std::time::Instant;
use stoker_testkit::{App, Dir, Request, Spawn, limit, procs, run, until};
use stoker_wire::Status;

#[test]
fn a_killed_server_is_restarted_and_its_workers_are_killed() {
    let app = start("workers = 2\n[store]\ndriver = \"memory\"");
    let (server, workers) = (app.server(), app.pids());
    let mut client = app.client();
    client.push(&Request::push("mails", "ok"));
    let call = client.send(&Request::call("t.run", "silence"));
    client.fence();
    procs::kill(server);
    assert!(client.try_answer(call).is_none(), "the connection ends");
    assert!(workers.iter().all(|pid| procs::wait_for_exit(*pid, 2.0)));
    app.wait_for_log("the server was restarted (1 time so far)*; jobs in memory are lost");
    app.ready();
    assert_ne!(app.server(), server);
    assert_eq!(
        app.call("t.run", "ok back").text(),
        "back",
        "at the same socket"
    );
    assert!(app.pids().iter().all(|pid| !workers.contains(pid)));
}

#[test]
fn clients_that_connect_during_a_restart_wait_for_the_next_server() {
    let app = start("workers = 1");
    procs::kill(app.server());
    let answers: Vec<String> = (0..5)
        .map(|n| app.call("t.run", &format!("ok {n}")).text())
        .collect();
    assert_eq!(answers, ["0", "1", "2", "3", "4"]);
}

#[test]
fn a_server_is_restarted_after_every_kill() {
    let app = start("workers = 1");
    for times in 1..=3 {
        procs::kill(app.server());
        app.wait_for_log(&format!("the server was restarted ({times} time*so far)"));
        app.ready();
        assert_eq!(app.call("t.run", "ok").status(), Status::OK);
    }
}

#[test]
fn a_killed_server_leaves_no_grandchildren() {
    let app = start("workers = 1");
    let script = "child silence;child setsid,silence;child setsid,child silence,exit 0;\
                  child-without-env setsid,child-without-env silence,exit 0;ok";
    assert_eq!(app.call("t.run", script).status(), Status::OK);
    until("they all run", || {
        (app.processes().len() == 7).then_some(())
    });
    let below = app.processes();
    let server = app.server();
    procs::kill(server);
    let mine = |pid: &&i32| **pid != app.angel() && **pid != server;
    for pid in below.iter().filter(mine) {
        assert!(procs::wait_for_exit(*pid, 3.0), "{}", procs::command(*pid));
    }
    app.ready();
}

/// After the angel is killed, all its descendants are found except for one kind: a daemon that was started with an
/// empty environment and has lost its parent.
#[test]
fn all_processes_end_within_a_second_of_a_killed_angel() {
    let app = start_of("ignore-term;stubborn;serve", "workers = 2");
    let script = "child ignore-term,silence;child setsid,ignore-term,silence;\
                  child setsid,child silence,exit 0;ok";
    assert_eq!(app.call("t.run", script).status(), Status::OK);
    until("they all run", || {
        (app.processes().len() == 7).then_some(())
    });
    let all = app.processes();
    let began = Instant::now();
    procs::kill(app.angel());
    for pid in all {
        assert!(procs::wait_for_exit(pid, 1.0), "{}", procs::command(pid));
    }
    assert!(began.elapsed() < limit(1.0), "{:?}", began.elapsed());
    let ended = app.wait_for_exit();
    assert_eq!(ended.code, 137);
    assert!(
        ended
            .log
            .contains("the angel has ended: killing the workers and exiting")
    );
}

#[test]
fn workers_end_with_the_angel_even_if_the_server_is_stopped() {
    let app = start_of("ignore-term;stubborn;serve", "workers = 2");
    let (server, workers) = (app.server(), app.pids());
    procs::signal(app.angel(), Signal::STOP);
    procs::kill(server);
    procs::kill(app.angel());
    for pid in workers {
        assert!(procs::wait_for_exit(pid, 1.0), "{}", procs::command(pid));
    }
    assert_eq!(app.wait_for_exit().code, 137);
}

#[test]
fn a_busy_worker_ends_with_the_angel() {
    let app = start("workers = 1");
    let gate = app.dir.gate("gate");
    let mut client = app.client();
    client.send(&Request::call("t.run", "ignore-term;note spins;gate gate"));
    let held = gate.wait_for_worker();
    let worker = app.pids()[0];
    procs::kill(app.angel());
    assert!(procs::wait_for_exit(worker, 1.0));
    drop(held);
    assert_eq!(app.wait_for_exit().code, 137);
}

#[test]
fn orphans_of_a_dead_worker_are_killed_and_logged() {
    let app = start("workers = 1");
    for (script, command) in [
        ("child silence;exit 1", "silence"),
        ("child setsid,silence;exit 1", "setsid;silence"),
        (
            "child setsid,child silence,exit 0;await-child;exit 1",
            "silence",
        ),
        // It is found by its process group, because neither variables nor a parent identify it.
        ("child-without-env silence;exit 1", "silence"),
    ] {
        let from = app.log().len();
        let answer = app.call("t.run", script);
        assert_eq!(answer.status(), Status::WORKER_DIED);
        let line = format!("left a process behind, which was killed: *bad-worker {command} (pid");
        app.wait_for_log_after(from, &line);
        app.ready();
        until("only the pool is left", || {
            (app.processes().len() == 3).then_some(())
        });
    }
}

#[test]
fn children_of_a_live_worker_are_not_killed() {
    let app = start("workers = 2");
    let gate = app.dir.gate("gate");
    let mut client = app.client();
    // The child's own parent ends, so the angel adopts the child.
    let script = "child setsid,child silence,exit 0;gate gate";
    let call = client.send(&Request::call("t.run", script));
    let held = gate.wait_for_worker();
    until("the grandchild runs", || {
        (app.processes().len() == 5).then_some(())
    });
    let (busy, idle): (Vec<_>, Vec<_>) = app
        .workers()
        .into_iter()
        .partition(|worker| worker["state"] == "busy");
    // The end of another worker makes the angel check for orphans.
    procs::kill(idle[0]["pid"].as_i64().expect("a pid") as i32);
    app.wait_for_log("p-*(signal 9 (KILL))");
    app.ready();
    assert_eq!(app.processes().len(), 5, "it is still there");
    drop(held);
    client.answer(call);
    procs::kill(busy[0]["pid"].as_i64().expect("a pid") as i32);
    app.wait_for_log("p-*left a process behind, which was killed");
}

#[test]
fn the_death_of_a_worker_is_noticed_at_once_even_if_a_child_holds_its_socket() {
    let app = start("workers = 1");
    let began = Instant::now();
    let answer = app.call("t.run", "child setsid,silence;kill");
    assert_eq!(answer.status(), Status::WORKER_DIED, "{}", answer.text());
    assert!(
        began.elapsed() < limit(2.0),
        "not when the child closes the socket"
    );
}

/// A process that a shell starts before it becomes Stoker is a child of the angel that the angel did not start.
const INHERITED_CHILD: &str = "sleep 1000 2>/dev/null & echo $! >stranger";

/// The process that `INHERITED_CHILD` has started.
#[track_caller]
fn inherited_child_of(app: &mut App) -> i32 {
    let text = std::fs::read_to_string(app.dir.file("stranger"));
    let pid = text.ok().and_then(|text| text.trim().parse().ok());
    let pid = pid.expect("the shell wrote it before it became Stoker");
    assert!(procs::children(app.angel()).contains(&pid));
    app.allow_process(pid);
    pid
}

#[test]
fn a_child_inherited_by_the_angel_is_not_killed() {
    let config = pool_of("serve", "workers = 1");
    let mut app = setup().config(&config).after(INHERITED_CHILD).start();
    let stranger = inherited_child_of(&mut app);
    let answer = app.call("t.run", "child silence;exit 1");
    assert_eq!(answer.status(), Status::WORKER_DIED);
    app.wait_for_log("left a process behind, which was killed: *bad-worker silence");
    assert!(procs::is_alive(stranger), "it does not belong to a worker");
    procs::kill(app.server());
    app.wait_for_log("the server was restarted");
    app.ready();
    assert!(procs::is_alive(stranger), "nor the server's");
    assert!(procs::children(app.angel()).contains(&stranger));
    let ended = app.stop();
    assert_eq!(ended.code, 0, "nobody waits for it: {}", ended.log);
    assert!(procs::is_alive(stranger), "it outlives them all");
    assert!(!ended.log.contains("sleep"), "{}", ended.log);
    procs::kill(stranger);
}

#[test]
fn an_inherited_child_survives_a_killed_angel() {
    let config = pool_of("serve", "workers = 1");
    let mut app = setup().config(&config).after(INHERITED_CHILD).start();
    let stranger = inherited_child_of(&mut app);
    procs::kill(app.angel());
    assert_eq!(app.wait_for_exit().code, 137);
    assert!(procs::is_alive(stranger));
    procs::kill(stranger);
}

#[test]
fn an_inherited_child_that_exits_is_reaped_without_effect() {
    let setup = setup().config(&pool_of("serve", "workers = 1"));
    let gate = setup.dir().gate("gate");
    let script = "cat gate 2>/dev/null & echo $! >stranger";
    let mut app = setup.after(script).start();
    let stranger = inherited_child_of(&mut app);
    let workers = app.pids();
    drop(gate.wait_for_worker());
    until("it is gone, not only dead", || {
        (!procs::children(app.angel()).contains(&stranger)).then_some(())
    });
    assert_eq!(app.call("t.run", "ok").status(), Status::OK);
    assert_eq!(app.pids(), workers);
    assert_eq!(app.pool()["restarts"], 0);
}

/// Each server fails for the same reason before it has requested a worker: its log is a file that only the angel's own
/// process can open.
#[test]
fn a_server_that_never_serves_is_not_restarted_for_ever() {
    let dir = Dir::new();
    let log = "workers = 1\n[log]\nfile = \"/proc/self/task/PID/comm\"";
    dir.write("template", pool_of("serve", log));
    let script = "sed s/PID/$$/ template >stoker.toml; exec \"$0\" serve";
    let mark = dir.path().display().to_string();
    let spawn = Spawn::new("/bin/sh").args(&["-c", script, env!("CARGO_BIN_EXE_stoker")]);
    let output = run(spawn.env("STOKERS_TEST", &mark).within(dir.path()));
    assert_eq!(output.code, 1, "{}", output.stderr);
    let reasons = output.stderr.matches("No such file or directory");
    assert_eq!(reasons.count(), 3, "{}", output.stderr);
    assert!(output.stderr.contains("/comm"), "{}", output.stderr);
    assert!(!dir.file("stoker.sock").exists());
    assert!(procs::marked(&format!("STOKERS_TEST={mark}")).is_empty());
}

#[test]
fn a_server_without_spawned_workers_is_restarted_as_well() {
    let app = setup().config("[pool.dialled]").launch();
    for times in 1..=3 {
        procs::kill(app.server());
        app.wait_for_log(&format!("the server was restarted ({times} time*so far)"));
        app.client();
    }
}

#[test]
fn a_shutdown_kills_processes_that_workers_started() {
    let app = start("workers = 1");
    // The last one has no variable left that would identify it.
    let script = "child silence;child setsid,silence;child setsid,child silence,exit 0;\
                  child-without-env setsid,child-without-env silence,exit 0;ok";
    app.call("t.run", script);
    until("they all run", || {
        (app.processes().len() == 7).then_some(())
    });
    let ended = app.stop();
    assert_eq!(ended.code, 0, "{}", ended.log);
}

#[test]
fn a_server_killed_while_it_drains_ends_stoker() {
    let app = start_of(
        "ignore-term;stubborn;serve",
        "workers = 1\nstop_grace = \"60s\"",
    );
    let server = app.server();
    app.term();
    app.wait_for_log("shutting down");
    procs::kill(server);
    let ended = app.wait_for_exit();
    assert_eq!(ended.code, 1, "it did not end well");
}

#[test]
fn a_second_stoker_does_not_take_over_a_served_socket() {
    let app = start("workers = 1");
    let config = app.dir.file("stoker.toml");
    let second = app.cli(&["serve", "-c", config.to_str().expect("a plain path")]);
    assert_eq!(second.code, 1);
    assert!(
        second.stderr.contains("another Stoker listens on"),
        "{}",
        second.stderr
    );
    assert_eq!(app.call("t.run", "ok").status(), Status::OK);
}

/// A process that a killed Stoker was just starting may keep its socket open.
#[test]
fn a_socket_with_a_dead_listener_is_taken_over_even_if_another_process_holds_it() {
    let setup = setup().config(&pool_of("serve", "workers = 1"));
    let path = setup.dir().file("stoker.sock");
    let script = "import os, signal, socket, sys\n\
                  listener = socket.socket(socket.AF_UNIX)\n\
                  listener.bind(sys.argv[1])\n\
                  listener.listen()\n\
                  child = os.fork()\n\
                  print(child, flush=True) if child else (os.close(1), signal.pause())";
    let path = path.to_str().expect("a plain path");
    let held = run(Spawn::new("python3").args(&["-c", script, path]));
    let holder: i32 = held.stdout.trim().parse().expect("its pid");
    let app = setup.launch_without_waiting();
    // Before this log line the path leads to a socket on which no process answers.
    app.wait_for_log("p-1 is ready");
    assert_eq!(app.call("t.run", "ok").status(), Status::OK);
    procs::kill(holder);
}

#[test]
fn a_socket_left_by_a_dead_stoker_is_taken_over() {
    let setup = setup().config(&pool_of("serve", "workers = 1"));
    let path = setup.dir().file("stoker.sock");
    drop(std::os::unix::net::UnixListener::bind(&path).expect("it can be bound"));
    assert!(path.exists());
    let app = setup.start();
    assert_eq!(app.call("t.run", "ok").status(), Status::OK);
}

#[test]
fn a_foreign_file_at_the_socket_path_is_not_removed() {
    let setup = setup().config(&pool_of("serve", "workers = 1"));
    let path = setup.dir().write("stoker.sock", "somebody's file");
    let spawn = stoker_testkit::Spawn::new(env!("CARGO_BIN_EXE_stoker"));
    let output = stoker_testkit::run(spawn.args(&["serve"]).within(setup.dir().path()));
    assert_eq!(output.code, 1, "{}", output.stderr);
    assert!(
        output.stderr.contains("cannot listen on"),
        "{}",
        output.stderr
    );
    assert_eq!(
        std::fs::read_to_string(path).ok().as_deref(),
        Some("somebody's file")
    );
}

#[test]
fn the_socket_has_the_mode_of_the_configuration() {
    use std::os::unix::fs::PermissionsExt;
    for (line, mode) in [("", 0o660), ("[stoker]\nsocket_mode = \"0600\"", 0o600)] {
        let app = start(&format!("workers = 1\n{line}"));
        let metadata = std::fs::metadata(app.socket()).expect("it is there");
        assert_eq!(metadata.permissions().mode() & 0o777, mode);
    }
}

#[test]
fn workers_can_run_as_another_user() {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let setup = setup();
    // The build may be below a directory that other users can't enter.
    let program = setup.dir().file("bad-worker");
    std::fs::copy(stoker_testkit::bad_worker(), &program)
        .expect("the test's directory takes a copy");
    let config = pool_of("serve", "workers = 1\nuser = \"nobody\"");
    let theirs = stoker_testkit::bad_worker().display().to_string();
    let config = config.replace(&theirs, &program.display().to_string());
    let app = setup.config(&config).start();
    let status = std::fs::read_to_string(format!("/proc/{}/status", app.pids()[0]));
    let status = status.expect("it lives");
    let uid = status
        .lines()
        .find(|line| line.starts_with("Uid:"))
        .expect("a uid");
    assert_eq!(uid.split_whitespace().nth(1), Some("65534"), "{uid}");
    let groups = status
        .lines()
        .find(|line| line.starts_with("Groups:"))
        .expect("groups");
    assert_eq!(groups.trim(), "Groups:", "none of root's");
    // Issue 9, A21.
    let environment = environment_of_worker(&app);
    for entry in ["HOME=/nonexistent", "LOGNAME=nobody", "USER=nobody"] {
        assert!(
            environment.contains(&entry.to_owned()),
            "{entry}: {environment:?}"
        );
    }
    let worker = app.pids()[0];
    procs::kill(app.angel());
    assert!(
        procs::wait_for_exit(worker, 1.0),
        "the change of user keeps the death signal"
    );
    assert_eq!(app.wait_for_exit().code, 137);
}

#[test]
fn the_last_exit_is_shown_with_the_pool() {
    let app = start("workers = 1");
    assert_eq!(app.pool()["last_exit"], json!(null));
    app.call("t.run", "exit 9");
    until("it is shown", || {
        (app.pool()["last_exit"] == "exit code 9").then_some(())
    });
}

/// Issue 9, A16.
#[test]
fn a_stopped_server_is_killed_and_restarted() {
    let app = start("workers = 1\n[stoker]\nwatchdog = \"1s\"");
    let server = app.server();
    procs::signal(server, Signal::STOP);
    assert!(procs::wait_for_exit(server, 10.0), "somebody noticed");
    app.wait_for_log(
        "the server was restarted (1 time so far): the previous one made no progress for 1 s and was killed",
    );
    app.ready();
    assert_eq!(app.call("t.run", "ok").status(), Status::OK);
}

/// Issue 9, A16.
#[test]
fn an_idle_server_makes_progress() {
    let app = start("workers = 1\n[stoker]\nwatchdog = \"1s\"");
    let server = app.server();
    assert!(
        !procs::wait_for_exit(server, 4.0),
        "it has nothing to do, and is well"
    );
    assert_eq!(app.call("t.run", "ok").status(), Status::OK);
}

/// Issue 9, A16: the angel was stopped together with the server.
#[test]
fn the_time_in_which_the_angel_was_stopped_does_not_count_as_a_stuck_server() {
    let app = start("workers = 1\n[stoker]\nwatchdog = \"2s\"");
    let server = app.server();
    procs::signal(app.angel(), Signal::STOP);
    procs::signal(server, Signal::STOP);
    stoker_testkit::pause(std::time::Duration::from_secs(4));
    procs::signal(app.angel(), Signal::CONT);
    procs::signal(server, Signal::CONT);
    assert!(
        !procs::wait_for_exit(server, 3.0),
        "it could not do anything"
    );
    assert_eq!(app.call("t.run", "ok").status(), Status::OK);
}

/// Issue 9, A16.
#[test]
fn a_stopped_server_is_killed_after_stop_grace_when_it_should_drain() {
    let app = start("workers = 1\nstop_grace = \"1s\"");
    procs::signal(app.server(), Signal::STOP);
    app.term();
    let ended = app.wait_for_exit();
    assert_eq!(ended.code, 1, "it did not end well");
    assert!(ended.took < limit(8.0), "{:?}", ended.took);
    let line = "during the shutdown and is killed";
    assert!(ended.log.contains(line), "{}", ended.log);
}

/// Issue 9, A21.
#[test]
fn both_processes_have_names() {
    let app = start("workers = 1");
    let comm = |pid: i32| {
        let comm = std::fs::read_to_string(format!("/proc/{pid}/comm"));
        comm.expect("it lives").trim().to_owned()
    };
    assert_eq!(comm(app.angel()), "stoker: angel");
    assert_eq!(comm(app.server()), "stoker: server");
    assert_eq!(procs::command(app.server()).trim(), "stoker: server");
}

/// The environment of the only worker.
#[track_caller]
fn environment_of_worker(app: &App) -> Vec<String> {
    let bytes = std::fs::read(format!("/proc/{}/environ", app.pids()[0]));
    let text = String::from_utf8(bytes.expect("it lives")).expect("it is text");
    let entries = text.split('\0').filter(|entry| !entry.is_empty());
    let mut entries: Vec<String> = entries.map(str::to_owned).collect();
    entries.sort();
    entries
}

/// Issue 9, A21.
#[test]
fn env_clear_and_env_pass_select_the_environment_of_workers() {
    let config = pool_of(
        "serve",
        "workers = 1\nenv_clear = true\nenv_pass = [\"APP_*\", \"STOKERS_TEST\"]\nenv = { OWN = \"1\" }",
    );
    let setup = setup().config(&config);
    let setup = setup
        .env("APP_ENV", "test")
        .env("SECRET", "no")
        .env("STOKER_CONTROL_FD", "9");
    let app = setup.start();
    let entries = environment_of_worker(&app);
    let names = entries
        .iter()
        .map(|entry| entry.split('=').next().unwrap_or_default());
    assert_eq!(
        names.collect::<Vec<_>>(),
        [
            "APP_ENV",
            "OWN",
            "PATH",
            "STOKERS_TEST",
            "STOKER_COOKIE",
            "STOKER_FD",
            "STOKER_SOCKET",
            "STOKER_WORKER"
        ]
    );
}

/// The targets of a process's descriptors, without duplicates.
fn descriptors(pid: i32) -> Vec<String> {
    let entries = std::fs::read_dir(format!("/proc/{pid}/fd")).expect("it lives");
    let targets = entries.flatten().filter_map(|entry| {
        let target = std::fs::read_link(entry.path()).ok()?;
        Some(target.to_string_lossy().split(':').next()?.to_owned())
    });
    let mut targets: Vec<String> = targets.collect();
    targets.sort();
    targets.dedup();
    targets
}

#[test]
fn workers_inherit_only_their_socket() {
    let config = pool_of("serve", "workers = 2");
    let setup = setup().config(&config);
    let app = setup.after("exec 7>kept-open 8</dev/zero").start();
    for worker in app.pids() {
        let found = descriptors(worker);
        assert_eq!(found, ["/dev/null", "pipe", "socket"], "{worker}");
    }
    let of_server = descriptors(app.server());
    let leaked = of_server
        .iter()
        .filter(|path| path.contains("kept-open") || *path == "/dev/zero");
    assert_eq!(leaked.count(), 0, "{of_server:?}");
}

/// Stopped workers can't react to the request to shut down.
#[test]
fn stopped_workers_do_not_delay_a_shutdown() {
    let app = start("workers = 2\nstop_grace = \"500ms\"");
    let gate = app.dir.gate("gate");
    let mut client = app.client();
    client.send(&Request::call("t.run", "gate gate;silence"));
    drop(gate.wait_for_worker());
    for worker in app.pids() {
        procs::signal(worker, Signal::STOP);
    }
    let ended = app.stop();
    assert_eq!(ended.code, 0, "{}", ended.log);
    assert!(ended.took < limit(10.0), "{:?}", ended.took);
}

/// A stopped server and its angel leave nothing behind, even if both are killed.
#[test]
fn a_stopped_server_does_not_outlive_a_killed_angel() {
    let app = start("workers = 1");
    let (server, workers) = (app.server(), app.pids());
    procs::signal(server, Signal::STOP);
    procs::kill(app.angel());
    for worker in workers {
        assert!(
            procs::wait_for_exit(worker, 1.0),
            "workers go with the angel"
        );
    }
    procs::signal(server, Signal::CONT);
    assert!(
        procs::wait_for_exit(server, 2.0),
        "and the server as soon as it can"
    );
    assert_eq!(app.wait_for_exit().code, 137);
}
