//! Tests of workers with several slots.
use crate::support::*;
use stoker_core::*;

fn three_slots(soft_cancel: bool) -> (World, PoolId, NameId, WorkerId) {
    let hello = Hello {
        soft_cancel,
        ..Hello::slots(3)
    };
    let (mut w, pool) = World::ready_as(workers(1), &hello);
    let mail = w.jobs(pool, "mail", QueueConfig::default());
    let worker = w.live()[0];
    (w, pool, mail, worker)
}

fn started(w: &mut World, worker: WorkerId, tasks: &[TaskId]) {
    for task in tasks {
        w.step(Event::Started {
            worker,
            task: *task,
        });
    }
}

#[test]
fn a_worker_with_slots_prefetches_nothing() {
    let (mut w, _, mail, _) = three_slots(false);
    w.train(&job(mail), Span(50));
    let tasks = w.submit_many(50, &job(mail));
    assert_eq!(w.assigned(&tasks), tasks[..3]);
}

#[test]
fn answers_come_in_any_order() {
    let (mut w, _, mail, worker) = three_slots(false);
    let tasks = w.submit_many(4, &job(mail));
    started(&mut w, worker, &tasks[..3]);
    w.done(tasks[1]);
    assert_eq!(w.on(tasks[3]), Some(worker));
    w.done(tasks[2]);
    w.done(tasks[0]);
    assert_eq!(w.live(), [worker]);
}

/// Found by the simulation, seed 18484: of several tasks one was told to end, and another one may have killed the worker.
#[test]
fn a_death_is_blamed_on_tasks_beside_one_that_was_told_to_end() {
    let (mut w, _, mail, worker) = three_slots(true);
    let late = w.submit(job(mail).limit(secs(1)));
    let tasks = w.submit_many(2, &job(mail));
    started(&mut w, worker, &[late, tasks[0], tasks[1]]);
    w.pass(secs(1));
    assert!(w.has_seen(&Action::SoftSignal { worker }));
    w.take_actions();
    w.die(worker);
    let crashed = w.notices().into_iter().filter_map(|notice| match notice {
        Notice::Crashed { task, .. } => Some(task),
        _ => None,
    });
    assert_eq!(crashed.collect::<Vec<_>>(), [late, tasks[0], tasks[1]]);
}

/// A task that had begun may have killed the worker. A task that had not begun returns to its queue at no
/// cost.
#[test]
fn a_death_is_blamed_on_begun_tasks_only() {
    let (mut w, _, mail, worker) = three_slots(false);
    let tasks = w.submit_many(3, &job(mail));
    started(&mut w, worker, &tasks[..2]);
    w.take_actions();
    w.die(worker);
    let crashed = w.notices().into_iter().filter_map(|notice| match notice {
        Notice::Crashed { task, .. } => Some(task),
        _ => None,
    });
    assert_eq!(crashed.collect::<Vec<_>>(), tasks[..2]);
    w.boot_as(&Hello::slots(3));
    let worker = w.live()[0];
    assert_eq!(
        w.assigned(&tasks),
        tasks[..1],
        "the first suspect runs alone"
    );
    w.done(tasks[0]);
    assert_eq!(w.assigned(&tasks), tasks[1..2]);
    w.done(tasks[1]);
    let (task, time_left) = (tasks[2], None);
    assert!(w.has_seen(&Action::Deliver {
        worker,
        task,
        time_left,
        attempt: 0,
        crashes: 0
    }));
}

/// The time limit of a task starts when the task begins, and a task begins only once.
#[test]
fn the_time_limit_starts_once_when_the_task_begins() {
    let (mut w, _, mail, worker) = three_slots(false);
    let task = w.submit(job(mail).limit(ms(100)));
    w.pass(ms(50));
    started(&mut w, worker, &[task]);
    w.pass(ms(99));
    assert_eq!(w.live(), [worker]);
    started(&mut w, worker, &[task]);
    w.pass(ms(1));
    assert!(w.live().is_empty(), "saying so again wins no time");
}

#[test]
fn only_a_worker_with_several_slots_may_send_started() {
    let (mut w, pool) = World::ready(workers(1));
    let mail = w.jobs(pool, "mail", QueueConfig::default());
    let task = w.submit(job(mail));
    let worker = w.on(task).expect("it runs");
    started(&mut w, worker, &[task]);
    assert!(w.was_killed(worker, StopReason::Misbehaved));
}

#[test]
fn starting_a_task_of_another_worker_is_a_violation() {
    let (mut w, _, _, worker) = three_slots(false);
    started(&mut w, worker, &[TaskId(77)]);
    assert!(w.was_killed(worker, StopReason::Misbehaved));
}

/// Other tasks that succeed do not save a worker that has a hanging task.
#[test]
fn a_hanging_task_is_ended_while_others_continue() {
    let (mut w, _, mail, worker) = three_slots(true);
    let hung = w.submit(job(mail).limit(secs(1)));
    started(&mut w, worker, &[hung]);
    for _ in 0..40 {
        let quick = w.submit(job(mail));
        if w.on(quick) == Some(worker) {
            started(&mut w, worker, &[quick]);
            w.run(quick, ms(100));
        }
    }
    assert!(w.was_killed(worker, StopReason::TaskTimeout));
    assert_eq!(
        w.count(|action| matches!(action, Action::SoftSignal { .. })),
        1,
        "one signal is enough"
    );
}

/// Each of two tasks that are cancelled with `kill` has its own grace period, and neither affects the other.
#[test]
fn each_cancelled_task_has_its_own_grace() {
    let (mut w, _, mail, worker) = three_slots(true);
    let tasks = w.submit_many(2, &job(mail));
    started(&mut w, worker, &tasks);
    w.cancel(tasks[0], true);
    w.pass(ms(1_000));
    w.cancel(tasks[1], true);
    assert_eq!(
        w.live(),
        [worker],
        "the first one's signal does not kill for the second"
    );
    w.answer(tasks[0], Answer::Cancelled);
    w.pass(ms(1_999));
    assert_eq!(w.live(), [worker]);
    w.pass(ms(1));
    assert!(w.was_killed(worker, StopReason::Cancelled));
    w.exit(worker, Exit::Signal(9));
    assert_eq!(w.outcome(tasks[1]), Some(Outcome::Cancelled));
}

/// Tasks that ran beside a task that timed out are not to blame.
#[test]
fn bystanders_of_a_timeout_run_again_at_no_cost() {
    let (mut w, _, mail, worker) = three_slots(false);
    let hung = w.submit(job(mail).limit(secs(1)));
    let beside = w.submit(job(mail));
    started(&mut w, worker, &[hung, beside]);
    w.pass(secs(1));
    w.exit(worker, Exit::Signal(9));
    assert!(matches!(
        w.end(hung),
        Some(End::Retry {
            cause: Cause::TimedOut,
            ..
        })
    ));
    w.boot();
    let (worker, task, time_left) = (w.on(beside).expect("it runs again"), beside, None);
    assert!(w.has_seen(&Action::Deliver {
        worker,
        task,
        time_left,
        attempt: 0,
        crashes: 0
    }));
}

/// An idempotent call that ran beside a task that timed out is retried at no cost. Because it has run, its
/// answer must not be flagged NOT_PROCESSED.
#[test]
fn a_requeued_bystanding_call_has_run() {
    let (mut w, pool, mail, worker) = three_slots(false);
    let users = w.calls(pool, "users.get", QueueConfig::default());
    let hung = w.submit(job(mail).limit(secs(1)));
    let beside = w.submit(call(users).idempotent().time_left(secs(5)));
    started(&mut w, worker, &[hung, beside]);
    w.pass(secs(1));
    w.exit(worker, Exit::Signal(9));
    w.pass(secs(4));
    let Some(End::Reported(Outcome::Deadline { ran: true }, facts)) = w.end(beside) else {
        panic!("{:?}", w.end(beside))
    };
    assert_eq!((facts.has_run, facts.crashes), (true, 0));
    assert_eq!((facts.ran, facts.worker), (Span::ZERO, None));
}

/// A call that is not idempotent is lost with the worker.
#[test]
fn a_bystanding_call_is_lost() {
    let (mut w, pool, mail, worker) = three_slots(false);
    let users = w.calls(pool, "users.get", QueueConfig::default());
    let hung = w.submit(job(mail).limit(secs(1)));
    let beside = w.submit(call(users));
    started(&mut w, worker, &[hung, beside]);
    w.pass(secs(1));
    w.exit(worker, Exit::Signal(9));
    assert_eq!(
        w.outcome(beside),
        Some(Outcome::WorkerDied(Exit::Signal(9)))
    );
}

/// A worker that offers 0 slots has one.
#[test]
fn a_worker_has_at_least_one_slot() {
    let (mut w, pool) = World::of(workers(1));
    w.step(Event::Tick);
    let worker = w.starting()[0];
    let hello = Hello::default();
    let offer = Offer {
        slots: 0,
        ..hello.offer()
    };
    w.step(Event::Hello { worker, offer });
    let mail = w.jobs(pool, "mail", QueueConfig::default());
    let task = w.submit(job(mail));
    assert_eq!((w.on(task), w.view(worker).slots), (Some(worker), 1));
}
