//! Tests of cancelling tasks that wait, that are prefetched or that run, with and without killing the
//! worker.
use crate::support::*;
use stoker_core::*;

fn with(hello: &Hello) -> (World, NameId, NameId) {
    let (mut w, pool) = World::ready_as(workers(1), hello);
    let mail = w.jobs(pool, "mail", QueueConfig::default());
    let users = w.calls(pool, "users.get", QueueConfig::default());
    (w, mail, users)
}

/// A worker with prefetched short jobs: the first one runs, and the others wait behind it.
fn windowed(hello: &Hello) -> (World, Vec<TaskId>) {
    let (mut w, mail, _) = with(hello);
    w.train(&job(mail), Span(50));
    let tasks = w.submit_many(9, &job(mail));
    // The first answer shows that more jobs wait than run, so the rest is prefetched.
    assert!(w.assigned(&tasks).len() > 2);
    (w, tasks)
}

#[test]
fn a_waiting_task_is_cancelled_at_once() {
    let (mut w, mail, users) = with(&Hello::default());
    let running = w.submit(job(mail));
    for task in [job(mail), call(users)] {
        let waiting = w.submit(task);
        w.cancel(waiting, false);
        assert_eq!(w.outcome(waiting), Some(Outcome::Cancelled));
    }
    w.done(running);
    assert_eq!(w.core.tasks(), 0);
}

/// Without `kill`, the outcome is reported to the source at once, and the worker finishes the task
/// without anyone using the result.
#[test]
fn a_cancelled_running_task_is_reported_at_once_and_continues() {
    let (mut w, _, users) = with(&Hello::default());
    let task = w.submit(call(users));
    w.cancel(task, false);
    assert_eq!(w.outcome(task), Some(Outcome::Cancelled));
    assert!(w.on(task).is_some(), "its worker can't be told");
    w.cancel(task, false);
    w.done(task);
    assert!(w.has_seen(&Action::Drop { task }));
}

#[test]
fn a_worker_with_soft_cancel_receives_the_cancellation() {
    let (mut w, mail, _) = with(&Hello::soft());
    let task = w.submit(job(mail));
    let worker = w.on(task).expect("it runs");
    w.cancel(task, false);
    assert!(w.has_seen(&Action::CancelOn { worker, task }));
    assert!(
        w.has_seen(&Action::SoftSignal { worker }),
        "and interrupted"
    );
    w.pass(secs(30));
    assert!(
        !w.was_killed(worker, StopReason::Cancelled),
        "nobody insists"
    );
    w.answer(task, Answer::Cancelled);
    assert_eq!(
        (w.outcome(task), w.core.tasks()),
        (Some(Outcome::Cancelled), 0)
    );
}

/// A job that was reported to its source as cancelled is not retried.
#[test]
fn a_cancelled_job_has_one_outcome_whatever_its_worker_reports() {
    let answers = [
        Answer::Done,
        Answer::Retry(None),
        Answer::Failed,
        Answer::Error,
        Answer::Cancelled,
    ];
    for answer in answers {
        let (mut w, mail, _) = with(&Hello::default());
        let task = w.submit(job(mail).tries(9));
        w.cancel(task, false);
        w.answer(task, answer);
        assert_eq!(w.outcome(task), Some(Outcome::Cancelled), "{answer:?}");
        assert_eq!(w.core.tasks(), 0);
    }
}

/// With `kill`, a worker that does not support soft cancellation is killed, and the task is not blamed
/// for the death.
#[test]
fn with_kill_a_worker_without_soft_cancel_is_killed() {
    let (mut w, mail, users) = with(&Hello::default());
    for task in [job(mail), call(users)] {
        let task = w.submit(task);
        let worker = w.on(task).expect("it runs");
        w.cancel(task, true);
        assert!(w.was_killed(worker, StopReason::Cancelled));
        assert_eq!(w.outcome(task), None, "not before the worker is gone");
        w.exit(worker, Exit::Signal(9));
        assert_eq!(w.outcome(task), Some(Outcome::Cancelled));
        w.boot();
    }
}

/// With `kill`, a worker that supports soft cancellation gets the signal and a grace period, and is then
/// killed.
#[test]
fn with_kill_a_worker_with_soft_cancel_has_a_grace_period() {
    let (mut w, mail, _) = with(&Hello::soft());
    let task = w.submit(job(mail));
    let worker = w.on(task).expect("it runs");
    w.cancel(task, true);
    assert!(
        w.has_seen(&Action::CancelOn { worker, task })
            && w.has_seen(&Action::SoftSignal { worker })
    );
    w.pass(ms(1_999));
    assert!(!w.was_killed(worker, StopReason::Cancelled));
    w.pass(ms(1));
    assert!(w.was_killed(worker, StopReason::Cancelled));
}

#[test]
fn with_kill_a_worker_that_answers_in_time_is_not_killed() {
    let (mut w, mail, _) = with(&Hello::soft());
    let task = w.submit(job(mail));
    w.cancel(task, true);
    w.pass(ms(1_000));
    w.answer(task, Answer::Cancelled);
    assert_eq!(w.outcome(task), Some(Outcome::Cancelled));
    w.pass(secs(30));
    assert_eq!(w.live().len(), 1);
}

/// A second cancellation with `kill` ends the grace period.
#[test]
fn a_second_cancel_with_kill_ends_the_grace_period() {
    let (mut w, mail, _) = with(&Hello::soft());
    let task = w.submit(job(mail));
    let worker = w.on(task).expect("it runs");
    w.cancel(task, true);
    w.cancel(task, true);
    assert!(w.was_killed(worker, StopReason::Cancelled));
}

/// A cancelled job that nevertheless succeeds counts as successful.
#[test]
fn a_cancelled_job_that_succeeds_counts_as_successful() {
    let (mut w, mail, _) = with(&Hello::soft());
    let task = w.submit(job(mail));
    w.cancel(task, true);
    w.answer(task, Answer::Done);
    assert_eq!(w.outcome(task), Some(Outcome::Answered));
}

#[test]
fn a_cancelled_job_does_not_run_again() {
    let (mut w, mail, _) = with(&Hello::soft());
    for answer in [Answer::Error, Answer::Retry(None), Answer::Failed] {
        let task = w.submit(job(mail).tries(9));
        w.cancel(task, true);
        w.answer(task, answer);
        assert_eq!(w.outcome(task), Some(Outcome::Cancelled), "{answer:?}");
    }
    let task = w.submit(job(mail));
    w.cancel(task, true);
    w.crash_worker_of(task);
    assert_eq!(
        w.outcome(task),
        Some(Outcome::Cancelled),
        "nor after a death"
    );
}

/// A prefetched task cannot be taken back from its worker, but its outcome is reported to its source.
#[test]
fn a_cancelled_prefetched_task_is_reported_at_once() {
    let (mut w, tasks) = windowed(&Hello::default());
    w.cancel(tasks[1], false);
    assert_eq!(w.outcome(tasks[1]), Some(Outcome::Cancelled));
    w.done(tasks[0]);
    w.done(tasks[1]);
    assert!(w.has_seen(&Action::Drop { task: tasks[1] }));
}

/// A prefetched task that is cancelled with `kill` is killed when its turn comes. The task that runs
/// before it is not disturbed.
#[test]
fn killing_a_prefetched_task_waits_for_its_turn() {
    let (mut w, tasks) = windowed(&Hello::default());
    let worker = w.on(tasks[1]).expect("it is assigned");
    w.cancel(tasks[1], true);
    assert_eq!(w.live(), [worker], "the one before it is not disturbed");
    w.done(tasks[0]);
    assert!(w.was_killed(worker, StopReason::Cancelled));
    w.exit(worker, Exit::Signal(9));
    assert_eq!(w.outcome(tasks[1]), Some(Outcome::Cancelled));
    assert!(w.waits(tasks[2]), "and those behind it go back");
}

/// A worker that supports soft cancellation drops a cancelled task before it begins.
#[test]
fn killing_a_prefetched_task_drops_it_on_a_worker_with_soft_cancel() {
    let (mut w, tasks) = windowed(&Hello::soft());
    let worker = w.on(tasks[1]).expect("it is assigned");
    w.cancel(tasks[1], true);
    assert!(w.has_seen(&Action::CancelOn {
        worker,
        task: tasks[1]
    }));
    w.done(tasks[0]);
    w.answer(tasks[1], Answer::Cancelled);
    assert_eq!(w.outcome(tasks[1]), Some(Outcome::Cancelled));
    w.pass(secs(5));
    assert!(!w.was_killed(worker, StopReason::Cancelled));
}

/// If the worker dies before the cancelled task begins, the task is not returned to its queue.
#[test]
fn a_cancelled_task_is_not_put_back() {
    let (mut w, tasks) = windowed(&Hello::default());
    w.cancel(tasks[1], true);
    w.cancel(tasks[2], false);
    w.crash_worker_of(tasks[0]);
    assert_eq!(w.outcome(tasks[1]), Some(Outcome::Cancelled));
    assert_eq!(w.outcome(tasks[2]), Some(Outcome::Cancelled));
    assert!(w.waits(tasks[3]));
}

#[test]
fn cancelling_an_ended_task_does_nothing() {
    let (mut w, mail, _) = with(&Hello::default());
    let task = w.submit(job(mail));
    w.done(task);
    w.take_actions();
    w.cancel(task, true);
    w.cancel(TaskId(4_000), false);
    assert_eq!(w.take_actions(), []);
}
