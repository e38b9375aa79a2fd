//! Tests of the drain: running tasks finish, waiting calls are served, and jobs go back to their store.
use crate::support::*;
use stoker_core::*;

struct Drain {
    w: World,
    mail: NameId,
    users: NameId,
}

fn pool(config: PoolConfig) -> Drain {
    let (mut w, pool) = World::ready(PoolConfig {
        stop_grace: secs(8),
        ..config
    });
    let mail = w.jobs(pool, "mail", QueueConfig::default());
    let users = w.calls(pool, "users.get", QueueConfig::default());
    Drain { w, mail, users }
}

fn leave(w: &mut World) {
    for worker in w.in_state("stopping") {
        w.exit(worker, Exit::Code(0));
    }
}

#[test]
fn an_idle_server_is_drained_as_soon_as_its_workers_are_gone() {
    let Drain { mut w, .. } = pool(workers(2));
    w.step(Event::Drain);
    assert!(w.core.is_draining() && !w.books.drained);
    let goaways = |action: &Action| {
        matches!(
            action,
            Action::Goaway {
                why: StopReason::Shutdown,
                ..
            }
        )
    };
    assert_eq!(w.count(goaways), 2);
    leave(&mut w);
    assert!(w.books.drained);
    assert!(w.core.next_deadline().is_none_or(|at| at > w.now));
}

#[test]
fn a_server_without_workers_is_drained_at_once() {
    let mut w = World::default();
    w.step(Event::Drain);
    assert!(w.books.drained);
}

#[test]
fn running_tasks_finish_and_waiting_calls_are_served() {
    let Drain { mut w, mail, users } = pool(workers(1));
    let running = w.submit(job(mail));
    let waiting = w.submit_many(3, &call(users));
    w.step(Event::Drain);
    w.done(running);
    assert_eq!(w.outcome(running), Some(Outcome::Answered));
    for task in waiting {
        assert!(w.on(task).is_some());
        w.done(task);
        assert_eq!(w.outcome(task), Some(Outcome::Answered));
    }
    leave(&mut w);
    assert!(w.books.drained);
}

/// During a drain no waiting job is started, so no slot is kept for a queue of jobs.
#[test]
fn slots_kept_for_jobs_serve_waiting_calls() {
    let (mut w, pool) = World::ready(workers(2));
    let config = QueueConfig {
        reserve: 1,
        keep: 1,
        ..QueueConfig::default()
    };
    w.jobs(pool, "mail", config);
    let users = w.calls(pool, "users.get", QueueConfig::default());
    let (running, waiting) = (w.submit(call(users)), w.submit(call(users)));
    assert!(w.on(running).is_some() && w.waits(waiting));
    w.step(Event::Drain);
    assert!(w.on(waiting).is_some());
}

/// New calls are rejected during a drain, so slots are kept only for the calls that are already waiting
/// (simulation, seed 3675).
#[test]
fn no_slots_are_kept_for_future_calls() {
    let (mut w, pool) = World::ready(workers(1));
    let config = QueueConfig {
        reserve: 1,
        keep: 1,
        ..QueueConfig::default()
    };
    w.calls(pool, "pages.get", config);
    let users = w.calls(pool, "users.get", QueueConfig::default());
    let waiting = w.submit(call(users));
    assert!(w.waits(waiting));
    w.step(Event::Drain);
    assert!(w.on(waiting).is_some());
}

#[test]
fn waiting_jobs_are_returned_without_being_started() {
    let Drain { mut w, mail, .. } = pool(workers(1));
    let running = w.submit(job(mail));
    let waiting = w.submit_many(2, &job(mail));
    w.step(Event::Drain);
    w.done(running);
    assert!(waiting.iter().all(|task| w.waits(*task)));
    leave(&mut w);
    assert!(
        waiting
            .iter()
            .all(|task| w.end(*task) == Some(End::Returned))
    );
}

#[test]
fn new_jobs_wait_until_drained_and_new_calls_are_rejected() {
    let Drain { mut w, mail, users } = pool(workers(1));
    let running = w.submit(job(mail));
    w.step(Event::Drain);
    let (late_job, late_call) = (w.submit(job(mail)), w.submit(call(users)));
    assert!(w.waits(late_job), "it may still be cancelled");
    assert_eq!(
        w.outcome(late_call),
        Some(Outcome::Unavailable {
            retry_after: secs(1)
        })
    );
    w.done(running);
    leave(&mut w);
    assert_eq!(w.end(late_job), Some(End::Returned));
    let later = w.submit(job(mail));
    assert_eq!(w.end(later), Some(End::Returned), "after the end too");
}

/// A worker that does not end gets TERM late in the grace period and KILL at its end, so a drain always
/// ends.
#[test]
fn a_worker_that_does_not_exit_is_terminated_and_killed() {
    let Drain { mut w, mail, users } = pool(workers(1));
    let running = w.submit(job(mail).limit(secs(999)));
    let waiting = w.submit(call(users).time_left(secs(999)));
    let worker = w.live()[0];
    w.step(Event::Drain);
    w.pass(ms(6_999));
    assert!(!w.has_seen(&Action::Terminate { worker }));
    w.pass(ms(1));
    assert!(
        w.has_seen(&Action::Terminate { worker }),
        "a second before the end"
    );
    w.pass(ms(999));
    assert!(!w.was_killed(worker, StopReason::Shutdown));
    w.pass(ms(1));
    assert!(w.was_killed(worker, StopReason::Shutdown));
    w.exit(worker, Exit::Signal(9));
    assert_eq!(
        w.end(running),
        Some(End::Returned),
        "it is not to blame and runs again some day"
    );
    assert_eq!(
        w.outcome(waiting),
        Some(Outcome::Unavailable {
            retry_after: secs(1)
        })
    );
    assert!(w.books.drained);
}

/// A worker that ends by TERM, late in its grace period, did not die of its task.
#[test]
fn a_death_by_term_is_not_blamed_on_the_task() {
    let Drain { mut w, mail, users } = pool(workers(2));
    let tasks = [
        w.submit(job(mail).limit(secs(999))),
        w.submit(call(users).time_left(secs(999))),
    ];
    w.step(Event::Drain);
    w.pass(secs(7));
    for worker in w.live() {
        w.exit(worker, Exit::Signal(15));
    }
    assert_eq!(w.end(tasks[0]), Some(End::Returned));
    assert_eq!(
        w.outcome(tasks[1]),
        Some(Outcome::WorkerDied(Exit::Signal(15)))
    );
    let blamed = |notice: &Notice| {
        matches!(
            notice,
            Notice::Died {
                crashed: Some(_),
                ..
            }
        )
    };
    assert!(!w.notices().iter().any(blamed));
}

/// In a short grace period, a quarter of it is left between TERM and KILL.
#[test]
fn a_short_grace_period_has_time_between_term_and_kill() {
    let Drain { mut w, mail, .. } = pool(workers(1));
    let config = PoolConfig {
        stop_grace: ms(400),
        ..workers(1)
    };
    w.core.configure_pool(PoolId(0), config);
    w.submit(job(mail).limit(secs(999)));
    let worker = w.live()[0];
    w.step(Event::Drain);
    w.pass(ms(299));
    assert!(!w.has_seen(&Action::Terminate { worker }));
    w.pass(ms(1));
    assert!(w.has_seen(&Action::Terminate { worker }));
    w.pass(ms(100));
    assert!(w.was_killed(worker, StopReason::Shutdown));
}

/// Without a grace period, workers are killed at once, by the next tick.
#[test]
fn without_a_grace_period_workers_are_killed_at_once() {
    let (mut w, _) = World::ready(PoolConfig {
        stop_grace: Span::ZERO,
        ..workers(2)
    });
    w.step(Event::Drain);
    w.tick();
    assert_eq!(w.count(|action| matches!(action, Action::Kill { .. })), 2);
}

/// A worker that was already leaving keeps its own grace period, but never longer than the server's.
#[test]
fn a_leaving_worker_keeps_its_earlier_grace_period() {
    let Drain { mut w, .. } = pool(workers(1));
    let worker = w.live()[0];
    w.step(Event::Left { worker });
    w.pass(secs(6));
    w.step(Event::Drain);
    w.pass(secs(2));
    assert!(w.was_killed(worker, StopReason::Left));
}

/// When the last call is served late in the grace period, its worker gets no second grace period to exit.
#[test]
fn there_is_one_grace_in_all() {
    let Drain { mut w, users, .. } = pool(workers(1));
    let task = w.submit(call(users).time_left(secs(999)));
    let worker = w.on(task).expect("it runs");
    w.step(Event::Drain);
    w.pass(ms(6_500));
    w.done(task);
    assert_eq!(w.view(worker).state, WorkerState::Stopping);
    w.pass(ms(1_500));
    assert!(w.was_killed(worker, StopReason::Shutdown));
}

/// Booting workers are killed, because the tasks that they would serve are not accepted.
#[test]
fn booting_workers_are_killed() {
    let (mut w, _) = World::of(workers(2));
    w.step(Event::Tick);
    let starting = w.starting();
    w.step(Event::Drain);
    assert!(
        starting
            .iter()
            .all(|worker| w.was_killed(*worker, StopReason::Shutdown))
    );
    starting
        .iter()
        .for_each(|worker| w.exit(*worker, Exit::Signal(9)));
    assert!(w.books.drained);
    let boot_failed = |notice: &Notice| matches!(notice, Notice::BootFailed { .. });
    assert!(
        !w.notices().iter().any(boot_failed),
        "and that is not their failure"
    );
}

/// No worker is started any more, whichever one dies.
#[test]
fn dead_workers_are_not_replaced() {
    let Drain { mut w, mail, users } = pool(workers(2));
    let tasks = [w.submit(job(mail)), w.submit(call(users).idempotent())];
    let waiting = w.submit(call(users));
    w.step(Event::Drain);
    w.crash_worker_of(tasks[0]);
    assert!(w.starting().is_empty());
    w.crash_worker_of(tasks[1]);
    assert!(w.starting().is_empty() && w.books.drained);
    assert_eq!(w.end(tasks[0]), Some(End::Returned));
    for task in [tasks[1], waiting] {
        assert_eq!(
            w.outcome(task),
            Some(Outcome::Unavailable {
                retry_after: secs(1)
            })
        );
    }
}

/// A worker that connects by itself during a drain is admitted and sent GOAWAY.
#[test]
fn workers_that_connect_by_themselves_are_sent_goaway() {
    let Drain { mut w, mail, .. } = pool(workers(1));
    w.submit(job(mail));
    w.step(Event::Drain);
    let guest = w.join(PoolId(0), &Hello::default());
    assert!(w.has_seen(&Action::Goaway {
        worker: guest,
        why: StopReason::Shutdown
    }));
}

/// An operator's process manager may restart workers that connect by themselves all the time.
#[test]
fn workers_that_connect_by_themselves_do_not_delay_the_drain() {
    let Drain { mut w, mail, .. } = pool(workers(1));
    w.submit(job(mail));
    w.step(Event::Drain);
    let guest = w.join(PoolId(0), &Hello::default());
    assert!(w.has_seen(&Action::Disconnect { worker: guest }));
}

/// A second drain changes nothing, and neither does any operator command during the drain.
#[test]
fn operator_commands_do_not_stop_a_drain() {
    let Drain { mut w, mail, .. } = pool(workers(1));
    let running = w.submit(job(mail).limit(secs(999)));
    w.step(Event::Drain);
    w.pass(secs(4));
    w.step(Event::Drain);
    w.step(Event::Scale {
        pool: PoolId(0),
        min: 5,
        max: 9,
    });
    w.step(Event::Paused {
        queue: w.queue(mail),
        paused: true,
    });
    assert!(w.starting().is_empty());
    w.pass(secs(4));
    w.crash_worker_of(running);
    assert!(w.books.drained);
}

/// A drain does not wait for calls of a paused queue.
#[test]
fn paused_calls_are_not_waited_for() {
    let Drain { mut w, users, .. } = pool(workers(1));
    let queue = w.queue(users);
    w.step(Event::Paused {
        queue,
        paused: true,
    });
    let task = w.submit(call(users));
    w.step(Event::Drain);
    leave(&mut w);
    assert_eq!(
        w.outcome(task),
        Some(Outcome::Unavailable {
            retry_after: secs(1)
        })
    );
}

/// Waiting calls of one pool do not keep another pool's workers.
#[test]
fn each_pool_stops_as_soon_as_it_has_no_calls() {
    let (mut w, first) = World::ready(workers(1));
    let second = w.core.add_pool("second", workers(1));
    w.boot();
    let users = w.calls(first, "users.get", QueueConfig::default());
    w.submit_many(2, &call(users));
    w.step(Event::Drain);
    let going = w.in_state("stopping");
    assert_eq!(going.len(), 1);
    assert_eq!(w.view(going[0]).pool, second);
}

/// A death by the server's TERM is not blamed on the task of a worker that was already being replaced.
#[test]
fn a_death_by_term_of_a_draining_worker_is_not_blamed_on_the_task() {
    let Drain { mut w, mail, .. } = pool(workers(1));
    let task = w.submit(job(mail).limit(secs(999)));
    let worker = w.on(task).expect("it runs");
    w.step(Event::Reload { pool: PoolId(0) });
    w.boot();
    w.step(Event::Drain);
    w.pass(secs(7));
    assert!(w.has_seen(&Action::Terminate { worker }));
    w.take_actions();
    w.exit(worker, Exit::Signal(15));
    assert!(w.notices().contains(&Notice::Died {
        worker,
        exit: Exit::Signal(15),
        expected: true,
        quiet: false,
        why: Some(StopReason::Replaced),
        crashed: None
    }));
}

/// A worker that is asked to end its task during a drain keeps its whole grace period, and receives TERM
/// once.
#[test]
fn ending_a_task_does_not_hasten_term() {
    let (mut w, pool) = World::ready_as(
        PoolConfig {
            stop_grace: secs(8),
            kill_grace: secs(20),
            ..workers(1)
        },
        &Hello::soft(),
    );
    let mail = w.jobs(pool, "mail", QueueConfig::default());
    w.submit(job(mail).limit(secs(1)));
    let worker = w.live()[0];
    w.step(Event::Drain);
    w.pass(ms(6_999));
    assert!(w.has_seen(&Action::SoftSignal { worker }));
    assert!(!w.has_seen(&Action::Terminate { worker }));
    w.pass(ms(1));
    w.tick();
    assert_eq!(
        w.count(|action| matches!(action, Action::Terminate { .. })),
        1
    );
}

/// Idle workers stay while a call waits that one of them could serve.
#[test]
fn idle_workers_stay_while_calls_wait() {
    let (mut w, pool) = World::ready(workers(2));
    let one = QueueConfig {
        per_key: 1,
        ..QueueConfig::default()
    };
    let users = w.calls(pool, "users.get", one);
    let [first, second] = [0, 1].map(|_| w.submit(call(users).key("a")));
    assert!(w.waits(second));
    w.step(Event::Drain);
    assert_eq!(w.live().len(), 2);
    w.crash_worker_of(first);
    assert!(w.on(second).is_some());
}

/// The job is not to blame and runs again, but its history records what happened (issue 9, A23).
#[test]
fn a_job_that_is_cut_off_is_reported() {
    let (mut w, pool) = World::ready(workers(1));
    let mail = w.jobs(pool, "mail", QueueConfig::default());
    let task = w.submit(job(mail));
    let worker = w.on(task).expect("it runs");
    w.step(Event::Drain);
    w.pass(secs(100));
    w.exit(worker, Exit::Signal(9));
    let why = Some(StopReason::Shutdown);
    let noted = Notice::CutOff {
        worker,
        task,
        why,
        again: true,
    };
    assert!(w.notices().contains(&noted));
    assert_eq!(w.end(task), Some(End::Returned), "and burns no attempt");
}

/// The job has had its only run, and no client waits for its end (issue 9, A26).
#[test]
fn a_recorded_job_that_is_cut_off_is_reported_and_does_not_run_again() {
    let (mut w, pool) = World::ready(workers(1));
    let on_delivery = QueueConfig {
        ack_on_delivery: true,
        ..QueueConfig::default()
    };
    let mail = w.jobs(pool, "mail", on_delivery);
    let task = w.submit(job(mail));
    w.step(Event::Claimed { task });
    let worker = w.on(task).expect("it runs");
    w.step(Event::Drain);
    w.pass(secs(100));
    w.exit(worker, Exit::Signal(9));
    let why = Some(StopReason::Shutdown);
    let noted = Notice::CutOff {
        worker,
        task,
        why,
        again: false,
    };
    assert!(w.notices().contains(&noted), "{:?}", w.notices());
}
