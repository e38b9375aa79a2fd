//! Tests of workers that violate the protocol, and of events that come too late.
use crate::support::*;
use stoker_core::*;

fn busy() -> (World, PoolId, NameId, WorkerId, TaskId) {
    let (mut w, pool) = World::ready(workers(1));
    let mail = w.jobs(pool, "mail", QueueConfig::default());
    let task = w.submit(job(mail));
    let worker = w.on(task).expect("it runs");
    (w, pool, mail, worker, task)
}

#[test]
fn answering_a_task_of_another_worker_is_a_violation() {
    let (mut w, pool) = World::ready(workers(2));
    let mail = w.jobs(pool, "mail", QueueConfig::default());
    let [a, b] = [0, 1].map(|_| w.submit(job(mail)));
    let liar = w.on(a).expect("it runs");
    w.answer_as(liar, b, Answer::Done);
    assert!(w.was_killed(liar, StopReason::Misbehaved));
    assert_eq!((w.end(a), w.end(b)), (None, None));
    w.exit(liar, Exit::Signal(9));
    w.done(b);
    assert!(w.end(a).is_none(), "the liar's own task is a suspect now");
}

#[test]
fn a_second_answer_is_a_violation() {
    let (mut w, _, _, worker, task) = busy();
    w.done(task);
    w.answer_as(worker, task, Answer::Done);
    assert!(w.was_killed(worker, StopReason::Misbehaved));
    assert_eq!(
        w.outcome(task),
        Some(Outcome::Answered),
        "the first one counts"
    );
}

#[test]
fn answering_an_unknown_task_is_a_violation() {
    let (mut w, _, _, worker, _) = busy();
    w.answer_as(worker, TaskId(9_999), Answer::Done);
    assert!(w.was_killed(worker, StopReason::Misbehaved));
}

/// A worker with one slot must answer in order. Otherwise the server could not know which task ran
/// when the worker dies.
#[test]
fn an_answer_out_of_order_is_a_violation() {
    let (mut w, _, mail, worker, first) = busy();
    w.done(first);
    w.train(&job(mail), Span(50));
    let tasks = w.submit_many(9, &job(mail));
    assert_eq!(w.on(tasks[1]), Some(worker), "assigned ahead");
    w.answer_as(worker, tasks[1], Answer::Done);
    assert!(w.was_killed(worker, StopReason::Misbehaved));
}

/// Only a draining worker may return tasks. If others could, a task could be returned forever.
#[test]
fn a_live_worker_must_not_return_its_task() {
    let (mut w, _, _, worker, task) = busy();
    w.answer(task, Answer::Returned);
    assert!(w.was_killed(worker, StopReason::Misbehaved));
}

#[test]
fn a_worker_may_return_its_task_after_goaway() {
    let (mut w, pool, mail, worker, task) = busy();
    w.step(Event::Reload { pool });
    w.boot();
    assert_eq!(w.view(worker).state, WorkerState::Draining);
    let done = w.view(worker).done;
    w.answer(task, Answer::Returned);
    assert_ne!(w.on(task), Some(worker));
    assert!(w.on(task).is_some(), "its successor has it");
    w.done(task);
    assert_eq!(w.outcome(task), Some(Outcome::Answered));
    assert_eq!(w.view(worker).done, done, "nothing was done");
    let Some(End::Reported(_, facts)) = w.end(task) else {
        panic!()
    };
    assert_eq!(
        (facts.attempt, facts.crashes),
        (1, 0),
        "and it cost nothing"
    );
    w.exit(worker, Exit::Code(0));
    assert!(w.core.queue(w.queue(mail)).running == 0);
}

/// A returned task does not count as a measured run.
#[test]
fn a_returned_task_is_not_measured() {
    let (mut w, pool) = World::ready(workers(1));
    let users = w.calls(pool, "users.get", QueueConfig::default());
    w.train(&call(users).time_left(secs(60)), ms(100));
    for _ in 0..40 {
        let task = w.submit(call(users).time_left(secs(60)));
        w.step(Event::Reload { pool });
        w.boot();
        let old = w.on(task).expect("it runs");
        w.answer(task, Answer::Returned);
        w.exit(old, Exit::Code(0));
        w.run(task, ms(100));
    }
    let hopeless = w.submit(call(users).time_left(ms(50)));
    assert_eq!(w.outcome(hopeless), Some(Outcome::Deadline { ran: false }));
}

/// The tasks of a leaving worker return to their queue as if they had never been assigned, and the
/// worker may exit.
#[test]
fn tasks_of_a_leaving_worker_are_requeued() {
    let (mut w, pool) = World::ready(workers(1));
    let users = w.calls(pool, "users.get", QueueConfig::default());
    let before = w.submit(call(users));
    w.done(before);
    let task = w.submit(call(users));
    let worker = w.on(task).expect("it is assigned");
    w.step(Event::Left { worker });
    assert!(
        w.waits(task)
            && w.has_seen(&Action::Goaway {
                worker,
                why: StopReason::Left
            })
    );
    assert_eq!(w.view(worker).state, WorkerState::Stopping);
    w.boot();
    assert!(w.on(task).is_some(), "another has it");
    w.take_actions();
    w.exit(worker, Exit::Code(0));
    let exit = Exit::Code(0);
    let died = Notice::Died {
        worker,
        exit,
        expected: true,
        quiet: false,
        why: Some(StopReason::Left),
        crashed: None,
    };
    assert!(w.notices().contains(&died));
}

/// A worker that announces that it leaves and then does not exit is killed, even if it was already
/// being replaced.
#[test]
fn a_worker_that_leaves_but_does_not_exit_is_killed() {
    for replaced in [false, true] {
        let (mut w, pool, _, worker, _) = busy();
        if replaced {
            w.step(Event::Reload { pool });
            w.boot();
            assert_eq!(w.view(worker).state, WorkerState::Draining);
        }
        w.step(Event::Left { worker });
        w.boot();
        w.pass(secs(10));
        assert!(
            w.has_seen(&Action::Terminate { worker }),
            "replaced: {replaced}"
        );
        assert!(
            w.count(|action| matches!(action, Action::Kill { worker: of, .. } if *of == worker))
                == 1
        );
    }
}

/// A worker with several slots has reported which tasks it began, and it finishes these.
#[test]
fn a_leaving_worker_finishes_the_tasks_that_it_began() {
    let (mut w, pool) = World::ready_as(workers(1), &Hello::slots(3));
    let users = w.calls(pool, "users.get", QueueConfig::default());
    let [begun, not_begun] = [0, 1].map(|_| w.submit(call(users)));
    let worker = w.on(begun).expect("it is assigned");
    w.step(Event::Started {
        worker,
        task: begun,
    });
    w.step(Event::Left { worker });
    assert_eq!(w.on(begun), Some(worker));
    assert!(w.waits(not_begun));
    assert_eq!(w.view(worker).state, WorkerState::Draining);
    w.done(begun);
    assert_eq!(w.outcome(begun), Some(Outcome::Answered));
    assert_eq!(w.view(worker).state, WorkerState::Stopping);
}

/// Events of a worker that is gone or is being killed are ignored.
#[test]
fn events_of_gone_workers_are_ignored() {
    let (mut w, _, _, worker, task) = busy();
    w.die(worker);
    w.boot();
    let state = format!("{:?}", w.live());
    w.take_actions();
    let offer = Hello::default();
    w.step(Event::Hello {
        worker,
        offer: offer.offer(),
    });
    w.step(Event::Started { worker, task });
    w.answer_as(worker, task, Answer::Done);
    w.step(Event::Left { worker });
    w.step(Event::Misbehaved { worker });
    w.step(Event::Measured {
        worker,
        rss: 1 << 40,
    });
    w.die(worker);
    assert_eq!(
        (w.take_actions(), format!("{:?}", w.live())),
        (vec![], state)
    );
    let worker = w.live()[0];
    w.step(Event::Misbehaved { worker });
    w.take_actions();
    w.step(Event::Hello {
        worker,
        offer: offer.offer(),
    });
    w.step(Event::Left { worker });
    w.step(Event::Misbehaved { worker });
    w.step(Event::Measured {
        worker,
        rss: 1 << 40,
    });
    assert_eq!(w.take_actions(), [], "it is on its way out");
}

/// Answers that a worker wrote before it was killed still count.
#[test]
fn a_killed_workers_last_answer_counts() {
    let (mut w, _, _, worker, task) = busy();
    w.step(Event::Misbehaved { worker });
    w.done(task);
    assert_eq!(w.outcome(task), Some(Outcome::Answered));
    w.exit(worker, Exit::Signal(9));
}

#[test]
fn a_second_hello_is_a_violation() {
    let (mut w, _, _, worker, task) = busy();
    w.hello(worker, &Hello::default());
    assert!(w.was_killed(worker, StopReason::Misbehaved));
    w.exit(worker, Exit::Signal(9));
    assert!(w.end(task).is_none());
}

/// If a worker violates the protocol, the task that it ran becomes a suspect.
#[test]
fn a_task_on_which_its_worker_misbehaves_is_a_suspect() {
    let (mut w, _, _, worker, task) = busy();
    w.step(Event::Misbehaved { worker });
    w.exit(worker, Exit::Signal(9));
    w.boot();
    let (worker, time_left) = (w.on(task).expect("it runs again"), None);
    assert!(w.has_seen(&Action::Deliver {
        worker,
        task,
        time_left,
        attempt: 0,
        crashes: 1
    }));
}
