//! Tests of the number of workers: growing, shrinking and scaling.
use crate::support::*;
use stoker_core::*;

fn between(min: u32, max: u32) -> PoolConfig {
    PoolConfig {
        min,
        max,
        ..PoolConfig::default()
    }
}

/// A pool in which every worker is busy for a long time.
fn busy(config: PoolConfig) -> (World, PoolId, NameId, Vec<TaskId>) {
    let (mut w, pool) = World::ready(config);
    let mail = w.jobs(pool, "mail", QueueConfig::default());
    let tasks = w.submit_many(w.live().len(), &job(mail).limit(secs(3_600)));
    (w, pool, mail, tasks)
}

#[test]
fn a_pool_grows_after_work_has_starved_for_a_while() {
    let (mut w, _, mail, _) = busy(between(1, 3));
    w.submit_many(9, &job(mail).limit(secs(3_600)));
    w.pass(Span(49_999));
    assert!(w.starting().is_empty());
    w.pass(Span(1));
    assert_eq!(w.starting().len(), 1, "one at a time");
    w.pass(secs(1));
    assert_eq!(w.starting().len(), 1);
    w.boot();
    w.pass(ms(50));
    w.boot();
    w.pass(secs(1));
    assert_eq!(
        (w.live().len(), w.starting().len()),
        (3, 0),
        "and not above its maximum"
    );
}

#[test]
fn a_pool_whose_workers_boot_quickly_grows_at_once_with_the_waiting_tasks() {
    let quick = PoolConfig {
        boots_quickly: true,
        ..between(1, 5)
    };
    let (mut w, _, mail, _) = busy(quick);
    w.submit_many(2, &job(mail).limit(secs(3_600)));
    assert_eq!(w.starting().len(), 2, "one for each");
    w.submit_many(9, &job(mail).limit(secs(3_600)));
    assert_eq!(w.starting().len(), 4, "and not above its maximum");
    w.boot();
    w.pass(secs(1));
    assert_eq!((w.live().len(), w.starting().len()), (5, 0));
}

/// Only tasks that another worker could run count.
#[test]
fn a_pool_whose_workers_boot_quickly_grows_only_for_tasks_that_may_run() {
    let quick = PoolConfig {
        boots_quickly: true,
        ..between(1, 9)
    };
    let limits = [
        QueueConfig {
            limit: 2,
            ..QueueConfig::default()
        },
        QueueConfig {
            per_key: 2,
            ..QueueConfig::default()
        },
        QueueConfig {
            ordered: true,
            ..QueueConfig::default()
        },
    ];
    for (config, max) in limits.into_iter().zip([2, 2, 1]) {
        let (mut w, pool) = World::ready(quick.clone());
        let (mail, other) = (
            w.jobs(pool, "mail", config),
            w.jobs(pool, "other", QueueConfig::default()),
        );
        w.submit_many(6, &job(mail).limit(secs(3_600)).key("a"));
        let all = w.live().len() + w.starting().len();
        assert_eq!(all, max, "workers for a queue that is limited");
        let queue = w.queue(other);
        w.step(Event::Paused {
            queue,
            paused: true,
        });
        w.submit_many(4, &job(other));
        let all = w.live().len() + w.starting().len();
        assert_eq!(all, max, "workers for a paused queue");
        w.step(Event::Paused {
            queue,
            paused: false,
        });
        let all = w.live().len() + w.starting().len();
        assert!(all > max && all <= max + 4, "{all} workers");
    }
}

/// A burst that is over in a moment needs no new process.
#[test]
fn a_short_burst_does_not_grow_a_pool() {
    let (mut w, _, mail, running) = busy(between(1, 3));
    let burst = w.submit(job(mail));
    w.pass(ms(40));
    w.done(running[0]);
    w.done(burst);
    let again = w.submit_many(2, &job(mail));
    w.pass(ms(40));
    w.done(again[0]);
    w.pass(secs(10));
    assert_eq!((w.live().len(), w.starting().len()), (1, 0));
}

/// Tasks that could not be assigned even to a free worker need no new one.
#[test]
fn a_pool_does_not_grow_for_tasks_that_cannot_run() {
    let (mut w, pool) = World::ready(between(1, 3));
    let one = QueueConfig {
        limit: 1,
        ..QueueConfig::default()
    };
    let limited = w.jobs(pool, "limited", one);
    let paused = w.jobs(pool, "paused", QueueConfig::default());
    let keyed = w.jobs(
        pool,
        "keyed",
        QueueConfig {
            per_key: 1,
            ..QueueConfig::default()
        },
    );
    let queue = w.queue(paused);
    w.step(Event::Paused {
        queue,
        paused: true,
    });
    for name in [limited, paused] {
        w.submit_many(3, &job(name));
    }
    w.pass(secs(1));
    assert_eq!(w.live().len() + w.starting().len(), 1);
    let (mut v, pool) = World::ready(between(1, 3));
    let one_each = QueueConfig {
        per_key: 1,
        ..QueueConfig::default()
    };
    let keyed_too = v.jobs(pool, "keyed", one_each);
    assert_eq!(w.name_of(TaskId(0)), limited);
    v.submit_many(3, &job(keyed_too).key("a"));
    v.pass(secs(1));
    assert_eq!(v.live().len() + v.starting().len(), 1);
    w.submit(job(keyed));
}

/// A slot that is kept for another queue does not help tasks that may not use it.
#[test]
fn a_pool_grows_for_tasks_that_cannot_use_reserved_slots() {
    let (mut w, pool) = World::ready(between(1, 2));
    let kept = QueueConfig {
        reserve: 1,
        keep: 1,
        ..QueueConfig::default()
    };
    w.jobs(pool, "vip", kept);
    let mail = w.jobs(pool, "mail", QueueConfig::default());
    let task = w.submit(job(mail));
    assert!(w.waits(task));
    w.pass(ms(50));
    w.boot();
    assert!(w.on(task).is_some());
}

/// While the server boots as many workers as it may, growth waits, without a busy loop.
#[test]
fn growth_waits_for_the_boot_limit() {
    let mut w = World::with(Limits {
        boots_at_once: 1,
        ..Limits::default()
    });
    let pool = w.core.add_pool("app", between(1, 2));
    w.boot();
    w.core.add_pool("slow to boot", workers(1));
    w.step(Event::Tick);
    let mail = w.jobs(pool, "mail", QueueConfig::default());
    w.submit_many(3, &job(mail).limit(secs(3_600)));
    w.pass(secs(1));
    let slow = w.starting();
    assert_eq!(slow.len(), 1);
    w.hello(slow[0], &Hello::default());
    assert_eq!(w.starting().len(), 1);
    w.boot();
    assert_eq!(w.live().len(), 3);
}

#[test]
fn a_pool_shrinks_to_its_minimum_when_idle() {
    let (mut w, pool, mail, mut tasks) = busy(PoolConfig {
        idle_timeout: secs(9),
        ..between(1, 3)
    });
    tasks.extend(w.submit_many(2, &job(mail).limit(secs(3_600))));
    for _ in 0..2 {
        w.pass(ms(50));
        w.boot();
    }
    assert_eq!(w.live().len(), 3);
    tasks.iter().for_each(|task| w.done(*task));
    w.pass(ms(8_999));
    assert_eq!(w.live().len(), 3);
    w.pass(ms(1));
    assert_eq!((w.live().len(), w.in_state("stopping").len()), (1, 2));
    for worker in w.in_state("stopping") {
        assert!(w.has_seen(&Action::Goaway {
            worker,
            why: StopReason::Surplus
        }));
        w.exit(worker, Exit::Code(0));
    }
    w.pass(secs(100));
    assert_eq!((w.live().len(), w.core.pool(pool).2), (1, Health::Healthy));
}

/// The worker that was used last gets the next task, so that the others become idle and stop.
#[test]
fn the_warmest_worker_gets_the_work() {
    let (mut w, _, mail, tasks) = busy(PoolConfig {
        idle_timeout: secs(9),
        ..between(1, 3)
    });
    let warm = w.on(tasks[0]);
    w.submit(job(mail).limit(secs(3_600)));
    w.pass(ms(50));
    w.boot();
    w.done(tasks[0]);
    for _ in 0..20 {
        let next = w.submit(job(mail));
        assert_eq!(w.on(next), warm);
        w.run(next, secs(1));
    }
}

/// A worker that connected by itself does not count towards the minimum, so an idle worker of the minimum
/// stays.
#[test]
fn a_connected_worker_does_not_count_towards_the_minimum() {
    let (mut w, pool) = World::ready(PoolConfig {
        idle_timeout: secs(9),
        ..between(1, 3)
    });
    w.pass(secs(20));
    let first = w.live();
    let mail = w.jobs(pool, "mail", QueueConfig::default());
    let joined = w.join(pool, &Hello::default());
    let task = w.submit(job(mail).limit(secs(3_600)));
    assert_eq!(w.on(task), Some(joined));
    w.pass(secs(9));
    assert_eq!(w.view(first[0]).state, WorkerState::Ready);
}

/// A worker of the minimum that is idle beyond `idle_timeout`, while the workers above the minimum
/// are already leaving, is neither stopped nor checked again and again.
#[test]
fn workers_of_the_minimum_stay_beyond_the_idle_timeout() {
    let (mut w, pool) = World::ready(PoolConfig {
        idle_timeout: secs(9),
        ..between(1, 2)
    });
    let mail = w.jobs(pool, "mail", QueueConfig::default());
    let joined = w.join(pool, &Hello::default());
    let task = w.submit(job(mail).limit(secs(3_600)));
    assert_eq!(w.on(task), Some(joined));
    w.step(Event::Misbehaved { worker: joined });
    w.pass(secs(60));
    assert_eq!(w.live().len(), 1);
}

#[test]
fn a_pool_without_a_minimum_starts_when_work_comes_and_ends_when_it_is_gone() {
    let (mut w, pool) = World::of(PoolConfig {
        idle_timeout: secs(9),
        ..between(0, 1)
    });
    let mail = w.jobs(pool, "mail", QueueConfig::default());
    w.pass(secs(60));
    assert!(w.starting().is_empty());
    let task = w.submit(job(mail));
    w.pass(ms(50));
    w.boot();
    w.done(task);
    w.pass(secs(9));
    assert!(w.live().is_empty());
}

#[test]
fn scaling_up_starts_workers_at_once() {
    let (mut w, pool) = World::ready(between(1, 1));
    w.step(Event::Scale {
        pool,
        min: 3,
        max: 4,
    });
    assert_eq!(w.starting().len(), 2);
    let config = w.core.pool(pool).1;
    assert_eq!((config.min, config.max), (3, 4));
}

/// Idle workers are stopped first, and busy ones finish their tasks.
#[test]
fn scaling_down_stops_idle_workers_first() {
    let (mut w, pool, _, tasks) = busy(between(3, 3));
    w.done(tasks[1]);
    let [first, idle, last] = [0, 1, 2].map(|at| w.books.workers.iter().nth(at).copied());
    let idle_now = w.in_state("ready");
    w.step(Event::Scale {
        pool,
        min: 1,
        max: 1,
    });
    assert_eq!(w.in_state("stopping"), idle_now);
    assert_eq!(w.live().len(), 1);
    assert_eq!(
        w.view(w.on(tasks[2]).expect("it runs")).state,
        WorkerState::Draining,
        "assigned last, goes first"
    );
    w.done(tasks[2]);
    assert_eq!(w.outcome(tasks[2]), Some(Outcome::Answered));
    assert!(first.is_some() && idle.is_some() && last.is_some());
}

/// A booting worker has no task, so it is stopped before a worker that serves.
#[test]
fn scaling_down_stops_booting_workers_first() {
    let (mut w, pool, mail, _) = busy(between(2, 4));
    w.submit_many(4, &job(mail));
    w.pass(ms(50));
    assert_eq!(w.starting().len(), 1);
    w.step(Event::Scale {
        pool,
        min: 1,
        max: 2,
    });
    assert_eq!((w.live().len(), w.starting().len()), (2, 0));
}

/// The bounds are corrected so that the maximum is at least 1 and the minimum is not above it.
#[test]
fn scale_bounds_are_corrected() {
    let (mut w, pool) = World::ready(between(1, 1));
    w.step(Event::Scale {
        pool,
        min: 9,
        max: 0,
    });
    let config = w.core.pool(pool).1;
    assert_eq!((config.min, config.max), (1, 1));
}

/// Workers that connect by themselves are not counted towards the maximum and replace no other worker.
#[test]
fn connected_workers_do_not_count_towards_the_maximum() {
    let (mut w, pool) = World::ready(between(2, 2));
    w.join(pool, &Hello::default());
    assert_eq!(w.live().len(), 3);
    w.pass(secs(3_600));
    assert_eq!(w.live().len(), 3);
}

/// A pool whose workers connect by themselves starts none itself.
#[test]
fn a_pool_of_connected_workers_starts_none() {
    let (mut w, pool) = World::of(PoolConfig {
        spawned: false,
        ..between(2, 4)
    });
    let mail = w.jobs(pool, "mail", QueueConfig::default());
    let task = w.submit(job(mail));
    w.pass(secs(60));
    assert!(w.starting().is_empty());
    let guest = w.join(pool, &Hello::default());
    assert_eq!(w.on(task), Some(guest));
    assert!(!w.view(guest).spawned);
}

/// A worker with a free slot is not idle while it runs a long task.
#[test]
fn a_worker_with_a_task_is_not_idle() {
    let (mut w, pool) = World::ready_as(
        PoolConfig {
            min: 2,
            max: 2,
            idle_timeout: secs(9),
            ..PoolConfig::default()
        },
        &Hello::slots(2),
    );
    let mail = w.jobs(pool, "mail", QueueConfig::default());
    let [long, longer] = [0, 1].map(|_| w.submit(job(mail).limit(secs(3_600))));
    w.step(Event::Scale {
        pool,
        min: 1,
        max: 2,
    });
    w.pass(secs(60));
    let busy = w.on(long).expect("it runs");
    assert_eq!(
        (w.on(longer), w.view(busy).state),
        (Some(busy), WorkerState::Busy)
    );
}

/// The core sets no deadline for a pool that cannot grow, nor for one whose waiting work has gone.
#[test]
fn no_timer_is_set_for_a_pool_that_cannot_grow() {
    let wakes = |w: &World| {
        w.core
            .next_deadline()
            .is_some_and(|at| at <= w.now + secs(1))
    };
    let (mut w, _, mail, running) = busy(between(1, 1));
    w.submit(job(mail));
    assert!(!wakes(&w));
    w.done(running[0]);
    let (mut w, _, mail, running) = busy(between(1, 2));
    let waiting = w.submit(job(mail));
    assert!(wakes(&w), "it may grow");
    w.pass(ms(10));
    w.done(running[0]);
    assert!(w.on(waiting).is_some());
    w.pass(ms(40));
    assert!(!wakes(&w), "one look in vain is enough");
    let (mut w, pool) = World::of(PoolConfig {
        spawned: false,
        ..between(1, 2)
    });
    let mail = w.jobs(pool, "mail", QueueConfig::default());
    w.submit(job(mail));
    assert!(!wakes(&w), "its workers come by themselves");
}

/// A server in which nothing happens sleeps.
#[test]
fn an_idle_server_has_no_deadline() {
    let (mut w, _) = World::ready(between(1, 2));
    w.pass(secs(61));
    assert_eq!(w.core.next_deadline(), None);
}
