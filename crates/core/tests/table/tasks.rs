//! Tests of workers that take a limited number of tasks in their life.
use crate::support::*;
use stoker_core::*;

/// A pool with `min` ready workers that each take one task, and a queue.
fn one_task(min: u32, max: u32) -> (World, PoolId, NameId) {
    let config = PoolConfig {
        min,
        max,
        ..PoolConfig::default()
    };
    let (mut w, pool) = World::ready_as(config, &Hello::tasks(1));
    let mail = w.jobs(pool, "mail", QueueConfig::default());
    (w, pool, mail)
}

fn goaways(w: &World, worker: WorkerId) -> usize {
    w.count(|action| matches!(action, Action::Goaway { worker: of, .. } if *of == worker))
}

#[test]
fn a_one_task_worker_is_never_assigned_another_task() {
    let (mut w, _, mail) = one_task(1, 1);
    let tasks = w.submit_many(20, &job(mail));
    assert_eq!(w.assigned(&tasks), tasks[..1]);
    let worker = w.on(tasks[0]).unwrap();
    w.done(tasks[0]);
    assert_eq!(w.assigned(&tasks), []);
    assert_eq!(goaways(&w, worker), 0, "it knows that it is to end");
    w.exit(worker, Exit::Code(0));
    w.boot_as(&Hello::tasks(1));
    assert_eq!(w.assigned(&tasks), tasks[1..2]);
}

/// Short tasks are prefetched, but never more than the worker may still take.
#[test]
fn a_three_task_worker_is_assigned_three_tasks() {
    let (mut w, pool) = World::of(PoolConfig {
        spawned: false,
        ..workers(0)
    });
    let mail = w.jobs(pool, "mail", QueueConfig::default());
    let teacher = w.join(pool, &Hello::default());
    w.train(&job(mail), Span(50));
    w.exit(teacher, Exit::ConnectionLost);
    let worker = w.join(pool, &Hello::tasks(3));
    let tasks = w.submit_many(20, &job(mail));
    assert_eq!(w.assigned(&tasks), tasks[..3]);
    w.done(tasks[0]);
    assert_eq!(w.assigned(&tasks), tasks[1..3]);
    w.done(tasks[1]);
    w.done(tasks[2]);
    assert_eq!((w.assigned(&tasks), goaways(&w, worker)), (vec![], 0));
}

/// A successor boots while the task runs, if the maximum permits it.
#[test]
fn the_minimum_is_kept_ready() {
    let (mut w, _, mail) = one_task(2, 4);
    let tasks = w.submit_many(4, &job(mail));
    assert_eq!(w.assigned(&tasks), tasks[..2]);
    assert_eq!(w.starting().len(), 2, "at once, without any starving");
    w.boot_as(&Hello::tasks(1));
    assert_eq!(w.assigned(&tasks), tasks);
    assert_eq!(w.starting().len(), 0, "four are all that it may have");
    let worker = w.on(tasks[0]).unwrap();
    w.done(tasks[0]);
    assert_eq!(w.starting().len(), 1, "a worker that leaves makes room");
    w.exit(worker, Exit::Code(0));
    assert_eq!(w.starting().len(), 1);
}

#[test]
fn a_worker_that_does_not_exit_after_its_last_task_is_killed() {
    let (mut w, _, mail) = one_task(1, 1);
    let task = w.submit(job(mail));
    let worker = w.on(task).unwrap();
    w.done(task);
    w.pass(secs(11));
    assert!(w.was_killed(worker, StopReason::TaskLimit));
}

/// The `tasks` limit of a pool also applies to workers that do not know it: they receive GOAWAY after their
/// last task.
#[test]
fn a_worker_that_does_not_know_its_limit_is_sent_goaway() {
    let (mut w, pool) = World::ready(PoolConfig {
        tasks_per_worker: 1,
        ..workers(1)
    });
    let mail = w.jobs(pool, "mail", QueueConfig::default());
    let tasks = w.submit_many(2, &job(mail));
    let worker = w.on(tasks[0]).unwrap();
    w.done(tasks[0]);
    assert_eq!(w.assigned(&tasks), []);
    assert_eq!(goaways(&w, worker), 1);
}

/// The limit rises by one with each task that ends while others wait and the pool can't grow, and falls when none waits.
#[test]
fn the_limit_of_tasks_is_raised_while_the_pool_is_saturated() {
    let (mut w, pool) = World::ready(PoolConfig {
        tasks_per_worker: 1,
        max_tasks_per_worker: 4,
        ..workers(1)
    });
    let mail = w.jobs(pool, "mail", QueueConfig::default());
    let tasks = w.submit_many(6, &job(mail));
    let worker = w.on(tasks[0]).unwrap();
    for (nth, task) in tasks[..4].iter().enumerate() {
        assert_eq!(w.on(*task), Some(worker), "task {nth}");
        assert_eq!(goaways(&w, worker), 0, "task {nth}");
        w.done(*task);
    }
    assert_eq!(goaways(&w, worker), 1);
    assert_eq!(w.core.tasks_per_worker(pool), 4);
    w.exit(worker, Exit::Code(0));
    w.boot();
    let next = w.on(tasks[4]).unwrap();
    assert_ne!(next, worker);
    w.done(tasks[4]);
    assert_eq!(w.on(tasks[5]), Some(next));
    w.done(tasks[5]);
    assert_eq!(w.core.tasks_per_worker(pool), 2, "no task waits any more");
    assert_eq!(goaways(&w, next), 1);
}

/// A short-lived worker that exits cleanly is not worth a log line; one that ends otherwise is.
#[test]
fn a_clean_exit_of_a_short_lived_worker_is_quiet() {
    for (exit, is_quiet) in [(Exit::Code(0), true), (Exit::Code(3), false)] {
        let (mut w, _, mail) = one_task(1, 1);
        let task = w.submit(job(mail));
        let worker = w.on(task).unwrap();
        w.done(task);
        w.exit(worker, exit);
        let ends = w.notices().into_iter().find_map(|notice| match notice {
            Notice::Died {
                expected, quiet, ..
            } => Some((expected, quiet)),
            _ => None,
        });
        assert_eq!(ends, Some((true, is_quiet)));
    }
}

/// A worker that is ready and ends without a task was of no use, so its successor is delayed.
#[test]
fn workers_that_exit_without_a_task_are_restarted_with_backoff() {
    let (mut w, _, _) = one_task(1, 1);
    w.pass(ms(1));
    let worker = w.live()[0];
    w.exit(worker, Exit::Code(0));
    assert_eq!(w.starting().len(), 0);
    w.pass(ms(300));
    assert_eq!(w.starting().len(), 1);
}

/// If the process that an adapter started for a task dies, only that task has crashed.
#[test]
fn a_crash_within_a_worker_costs_only_its_task() {
    let (mut w, pool) = World::ready_as(
        PoolConfig {
            isolated: true,
            crash_budget: 2,
            ..workers(1)
        },
        &Hello::slots(4),
    );
    let mail = w.jobs(pool, "mail", QueueConfig::default());
    let tasks = w.submit_many(4, &job(mail));
    let worker = w.on(tasks[0]).unwrap();
    for task in &tasks {
        w.step(Event::Started {
            worker,
            task: *task,
        });
    }
    w.answer(tasks[0], Answer::Crashed(Exit::Signal(11)));
    assert_eq!(w.live(), [worker]);
    assert_eq!(
        w.on(tasks[0]),
        Some(worker),
        "it runs again at once, beside others: it can't harm them"
    );
    w.answer(tasks[0], Answer::Crashed(Exit::Signal(11)));
    let quarantined = Outcome::Quarantined {
        crashes: 2,
        exit: Exit::Signal(11),
    };
    assert_eq!(w.outcome(tasks[0]), Some(quarantined));
    assert_eq!(w.assigned(&tasks[1..]), tasks[1..]);
}

/// An adapter with one slot runs one program at a time, and gets no prefetched tasks.
#[test]
fn an_adapter_with_one_slot_prefetches_nothing() {
    let config = PoolConfig {
        isolated: true,
        ..workers(1)
    };
    let (mut w, pool) = World::ready_as(config, &Hello::slots(1));
    let mail = w.jobs(pool, "mail", QueueConfig::default());
    w.train(&job(mail), Span(50));
    let tasks = w.submit_many(9, &job(mail));
    for task in &tasks {
        assert_eq!(w.assigned(&tasks), [*task]);
        w.done(*task);
    }
}

/// The last task of a worker can wait neither for its own worker nor for a successor if the pool is full.
#[test]
fn the_last_task_of_a_full_pool_cannot_call_its_own_pool() {
    let hello = Hello {
        slots: 4,
        ..Hello::tasks(1)
    };
    let (mut w, pool) = World::ready_as(workers(1), &hello);
    let users = w.calls(pool, "users.get", QueueConfig::default());
    let outer = w.submit(call(users));
    let inner = w.submit(call(users).inside(w.on(outer).unwrap()));
    assert_eq!(w.outcome(inner), Some(Outcome::WouldDeadlock));
}

/// Found by seed 30270: an idle worker is to be replaced while the others are busy with their only task.
#[test]
fn a_successor_replaces_a_worker_while_others_are_at_their_last_task() {
    let config = PoolConfig {
        min: 4,
        max: 4,
        max_age: secs(100),
        ..PoolConfig::default()
    };
    let (mut w, pool) = World::ready_as(config, &Hello::tasks(1));
    let mail = w.jobs(pool, "mail", QueueConfig::default());
    w.submit_many(3, &job(mail).limit(secs(9_999)));
    let idle = w.in_state("ready");
    assert_eq!(idle.len(), 1);
    w.pass(secs(100));
    assert_eq!(w.starting().len(), 1);
    let successor = w.starting()[0];
    w.hello(successor, &Hello::tasks(1));
    assert_eq!(w.view(idle[0]).state, WorkerState::Stopping);
    assert_eq!((w.live().len(), w.starting()), (4, vec![]));
}
