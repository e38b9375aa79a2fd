//! Tasks that workers return, and workers that leave: neither goes on for ever (issue 9, A6).
use crate::support::*;
use stoker_core::*;

/// A worker takes the task and leaves. The task goes to the next one.
fn leave_with(w: &mut World, task: TaskId) -> WorkerId {
    let worker = w.on(task).expect("it runs");
    w.step(Event::Left { worker });
    worker
}

#[test]
fn a_task_that_is_returned_again_and_again_counts_as_a_failed_run() {
    for tries in [1, 2] {
        let (mut w, pool) = World::ready(workers(10));
        let mail = w.jobs(pool, "mail", QueueConfig::default());
        let task = w.bring(job(mail).tries(tries));
        for _ in 0..3 {
            leave_with(&mut w, task);
            assert!(w.on(task).is_some(), "it goes to another worker at once");
        }
        leave_with(&mut w, task);
        match (tries, w.end(task)) {
            (1, Some(End::Told(Outcome::Abandoned, facts))) => assert_eq!(facts.attempt, 1),
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
    let (mut w, pool) = World::ready(workers(10));
    let users = w.calls(pool, "users.get", QueueConfig::default());
    let task = w.bring(call(users));
    for _ in 0..4 {
        leave_with(&mut w, task);
    }
    assert_eq!(w.outcome(task), Some(Outcome::Abandoned));
}

/// Those behind the first one can't have begun.
#[test]
fn only_a_task_that_may_have_begun_is_counted() {
    let (mut w, pool) = World::ready(workers(1));
    let mail = w.jobs(pool, "mail", QueueConfig::default());
    w.learn(&job(mail), Span(50));
    let tasks = w.bring_many(20, &job(mail).tries(1));
    for _ in 0..6 {
        let worker = w.live()[0];
        let head = w.core.lent_to(worker).next().expect("work waits");
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

/// Each takes its time to end, and none has a successor before there is room.
#[test]
fn workers_that_leave_faster_than_they_end_do_not_pile_up() {
    let (mut w, pool) = World::ready(workers(1));
    let mail = w.jobs(pool, "mail", QueueConfig::default());
    let mut left = Vec::new();
    for _ in 0..50 {
        w.boot();
        let task = w.bring(job(mail));
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
