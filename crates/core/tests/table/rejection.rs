//! Tests of calls that are rejected on arrival, and of the time after which to retry.
use crate::support::*;
use stoker_core::*;

fn bounded(config: QueueConfig) -> (World, PoolId, NameId, TaskId) {
    let (mut w, pool) = World::ready(workers(1));
    let users = w.calls(pool, "users.get", config);
    w.train(&call(users), ms(100));
    let running = w.submit(call(users));
    (w, pool, users, running)
}

#[test]
fn a_full_queue_rejects_calls_with_a_retry_after() {
    let full = QueueConfig {
        max_waiting: 3,
        ..QueueConfig::default()
    };
    let (mut w, _, users, running) = bounded(full);
    let waiting = w.submit_many(3, &call(users));
    let rejected = w.submit(call(users));
    let Some(Outcome::Exhausted { retry_after }) = w.outcome(rejected) else {
        panic!("{:?}", w.end(rejected));
    };
    assert!(
        retry_after >= ms(290) && retry_after <= ms(310),
        "three runs of 100 ms: {retry_after:?}"
    );
    w.done(running);
    let admitted = w.submit(call(users));
    assert!(w.on(waiting[0]).is_some() && w.waits(admitted));
}

/// `retry_after` has a minimum, so that clients do not retry at once.
#[test]
fn retry_after_has_a_minimum() {
    let (mut w, pool) = World::ready(workers(1));
    let full = QueueConfig {
        max_waiting: 0,
        ..QueueConfig::default()
    };
    let users = w.calls(pool, "users.get", full);
    let rejected = w.submit(call(users));
    assert_eq!(
        w.outcome(rejected),
        Some(Outcome::Exhausted {
            retry_after: ms(10)
        })
    );
}

/// A job has already been accepted by its store, so the core does not reject it.
#[test]
fn jobs_are_never_rejected() {
    let (mut w, pool) = World::ready(workers(1));
    let full = QueueConfig {
        max_waiting: 1,
        max_wait: ms(1),
        ..QueueConfig::default()
    };
    let mail = w.jobs(pool, "mail", full);
    let tasks = w.submit_many(5, &job(mail));
    assert!(tasks.iter().all(|task| w.end(*task).is_none()));
}

#[test]
fn a_wait_that_is_too_long_is_shed() {
    let brief = QueueConfig {
        max_wait: ms(250),
        ..QueueConfig::default()
    };
    let (mut w, _, users, _) = bounded(brief);
    let waiting = w.submit_many(3, &call(users));
    assert!(
        waiting.iter().all(|task| w.waits(*task)),
        "behind two is 200 ms"
    );
    let rejected = w.submit(call(users));
    let Some(Outcome::Shed { retry_after }) = w.outcome(rejected) else {
        panic!("{:?}", w.end(rejected));
    };
    assert!(
        retry_after > ms(250) && retry_after < ms(350),
        "{retry_after:?}"
    );
}

/// The expected wait is subtracted from the time that a call has for its run.
#[test]
fn a_call_whose_deadline_would_pass_in_the_queue_is_shed() {
    let (mut w, _, users, _) = bounded(QueueConfig::default());
    w.submit_many(5, &call(users));
    let rejected = w.submit(call(users).time_left(ms(550)));
    assert!(
        matches!(w.outcome(rejected), Some(Outcome::Shed { .. })),
        "{:?}",
        w.end(rejected)
    );
    let let_in = w.submit(call(users).time_left(ms(750)));
    assert!(w.waits(let_in));
}

/// With more workers, the expected wait is shorter.
#[test]
fn the_expected_wait_is_divided_by_the_workers() {
    let (mut w, pool) = World::ready(workers(2));
    let users = w.calls(
        pool,
        "users.get",
        QueueConfig {
            max_wait: ms(250),
            ..QueueConfig::default()
        },
    );
    w.train(&call(users), ms(100));
    let tasks = w.submit_many(2 + 6, &call(users));
    assert!(tasks.iter().all(|task| w.outcome(*task).is_none()));
    let rejected = w.submit(call(users));
    assert!(matches!(w.outcome(rejected), Some(Outcome::Shed { .. })));
}

/// A call made inside a worker is rejected if only this worker's pool could serve it and all workers of
/// the pool wait for such calls.
#[test]
fn a_call_that_would_wait_for_itself_is_rejected() {
    let (mut w, pool) = World::ready(workers(2));
    let users = w.calls(pool, "users.get", QueueConfig::default());
    let outer = w.submit_many(2, &call(users));
    let [first, second] = [0, 1].map(|at| w.on(outer[at]).expect("both run"));
    let inner = w.submit(call(users).inside(first));
    assert!(w.waits(inner), "the other worker will be free some day");
    let deadlock = w.submit(call(users).inside(second));
    assert_eq!(w.outcome(deadlock), Some(Outcome::WouldDeadlock));
    w.done(outer[1]);
    w.done(inner);
    let again = w.submit(call(users).inside(first));
    assert!(
        w.on(again).is_some(),
        "nothing waits for the first any more"
    );
}

#[test]
fn a_pool_that_may_grow_does_not_deadlock() {
    let (mut w, pool) = World::ready(PoolConfig {
        max: 2,
        ..workers(1)
    });
    let users = w.calls(pool, "users.get", QueueConfig::default());
    let outer = w.submit(call(users));
    let inner = w.submit(call(users).inside(w.live()[0]));
    w.pass(ms(50));
    w.boot();
    assert!(w.on(inner).is_some());
    w.done(inner);
    w.done(outer);
}

/// Workers of another pool do not wait for the caller's pool.
#[test]
fn a_call_to_another_pool_does_not_deadlock() {
    let (mut w, pool) = World::ready(workers(1));
    let other = w.core.add_pool("other", workers(1));
    w.boot();
    let users = w.calls(pool, "users.get", QueueConfig::default());
    let mail = w.calls(other, "mail.send", QueueConfig::default());
    let outer = w.submit(call(users));
    let inner = w.submit(call(mail).inside(w.on(outer).expect("it runs")));
    assert!(w.on(inner).is_some());
}

/// A call no longer blocks its caller after its outcome has been reported.
#[test]
fn a_call_that_was_answered_early_does_not_block_its_caller() {
    let (mut w, pool) = World::ready(workers(2));
    let users = w.calls(pool, "users.get", QueueConfig::default());
    let outer = w.submit(call(users));
    let first = w.on(outer).expect("it runs");
    let inner = w.submit(call(users).time_left(ms(100)).inside(first));
    let second = w.on(inner).expect("the other worker is free");
    w.pass(ms(100));
    assert_eq!(w.outcome(inner), Some(Outcome::Deadline { ran: true }));
    let innermost = w.submit(call(users).inside(second));
    assert!(
        w.waits(innermost),
        "the first worker goes on and will be free"
    );
}

/// A worker that leaves frees a place for a successor. In a pool that starts no workers, it has none.
#[test]
fn workers_that_leave_do_not_help() {
    let (mut w, pool) = World::of(PoolConfig {
        spawned: false,
        ..workers(2)
    });
    let [first, second] = [0, 1].map(|_| w.join(pool, &Hello::default()));
    let users = w.calls(pool, "users.get", QueueConfig::default());
    w.step(Event::Left { worker: second });
    let outer = w.submit(call(users));
    assert_eq!(w.on(outer), Some(first));
    let inner = w.submit(call(users).inside(first));
    assert_eq!(w.outcome(inner), Some(Outcome::WouldDeadlock));
}

/// The worker that makes a call may have gone meanwhile.
#[test]
fn a_call_from_a_gone_worker_is_accepted() {
    let (mut w, pool) = World::ready(workers(1));
    let users = w.calls(pool, "users.get", QueueConfig::default());
    let parent = w.live()[0];
    w.die(parent);
    w.pass(secs(1));
    w.boot();
    let task = w.submit(call(users).inside(parent));
    w.done(task);
    assert_eq!(w.outcome(task), Some(Outcome::Answered));
}

/// A wait of exactly `max_wait` is permitted.
#[test]
fn a_wait_of_exactly_max_wait_is_accepted() {
    let (mut w, pool) = World::ready(workers(1));
    let brief = QueueConfig {
        max_wait: ms(2),
        ..QueueConfig::default()
    };
    let users = w.calls(pool, "users.get", brief);
    // Before the first run has been measured, a run is assumed to take a millisecond.
    let let_in = w.submit_many(1 + 3, &call(users));
    assert!(let_in.iter().all(|task| w.end(*task).is_none()));
    let shed = w.submit(call(users));
    let retry_after = ms(3);
    assert_eq!(w.outcome(shed), Some(Outcome::Shed { retry_after }));
}

/// A call that finds a free worker does not wait, however many calls wait. Where there is no worker, no
/// wait can be estimated.
#[test]
fn the_expected_wait_is_zero_with_an_idle_worker_or_without_workers() {
    let brief = QueueConfig {
        max_wait: ms(2),
        per_key: 1,
        ..QueueConfig::default()
    };
    let (mut w, pool) = World::ready(workers(2));
    let users = w.calls(pool, "users.get", brief.clone());
    let crowd = w.submit_many(9, &call(users).key("a"));
    assert!(crowd.iter().all(|task| w.end(*task).is_none()));
    let other = w.submit(call(users).key("b"));
    assert!(w.on(other).is_some());
    let (mut w, pool) = World::of(PoolConfig {
        min: 0,
        ..workers(1)
    });
    let users = w.calls(pool, "users.get", brief);
    let first = w.submit_many(9, &call(users));
    assert!(first.iter().all(|task| w.waits(*task)));
}

/// A worker with many slots serves many calls at once (issue 9, A11).
#[test]
fn the_expected_wait_counts_slots() {
    let (mut w, pool) = World::ready_as(workers(1), &Hello::slots(100));
    let config = QueueConfig {
        max_wait: ms(500),
        ..QueueConfig::default()
    };
    let users = w.calls(pool, "users.get", config);
    w.train(&call(users), ms(100));
    let tasks = w.submit_many(400, &call(users));
    assert!(
        tasks.iter().all(|task| w.end(*task).is_none()),
        "400 runs of 100 ms on 100 slots"
    );
}
