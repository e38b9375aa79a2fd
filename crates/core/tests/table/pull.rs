//! Tests of workers that are assigned a task only after they have asked for one (issue 9, A28).
use crate::support::*;
use stoker_core::*;

fn ready(w: &mut World, worker: WorkerId, wanted: bool) {
    w.step(Event::Ready { worker, wanted });
}

/// A pool without workers of its own, one worker that connected by itself and has to ask for tasks, and the
/// name of a queue.
fn guest() -> (World, WorkerId, NameId) {
    let (mut w, pool) = World::of(PoolConfig {
        spawned: false,
        ..workers(0)
    });
    let mail = w.jobs(pool, "mail", QueueConfig::default());
    let worker = w.join(pool, &Hello::pull());
    (w, worker, mail)
}

#[test]
fn a_pull_worker_without_a_request_gets_no_job() {
    let (mut w, worker, mail) = guest();
    let tasks = w.submit_many(2, &job(mail));
    assert_eq!(w.assigned(&tasks), []);
    ready(&mut w, worker, true);
    assert_eq!(w.assigned(&tasks), tasks[..1], "one request, one job");
    w.done(tasks[0]);
    w.pass(secs(600));
    assert_eq!(w.assigned(&tasks), [], "an answer is not a request");
    ready(&mut w, worker, true);
    assert_eq!(w.assigned(&tasks), tasks[1..]);
}

#[test]
fn a_request_may_come_before_the_answer() {
    let (mut w, worker, mail) = guest();
    let tasks = w.submit_many(2, &job(mail));
    ready(&mut w, worker, true);
    ready(&mut w, worker, true);
    assert_eq!(
        w.assigned(&tasks),
        tasks[..1],
        "a request sets, it does not add"
    );
    w.done(tasks[0]);
    assert_eq!(w.assigned(&tasks), tasks[1..]);
}

#[test]
fn a_withdrawn_request_gets_no_job() {
    let (mut w, worker, mail) = guest();
    ready(&mut w, worker, true);
    ready(&mut w, worker, false);
    let task = w.submit(job(mail));
    assert!(w.waits(task));
}

/// Each withdrawal belongs to its own request, so a job may cross any number of them.
#[test]
fn a_job_may_cross_any_number_of_withdrawals() {
    let (mut w, worker, mail) = guest();
    ready(&mut w, worker, true);
    let task = w.submit(job(mail).tries(1));
    for _ in 0..20 {
        ready(&mut w, worker, false);
        w.answer_as(worker, task, Answer::Returned);
        ready(&mut w, worker, true);
    }
    w.done(task);
    assert_eq!(w.outcome(task), Some(Outcome::Answered));
}

/// A job that crossed the withdrawal is returned at no cost, but only one job per withdrawal.
#[test]
fn a_job_that_crossed_the_withdrawal_is_returned_at_no_cost() {
    let (mut w, worker, mail) = guest();
    ready(&mut w, worker, true);
    let task = w.submit(job(mail).tries(1));
    ready(&mut w, worker, false);
    w.answer_as(worker, task, Answer::Returned);
    assert!(w.waits(task));
    ready(&mut w, worker, true);
    w.done(task);
    let Some(End::Reported(Outcome::Answered, facts)) = w.end(task) else {
        panic!("{:?}", w.end(task));
    };
    assert_eq!((facts.attempt, facts.crashes), (1, 0));
}

#[test]
fn a_job_that_did_not_cross_a_withdrawal_must_not_be_returned() {
    let (mut w, worker, mail) = guest();
    ready(&mut w, worker, true);
    let task = w.submit(job(mail));
    w.answer_as(worker, task, Answer::Returned);
    assert!(w.was_killed(worker, StopReason::Misbehaved));
}

/// The worker may have begun the job by then, and can no longer report that.
#[test]
fn a_killed_worker_must_not_return_a_job_that_crossed_its_withdrawal() {
    let (mut w, worker, mail) = guest();
    ready(&mut w, worker, true);
    let task = w.submit(job(mail));
    ready(&mut w, worker, false);
    w.step(Event::Misbehaved { worker });
    w.answer_as(worker, task, Answer::Returned);
    assert_eq!(w.on(task), Some(worker), "until its process has ended");
    w.exit(worker, Exit::Signal(9));
    assert!(w.notices().iter().any(|notice| {
        matches!(notice, Notice::Crashed { task: of, crashes: 1, .. } if *of == task)
    }));
}

#[test]
fn only_a_pull_worker_may_request_tasks() {
    let (mut w, _) = World::ready(workers(1));
    let worker = w.live()[0];
    ready(&mut w, worker, true);
    assert!(w.was_killed(worker, StopReason::Misbehaved));
}

#[test]
fn short_jobs_are_not_prefetched_by_a_pull_worker() {
    let (mut w, worker, mail) = guest();
    for _ in 0..64 {
        ready(&mut w, worker, true);
        let task = w.submit(job(mail));
        w.run(task, Span(50));
    }
    let tasks = w.submit_many(10, &job(mail));
    ready(&mut w, worker, true);
    assert_eq!(w.assigned(&tasks).len(), 1);
}

/// Such a worker may not read its connection for hours, so the drain does not wait for it.
#[test]
fn a_connected_worker_without_a_request_is_disconnected_at_once() {
    let (mut w, worker, mail) = guest();
    w.submit(job(mail));
    w.step(Event::Drain);
    assert!(w.has_seen(&Action::Goaway {
        worker,
        why: StopReason::Shutdown
    }));
    assert!(w.has_seen(&Action::Disconnect { worker }));
    w.exit(worker, Exit::ConnectionLost);
    assert!(w.has_seen(&Action::Drained));
}

/// A process that was started outside Stoker may have other work.
#[test]
fn a_connected_worker_without_a_task_is_never_killed() {
    for hello in [Hello::pull(), Hello::default(), Hello::slots(4)] {
        let (mut w, pool) = World::of(PoolConfig {
            spawned: false,
            ..workers(0)
        });
        let worker = w.join(pool, &hello);
        if hello.pull {
            ready(&mut w, worker, true);
        }
        w.step(Event::Reload { pool });
        w.pass(secs(100));
        assert!(w.has_seen(&Action::Disconnect { worker }), "{hello:?}");
        assert!(!w.has_seen(&Action::Terminate { worker }), "{hello:?}");
        assert!(!w.was_killed(worker, StopReason::Replaced), "{hello:?}");
    }
}

/// A suspect needs a worker without tasks, and a worker that has not asked for one does not
/// qualify.
#[test]
fn a_suspect_does_not_wait_for_a_worker_without_a_request() {
    let (mut w, pool) = World::of(PoolConfig {
        spawned: false,
        ..workers(0)
    });
    let mail = w.jobs(pool, "mail", QueueConfig::default());
    w.join(pool, &Hello::pull());
    let wide = w.join(pool, &Hello::slots(2));
    let busy = w.submit_many(2, &job(mail));
    let suspect = w.submit(job(mail).crashes(1));
    w.submit_many(10, &job(mail));
    busy.into_iter().for_each(|task| w.done(task));
    assert_eq!(w.on(suspect), Some(wide));
}

/// The worker's HELLO and request were already on their way when the server drained, so the worker
/// violates no rule.
#[test]
fn a_worker_killed_before_it_was_ready_may_still_send_a_request() {
    let (mut w, _) = World::of(workers(1));
    w.step(Event::Tick);
    let worker = w.starting()[0];
    w.step(Event::Drain);
    assert!(w.has_seen(&Action::Kill {
        worker,
        why: StopReason::Shutdown
    }));
    w.hello(worker, &Hello::pull());
    assert!(w.core.takes_on_request(worker));
    w.take_actions();
    ready(&mut w, worker, true);
    assert_eq!(w.take_actions(), []);
    w.die(worker);
    assert!(!w.core.takes_on_request(worker));
}
