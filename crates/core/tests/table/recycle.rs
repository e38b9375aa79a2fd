//! Tests of replacing workers before they cause trouble: after a number of tasks, by memory use, and
//! by age.
use crate::support::*;
use stoker_core::*;

const MB: u64 = 1 << 20;

fn pool_with(config: PoolConfig) -> (World, NameId, WorkerId) {
    let (mut w, pool) = World::ready(config);
    let mail = w.jobs(pool, "mail", QueueConfig::default());
    let worker = w.live()[0];
    (w, mail, worker)
}

/// Runs jobs until a successor is booting. Returns how many it took.
fn runs_until_replaced(w: &mut World, mail: NameId) -> u64 {
    (1..)
        .find(|_| {
            let task = w.submit(job(mail));
            w.run(task, ms(1));
            !w.starting().is_empty()
        })
        .expect("it is replaced some day")
}

/// A worker is replaced after `max_tasks` minus some jitter, so that workers that started together do
/// not end together.
#[test]
fn a_worker_is_replaced_after_max_tasks() {
    let mut counts = Vec::new();
    for _ in 0..3 {
        let (mut w, mail, old) = pool_with(PoolConfig {
            max_tasks: 1_000,
            ..workers(1)
        });
        for _ in 0..3 {
            counts.push(runs_until_replaced(&mut w, mail));
            assert_eq!(w.live().len(), 1, "it serves until its successor is ready");
            let task = w.submit(job(mail));
            w.done(task);
            w.boot();
            assert_eq!(w.live().len(), 1);
        }
        assert!(!w.live().contains(&old));
    }
    assert!(
        counts.iter().all(|count| (850..=1_000).contains(count)),
        "{counts:?}"
    );
    assert!(
        counts[..3].iter().any(|count| *count != counts[0]),
        "{counts:?}"
    );
}

#[test]
fn a_small_max_tasks_has_no_jitter() {
    let (mut w, mail, _) = pool_with(PoolConfig {
        max_tasks: 3,
        ..workers(1)
    });
    assert_eq!(runs_until_replaced(&mut w, mail), 3);
}

#[test]
fn without_max_tasks_no_worker_is_replaced() {
    let (mut w, mail, worker) = pool_with(workers(1));
    for task in w.submit_many(2_000, &job(mail)) {
        w.done(task);
    }
    w.pass(secs(30 * 86_400));
    assert_eq!(w.live(), [worker]);
}

#[test]
fn a_worker_is_replaced_at_max_age() {
    let (mut w, mail, old) = pool_with(PoolConfig {
        max_age: secs(1_000),
        ..workers(1)
    });
    let task = w.submit(job(mail).limit(secs(9_999)));
    w.pass(secs(849));
    assert!(w.starting().is_empty());
    w.pass(secs(151));
    assert_eq!(w.starting().len(), 1);
    w.boot();
    assert_eq!(w.view(old).state, WorkerState::Draining, "its task may end");
    w.pass(secs(2_000));
    w.done(task);
    assert_eq!(w.outcome(task), Some(Outcome::Answered));
    assert!(w.has_seen(&Action::Goaway {
        worker: old,
        why: StopReason::Replaced
    }));
}

/// A worker that is measured above its limit after a task is replaced, not killed.
#[test]
fn a_worker_that_grew_is_replaced_after_its_task() {
    let (mut w, mail, old) = pool_with(PoolConfig {
        memory_limit: 100 * MB,
        ..workers(1)
    });
    let task = w.submit(job(mail));
    w.done(task);
    assert!(w.has_seen(&Action::Measure { worker: old }));
    w.step(Event::Measured {
        worker: old,
        rss: 100 * MB,
    });
    assert!(
        w.starting().is_empty(),
        "the limit itself is not above the limit"
    );
    w.step(Event::Measured {
        worker: old,
        rss: 100 * MB + 1,
    });
    assert_eq!((w.starting().len(), w.view(old).rss), (1, 100 * MB + 1));
    w.boot();
    assert!(w.has_seen(&Action::Goaway {
        worker: old,
        why: StopReason::Replaced
    }));
    assert_eq!(w.view(old).state, WorkerState::Stopping);
}

/// Reading the memory size takes as long as a short task, so it is not read after each task.
#[test]
fn memory_is_measured_at_most_ten_times_a_second() {
    let (mut w, mail, worker) = pool_with(PoolConfig {
        memory_limit: 100 * MB,
        ..workers(1)
    });
    for _ in 0..1_000 {
        let task = w.submit(job(mail));
        w.run(task, ms(1));
    }
    let measured = w.count(|action| *action == Action::Measure { worker });
    assert!((9..=11).contains(&measured), "{measured} in a second");
}

/// A worker that was measured just before its last task is measured again after it.
#[test]
fn the_last_task_of_many_is_followed_by_a_measurement() {
    let (mut w, mail, worker) = pool_with(PoolConfig {
        memory_limit: 100 * MB,
        ..workers(1)
    });
    let measured = |w: &World| w.count(|action| *action == Action::Measure { worker });
    for _ in 0..2 {
        let task = w.submit(job(mail));
        w.run(task, ms(20));
    }
    assert_eq!(measured(&w), 1, "too soon after the first");
    w.pass(ms(79));
    assert_eq!(measured(&w), 1);
    w.pass(ms(1));
    assert_eq!(measured(&w), 2);
    w.pass(secs(60));
    assert_eq!(measured(&w), 2, "it has done nothing since");
}

/// Memory is also measured during a long task. A worker that exceeds its limit by half is killed.
#[test]
fn a_worker_that_exceeds_its_limit_by_half_is_killed_during_its_task() {
    let (mut w, mail, worker) = pool_with(PoolConfig {
        memory_limit: 100 * MB,
        ..workers(1)
    });
    let task = w.submit(job(mail));
    w.pass(secs(1));
    let measured = w.count(|action| *action == Action::Measure { worker });
    assert_eq!(measured, 4, "four times a second");
    w.step(Event::Measured {
        worker,
        rss: 150 * MB,
    });
    assert_eq!(w.live(), [worker]);
    w.step(Event::Measured {
        worker,
        rss: 150 * MB + 1,
    });
    assert!(w.was_killed(worker, StopReason::Memory));
    w.exit(worker, Exit::Signal(9));
    w.boot();
    let (worker, time_left) = (w.on(task).expect("it runs again"), None);
    assert!(
        w.has_seen(&Action::Deliver {
            worker,
            task,
            time_left,
            attempt: 0,
            crashes: 1
        }),
        "as a suspect"
    );
}

/// A task that exceeded its time has got the signal for that when its worker is killed for its memory. The next run has all its
/// time again.
#[test]
fn a_task_whose_worker_was_killed_for_its_memory_is_not_overdue_at_once() {
    let config = PoolConfig {
        memory_limit: 100 * MB,
        task_timeout: secs(1),
        kill_grace: secs(5),
        ..workers(1)
    };
    let (mut w, pool) = World::ready_as(config, &Hello::soft());
    let mail = w.jobs(pool, "mail", QueueConfig::default());
    let (task, first) = (w.submit(job(mail)), w.live()[0]);
    w.pass(secs(1));
    assert!(w.has_seen(&Action::SoftSignal { worker: first }));
    w.step(Event::Measured {
        worker: first,
        rss: 200 * MB,
    });
    assert!(w.was_killed(first, StopReason::Memory));
    w.exit(first, Exit::Signal(9));
    w.pass(secs(5));
    w.boot_as(&Hello::soft());
    let second = w.on(task).expect("it runs again");
    w.pass(ms(990));
    assert!(!w.has_seen(&Action::SoftSignal { worker: second }));
    assert!(!w.was_killed(second, StopReason::TaskTimeout));
    assert!(!w.was_killed(second, StopReason::Cancelled));
    w.done(task);
}

/// A worker that is being replaced because of its size is still measured while its task runs.
#[test]
fn a_worker_that_keeps_growing_while_it_is_replaced_is_killed() {
    let (mut w, mail, old) = pool_with(PoolConfig {
        memory_limit: 100 * MB,
        ..workers(1)
    });
    w.submit(job(mail));
    w.pass(ms(300));
    w.step(Event::Measured {
        worker: old,
        rss: 101 * MB,
    });
    w.boot();
    assert_eq!(w.view(old).state, WorkerState::Draining);
    let before = w.count(|action| *action == Action::Measure { worker: old });
    w.pass(secs(1));
    let measured = w.count(|action| *action == Action::Measure { worker: old });
    assert_eq!(measured - before, 4, "four times a second, as before");
    w.step(Event::Measured {
        worker: old,
        rss: 150 * MB,
    });
    assert!(!w.was_killed(old, StopReason::Memory));
    w.step(Event::Measured {
        worker: old,
        rss: 150 * MB + 1,
    });
    assert!(w.was_killed(old, StopReason::Memory));
}

/// A reload can set the limit while the worker runs a task (simulation, seed 858 of 2026-11-23).
#[test]
fn a_memory_limit_set_by_a_reload_applies_to_running_tasks() {
    let (mut w, mail, worker) = pool_with(workers(1));
    w.submit(job(mail));
    w.pass(secs(1));
    let config = PoolConfig {
        memory_limit: 100 * MB,
        ..workers(1)
    };
    w.core.configure_pool(PoolId(0), config);
    w.pass(secs(1));
    let measured = w.count(|action| *action == Action::Measure { worker });
    assert!((4..=5).contains(&measured), "{measured} in a second");
}

/// An idle worker above the limit is only replaced, not killed.
#[test]
fn an_idle_worker_is_not_killed_for_its_memory() {
    let (mut w, _, worker) = pool_with(PoolConfig {
        memory_limit: 100 * MB,
        ..workers(1)
    });
    w.step(Event::Measured {
        worker,
        rss: 900 * MB,
    });
    assert_eq!((w.live(), w.starting().len()), (vec![worker], 1));
    w.step(Event::Measured {
        worker,
        rss: 900 * MB,
    });
    assert_eq!(w.starting().len(), 1, "once is enough");
}

#[test]
fn without_a_limit_memory_is_only_reported() {
    let (mut w, mail, worker) = pool_with(workers(1));
    let task = w.submit(job(mail));
    w.pass(secs(5));
    w.done(task);
    assert!(!w.has_seen(&Action::Measure { worker }));
    w.step(Event::Measured {
        worker,
        rss: 1 << 50,
    });
    assert_eq!((w.live(), w.view(worker).rss), (vec![worker], 1 << 50));
}

/// A worker that connected by itself gets GOAWAY at once, because the server cannot start its successor.
#[test]
fn a_connected_worker_is_stopped_instead_of_replaced() {
    let config = PoolConfig {
        max_tasks: 2,
        spawned: false,
        ..workers(1)
    };
    let (mut w, pool) = World::of(config);
    let guest = w.join(pool, &Hello::default());
    let mail = w.jobs(pool, "mail", QueueConfig::default());
    for task in w.submit_many(2, &job(mail)) {
        w.done(task);
    }
    assert!(w.has_seen(&Action::Goaway {
        worker: guest,
        why: StopReason::Replaced
    }));
    assert!(w.starting().is_empty());
}

/// A worker whose last task took long still has its whole grace period to exit.
#[test]
fn the_grace_period_begins_when_the_last_task_has_ended() {
    let (mut w, mail, old) = pool_with(PoolConfig {
        max_tasks: 1,
        stop_grace: secs(4),
        ..workers(1)
    });
    let first = w.submit(job(mail));
    w.done(first);
    let long = w.submit(job(mail).limit(secs(600)));
    w.boot();
    assert_eq!(w.view(old).state, WorkerState::Draining);
    w.pass(secs(300));
    assert!(
        !w.has_seen(&Action::Terminate { worker: old }),
        "a worker that is replaced may finish"
    );
    w.done(long);
    w.pass(ms(2_999));
    assert!(!w.has_seen(&Action::Terminate { worker: old }));
    w.pass(ms(1));
    assert!(w.has_seen(&Action::Terminate { worker: old }));
    w.pass(ms(999));
    assert!(!w.was_killed(old, StopReason::Replaced));
    w.pass(ms(1));
    assert!(w.was_killed(old, StopReason::Replaced));
}

/// A worker that is being replaced gets no prefetched tasks.
#[test]
fn an_outdated_worker_prefetches_nothing() {
    let (mut w, mail, worker) = pool_with(PoolConfig {
        max_tasks: 65,
        ..workers(1)
    });
    w.train(&job(mail), Span(50));
    let tasks = w.submit_many(60, &job(mail));
    assert!(w.assigned(&tasks).len() > 1);
    while w.starting().is_empty() {
        let running = w.core.assigned_to(worker).next().expect("work waits");
        w.done(running);
    }
    let before = w.assigned(&tasks).len();
    for _ in 0..before {
        let running = w.core.assigned_to(worker).next().expect("work waits");
        w.done(running);
    }
    assert_eq!(w.assigned(&tasks).len(), 1, "one at a time until it goes");
}

/// The memory of a worker without a limit is not read when the worker is checked for other reasons.
#[test]
fn without_a_limit_memory_is_not_measured_by_the_timer() {
    let (mut w, mail, worker) = pool_with(PoolConfig {
        max_age: secs(10),
        ..workers(1)
    });
    w.submit(job(mail).limit(secs(60)));
    w.pass(secs(10));
    assert_eq!(w.starting().len(), 1, "it is to be replaced");
    assert!(!w.has_seen(&Action::Measure { worker }));
}
