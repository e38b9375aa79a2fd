//! Tests of what the server cannot do while memory is short: sending a task, or reading an answer.
use crate::support::*;
use stoker_core::*;

fn one_worker() -> (World, NameId, WorkerId) {
    let (mut w, pool) = World::ready(PoolConfig {
        task_timeout: secs(1),
        ..workers(1)
    });
    let users = w.calls(pool, "users.get", QueueConfig::default());
    let worker = w.live()[0];
    (w, users, worker)
}

fn defer(w: &mut World, worker: WorkerId, task: TaskId) {
    w.books.holder.remove(&task);
    w.step(Event::Deferred { worker, task });
}

fn pause_reading(w: &mut World, worker: WorkerId, paused: bool) {
    w.step(Event::ReadingPaused { worker, paused });
}

#[test]
fn a_deferred_task_makes_room_for_the_next_and_goes_first_afterwards() {
    let (mut w, users, worker) = one_worker();
    let first = w.submit(call(users).key("a"));
    let [second, third] = [0; 2].map(|_| w.submit(call(users).key("b")));
    defer(&mut w, worker, first);
    assert!(w.core.is_deferred(first) && w.on(first).is_none());
    assert_eq!(w.on(second), Some(worker));
    w.step(Event::Resumed { task: first });
    w.run(second, ms(1));
    assert_eq!(w.on(first), Some(worker), "it came before the third");
    w.done(first);
    w.done(third);
    assert_eq!(w.outcome(first), Some(Outcome::Answered));
}

/// The worker never had the deferred task, so its request still stands.
#[test]
fn a_deferred_task_leaves_the_request_of_its_worker() {
    let (mut w, pool) = World::of(PoolConfig {
        spawned: false,
        ..workers(0)
    });
    let users = w.calls(pool, "users.get", QueueConfig::default());
    let worker = w.join(pool, &Hello::pull());
    w.step(Event::Ready {
        worker,
        wanted: true,
    });
    let first = w.submit(call(users));
    defer(&mut w, worker, first);
    let second = w.submit(call(users));
    assert_eq!(w.on(second), Some(worker), "one request, one call");
    w.done(second);
    w.step(Event::Resumed { task: first });
    assert!(w.waits(first), "the worker has not requested another one");
}

#[test]
fn a_deferred_tasks_key_outlives_its_other_tasks() {
    let (mut w, users, worker) = one_worker();
    let first = w.submit(call(users).key("a"));
    let second = w.submit(call(users).key("a"));
    defer(&mut w, worker, first);
    w.run(second, ms(1));
    w.step(Event::Resumed { task: first });
    w.done(first);
}

#[test]
fn a_deferred_call_ends_by_its_deadline_by_its_client_and_by_a_drain() {
    let (mut w, users, worker) = one_worker();
    let calls =
        [ms(500), secs(9), secs(9)].map(|time_left| w.submit(call(users).time_left(time_left)));
    calls.iter().for_each(|call| defer(&mut w, worker, *call));
    assert!(calls.iter().all(|call| w.core.is_deferred(*call)));
    w.pass(ms(500));
    let in_vain = Outcome::Deadline { ran: false };
    assert_eq!(w.outcome(calls[0]), Some(in_vain));
    w.cancel(calls[1], false);
    assert_eq!(w.outcome(calls[1]), Some(Outcome::Cancelled));
    w.step(Event::Drain);
    w.exit(worker, Exit::Code(0));
    assert!(matches!(
        w.outcome(calls[2]),
        Some(Outcome::Unavailable { .. })
    ));
    assert!(w.has_seen(&Action::Drained));
}

#[test]
fn a_task_that_is_not_assigned_to_the_worker_is_not_deferred() {
    let (mut w, users, worker) = one_worker();
    let [running, waiting] = [0; 2].map(|_| w.submit(call(users)));
    w.step(Event::Deferred {
        worker,
        task: waiting,
    });
    assert!(!w.core.is_deferred(waiting));
    w.step(Event::Resumed { task: running });
    assert_eq!(w.on(running), Some(worker));
}

#[test]
fn a_task_that_was_cancelled_meanwhile_is_not_deferred() {
    let (mut w, users, worker) = one_worker();
    let running = w.submit(call(users));
    w.cancel(running, false);
    defer(&mut w, worker, running);
    assert_eq!(w.outcome(running), Some(Outcome::Cancelled));
    assert_eq!(w.view(worker).assigned, 0);
}

#[test]
fn paused_reading_does_not_count_as_run_time() {
    let (mut w, users, worker) = one_worker();
    let running = w.submit(call(users).time_left(secs(60)));
    w.pass(ms(900));
    pause_reading(&mut w, worker, true);
    w.pass(secs(5));
    assert!(!w.was_killed(worker, StopReason::TaskTimeout));
    pause_reading(&mut w, worker, false);
    w.pass(ms(99));
    assert!(
        !w.was_killed(worker, StopReason::TaskTimeout),
        "it had 100 ms left"
    );
    w.pass(ms(1));
    assert!(w.was_killed(worker, StopReason::TaskTimeout));
    w.exit(worker, Exit::Signal(9));
    assert_eq!(w.outcome(running), Some(Outcome::TimedOut));
}

/// Only the part of a pause after a task began extends its limit.
#[test]
fn a_task_that_begins_during_a_pause_is_excused_for_the_rest_of_it() {
    let (mut w, users, worker) = one_worker();
    pause_reading(&mut w, worker, true);
    w.pass(secs(2));
    w.submit(call(users).time_left(secs(60)));
    w.pass(ms(500));
    pause_reading(&mut w, worker, false);
    w.pass(ms(999));
    assert!(!w.was_killed(worker, StopReason::TaskTimeout));
    w.pass(ms(1));
    assert!(w.was_killed(worker, StopReason::TaskTimeout));
}

#[test]
fn a_pause_before_a_task_began_does_not_extend_its_limit() {
    let (mut w, users, worker) = one_worker();
    pause_reading(&mut w, worker, true);
    let first = w.submit(call(users).time_left(secs(60)));
    w.pass(secs(2));
    pause_reading(&mut w, worker, false);
    w.pass(ms(999));
    w.done(first);
    let second = w.submit(call(users).time_left(secs(60)));
    w.pass(ms(999));
    assert!(!w.was_killed(worker, StopReason::TaskTimeout));
    w.pass(ms(1));
    assert!(
        w.was_killed(worker, StopReason::TaskTimeout),
        "the second has no excuse"
    );
    assert!(w.on(second).is_some());
}
