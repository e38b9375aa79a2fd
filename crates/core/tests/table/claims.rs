//! Tests of jobs that are acknowledged on delivery: they are recorded as done before they are sent, and run at most
//! once (issue 9, A1).
use crate::support::*;
use stoker_core::*;

const SHORT: Span = Span(50);

fn on_delivery() -> QueueConfig {
    QueueConfig {
        ack_on_delivery: true,
        ..QueueConfig::default()
    }
}

fn with(count: u32, hello: &Hello) -> (World, PoolId, NameId) {
    let (mut w, pool) = World::ready_as(workers(count), hello);
    let once = w.jobs(pool, "once", on_delivery());
    (w, pool, once)
}

/// A worker that connected by itself and has to ask for tasks.
fn with_pull_worker() -> (World, WorkerId, NameId) {
    let (mut w, pool) = World::of(PoolConfig {
        spawned: false,
        ..workers(0)
    });
    let once = w.jobs(pool, "once", on_delivery());
    let worker = w.join(pool, &Hello::pull());
    (w, worker, once)
}

fn claimed(w: &mut World, task: TaskId) {
    w.step(Event::Claimed { task });
}

/// The worker whose slot a task has, whether or not it was sent.
fn slot_of(w: &World, task: TaskId) -> Option<WorkerId> {
    let mut live = w.core.workers().map(|worker| worker.id);
    live.find(|worker| w.core.assigned_to(*worker).any(|other| other == task))
}

fn was_sent(w: &World, task: TaskId) -> bool {
    w.count(|action| matches!(action, Action::Deliver { task: sent, .. } if *sent == task)) > 0
}

#[test]
fn a_job_is_recorded_before_it_is_sent() {
    let (mut w, _, once) = with(1, &Hello::default());
    let task = w.submit(job(once));
    assert!(w.has_seen(&Action::Claim { task }));
    assert!(!was_sent(&w, task));
    claimed(&mut w, task);
    assert!(was_sent(&w, task));
    w.done(task);
    assert!(
        w.has_seen(&Action::Drop { task }),
        "its source knows already"
    );
}

/// Nothing is prefetched behind a job that waits to be recorded, and such a job is not prefetched behind another: they
/// would overtake each other on the wire.
#[test]
fn short_jobs_are_not_prefetched_past_a_job_that_waits_to_be_recorded() {
    let (mut w, pool, once) = with(1, &Hello::default());
    let mail = w.jobs(pool, "mail", QueueConfig::default());
    w.train(&job(mail), SHORT);
    for _ in 0..64 {
        let task = w.submit(job(once));
        claimed(&mut w, task);
        w.run(task, SHORT);
    }
    let tasks: Vec<TaskId> = (0..40)
        .map(|at| w.submit(job(if at % 2 == 0 { once } else { mail })))
        .collect();
    for _ in 0..200 {
        let worker = w.live()[0];
        let assigned: Vec<TaskId> = w.core.assigned_to(worker).collect();
        let claims = assigned.iter().filter(|task| w.name_of(**task) == once);
        assert!(claims.count() == 0 || assigned.len() == 1, "{assigned:?}");
        let Some(task) = assigned.first().copied() else {
            break;
        };
        if w.name_of(task) == once {
            claimed(&mut w, task);
        }
        w.run(task, SHORT);
    }
    assert!(
        tasks
            .iter()
            .all(|task| slot_of(&w, *task).is_none() && !w.books.held.contains(task))
    );
    assert_eq!(w.count(|action| matches!(action, Action::Kill { .. })), 0);
}

/// The worker never received the job, so the job has neither a crash nor a run, and is not recorded a second time
/// (issue 9, A23).
#[test]
fn a_worker_that_dies_before_it_has_the_job_costs_it_nothing() {
    for claimed_first in [true, false] {
        let (mut w, _, once) = with(2, &Hello::default());
        let task = w.submit(job(once));
        let first = slot_of(&w, task).expect("it has a slot");
        w.die(first);
        let second = slot_of(&w, task).expect("the other worker has it now");
        assert_ne!(first, second);
        if claimed_first {
            claimed(&mut w, task);
            assert!(was_sent(&w, task));
        } else {
            w.die(second);
            claimed(&mut w, task);
            assert!(slot_of(&w, task).is_none() && !was_sent(&w, task));
            w.pass(secs(10));
            w.boot();
            assert!(was_sent(&w, task), "at once: it is recorded");
        }
        assert_eq!(w.count(|action| matches!(action, Action::Claim { .. })), 1);
        let crashed = |notice: &Notice| matches!(notice, Notice::Crashed { .. });
        assert!(!w.notices().iter().any(crashed));
    }
}

#[test]
fn a_job_whose_worker_died_on_it_does_not_run_again() {
    for slots in [1, 3] {
        let (mut w, _, once) = with(1, &Hello::slots(slots));
        let task = w.submit(job(once));
        claimed(&mut w, task);
        w.crash_worker_of(task);
        assert!(w.has_seen(&Action::Drop { task }), "{slots} slots");
    }
}

#[test]
fn a_recorded_job_runs_only_once_however_its_run_ends() {
    for answer in [
        Answer::Error,
        Answer::Failed,
        Answer::Retry(None),
        Answer::Cancelled,
    ] {
        let (mut w, _, once) = with(1, &Hello::default());
        let task = w.submit(job(once).tries(5));
        claimed(&mut w, task);
        w.answer(task, answer);
        assert!(w.has_seen(&Action::Drop { task }), "{answer:?}");
    }
}

/// A draining worker reports that it did not begin the job.
#[test]
fn a_job_that_is_returned_unbegun_runs_on_another_worker() {
    let (mut w, pool, once) = with(1, &Hello::default());
    let task = w.submit(job(once));
    claimed(&mut w, task);
    let first = slot_of(&w, task).expect("it runs");
    w.step(Event::Reload { pool });
    w.boot();
    w.answer_as(first, task, Answer::Returned);
    let second = slot_of(&w, task).expect("it runs elsewhere");
    assert_ne!(first, second);
    w.done(task);
    assert!(w.has_seen(&Action::Drop { task }));
}

#[test]
fn a_job_that_cannot_be_recorded_ends_and_its_worker_continues() {
    let (mut w, _, once) = with(1, &Hello::soft());
    let task = w.submit(job(once));
    let worker = slot_of(&w, task).expect("it has a slot");
    w.cancel(task, true);
    assert_eq!(w.outcome(task), Some(Outcome::Cancelled));
    let next = w.submit(job(once));
    assert_eq!(slot_of(&w, next), Some(worker));
    assert!(
        !w.has_seen(&Action::CancelOn { worker, task }),
        "it never had it"
    );
}

/// A worker that receives GOAWAY has no tasks that were not sent to it.
#[test]
fn a_worker_that_is_replaced_loses_its_unsent_jobs() {
    let (mut w, pool, once) = with(1, &Hello::default());
    let task = w.submit(job(once));
    let old = slot_of(&w, task).expect("it has a slot");
    w.step(Event::Reload { pool });
    let new = w.starting()[0];
    w.hello(new, &Hello::default());
    assert!(w.has_seen(&Action::Goaway {
        worker: old,
        why: StopReason::Replaced
    }));
    assert_eq!(slot_of(&w, task), Some(new));
    claimed(&mut w, task);
    assert!(w.has_seen(&Action::Deliver {
        worker: new,
        task,
        time_left: None,
        attempt: 0,
        crashes: 0
    }));
}

/// A drain waits for a job that is being recorded as it does for a running job.
#[test]
fn a_job_that_is_being_recorded_still_runs_during_a_drain() {
    let (mut w, _, once) = with(1, &Hello::default());
    let task = w.submit(job(once));
    w.step(Event::Drain);
    claimed(&mut w, task);
    assert!(was_sent(&w, task));
    w.done(task);
    let worker = w.in_state("stopping")[0];
    w.exit(worker, Exit::Code(0));
    assert!(w.has_seen(&Action::Drained));
}

/// The time that a slow disk takes does not count as the job's run time.
#[test]
fn recording_time_does_not_count_as_run_time() {
    let (mut w, _, once) = with(1, &Hello::default());
    let task = w.submit(job(once));
    let worker = slot_of(&w, task).expect("it has a slot");
    w.pass(secs(300));
    claimed(&mut w, task);
    w.pass(secs(59));
    assert!(!w.was_killed(worker, StopReason::TaskTimeout));
    w.pass(secs(2));
    assert!(w.was_killed(worker, StopReason::TaskTimeout));
}

#[test]
fn a_worker_can_neither_answer_nor_begin_an_unsent_job() {
    for slots in [1, 3] {
        let forbidden: [fn(WorkerId, TaskId) -> Event<'static>; 4] = [
            |worker, task| Event::AnswerBegun { worker, task },
            |worker, task| Event::Started { worker, task },
            |worker, task| Event::Acknowledged { worker, task },
            |worker, task| Event::Answered {
                worker,
                task,
                answer: Answer::Done,
                worked: Span::ZERO,
            },
        ];
        for event in forbidden {
            let (mut w, _, once) = with(1, &Hello::slots(slots));
            let task = w.submit(job(once));
            let worker = slot_of(&w, task).expect("it has a slot");
            w.step(event(worker, task));
            assert!(w.was_killed(worker, StopReason::Misbehaved));
            assert!(slot_of(&w, task).is_none(), "it was recalled at once");
        }
    }
}

/// The job may have begun, because a worker with a single slot does not report that.
#[test]
fn a_job_whose_worker_leaves_in_the_middle_does_not_run_again() {
    let (mut w, _, once) = with(2, &Hello::default());
    let task = w.submit(job(once));
    claimed(&mut w, task);
    let worker = slot_of(&w, task).expect("it runs");
    w.step(Event::Left { worker });
    assert!(w.has_seen(&Action::Drop { task }));
}

/// The job was never sent, so no worker has returned it. If it counted as a failed run, it would be retried while the
/// store records it as done, and it would never run (seed 12763).
#[test]
fn workers_that_leave_while_a_job_is_being_recorded_cost_it_nothing() {
    let (mut w, _, once) = with(10, &Hello::default());
    let task = w.submit(job(once).tries(1));
    for _ in 0..6 {
        let worker = slot_of(&w, task).expect("it goes to another worker at once");
        w.step(Event::Left { worker });
    }
    assert_eq!(w.end(task), None);
    claimed(&mut w, task);
    assert!(was_sent(&w, task));
    w.done(task);
    assert!(w.has_seen(&Action::Drop { task }));
}

/// A worker that withdrew its request returns the job, which was already recorded: it runs once all the same.
#[test]
fn a_recorded_job_that_crossed_a_withdrawal_still_runs() {
    let (mut w, worker, once) = with_pull_worker();
    let ready = |w: &mut World, wanted| w.step(Event::Ready { worker, wanted });
    ready(&mut w, true);
    let task = w.submit(job(once));
    claimed(&mut w, task);
    ready(&mut w, false);
    w.answer_as(worker, task, Answer::Returned);
    assert!(w.waits(task));
    ready(&mut w, true);
    assert_eq!(w.on(task), Some(worker));
    w.done(task);
}

/// A worker with several slots leaves before it has reported that the job has started: the job has not begun, so it runs
/// elsewhere, although it is already recorded as done.
#[test]
fn a_recorded_job_that_has_not_started_in_its_slot_still_runs() {
    let (mut w, _, once) = with(2, &Hello::slots(3));
    let task = w.submit(job(once));
    claimed(&mut w, task);
    let first = w.on(task).expect("it was sent");
    w.step(Event::Left { worker: first });
    assert_eq!(w.outcome(task), None);
    let second = w.on(task).expect("another worker has it");
    assert_ne!(second, first);
    w.step(Event::Started {
        worker: second,
        task,
    });
    w.done(task);
}

/// A job that a pull worker would have got is cancelled before it is recorded: the worker was sent nothing, so its request stands.
#[test]
fn a_request_outlives_a_job_that_was_not_recorded() {
    let (mut w, worker, once) = with_pull_worker();
    w.step(Event::Ready {
        worker,
        wanted: true,
    });
    let first = w.submit(job(once));
    assert_eq!(slot_of(&w, first), Some(worker));
    w.cancel(first, true);
    assert_eq!(w.outcome(first), Some(Outcome::Cancelled));
    let second = w.submit(job(once));
    assert_eq!(slot_of(&w, second), Some(worker));
}
