//! Tests of ordered queues, in which the tasks of a key run one after another, whatever happens to them;
//! and of jobs that acknowledge their work before they have ended.
use crate::support::*;
use stoker_core::*;

fn ordered(count: u32) -> (World, NameId) {
    let (mut w, pool) = World::ready(workers(count));
    let config = QueueConfig {
        ordered: true,
        ..QueueConfig::default()
    };
    let mail = w.jobs(pool, "mail", config);
    (w, mail)
}

fn block(w: &mut World, name: NameId, key: &str, blocked: bool) {
    let queue = w.queue(name);
    w.step(Event::Blocked {
        queue,
        key: key.as_bytes(),
        blocked,
    });
}

#[test]
fn jobs_of_one_key_run_one_at_a_time_and_keys_run_in_parallel() {
    let (mut w, mail) = ordered(4);
    let a = w.submit_many(3, &job(mail).key("a"));
    let b = w.submit(job(mail).key("b"));
    assert!(w.on(a[0]).is_some() && w.on(b).is_some());
    assert!(w.waits(a[1]), "there are free workers, and it waits");
    w.done(a[0]);
    assert!(w.on(a[1]).is_some() && w.waits(a[2]));
}

#[test]
fn jobs_without_a_key_share_one_order() {
    let (mut w, mail) = ordered(2);
    let jobs = w.submit_many(2, &job(mail));
    assert!(w.on(jobs[0]).is_some() && w.waits(jobs[1]));
}

/// The next job waits until the previous one has ended for good.
#[test]
fn nothing_overtakes_a_job_that_has_to_run_again() {
    let (mut w, mail) = ordered(2);
    let first = w.submit(job(mail).key("a"));
    let second = w.submit(job(mail).key("a"));
    w.answer(first, Answer::Error);
    assert!(w.waits(second), "the first is in the store");
    w.pass(secs(60));
    assert!(w.waits(second));
    let again = w.submit(job(mail).key("a").attempt(1).was_parked());
    assert!(w.on(again).is_some(), "before the one that came earlier");
    w.done(again);
    assert!(w.on(second).is_some());
}

/// A job can have earlier attempts because it was imported, for example, or moved here from another queue.
#[test]
fn a_job_with_earlier_attempts_does_not_unblock_its_key() {
    let (mut w, mail) = ordered(1);
    let first = w.submit(job(mail).key("a"));
    w.answer(first, Answer::Error);
    let stranger = w.submit(job(mail).key("a").attempt(3));
    assert!(w.waits(stranger));
    let again = w.submit(job(mail).key("a").attempt(1).was_parked());
    assert!(w.on(again).is_some());
}

#[test]
fn the_attempt_counter_saturates() {
    let (mut w, mail) = ordered(1);
    let task = w.submit(job(mail).attempt(u16::MAX));
    w.answer(task, Answer::Retry(None));
    let again = w.submit(job(mail).attempt(u16::MAX).was_parked());
    assert!(w.on(again).is_some());
}

#[test]
fn unblocking_a_key_lets_its_next_job_run() {
    let (mut w, mail) = ordered(1);
    let first = w.submit(job(mail).key("a"));
    let second = w.submit(job(mail).key("a"));
    w.answer(first, Answer::Error);
    block(&mut w, mail, "a", false);
    assert!(w.on(second).is_some());
}

#[test]
fn a_key_is_blocked_before_any_of_its_jobs_is_known() {
    let (mut w, mail) = ordered(1);
    block(&mut w, mail, "a", true);
    let second = w.submit(job(mail).key("a"));
    assert!(w.waits(second));
    let other = w.submit(job(mail).key("b"));
    assert!(w.on(other).is_some(), "other keys go on");
    w.done(other);
    let first = w.submit(job(mail).key("a").attempt(2).was_parked());
    w.done(first);
    assert!(w.on(second).is_some());
}

#[test]
fn nothing_overtakes_a_suspect() {
    let (mut w, mail) = ordered(2);
    let first = w.submit(job(mail).key("a"));
    let second = w.submit(job(mail).key("a"));
    let worker = w.on(first).expect("it runs");
    w.die(worker);
    assert!(w.on(first).is_some(), "it runs again, alone");
    assert!(w.waits(second));
    w.done(first);
    assert!(w.on(second).is_some());
}

#[test]
fn a_queue_that_is_not_ordered_does_not_block_keys() {
    let (mut w, pool) = World::ready(workers(1));
    let mail = w.jobs(pool, "mail", QueueConfig::default());
    let first = w.submit(job(mail).key("a"));
    let second = w.submit(job(mail).key("a"));
    block(&mut w, mail, "a", true);
    w.answer(first, Answer::Error);
    assert!(w.on(second).is_some());
}

fn acknowledge(w: &mut World, task: TaskId) {
    let worker = w.on(task).expect("it runs");
    w.step(Event::Acknowledged { worker, task });
}

fn outcome(w: &World, task: TaskId) -> Option<Outcome> {
    w.seen.iter().find_map(|action| match action {
        Action::Answer {
            task: of, outcome, ..
        } if *of == task => Some(*outcome),
        _ => None,
    })
}

#[test]
fn an_acknowledged_job_is_done_and_continues_to_run() {
    let (mut w, pool) = World::ready(workers(1));
    let mail = w.jobs(pool, "mail", QueueConfig::default());
    let task = w.submit(job(mail).tries(3));
    acknowledge(&mut w, task);
    assert_eq!(outcome(&w, task), Some(Outcome::Answered));
    assert!(w.on(task).is_some(), "its worker still has it");
    w.answer(task, Answer::Error);
    let retried = |action: &Action| matches!(action, Action::Retry { .. } | Action::Finish { .. });
    assert!(!w.seen.iter().any(retried), "it is not told twice");
}

#[test]
fn a_death_after_the_acknowledgement_runs_nothing_again() {
    let (mut w, pool) = World::ready(workers(1));
    let mail = w.jobs(pool, "mail", QueueConfig::default());
    let task = w.submit(job(mail));
    acknowledge(&mut w, task);
    let worker = w.on(task).expect("it runs");
    w.die(worker);
    assert_eq!(w.core.tasks(), 0);
}

#[test]
fn acknowledging_a_task_that_was_not_begun_is_a_violation() {
    let (mut w, pool) = World::ready(workers(1));
    let mail = w.jobs(pool, "mail", QueueConfig::default());
    let get = w.calls(pool, "users.get", QueueConfig::default());
    let first = w.submit(call(get));
    let waiting = w.submit(job(mail));
    let worker = w.on(first).expect("it runs");
    w.take_actions();
    w.step(Event::Acknowledged {
        worker,
        task: waiting,
    });
    let killed = w
        .seen
        .iter()
        .any(|action| matches!(action, Action::Kill { .. }));
    assert!(killed, "{:?}", w.seen);
}

/// Only jobs can be acknowledged: the caller of a call waits for the content of its answer.
#[test]
fn a_call_cannot_be_acknowledged() {
    let (mut w, pool) = World::ready(workers(1));
    let get = w.calls(pool, "users.get", QueueConfig::default());
    let task = w.submit(call(get));
    acknowledge(&mut w, task);
    assert_eq!(w.end(task), None);
    assert!(w.was_killed(w.books.holder[&task], StopReason::Misbehaved));
}

/// A prefetched job has not begun, so it cannot be done.
#[test]
fn a_prefetched_job_cannot_be_acknowledged() {
    let (mut w, pool) = World::ready(workers(1));
    let mail = w.jobs(pool, "mail", QueueConfig::default());
    w.train(&job(mail), Span(50));
    let tasks = w.submit_many(9, &job(mail));
    let worker = w.on(tasks[1]).expect("it is assigned ahead");
    acknowledge(&mut w, tasks[1]);
    assert!(w.was_killed(worker, StopReason::Misbehaved));
    assert_eq!(w.end(tasks[1]), None);
}

/// Each job that waits in the store for its retry blocks its key, and each one unblocks it separately.
#[test]
fn a_key_waits_for_all_of_its_parked_jobs() {
    let (mut w, mail) = ordered(1);
    for blocked in [true, true] {
        block(&mut w, mail, "a", blocked);
    }
    let task = w.submit(job(mail).key("a"));
    block(&mut w, mail, "a", false);
    assert!(w.waits(task));
    block(&mut w, mail, "a", false);
    assert!(w.on(task).is_some());
}

/// A key is remembered only while a job of it waits for a retry.
#[test]
fn a_blocked_key_is_remembered_until_it_is_unblocked() {
    let (mut w, mail) = ordered(1);
    let queue = w.queue(mail);
    block(&mut w, mail, "a", true);
    assert!(w.core.knows_key(queue, b"a"));
    block(&mut w, mail, "a", false);
    assert!(!w.core.knows_key(queue, b"a"));
}

/// A retried job that its key was not blocked for goes to the end.
#[test]
fn a_retry_that_does_not_block_its_key_goes_to_the_end() {
    let (mut w, mail) = ordered(1);
    let running = w.submit(job(mail).key("a"));
    let next = w.submit(job(mail).key("a"));
    let again = w.submit(job(mail).key("a").attempt(1));
    w.done(running);
    assert!(w.on(next).is_some() && w.waits(again));
}

/// Order must not depend on free space: keys of an ordered queue never share a bucket, and the load window
/// of a lane never shrinks to 0.
#[test]
fn keys_of_an_ordered_queue_never_share_a_bucket() {
    let (mut w, mail) = ordered(1);
    let queue = w.queue(mail);
    for n in 0..6_000_u32 {
        let key = format!("order {n}");
        w.books.submit(TaskId(n));
        let task = NewTask {
            id: TaskId(n),
            key: key.as_bytes(),
            ..job(mail).0
        };
        w.core.step(w.now, Event::Arrived(task), &mut w.seen);
    }
    assert!((0..6_000).all(|n| w.core.knows_key(queue, format!("order {n}").as_bytes())));
    assert_eq!(
        (w.core.refill_size(queue), w.core.free_key_slots(queue)),
        (2, 0)
    );
}

/// Jobs of the same order run in order of arrival.
#[test]
fn a_job_goes_before_those_of_a_higher_order() {
    let (mut w, pool) = World::ready(workers(1));
    let mail = w.jobs(pool, "mail", QueueConfig::default());
    let running = w.submit(job(mail).order(90));
    let orders = [50, 70, 20, 70, 60, 10, 90];
    let tasks = orders.map(|order| w.submit(job(mail).order(order)));
    let mut ran = vec![running];
    for _ in orders {
        w.done(ran[ran.len() - 1]);
        ran.extend(w.assigned(&tasks));
    }
    let sorted = [5, 2, 0, 4, 1, 3, 6].map(|at: usize| tasks[at]);
    assert_eq!(
        ran[1..],
        sorted,
        "{running:?} was with a worker before them"
    );
}

#[test]
fn a_job_that_is_returned_unbegun_keeps_its_order() {
    let (mut w, pool) = World::ready(workers(1));
    let mail = w.jobs(pool, "mail", QueueConfig::default());
    w.train(&job(mail), Span(50));
    let late = w.submit_many(200, &job(mail).order(8));
    let worker = w.on(late[1]).expect("it is prefetched");
    let early = w.submit(job(mail).order(5));
    assert!(w.waits(early));
    w.step(Event::Left { worker });
    w.exit(worker, Exit::Code(0));
    w.boot();
    let next = w.on(early).expect("it goes first");
    assert_eq!(w.core.assigned_to(next).next(), Some(early));
}

/// In an ordered queue, a job that has begun runs again first, even if another job is due before it by
/// now.
#[test]
fn a_begun_job_of_an_ordered_queue_is_not_overtaken() {
    let (mut w, pool) = World::ready_as(workers(1), &Hello::slots(2));
    let config = QueueConfig {
        ordered: true,
        ..QueueConfig::default()
    };
    let mail = w.jobs(pool, "mail", config);
    let first = w.submit(job(mail).key("a").order(8));
    let early = w.submit(job(mail).key("a").order(5));
    let beside = w.submit(job(mail).key("b"));
    let worker = w.on(first).expect("it runs");
    for task in [first, beside] {
        w.step(Event::Started { worker, task });
    }
    w.cancel(beside, true);
    w.exit(worker, Exit::Signal(9));
    w.boot_as(&Hello::slots(2));
    assert!(w.on(first).is_some() && w.waits(early), "{:?}", w.seen);
    w.answer(first, Answer::Error);
    let again = w.submit(job(mail).key("a").order(8).attempt(1).was_parked());
    assert!(w.on(again).is_some() && w.waits(early));
    w.done(again);
    assert!(w.on(early).is_some());
}
