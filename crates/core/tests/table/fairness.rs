//! Tests of fairness between queues: the queue with the lowest busy time for its weight goes next.
use crate::support::*;
use stoker_core::*;

/// Runs the tasks that the worker is assigned until this time has passed. Returns the milliseconds
/// used by each name; `costs` are the milliseconds of one run of each.
fn shares(w: &mut World, names: &[NameId], costs: &[u64], span: Span) -> Vec<u64> {
    for (name, cost) in names.iter().zip(costs) {
        w.submit_many((span.as_millis() / cost + 1) as usize, &job(*name));
    }
    let (worker, until) = (w.live()[0], w.now + span);
    let mut busy = vec![0; names.len()];
    while w.now < until {
        let task = w.core.assigned_to(worker).next().expect("work waits");
        let owner = names.iter().position(|name| *name == w.name_of(task));
        let owner = owner.expect("every task is of one of them");
        busy[owner] += costs[owner];
        w.run(task, ms(costs[owner]));
    }
    busy
}

#[test]
fn queues_share_time_not_counts() {
    let (mut w, pool) = World::ready(workers(1));
    let quick = w.jobs(pool, "quick", QueueConfig::default());
    let slow = w.jobs(pool, "slow", QueueConfig::default());
    let busy = shares(&mut w, &[quick, slow], &[20, 200], secs(20));
    assert!(busy[0].abs_diff(busy[1]) <= 400, "{busy:?}");
}

#[test]
fn a_weight_is_a_share_of_time() {
    let (mut w, pool) = World::ready(workers(1));
    let weighing = |weight| QueueConfig {
        weight,
        ..QueueConfig::default()
    };
    let heavy = w.jobs(pool, "heavy", weighing(3));
    let light = w.jobs(pool, "light", weighing(1));
    let busy = shares(&mut w, &[heavy, light], &[100, 50], secs(20));
    assert!(busy[0].abs_diff(15_000) <= 200, "{busy:?}");
}

/// A queue that becomes active again starts level with the others. Time without work gives no credit, or
/// a queue could save up for a burst.
#[test]
fn an_inactive_queue_gets_no_credit() {
    let (mut w, pool) = World::ready(workers(1));
    let steady = w.jobs(pool, "steady", QueueConfig::default());
    let away = w.jobs(pool, "away", QueueConfig::default());
    shares(&mut w, &[steady], &[100], secs(10));
    let busy = shares(&mut w, &[steady, away], &[100, 100], secs(2));
    assert!(busy[1] <= 1_200, "{busy:?}");
}

/// A queue that gets its first pool while tasks already wait in it also starts level with the others.
#[test]
fn a_queue_that_gets_its_pool_late_starts_level() {
    let (mut w, pool) = World::ready(workers(1));
    w.core.add_pool(
        "boots late",
        PoolConfig {
            min: 1,
            ..PoolConfig::default()
        },
    );
    let steady = w.jobs(pool, "steady", QueueConfig::default());
    shares(&mut w, &[steady], &[100], secs(10));
    let orphan = w
        .core
        .resolve_job("orphan")
        .expect("a pool may still serve it");
    let waiting = w.submit_many(20, &job(orphan));
    w.submit_many(20, &job(steady));
    w.core
        .add_queue(Kind::Jobs, "orphan", QueueConfig::default(), &[pool]);
    for _ in 0..20 {
        let next = w.core.assigned_to(w.live()[0]).next().expect("work waits");
        w.run(next, ms(100));
    }
    let served = waiting
        .iter()
        .filter(|task| w.end(**task).is_some())
        .count();
    assert!((9..=12).contains(&served), "{served} of 20 runs");
}

/// A long run is charged while it runs, not only when it has ended.
#[test]
fn a_long_run_is_charged_while_it_runs() {
    let (mut w, pool) = World::ready(workers(2));
    let long = w.jobs(pool, "long", QueueConfig::default());
    let short = w.jobs(pool, "short", QueueConfig::default());
    let endless = w.submit(job(long));
    w.submit_many(100, &job(long).limit(secs(60)));
    let quick = w.submit_many(100, &job(short));
    let other = w
        .live()
        .into_iter()
        .find(|worker| w.on(endless) != Some(*worker));
    let other = other.expect("there are two workers");
    let mut served = 0;
    for _ in 0..40 {
        let task = w.core.assigned_to(other).next().expect("work waits");
        served += usize::from(quick.contains(&task));
        w.run(task, ms(100));
    }
    assert!(
        served >= 36,
        "{served} of 40 runs went to the keys that had used nothing"
    );
}

/// With equal weights and equal runs, queues take turns.
#[test]
fn queues_of_equal_weight_take_turns() {
    let (mut w, pool) = World::ready(workers(1));
    let names = ["a", "b", "c"].map(|name| w.jobs(pool, name, QueueConfig::default()));
    let tasks: Vec<Vec<TaskId>> = names
        .iter()
        .map(|name| w.submit_many(4, &job(*name)))
        .collect();
    let mut order = Vec::new();
    for _ in 0..12 {
        let task = w.core.assigned_to(w.live()[0]).next().expect("work waits");
        order.push(
            tasks
                .iter()
                .position(|of| of.contains(&task))
                .expect("one of them"),
        );
        w.run(task, ms(1));
    }
    for round in order.chunks(3) {
        let mut round = round.to_vec();
        round.sort();
        assert_eq!(round, [0, 1, 2], "{order:?}");
    }
}

#[test]
fn a_paused_queue_waits_and_resumes() {
    let (mut w, pool) = World::ready(workers(1));
    let mail = w.jobs(pool, "mail", QueueConfig::default());
    let queue = w.queue(mail);
    w.step(Event::Paused {
        queue,
        paused: true,
    });
    let task = w.submit(job(mail));
    assert!(w.waits(task) && w.core.queue(queue).paused);
    w.step(Event::Paused {
        queue,
        paused: false,
    });
    assert!(w.on(task).is_some());
}
