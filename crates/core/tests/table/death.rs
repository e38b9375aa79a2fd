//! Tests of what happens to the tasks of a worker that died.
use crate::support::*;
use stoker_core::*;

const SEGV: Exit = Exit::Signal(11);

fn one_worker() -> (World, NameId, NameId) {
    let (mut w, pool) = World::ready(workers(1));
    let mail = w.jobs(pool, "mail", QueueConfig::default());
    let users = w.calls(pool, "users.get", QueueConfig::default());
    (w, mail, users)
}

/// A worker with prefetched short jobs.
fn windowed() -> (World, Vec<TaskId>) {
    let (mut w, mail, _) = one_worker();
    w.train(&job(mail), Span(50));
    let tasks = w.submit_many(9, &job(mail));
    let worker = w.on(tasks[0]).expect("the first runs");
    assert_eq!(
        w.core.assigned_to(worker).collect::<Vec<_>>(),
        w.assigned(&tasks)
    );
    assert!(w.assigned(&tasks).len() > 3);
    (w, tasks)
}

#[test]
fn answered_tasks_do_not_run_again_after_a_death() {
    let (mut w, tasks) = windowed();
    w.done(tasks[0]);
    w.crash_worker_of(tasks[1]);
    assert_eq!(w.outcome(tasks[0]), Some(Outcome::Answered));
}

/// The first unanswered task is the one that ran. The tasks prefetched behind it return to the queue at no cost and in
/// their order.
#[test]
fn prefetched_tasks_are_requeued_in_order_at_no_cost() {
    let (mut w, tasks) = windowed();
    w.done(tasks[0]);
    w.take_actions();
    w.crash_worker_of(tasks[1]);
    w.boot();
    let mut order = Vec::new();
    while let Some(task) = w
        .live()
        .first()
        .and_then(|worker| w.core.assigned_to(*worker).next())
    {
        let delivered = w.seen.iter().rev().find_map(|action| match action {
            Action::Deliver {
                task: of,
                attempt,
                crashes,
                ..
            } if *of == task => Some((*attempt, *crashes)),
            _ => None,
        });
        let crashes = u8::from(task == tasks[1]);
        assert_eq!(delivered, Some((0, crashes)), "{task:?}");
        order.push(task);
        w.done(task);
    }
    assert_eq!(order[0], tasks[1], "the suspect goes first, alone");
    assert_eq!(order[1..], tasks[2..]);
}

#[test]
fn a_call_that_must_not_run_again_is_lost() {
    let (mut w, _, users) = one_worker();
    let task = w.submit(call(users));
    w.pass(ms(30));
    let worker = w.on(task).expect("it runs");
    w.die(worker);
    let Some(End::Reported(outcome, facts)) = w.end(task) else {
        panic!()
    };
    assert_eq!(outcome, Outcome::WorkerDied(SEGV));
    assert_eq!(
        (facts.ran, facts.worker, facts.crashes),
        (ms(30), Some(worker), 1)
    );
}

#[test]
fn jobs_and_idempotent_calls_run_again() {
    let (mut w, mail, users) = one_worker();
    for task in [job(mail), call(users).idempotent()] {
        let task = w.submit(task);
        w.crash_worker_of(task);
        assert!(w.waits(task));
        w.boot();
        w.done(task);
        assert_eq!(w.outcome(task), Some(Outcome::Answered));
    }
}

/// A method can be declared idempotent by its worker or by the configuration.
#[test]
fn a_method_declared_idempotent_runs_again() {
    for by_worker in [true, false] {
        let (mut w, _) = World::of(workers(1));
        let idempotent = if by_worker {
            vec!["users.get".to_string()]
        } else {
            vec![]
        };
        w.boot_as(&Hello {
            idempotent,
            ..Hello::serving(&["users.get", "users.set"], &[])
        });
        if !by_worker {
            w.core.declare_idempotent("users.get");
        }
        let [get, set] = ["users.get", "users.set"].map(|call| w.core.resolve_call(call));
        let [get, set] = [get, set].map(|name| name.expect("it is served"));
        assert!(w.core.is_idempotent(get) && !w.core.is_idempotent(set));
        let task = w.submit(call(get));
        w.crash_worker_of(task);
        assert!(w.waits(task));
    }
}

#[test]
fn a_task_that_kills_three_workers_is_quarantined() {
    let (mut w, mail, users) = one_worker();
    for task in [job(mail), call(users).idempotent()] {
        let task = w.submit(task);
        for _ in 0..2 {
            w.crash_worker_of(task);
            w.boot();
        }
        w.crash_worker_of(task);
        assert_eq!(
            w.outcome(task),
            Some(Outcome::Quarantined {
                crashes: 3,
                exit: SEGV
            })
        );
        w.boot();
    }
}

/// Crashes before a restart of the server count too.
#[test]
fn earlier_deaths_count() {
    let (mut w, mail, _) = one_worker();
    let task = w.submit(job(mail).crashes(2));
    w.crash_worker_of(task);
    assert_eq!(
        w.outcome(task),
        Some(Outcome::Quarantined {
            crashes: 3,
            exit: SEGV
        })
    );
}

/// A run that the code ended counts as an attempt, and one that the process did not survive as a crash. The two are
/// counted separately.
#[test]
fn crashes_are_not_counted_as_attempts() {
    let (mut w, mail, _) = one_worker();
    let task = w.submit(job(mail).tries(2).attempt(1));
    w.crash_worker_of(task);
    w.boot();
    w.answer(task, Answer::Error);
    let Some(End::Reported(Outcome::Failed, facts)) = w.end(task) else {
        panic!("{:?}", w.end(task))
    };
    assert_eq!((facts.attempt, facts.crashes), (2, 1));
}

/// A crash budget of 0 is treated as 1: the first crash is the last.
#[test]
fn the_crash_budget_is_at_least_one() {
    for budget in [0, 1] {
        let (mut w, pool) = World::ready(PoolConfig {
            crash_budget: budget,
            ..workers(1)
        });
        let mail = w.jobs(pool, "mail", QueueConfig::default());
        let task = w.submit(job(mail));
        w.crash_worker_of(task);
        assert_eq!(
            w.outcome(task),
            Some(Outcome::Quarantined {
                crashes: 1,
                exit: SEGV
            })
        );
    }
}

/// A death is reported with the task that the worker died on.
#[test]
fn a_death_is_reported() {
    let (mut w, mail, _) = one_worker();
    let task = w.submit(job(mail));
    let worker = w.on(task).expect("it runs");
    w.take_actions();
    w.die(worker);
    let died = Notice::Died {
        worker,
        exit: SEGV,
        expected: false,
        quiet: false,
        why: None,
        crashed: Some(task),
    };
    assert!(w.notices().contains(&died), "{:?}", w.notices());
    assert!(w.has_seen(&Action::Release { worker }));
}

/// A clean exit in the middle of a task counts as a death as well.
#[test]
fn an_exit_of_zero_with_a_task_is_a_death() {
    let (mut w, _, users) = one_worker();
    let task = w.submit(call(users));
    w.exit(w.live()[0], Exit::Code(0));
    assert_eq!(w.outcome(task), Some(Outcome::WorkerDied(Exit::Code(0))));
}

#[test]
fn a_second_exit_of_a_worker_is_ignored() {
    let (mut w, mail, _) = one_worker();
    let task = w.submit(job(mail));
    let worker = w.on(task).expect("it runs");
    w.die(worker);
    w.take_actions();
    w.die(worker);
    assert_eq!(w.take_actions(), []);
}

/// A run that times out uses up a try, not the crash budget.
#[test]
fn a_job_that_takes_too_long_is_tried_again() {
    let (mut w, pool) = World::ready(PoolConfig {
        task_timeout: secs(5),
        ..workers(1)
    });
    let mail = w.jobs(pool, "mail", QueueConfig::default());
    let task = w.submit(job(mail).tries(2));
    let worker = w.on(task).expect("it runs");
    w.pass(secs(5));
    assert!(w.was_killed(worker, StopReason::TaskTimeout));
    w.exit(worker, Exit::Signal(9));
    let Some(End::Retry {
        after: None,
        cause: Cause::TimedOut,
        facts,
    }) = w.end(task)
    else {
        panic!("{:?}", w.end(task));
    };
    assert_eq!((facts.attempt, facts.crashes, facts.ran), (1, 0, secs(5)));
    w.boot();
    let again = w.submit(job(mail).tries(2).attempt(1));
    w.pass(secs(5));
    w.exit(w.on(again).expect("it runs"), Exit::Signal(9));
    assert_eq!(w.outcome(again), Some(Outcome::TimedOut));
}

#[test]
fn a_call_that_takes_too_long_is_ended() {
    let (mut w, _, users) = one_worker();
    let task = w.submit(call(users).time_left(secs(9)).limit(ms(100)));
    w.pass(ms(100));
    w.crash_worker_of(task);
    assert_eq!(w.outcome(task), Some(Outcome::TimedOut));
}

/// A worker that supports soft cancellation gets the signal first, and time to answer.
#[test]
fn a_worker_with_soft_cancel_has_time_to_end_its_task() {
    let (mut w, pool) = World::ready_as(workers(1), &Hello::soft());
    let mail = w.jobs(pool, "mail", QueueConfig::default());
    let task = w.submit(job(mail).limit(secs(1)));
    let worker = w.on(task).expect("it runs");
    w.pass(secs(1));
    assert!(
        w.has_seen(&Action::CancelOn { worker, task })
            && w.has_seen(&Action::SoftSignal { worker })
    );
    assert!(!w.was_killed(worker, StopReason::TaskTimeout));
    w.pass(ms(1_999));
    w.answer(task, Answer::Error);
    assert!(matches!(
        w.end(task),
        Some(End::Retry {
            cause: Cause::Answered,
            ..
        })
    ));
    w.pass(secs(5));
    assert_eq!(w.live(), [worker]);
    let task = w.submit(job(mail).limit(secs(1)));
    w.pass(secs(3));
    assert!(w.was_killed(worker, StopReason::TaskTimeout));
    w.exit(worker, Exit::Signal(9));
    assert!(matches!(
        w.end(task),
        Some(End::Retry {
            cause: Cause::TimedOut,
            ..
        })
    ));
}

/// Found by the simulation, seed 869: a worker that was stopped until its task's time was up then reads the task and
/// its cancellation together, and answers CANCELLED although no client has cancelled the task.
#[test]
fn a_job_that_was_not_begun_in_its_time_runs_again() {
    let (mut w, pool) = World::ready_as(workers(1), &Hello::soft());
    let mail = w.jobs(pool, "mail", QueueConfig::default());
    let task = w.submit(job(mail).limit(secs(1)));
    w.pass(secs(1));
    w.answer(task, Answer::Cancelled);
    assert!(matches!(
        w.end(task),
        Some(End::Retry {
            cause: Cause::TimedOut,
            ..
        })
    ));
}

/// Found by the simulation, seed 2214: code that does not handle the soft signal dies of it. The job has exceeded its
/// time, so it counts as timed out and not as crashed, and runs no more often than its tries allow.
#[test]
fn a_worker_that_dies_of_the_soft_signal_has_timed_out() {
    let (mut w, pool) = World::ready_as(workers(1), &Hello::soft());
    let mail = w.jobs(pool, "mail", QueueConfig::default());
    let task = w.submit(job(mail).limit(secs(1)));
    let worker = w.on(task).expect("it runs");
    w.pass(secs(1));
    assert!(w.has_seen(&Action::SoftSignal { worker }));
    w.exit(worker, Exit::Signal(10));
    let Some(End::Retry {
        cause: Cause::TimedOut,
        facts,
        ..
    }) = w.end(task)
    else {
        panic!("{:?}", w.end(task));
    };
    assert_eq!((facts.attempt, facts.crashes), (1, 0));
}

/// A job whose code fails or asks for a retry goes back to its store, with the requested delay.
#[test]
fn a_job_that_retries_returns_to_its_store() {
    let (mut w, mail, _) = one_worker();
    let cases = [
        (Answer::Error, None),
        (Answer::Retry(None), None),
        (Answer::Retry(Some(ms(7))), Some(ms(7))),
    ];
    for (answer, wait) in cases {
        let task = w.submit(job(mail));
        w.answer(task, answer);
        let Some(End::Retry {
            after,
            cause: Cause::Answered,
            facts,
        }) = w.end(task)
        else {
            panic!()
        };
        assert_eq!((after, facts.attempt), (wait, 1));
    }
    for answer in [Answer::Error, Answer::Retry(None)] {
        let last = w.submit(job(mail).tries(3).attempt(2));
        w.answer(last, answer);
        assert_eq!(
            w.outcome(last),
            Some(Outcome::Failed),
            "its tries are spent"
        );
    }
    let given_up = w.submit(job(mail));
    w.answer(given_up, Answer::Failed);
    assert_eq!(w.outcome(given_up), Some(Outcome::Failed));
}

/// Whatever answer a worker gives to a call is the answer of the call.
#[test]
fn every_answer_to_a_call_is_passed_on() {
    let (mut w, _, users) = one_worker();
    for answer in [
        Answer::Done,
        Answer::Failed,
        Answer::Error,
        Answer::Retry(None),
        Answer::Cancelled,
    ] {
        let task = w.submit(call(users));
        w.answer(task, answer);
        assert_eq!(w.outcome(task), Some(Outcome::Answered));
    }
}

/// If a worker that is being replaced dies on its own, its task is blamed as with any other worker.
#[test]
fn a_draining_worker_can_die_on_its_task() {
    let (mut w, mail, _) = one_worker();
    let task = w.submit(job(mail));
    w.step(Event::Reload { pool: PoolId(0) });
    w.boot();
    let worker = w.on(task).expect("it runs");
    assert_eq!(w.view(worker).state, WorkerState::Draining);
    w.die(worker);
    let died = Notice::Died {
        worker,
        exit: SEGV,
        expected: false,
        quiet: false,
        why: Some(StopReason::Replaced),
        crashed: Some(task),
    };
    assert!(w.notices().contains(&died), "{:?}", w.notices());
    let (worker, time_left) = (w.on(task).expect("the successor has it"), None);
    assert!(w.has_seen(&Action::Deliver {
        worker,
        task,
        time_left,
        attempt: 0,
        crashes: 1
    }));
}

/// The death of an idle worker was not expected either.
#[test]
fn the_death_of_an_idle_worker_is_reported() {
    let (mut w, mail, _) = one_worker();
    let task = w.submit(job(mail));
    let worker = w.on(task).expect("it runs");
    w.done(task);
    w.take_actions();
    w.die(worker);
    let died = Notice::Died {
        worker,
        exit: SEGV,
        expected: false,
        quiet: false,
        why: None,
        crashed: None,
    };
    assert!(w.notices().contains(&died), "{:?}", w.notices());
}
