//! Tests of prefetching: tasks are assigned to a busy worker only if that can do no harm.
use crate::support::*;
use stoker_core::*;

const SHORT: Span = Span(50);

fn pool_with(count: u32, hello: &Hello) -> (World, PoolId, NameId) {
    let (mut w, pool) = World::ready_as(workers(count), hello);
    let mail = w.jobs(pool, "mail", QueueConfig::default());
    w.train(&job(mail), SHORT);
    (w, pool, mail)
}

fn assigned(w: &World) -> Vec<usize> {
    w.live()
        .into_iter()
        .map(|worker| w.view(worker).assigned)
        .collect()
}

#[test]
fn short_jobs_are_prefetched() {
    let (mut w, _, mail) = pool_with(1, &Hello::default());
    let tasks = w.submit_many(200, &job(mail));
    assert_eq!(
        w.assigned(&tasks),
        tasks[..33],
        "filled up while half empty"
    );
    w.done(tasks[0]);
    assert_eq!(w.assigned(&tasks), tasks[1..65], "to as many as it holds");
    let queue = w.core.queue(w.queue(mail));
    assert_eq!(
        (queue.running, queue.assigned),
        (1, 64),
        "but it is one slot"
    );
    let running = w.view(w.live()[0]).task;
    assert_eq!(running.map(|(task, _)| task), Some(tasks[1]));
}

/// A prefetch window is filled up when it is half empty, because many small top-ups would be many
/// small writes.
#[test]
fn a_window_is_filled_when_half_empty() {
    let (mut w, _, mail) = pool_with(1, &Hello::default());
    let tasks = w.submit_many(300, &job(mail));
    w.done(tasks[0]);
    for assigned in (32..64).rev() {
        let delivered = w.count(|action| matches!(action, Action::Deliver { .. }));
        let running = w.core.assigned_to(w.live()[0]).next().expect("work waits");
        w.done(running);
        let more = w.count(|action| matches!(action, Action::Deliver { .. })) - delivered;
        assert_eq!(
            more,
            if assigned == 32 { 32 } else { 0 },
            "with {assigned} left"
        );
    }
}

/// Nothing is prefetched while another worker is idle and could start the task at once.
#[test]
fn nothing_is_prefetched_while_a_worker_is_idle() {
    let (mut w, _, mail) = pool_with(3, &Hello::default());
    w.submit_many(3, &job(mail));
    assert_eq!(assigned(&w), [1, 1, 1]);
}

/// Waiting tasks are spread over the workers.
#[test]
fn waiting_tasks_are_spread_over_the_windows() {
    let (mut w, _, mail) = pool_with(2, &Hello::default());
    let tasks = w.submit_many(42, &job(mail));
    for task in &tasks[..2] {
        w.done(*task);
    }
    let assigned = assigned(&w);
    assert!(
        assigned.iter().all(|count| (10..=32).contains(count)),
        "{assigned:?}"
    );
}

/// One run of 2 ms among the last 64 prevents prefetching.
#[test]
fn one_long_run_prevents_prefetching() {
    let (mut w, _, mail) = pool_with(1, &Hello::default());
    let slow = w.submit(job(mail));
    w.run(slow, Span(2_000));
    for _ in 0..32 {
        let tasks = w.submit_many(2, &job(mail));
        assert_eq!(w.assigned(&tasks).len(), 1);
        w.run(tasks[0], SHORT);
        w.run(tasks[1], SHORT);
    }
    let tasks = w.submit_many(2, &job(mail));
    assert_eq!(w.assigned(&tasks).len(), 2, "but it is forgotten");
}

#[test]
fn nothing_is_concluded_from_a_few_runs() {
    let (mut w, pool) = World::ready(workers(1));
    let mail = w.jobs(pool, "mail", QueueConfig::default());
    for runs in 0..16 {
        let tasks = w.submit_many(2, &job(mail));
        assert_eq!(w.assigned(&tasks).len(), 1, "after {runs} runs");
        w.cancel(tasks[1], false);
        w.run(tasks[0], SHORT);
    }
}

/// If the worker reports its own measure of the run, that one counts, because it does not include
/// the time on the wire.
#[test]
fn the_run_time_measured_by_the_worker_counts() {
    let (mut w, pool) = World::ready(workers(1));
    let mail = w.jobs(pool, "mail", QueueConfig::default());
    for _ in 0..16 {
        let task = w.submit(job(mail));
        let worker = w.on(task).expect("it runs");
        w.pass(ms(5));
        w.step(Event::Answered {
            worker,
            task,
            answer: Answer::Done,
            worked: SHORT,
        });
    }
    let tasks = w.submit_many(2, &job(mail));
    assert_eq!(w.assigned(&tasks).len(), 2);
}

/// A worker's death affects everything assigned to it, so a call that may not run again is not
/// prefetched, and nothing is prefetched behind it.
#[test]
fn calls_that_must_not_run_again_are_not_prefetched() {
    let (mut w, pool, mail) = pool_with(1, &Hello::default());
    let users = w.calls(pool, "users.get", QueueConfig::default());
    w.train(&call(users), SHORT);
    let calls = w.submit_many(3, &call(users));
    assert_eq!(w.assigned(&calls).len(), 1);
    let jobs = w.submit_many(20, &job(mail));
    assert_eq!(
        w.assigned(&jobs).len(),
        0,
        "nor is anything assigned behind one"
    );
    calls.iter().for_each(|task| w.cancel(*task, false));
    w.done(calls[0]);
    assert!(w.assigned(&jobs).len() > 1);
    let idempotent = w.submit_many(80, &call(users).idempotent());
    for task in &jobs {
        w.done(*task);
    }
    assert!(w.assigned(&idempotent).len() > 1, "idempotent ones may");
}

/// A long task is not prefetched behind a short one, nor a short one behind a long one.
#[test]
fn long_tasks_are_not_prefetched_and_prevent_prefetching() {
    let (mut w, pool, mail) = pool_with(1, &Hello::default());
    let long = w.jobs(
        pool,
        "long",
        QueueConfig {
            weight: 1_000,
            ..QueueConfig::default()
        },
    );
    w.train(&job(long), ms(5));
    let running = w.submit(job(mail));
    let next = w.submit(job(long));
    let others = w.submit_many(20, &job(mail));
    assert_eq!(
        w.assigned(&others),
        [],
        "the one whose turn it is would wait in a window"
    );
    w.run(running, SHORT);
    assert!(w.on(next).is_some());
    assert_eq!(w.assigned(&others), []);
}

/// A queue's limit includes prefetched tasks, so it is never exceeded.
#[test]
fn windows_keep_within_the_limit() {
    let (mut w, pool) = World::ready(workers(2));
    let mail = w.jobs(
        pool,
        "mail",
        QueueConfig {
            limit: 3,
            ..QueueConfig::default()
        },
    );
    w.train(&job(mail), SHORT);
    let tasks = w.submit_many(50, &job(mail));
    w.done(tasks[0]);
    assert_eq!(w.assigned(&tasks).len(), 3);
}

/// Prefetching does not use up a slot that is kept for another queue.
#[test]
fn prefetching_leaves_kept_slots_free() {
    let (mut w, pool) = World::ready(workers(2));
    let kept = QueueConfig {
        reserve: 1,
        keep: 1,
        ..QueueConfig::default()
    };
    let vip = w.jobs(pool, "vip", kept);
    let mail = w.jobs(pool, "mail", QueueConfig::default());
    w.train(&job(mail), SHORT);
    let tasks = w.submit_many(50, &job(mail));
    w.done(tasks[0]);
    assert_eq!(
        w.assigned(&tasks).len(),
        1,
        "a worker is idle, if only for others"
    );
    let own = w.submit(job(vip));
    assert!(w.on(own).is_some());
}

/// While the server drains, no job is prefetched.
#[test]
fn nothing_is_prefetched_during_a_drain() {
    let (mut w, _, mail) = pool_with(1, &Hello::default());
    let tasks = w.submit_many(100, &job(mail));
    let lent_before = w.assigned(&tasks).len();
    w.step(Event::Drain);
    w.done(tasks[0]);
    assert_eq!(w.assigned(&tasks).len(), lent_before - 1);
}

/// A window of one task disables prefetching.
#[test]
fn windows_can_be_switched_off() {
    let mut w = World::with(Limits {
        prefetch_window: 1,
        ..Limits::default()
    });
    let pool = w.core.add_pool("app", workers(1));
    w.boot();
    let mail = w.jobs(pool, "mail", QueueConfig::default());
    w.train(&job(mail), SHORT);
    let tasks = w.submit_many(50, &job(mail));
    assert_eq!(w.assigned(&tasks), tasks[..1]);
}

/// As tasks arrive, the windows are filled in turn, before any worker has answered.
#[test]
fn windows_are_filled_in_turn() {
    let (mut w, _, mail) = pool_with(3, &Hello::default());
    w.submit_many(30, &job(mail));
    let assigned = assigned(&w);
    assert!(assigned.iter().all(|count| *count > 2), "{assigned:?}");
}

/// However many tasks arrive at once, no worker prefetches a task that another could begin sooner.
#[test]
fn no_window_takes_more_than_its_share() {
    let (mut w, _, mail) = pool_with(2, &Hello::default());
    w.submit_many(2, &job(mail));
    let queue = w.queue(mail);
    w.step(Event::Paused {
        queue,
        paused: true,
    });
    w.submit_many(20, &job(mail));
    w.step(Event::Paused {
        queue,
        paused: false,
    });
    let assigned = assigned(&w);
    assert_eq!(assigned.iter().max(), Some(&11), "{assigned:?}");
}

/// A few longer runs again and again do not add up, because older runs are forgotten.
#[test]
fn forgotten_long_runs_do_not_add_up() {
    let (mut w, _, mail) = pool_with(1, &Hello::default());
    for _ in 0..6 {
        for run in 0..64 {
            let task = w.submit(job(mail));
            w.run(task, if run < 4 { Span(300) } else { SHORT });
        }
    }
    let tasks = w.submit_many(2, &job(mail));
    assert_eq!(w.assigned(&tasks).len(), 2);
}
