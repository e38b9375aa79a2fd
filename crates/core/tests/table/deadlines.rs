//! Tests of deadlines: at arrival, while waiting, at dispatch, and while running.
use crate::support::*;
use stoker_core::*;

fn one_worker() -> (World, NameId) {
    let (mut w, pool) = World::ready(workers(1));
    let users = w.calls(pool, "users.get", QueueConfig::default());
    (w, users)
}

/// A queue in which every run took this long, and whose worker is idle.
fn slow(run: Span) -> (World, NameId) {
    let (mut w, users) = one_worker();
    w.train(&call(users).time_left(secs(3_600)), run);
    (w, users)
}

const DEADLINE: Outcome = Outcome::Deadline { ran: false };

#[test]
fn a_call_that_cannot_finish_in_time_is_rejected_at_arrival() {
    let (mut w, users) = slow(ms(20));
    let hopeless = w.submit(call(users).time_left(ms(3)));
    assert_eq!(w.outcome(hopeless), Some(DEADLINE));
    let hopeful = w.submit(call(users).time_left(ms(21)));
    assert!(w.on(hopeful).is_some());
}

/// One in twenty calls that are estimated to miss their deadline is run all the same. Otherwise one slow hour would
/// cause rejections forever.
#[test]
fn one_in_twenty_hopeless_calls_runs_as_a_probe() {
    let (mut w, users) = slow(ms(20));
    let mut ran = 0;
    for _ in 0..200 {
        let task = w.submit(call(users).time_left(ms(3)));
        if w.on(task).is_some() {
            ran += 1;
            w.run(task, ms(1));
        }
    }
    assert_eq!(ran, 10);
}

/// The calls that are run show the estimator that runs have become quick again.
#[test]
fn a_service_that_recovers_is_trusted_again() {
    let (mut w, users) = slow(ms(20));
    for _ in 0..2_000 {
        let task = w.submit(call(users).time_left(ms(3)));
        if w.on(task).is_some() {
            w.run(task, ms(1));
        }
    }
    let task = w.submit(call(users).time_left(ms(3)));
    assert!(w.on(task).is_some());
}

#[test]
fn a_call_that_waits_too_long_ends() {
    let (mut w, users) = one_worker();
    let running = w.submit(call(users));
    let waiting = w.submit(call(users).time_left(ms(500)));
    w.pass(ms(499));
    assert_eq!(w.outcome(waiting), None);
    w.pass(ms(1));
    assert_eq!(w.outcome(waiting), Some(DEADLINE));
    w.done(running);
}

#[test]
fn calls_without_a_timeout_get_the_queues_default() {
    let (mut w, pool) = World::ready(workers(1));
    let users = w.calls(
        pool,
        "users.get",
        QueueConfig {
            timeout: secs(2),
            ..QueueConfig::default()
        },
    );
    let mail = w.jobs(pool, "mail", QueueConfig::default());
    w.submit(job(mail));
    let [waiting, patient] = [call(users), job(mail)].map(|task| w.submit(task));
    w.pass(secs(2));
    assert_eq!(w.outcome(waiting), Some(DEADLINE));
    w.pass(secs(30));
    assert!(w.waits(patient), "a job has all the time in the world");
}

/// A worker receives the remaining time, not the original time.
#[test]
fn waiting_time_is_subtracted_from_the_time_left() {
    let (mut w, users) = one_worker();
    let running = w.submit(call(users));
    let waiting = w.submit(call(users).time_left(ms(1_000)));
    w.run(running, ms(400));
    let worker = w.on(waiting).expect("it is its turn");
    let (time_left, attempt, crashes) = (Some(ms(600)), 0, 0);
    assert!(w.has_seen(&Action::Deliver {
        worker,
        task: waiting,
        time_left,
        attempt,
        crashes
    }));
}

/// A call that can no longer meet its deadline after waiting is not sent to a worker.
#[test]
fn a_call_that_became_hopeless_is_ended_at_dispatch() {
    let (mut w, users) = slow(ms(100));
    let running = w.submit(call(users).time_left(secs(60)));
    let waiting = w.submit(call(users).time_left(ms(290)));
    w.run(running, ms(200));
    assert_eq!(w.outcome(waiting), Some(DEADLINE));
    assert!(w.live().len() == 1 && w.core.tasks() == 0);
}

/// The caller gets the outcome at once. The worker finishes the call, and its late answer is
/// dropped.
#[test]
fn a_call_that_runs_too_long_is_answered_early() {
    let (mut w, users) = one_worker();
    let task = w.submit(call(users).time_left(ms(100)));
    w.pass(ms(100));
    assert_eq!(w.outcome(task), Some(Outcome::Deadline { ran: true }));
    assert!(
        w.on(task).is_some() && w.count(|action| matches!(action, Action::CancelOn { .. })) == 0
    );
    w.run(task, ms(50));
    assert!(w.has_seen(&Action::Drop { task }));
    assert_eq!(w.core.tasks(), 0);
}

/// A worker that supports soft cancellation is notified that the answer is no longer needed.
#[test]
fn a_worker_with_soft_cancel_is_notified_of_the_deadline() {
    let (mut w, pool) = World::ready_as(workers(1), &Hello::soft());
    let users = w.calls(pool, "users.get", QueueConfig::default());
    let task = w.submit(call(users).time_left(ms(100)));
    w.pass(ms(100));
    let worker = w.on(task).expect("it still runs");
    assert!(w.has_seen(&Action::CancelOn { worker, task }));
}

/// A worker with several slots reports which tasks it began. A task that it did not begin has not
/// run.
#[test]
fn a_task_that_was_not_begun_has_not_run() {
    let (mut w, pool) = World::ready_as(workers(1), &Hello::slots(2));
    let users = w.calls(pool, "users.get", QueueConfig::default());
    let [begun, not_begun] = [0, 1].map(|_| w.submit(call(users).time_left(ms(100))));
    w.step(Event::Started {
        worker: w.live()[0],
        task: begun,
    });
    w.pass(ms(100));
    assert_eq!(w.outcome(begun), Some(Outcome::Deadline { ran: true }));
    assert_eq!(w.outcome(not_begun), Some(DEADLINE));
}

/// A task that runs again keeps its deadline, and its caller learns that it had run.
#[test]
fn a_second_run_keeps_the_deadline() {
    let (mut w, pool) = World::ready(workers(1));
    let users = w.calls(pool, "users.get", QueueConfig::default());
    let task = w.submit(call(users).idempotent().time_left(ms(1_000)));
    w.pass(ms(300));
    w.crash_worker_of(task);
    w.pass(ms(699));
    assert_eq!(w.outcome(task), None);
    w.pass(ms(1));
    assert_eq!(w.outcome(task), Some(Outcome::Deadline { ran: true }));
}

/// Tasks that are due at the same moment all end in one tick, even if the clock is late.
#[test]
fn everything_that_is_due_happens_in_one_tick() {
    let (mut w, users) = one_worker();
    let tasks = w.submit_many(5, &call(users).time_left(ms(100)));
    w.now = w.now + ms(5_000);
    w.tick();
    assert!(tasks.iter().all(|task| w.outcome(*task).is_some()));
}

/// Time never goes back, whatever clock value the caller passes.
#[test]
fn time_never_goes_back() {
    let (mut w, users) = one_worker();
    let running = w.submit(call(users).time_left(secs(9)));
    w.now = Time(5);
    let waiting = w.submit(call(users).time_left(ms(10)));
    w.tick();
    assert_eq!(w.outcome(waiting), None);
    assert!(w.on(running).is_some());
}

/// A reused task id has the deadline of its new task.
#[test]
fn a_reused_task_id_has_a_new_deadline() {
    let (mut w, users) = one_worker();
    let id = TaskId(0);
    w.submit_as(id, call(users).time_left(secs(1)));
    w.done(id);
    w.submit_as(id, call(users).time_left(secs(3)));
    w.pass(ms(2_999));
    assert_eq!(w.outcome(id), None);
    w.pass(ms(1));
    assert_eq!(w.outcome(id), Some(Outcome::Deadline { ran: true }));
}

/// After the deadline the answer is no longer needed, so the worker is interrupted to free its slot
/// (issue 9, A22).
#[test]
fn a_call_is_interrupted_at_its_deadline_and_its_worker_is_not_killed_for_it() {
    for slots in [1, 3] {
        let hello = Hello {
            slots,
            ..Hello::soft()
        };
        let (mut w, pool) = World::ready_as(workers(1), &hello);
        let users = w.calls(pool, "users.get", QueueConfig::default());
        let task = w.submit(call(users).time_left(ms(100)));
        let worker = w.on(task).expect("it runs");
        if slots > 1 {
            w.step(Event::Started { worker, task });
        }
        w.pass(ms(99));
        assert!(!w.has_seen(&Action::SoftSignal { worker }));
        w.pass(ms(1));
        assert_eq!(w.outcome(task), Some(Outcome::Deadline { ran: true }));
        assert!(w.has_seen(&Action::CancelOn { worker, task }));
        assert!(w.has_seen(&Action::SoftSignal { worker }));
        w.pass(secs(30));
        assert!(
            !w.was_killed(worker, StopReason::Cancelled),
            "its own limit is 60 s"
        );
        w.pass(secs(40));
        assert!(w.was_killed(worker, StopReason::TaskTimeout));
    }
}

/// Begins the answer of a running call, and sends a further part after each of these times. Returns the world and the call.
fn in_parts(request: impl Fn(NameId) -> TestTask, times: &[Span]) -> (World, TaskId, WorkerId) {
    let (mut w, pool) = World::ready(workers(1));
    let config = QueueConfig {
        timeout: secs(30),
        ..QueueConfig::default()
    };
    let users = w.calls(pool, "users.get", config);
    let task = w.submit(request(users));
    let worker = w.on(task).expect("it runs");
    w.pass(secs(29));
    w.step(Event::AnswerBegun { worker, task });
    for time in times {
        w.pass(*time);
        w.step(Event::AnswerContinued { worker, task });
    }
    (w, task, worker)
}

/// A part that the worker sent before it was interrupted gives the call no more time: it ends as timed out, not as cancelled.
#[test]
fn a_part_after_the_soft_signal_does_not_extend_the_time() {
    let config = PoolConfig {
        task_timeout: secs(10),
        kill_grace: secs(2),
        ..workers(1)
    };
    let (mut w, pool) = World::ready_as(config, &Hello::soft());
    let users = w.calls(pool, "users.get", QueueConfig::default());
    let task = w.submit(call(users).time_left(secs(60)));
    let worker = w.on(task).expect("it runs");
    w.step(Event::AnswerBegun { worker, task });
    w.pass(secs(10));
    assert_eq!(
        w.count(|action| matches!(action, Action::SoftSignal { .. })),
        1
    );
    w.step(Event::AnswerContinued { worker, task });
    w.pass(secs(2));
    assert!(w.was_killed(worker, StopReason::TaskTimeout));
    w.exit(worker, Exit::Signal(9));
    assert_eq!(w.outcome(task), Some(Outcome::TimedOut));
}

/// The service's timeout is the time until the first part, and between two parts.
#[test]
fn an_answer_in_parts_may_take_longer_than_the_timeout_while_parts_arrive() {
    let (mut w, task, _) = in_parts(call, &[secs(29), secs(29), secs(29)]);
    w.pass(secs(29));
    assert_eq!(w.outcome(task), None);
    w.pass(secs(2));
    assert_eq!(w.outcome(task), Some(Outcome::Deadline { ran: true }));
}

/// A deadline that the caller has set is for the whole answer.
#[test]
fn a_deadline_of_the_caller_is_for_all_parts() {
    let (mut w, task, _) = in_parts(|name| call(name).time_left(secs(40)), &[secs(10)]);
    assert_eq!(w.outcome(task), None);
    w.pass(secs(2));
    assert_eq!(w.outcome(task), Some(Outcome::Deadline { ran: true }));
}

/// `task_timeout` ends a run that hangs, and not one that makes progress.
#[test]
fn the_task_timeout_counts_from_the_last_part() {
    let (mut w, _, worker) = in_parts(
        |name| call(name).time_left(secs(3_600)),
        &[secs(50), secs(50)],
    );
    w.pass(secs(59));
    assert!(!w.was_killed(worker, StopReason::TaskTimeout));
    w.pass(secs(2));
    assert!(w.was_killed(worker, StopReason::TaskTimeout));
}
