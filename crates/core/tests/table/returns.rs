//! Tests of returned tasks and of workers that leave: neither may go on forever (issue 9, A6).
use crate::support::*;
use stoker_core::*;

/// Lets the worker of a task leave, so that the task goes to the next worker.
fn leave_with(w: &mut World, task: TaskId) -> WorkerId {
    let worker = w.on(task).expect("it runs");
    w.step(Event::Left { worker });
    worker
}

/// Like `leave_with`. The worker ends, and a new one boots and gets the task.
fn replace_worker_of(w: &mut World, task: TaskId) {
    let worker = leave_with(w, task);
    w.exit(worker, Exit::Code(0));
    while w.on(task).is_none() && w.end(task).is_none() {
        w.pass(ms(10));
        w.boot();
    }
}

/// After a restart was requested, each outdated worker may return the task once, and none of these returns counts.
#[test]
fn workers_that_were_there_before_return_a_task_at_no_cost() {
    let (mut w, pool) = World::ready(workers(10));
    let mail = w.jobs(pool, "mail", QueueConfig::default());
    let task = w.submit(job(mail).tries(1));
    for _ in 0..10 {
        w.pass(ms(1));
        leave_with(&mut w, task);
    }
    while w.on(task).is_none() {
        w.pass(ms(10));
        w.boot();
    }
    w.done(task);
    assert!(
        matches!(w.end(task), Some(End::Reported(Outcome::Answered, facts)) if facts.attempt <= 1)
    );
}

#[test]
fn a_task_that_is_returned_again_and_again_counts_as_a_failed_run() {
    for tries in [1, 2] {
        let (mut w, pool) = World::ready(workers(1));
        let mail = w.jobs(pool, "mail", QueueConfig::default());
        let task = w.submit(job(mail).tries(tries));
        for _ in 0..3 {
            replace_worker_of(&mut w, task);
            assert!(w.on(task).is_some(), "it goes to another worker");
        }
        leave_with(&mut w, task);
        match (tries, w.end(task)) {
            (1, Some(End::Reported(Outcome::Abandoned, facts))) => assert_eq!(facts.attempt, 1),
            (
                2,
                Some(End::Retry {
                    cause: Cause::Abandoned,
                    facts,
                    ..
                }),
            ) => {
                assert_eq!(facts.attempt, 1);
            }
            (_, end) => panic!("{tries} tries: {end:?}"),
        }
    }
}

#[test]
fn a_call_that_is_returned_again_and_again_is_answered() {
    let (mut w, pool) = World::ready(workers(1));
    let users = w.calls(pool, "users.get", QueueConfig::default());
    let task = w.submit(call(users));
    for _ in 0..4 {
        replace_worker_of(&mut w, task);
    }
    assert_eq!(w.outcome(task), Some(Outcome::Abandoned));
}

/// Tasks prefetched behind the first one cannot have begun.
#[test]
fn only_a_task_that_may_have_begun_is_counted() {
    let (mut w, pool) = World::ready(workers(1));
    let mail = w.jobs(pool, "mail", QueueConfig::default());
    w.train(&job(mail), Span(50));
    let tasks = w.submit_many(20, &job(mail).tries(1));
    for _ in 0..6 {
        let worker = w.live()[0];
        let head = w.core.assigned_to(worker).next().expect("work waits");
        w.done(head);
        w.step(Event::Left { worker });
        w.exit(worker, Exit::Code(0));
        w.pass(secs(1));
        w.boot();
    }
    assert!(
        w.books.held.contains(&tasks[19]),
        "it was behind others each time"
    );
}

/// Each leaving worker takes its time to end, and gets no successor before there is room for one.
#[test]
fn workers_that_leave_faster_than_they_end_do_not_pile_up() {
    let (mut w, pool) = World::ready(workers(1));
    let mail = w.jobs(pool, "mail", QueueConfig::default());
    let mut left = Vec::new();
    for _ in 0..50 {
        w.boot();
        let task = w.submit(job(mail));
        let Some(worker) = w.on(task) else { break };
        w.done(task);
        w.step(Event::Left { worker });
        left.push(worker);
    }
    assert_eq!(left.len(), 4, "of a pool of one worker");
    assert!(w.starting().is_empty() && w.live().is_empty());
    w.exit(left[0], Exit::Code(0));
    w.boot();
    assert_eq!(w.live().len(), 1, "one that ended makes room for one");
}

#[test]
fn reloads_in_quick_succession_start_no_more_processes_than_there_is_room_for() {
    let (mut w, pool) = World::ready(workers(1));
    for _ in 0..200 {
        w.step(Event::Reload { pool });
        assert!(w.core.workers().count() <= 1 + 1 + 4);
    }
}

/// A world in which so many workers are leaving that there is no room for another one, while work waits.
fn crowded() -> (World, NameId, Vec<WorkerId>) {
    let (mut w, pool) = World::ready(PoolConfig {
        stop_grace: secs(10),
        ..workers(1)
    });
    let mail = w.jobs(pool, "mail", QueueConfig::default());
    let leave = |_| {
        w.boot();
        let task = w.submit(job(mail));
        let worker = w.on(task).expect("it runs");
        w.done(task);
        w.step(Event::Left { worker });
        worker
    };
    let left = (0..4).map(leave).collect();
    w.boot();
    assert!(w.starting().is_empty() && w.live().is_empty());
    w.seen.clear();
    (w, mail, left)
}

#[test]
fn starving_work_cuts_the_grace_period_of_stopping_workers() {
    let (mut w, mail, left) = crowded();
    w.pass(secs(2));
    assert_eq!(
        w.count(|action| matches!(action, Action::Terminate { .. })),
        0,
        "nothing waits"
    );
    let task = w.submit(job(mail));
    w.pass(ms(100));
    let terminated = Action::Terminate { worker: left[0] };
    assert!(
        w.has_seen(&terminated),
        "the one that left first is to end now"
    );
    w.pass(secs(1));
    assert!(w.was_killed(left[0], StopReason::Left));
    w.pass(secs(1));
    assert_eq!(
        w.count(|action| matches!(action, Action::Terminate { .. })),
        1,
        "and only that one"
    );
    w.exit(left[0], Exit::Signal(9));
    w.boot();
    assert!(w.on(task).is_some());
    w.pass(secs(2));
    assert_eq!(w.count(|action| matches!(action, Action::Kill { .. })), 1);
}

#[test]
fn a_worker_that_exits_on_term_makes_room_before_it_is_killed() {
    let (mut w, mail, left) = crowded();
    let task = w.submit(job(mail));
    w.pass(ms(100));
    w.exit(left[0], Exit::Signal(15));
    w.boot();
    assert!(w.on(task).is_some());
    assert_eq!(w.count(|action| matches!(action, Action::Kill { .. })), 0);
}

/// A worker with several slots has reported which tasks it began.
#[test]
fn a_worker_with_a_task_to_finish_keeps_its_grace_period() {
    let (mut w, pool) = World::ready_as(workers(1), &Hello::slots(2));
    let mail = w.jobs(pool, "mail", QueueConfig::default());
    for _ in 0..4 {
        w.boot_as(&Hello::slots(2));
        let task = w.submit(job(mail));
        let worker = w.on(task).expect("it runs");
        w.step(Event::Started { worker, task });
        w.step(Event::Left { worker });
    }
    let waiting = w.submit(job(mail));
    w.pass(secs(30));
    assert!(w.waits(waiting) && w.starting().is_empty());
    assert_eq!(
        w.count(|action| matches!(action, Action::Terminate { .. })),
        0
    );
}

/// Lets every worker that runs this task leave during it and then violate the protocol. Returns how long it
/// took until the task had ended.
fn leave_again_and_again(w: &mut World, task: TaskId) -> Span {
    let began = w.now;
    loop {
        w.boot();
        while w.on(task).is_none() {
            w.pass(ms(10));
            w.boot();
        }
        let worker = w.on(task).expect("that was waited for");
        w.step(Event::Left { worker });
        w.step(Event::Misbehaved { worker });
        w.exit(worker, Exit::Signal(9));
        if w.end(task).is_some() {
            return w.now.since(began);
        }
    }
}

/// The delay after failed boots grows, but a task that makes its workers leave proves nothing about the next
/// boot.
#[test]
fn workers_that_leave_during_a_task_are_not_failed_boots_of_a_proven_version() {
    let (mut w, pool) = World::ready(workers(1));
    let mail = w.jobs(pool, "mail", QueueConfig::default());
    let good = w.submit(job(mail));
    w.done(good);
    let mut all = Span::ZERO;
    for _ in 0..10 {
        let bad = w.submit(job(mail).tries(1));
        let took = leave_again_and_again(&mut w, bad);
        assert!(
            took <= secs(1),
            "each start waits at most a moment: {took:?}"
        );
        all.0 += took.0;
    }
    assert!(all >= secs(1), "and not all of them come at once: {all:?}");
    let failed = |notice: &Notice| matches!(notice, Notice::BootFailed { .. });
    assert!(!w.notices().iter().any(failed));
}

#[test]
fn leaving_during_a_task_is_a_failed_boot_of_an_unproven_version() {
    let (mut w, pool) = World::ready(workers(1));
    let mail = w.jobs(pool, "mail", QueueConfig::default());
    let mut all = Span::ZERO;
    for _ in 0..3 {
        let bad = w.submit(job(mail).tries(1));
        all.0 += leave_again_and_again(&mut w, bad).0;
    }
    assert!(all > secs(5), "{all:?}");
    let failing = |notice: &Notice| {
        matches!(
            notice,
            Notice::Health {
                health: Health::Failing { .. },
                ..
            }
        )
    };
    assert!(w.notices().iter().any(failing));
}

/// That the old version worked proves nothing about the new one.
#[test]
fn a_new_version_whose_workers_only_leave_fails() {
    let (mut w, pool) = World::ready(workers(1));
    let mail = w.jobs(pool, "mail", QueueConfig::default());
    let good = w.submit(job(mail));
    w.done(good);
    let old = w.live()[0];
    w.step(Event::Reload { pool });
    w.boot();
    w.exit(old, Exit::Code(0));
    let bad = w.submit(job(mail).tries(1));
    leave_again_and_again(&mut w, bad);
    let failed = |notice: &Notice| matches!(notice, Notice::BootFailed { .. });
    assert!(w.notices().iter().any(failed));
}
