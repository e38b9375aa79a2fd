//! Tests of fairness between the tenants (keys) of one queue.
use crate::support::*;
use stoker_core::*;

fn one_worker() -> (World, NameId, TaskId) {
    let (mut w, pool) = World::ready(workers(1));
    let mail = w.jobs(pool, "mail", QueueConfig::default());
    let first = w.submit(job(mail));
    (w, mail, first)
}

/// A tenant that floods the queue waits behind its own tasks.
#[test]
fn a_tenant_with_one_task_is_served_within_two_runs() {
    let (mut w, mail, running) = one_worker();
    let flood = w.submit_many(100, &job(mail).key("flood"));
    w.run(running, ms(1));
    w.run(flood[0], ms(1));
    let alone = w.submit(job(mail).key("alone"));
    w.run(flood[1], ms(1));
    assert!(w.on(alone).is_some());
}

#[test]
fn tenants_share_time_not_counts() {
    let (mut w, mail, running) = one_worker();
    w.submit_many(200, &job(mail).key("quick"));
    let slow = w.submit_many(20, &job(mail).key("slow"));
    w.run(running, ms(1));
    let mut busy = [0, 0];
    for _ in 0..60 {
        let task = w.core.assigned_to(w.live()[0]).next().expect("work waits");
        let is_slow = slow.contains(&task);
        let span = if is_slow { 100 } else { 10 };
        busy[usize::from(is_slow)] += span;
        w.run(task, ms(span));
    }
    assert!(busy[0].abs_diff(busy[1]) <= 200, "{busy:?}");
}

/// A tenant that has used its share keeps its debt when it pauses for a moment.
#[test]
fn a_debt_outlasts_a_pause() {
    let (mut w, mail, running) = one_worker();
    w.run(running, ms(1));
    let rich = w.submit(job(mail).key("rich"));
    w.run(rich, secs(10));
    let first = w.submit(job(mail).key("poor"));
    let [poor, rich] = ["poor", "rich"].map(|key| w.submit_many(20, &job(mail).key(key)));
    w.run(first, ms(100));
    for task in &poor[..19] {
        assert!(w.on(*task).is_some(), "the one who had nothing goes first");
        w.run(*task, ms(100));
    }
    assert!(rich.iter().all(|task| w.waits(*task)));
}

#[test]
fn per_key_limits_the_assigned_tasks_of_a_tenant() {
    let (mut w, pool) = World::ready(workers(4));
    let mail = w.jobs(
        pool,
        "mail",
        QueueConfig {
            per_key: 2,
            ..QueueConfig::default()
        },
    );
    let a = w.submit_many(4, &job(mail).key("a"));
    assert_eq!(w.assigned(&a), a[..2]);
    let b = w.submit_many(1, &job(mail).key("b"));
    assert_eq!(w.assigned(&b), b, "another tenant's tasks go past");
    w.done(a[0]);
    assert_eq!(w.assigned(&a), a[1..3]);
}

#[test]
fn a_changed_per_key_limit_applies_at_once() {
    let (mut w, pool) = World::ready(workers(4));
    let one = QueueConfig {
        per_key: 1,
        ..QueueConfig::default()
    };
    let mail = w.jobs(pool, "mail", one.clone());
    let tasks = w.submit_many(3, &job(mail).key("a"));
    assert_eq!(w.assigned(&tasks).len(), 1);
    w.core
        .configure_queue(w.queue(mail), QueueConfig { per_key: 3, ..one });
    w.step(Event::Tick);
    assert_eq!(w.assigned(&tasks).len(), 3);
}

/// A suspect counts towards the tenant's limit too, and has to wait for its turn.
#[test]
fn a_suspect_counts_towards_its_tenants_limit() {
    let (mut w, pool) = World::ready(workers(2));
    let mail = w.jobs(
        pool,
        "mail",
        QueueConfig {
            per_key: 1,
            ..QueueConfig::default()
        },
    );
    let [b, a] = ["b", "a"].map(|key| w.submit(job(mail).key(key)));
    let next = w.submit(job(mail).key("a"));
    w.crash_worker_of(b);
    w.crash_worker_of(a);
    w.boot();
    assert_eq!(
        w.assigned(&[a, b, next]),
        [b, next],
        "one suspect at a time"
    );
    w.done(b);
    assert!(w.waits(a), "its tenant has one out already");
    w.done(next);
    assert!(w.on(a).is_some());
}

/// Tenants beyond the number that is tracked share buckets: memory stays bounded, and all are
/// served.
#[test]
fn a_flood_of_tenants_shares_buckets() {
    let (mut w, pool) = World::ready(workers(1));
    let users = w.calls(pool, "users.get", QueueConfig::default());
    let queue = w.queue(users);
    let mut core_tasks = Vec::new();
    for n in 0..4_500_u32 {
        let id = TaskId(n);
        let key = format!("tenant {n}");
        let task = call(users).time_left(Span::FOREVER).0;
        w.books.submit(id);
        let mut out = Vec::new();
        let task = NewTask {
            id,
            key: key.as_bytes(),
            ..task
        };
        w.core.step(w.now, Event::Arrived(task), &mut out);
        out.iter().for_each(|action| w.books.record(action));
        core_tasks.push(id);
    }
    w.core.check_invariants();
    let known = (0..4_500).filter(|n| w.core.knows_key(queue, format!("tenant {n}").as_bytes()));
    assert_eq!(known.count(), 4_095, "4096 keys, one of them for no tenant");
    let bucket = |n: &u8| w.core.knows_key(queue, &[255, *n]);
    let buckets = (0..=255).filter(bucket).count();
    assert!(buckets > 150, "405 tenants crowd {buckets} buckets");
    w.core.step(w.now, Event::Drain, &mut w.seen);
    w.core.check_invariants();
}

/// A tenant without debt is forgotten when its last task ends.
#[test]
fn a_tenant_without_debt_is_forgotten() {
    let (mut w, mail, _) = one_worker();
    let queue = w.queue(mail);
    let passing = w.submit(job(mail).key("passing"));
    assert!(w.core.knows_key(queue, b"passing"));
    w.cancel(passing, false);
    assert!(!w.core.knows_key(queue, b"passing"));
}

/// A debt is remembered only until the other tenants have used as much time.
#[test]
fn a_debt_is_forgotten_when_the_others_have_caught_up() {
    let (mut w, mail, first) = one_worker();
    let queue = w.queue(mail);
    w.run(first, ms(1));
    let rich = w.submit(job(mail).key("rich"));
    w.run(rich, secs(1));
    for run in 0..5 {
        assert!(run > 3 || w.core.knows_key(queue, b"rich"), "after {run}");
        let poor = w.submit(job(mail).key("poor"));
        w.run(poor, ms(300));
    }
    assert!(!w.core.knows_key(queue, b"rich"));
    assert!(w.core.knows_key(queue, b"poor"));
}
