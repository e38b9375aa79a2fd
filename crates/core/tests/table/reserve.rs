//! Tests of `reserve`, `keep`, unused reserves and `limit`: the slots that a queue is guaranteed, and the
//! number that it never exceeds.
use crate::support::*;
use stoker_core::*;

fn reserving(reserve: u32) -> QueueConfig {
    QueueConfig {
        reserve,
        ..QueueConfig::default()
    }
}

/// A queue below its reserve goes first, however much busy time it has had.
#[test]
fn a_reserve_goes_before_shares() {
    let (mut w, pool) = World::ready(workers(2));
    let flood = w.jobs(pool, "flood", QueueConfig::default());
    let vip = w.jobs(pool, "vip", reserving(1));
    let rich = w.submit(job(vip));
    w.run(rich, secs(50));
    let flood = w.submit_many(10, &job(flood));
    let waiting = w.submit_many(2, &job(vip));
    assert!(w.waits(waiting[0]), "nobody is interrupted");
    w.done(flood[0]);
    assert!(
        w.on(waiting[0]).is_some(),
        "but the next free slot is its own"
    );
    w.done(flood[1]);
    assert!(
        w.waits(waiting[1]),
        "beyond the reserve it has its share only"
    );
}

#[test]
fn reserved_slots_serve_other_queues_while_their_queue_is_empty() {
    let (mut w, pool) = World::ready(workers(2));
    w.jobs(pool, "vip", reserving(1));
    let flood = w.jobs(pool, "flood", QueueConfig::default());
    let tasks = w.submit_many(3, &job(flood));
    assert_eq!(w.assigned(&tasks).len(), 2);
}

#[test]
fn kept_slots_never_serve_other_queues() {
    let (mut w, pool) = World::ready(workers(3));
    let vip = w.jobs(
        pool,
        "vip",
        QueueConfig {
            reserve: 2,
            keep: 1,
            ..QueueConfig::default()
        },
    );
    let flood = w.jobs(pool, "flood", QueueConfig::default());
    let tasks = w.submit_many(5, &job(flood));
    assert_eq!(w.assigned(&tasks), tasks[..2], "one slot is kept");
    let own = w.submit(job(vip));
    assert!(w.on(own).is_some(), "and is its owner's at once");
    w.done(tasks[0]);
    assert_eq!(
        w.assigned(&tasks),
        tasks[1..3],
        "the owner uses what was kept, so this one is assigned"
    );
    w.done(own);
    assert_eq!(w.assigned(&tasks).len(), 2, "and kept again");
}

/// A queue that is served by two pools has its kept slot only once: after it has a slot in one pool,
/// the other pool keeps none for it.
#[test]
fn a_slot_kept_in_two_pools_is_taken_once() {
    let (mut w, first) = World::ready(workers(1));
    let second = w.core.add_pool("second", workers(1));
    w.boot();
    let vip = w.jobs(
        first,
        "vip",
        QueueConfig {
            reserve: 1,
            keep: 1,
            ..QueueConfig::default()
        },
    );
    w.core.add_queue(
        Kind::Jobs,
        "vip",
        w.core.queue(QueueId(0)).config.clone(),
        &[second],
    );
    let mail = w.jobs(first, "mail", QueueConfig::default());
    let task = w.submit(job(mail));
    assert!(w.waits(task));
    let own = w.submit(job(vip));
    let at = w.view(w.on(own).expect("either pool serves it")).pool;
    assert_eq!(w.on(task).is_some(), at == second);
}

#[test]
fn a_limit_is_never_exceeded() {
    let (mut w, pool) = World::ready(workers(4));
    let limited = w.jobs(
        pool,
        "limited",
        QueueConfig {
            limit: 2,
            ..QueueConfig::default()
        },
    );
    let free = w.jobs(pool, "free", QueueConfig::default());
    let tasks = w.submit_many(4, &job(limited));
    assert_eq!(w.assigned(&tasks), tasks[..2]);
    let others = w.submit_many(3, &job(free));
    assert_eq!(w.assigned(&others).len(), 2, "what it leaves is for others");
    w.done(tasks[0]);
    assert_eq!(w.assigned(&tasks), tasks[1..3]);
}

#[test]
fn a_raised_limit_applies_at_once() {
    let (mut w, pool) = World::ready(workers(4));
    let limited = w.jobs(
        pool,
        "limited",
        QueueConfig {
            limit: 1,
            ..QueueConfig::default()
        },
    );
    let tasks = w.submit_many(4, &job(limited));
    w.core
        .configure_queue(w.core.queue_of_name(limited), reserving(0));
    w.step(Event::Tick);
    assert_eq!(w.assigned(&tasks).len(), 4);
}

/// `keep` counts slots, not workers.
#[test]
fn keep_counts_slots_not_workers() {
    let (mut w, pool) = World::ready_as(workers(1), &Hello::slots(3));
    let kept = QueueConfig {
        reserve: 1,
        keep: 1,
        ..QueueConfig::default()
    };
    w.jobs(pool, "vip", kept);
    let mail = w.jobs(pool, "mail", QueueConfig::default());
    let tasks = w.submit_many(3, &job(mail));
    assert_eq!(w.assigned(&tasks).len(), 2);
}

/// When a prefetched task of a queue begins, the queue has its slot, so the other pool no longer has to
/// keep one for it.
#[test]
fn a_kept_slot_is_released_when_a_prefetched_task_begins() {
    let (mut w, first) = World::ready(workers(1));
    let second = w.core.add_pool("second", workers(1));
    w.boot();
    let [quick, mail] = [(first, "quick"), (second, "mail")]
        .map(|(pool, name)| w.jobs(pool, name, QueueConfig::default()));
    // The first pool considers new tasks first.
    let both = [second, first];
    let vip = w
        .core
        .add_queue(Kind::Jobs, "vip", QueueConfig::default(), &both);
    let vip_job = job(w.core.resolve_job("vip").expect("it was just added"));
    w.train(&job(quick), Span(50));
    w.train(&vip_job, Span(50));
    let running = w.submit(job(quick));
    let kept = QueueConfig {
        reserve: 1,
        keep: 1,
        ..QueueConfig::default()
    };
    w.core.configure_queue(vip, kept);
    let waiting = w.submit(job(mail));
    assert!(w.waits(waiting), "the second pool keeps its slot");
    let ahead = w.submit(vip_job);
    assert_eq!(w.on(ahead), w.on(running));
    assert!(w.waits(waiting));
    w.run(running, Span(50));
    assert!(w.on(waiting).is_some());
}
