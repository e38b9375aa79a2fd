//! Tests of suspects and blame: a task that a worker died on runs again alone, and a version on which many
//! different tasks crash is blamed itself.
use crate::support::*;
use stoker_core::*;

fn pool_of(count: u32) -> (World, PoolId, NameId) {
    let (mut w, pool) = World::ready(workers(count));
    let mail = w.jobs(pool, "mail", QueueConfig::default());
    (w, pool, mail)
}

/// Lets `count` different calls kill a worker each. None of the calls runs again.
fn deaths(w: &mut World, pool: PoolId, count: usize) {
    let users = w.calls(pool, "users.get", QueueConfig::default());
    for task in w.submit_many(count, &call(users)) {
        w.crash_worker_of(task);
        w.boot();
    }
}

#[test]
fn suspects_run_one_at_a_time_while_other_tasks_run() {
    let (mut w, _, mail) = pool_of(3);
    let poison = w.submit_many(3, &job(mail));
    poison.iter().for_each(|task| w.crash_worker_of(*task));
    w.boot();
    let others = w.submit_many(2, &job(mail));
    assert_eq!(w.assigned(&poison), poison[..1]);
    assert_eq!(w.assigned(&others), others);
    w.crash_worker_of(poison[0]);
    w.boot();
    assert_eq!(w.assigned(&poison), [poison[1]], "the next one's turn");
    w.done(poison[1]);
    assert_eq!(w.assigned(&poison), [poison[2]]);
}

/// Nothing is prefetched behind a suspect, because it would be affected by the suspect's crash.
#[test]
fn a_suspect_runs_alone_on_its_worker() {
    let (mut w, _, mail) = pool_of(1);
    w.train(&job(mail), Span(50));
    let poison = w.submit(job(mail));
    w.crash_worker_of(poison);
    let others = w.submit_many(50, &job(mail));
    w.boot();
    assert!(w.on(poison).is_some());
    assert_eq!(w.assigned(&others), []);
    w.done(poison);
    assert!(w.assigned(&others).len() > 1);
}

/// On workers with several slots, a suspect waits for an empty worker, and no other task is assigned to
/// that worker.
#[test]
fn a_suspect_runs_alone_on_a_worker_with_slots() {
    let (mut w, pool) = World::ready_as(workers(2), &Hello::slots(2));
    let mail = w.jobs(pool, "mail", QueueConfig::default());
    let long = w.submit(job(mail));
    let poison = w.submit(job(mail).crashes(1));
    let free = w.on(poison).expect("one worker is empty");
    assert_ne!(w.on(long), Some(free));
    let others = w.submit_many(3, &job(mail));
    assert_eq!(w.assigned(&others).len(), 1, "its second slot stays empty");
    w.step(Event::Started {
        worker: free,
        task: poison,
    });
    w.done(poison);
    assert_eq!(w.assigned(&others).len(), 3);
}

/// An empty worker is found even if the worker that was used last has a task.
#[test]
fn a_suspect_is_assigned_to_an_empty_worker() {
    let (mut w, pool) = World::ready_as(workers(3), &Hello::slots(2));
    let mail = w.jobs(pool, "mail", QueueConfig::default());
    let [first, second] = [0, 1].map(|_| w.submit(job(mail).crashes(1)));
    assert!(w.waits(second));
    let busy = w.submit(job(mail));
    assert!(w.on(busy).is_some());
    w.done(first);
    assert!(w.on(second).is_some());
}

/// Under a steady load, a worker with several slots never becomes empty by chance, so one is cleared for
/// the suspect.
#[test]
fn a_worker_is_cleared_for_a_suspect() {
    let (mut w, pool) = World::ready_as(workers(2), &Hello::slots(2));
    let mail = w.jobs(pool, "mail", QueueConfig::default());
    let mut running = w.submit_many(4, &job(mail));
    let suspect = w.submit(job(mail).crashes(1));
    w.submit_many(100, &job(mail));
    for _ in 0..4 {
        let oldest = running.remove(0);
        let worker = w.on(oldest).expect("it runs");
        w.step(Event::Started {
            worker,
            task: oldest,
        });
        w.run(oldest, ms(10));
        if w.on(suspect).is_some() {
            return;
        }
        let next = w
            .core
            .assigned_to(worker)
            .find(|task| !running.contains(task));
        running.extend(next);
    }
    panic!("the suspect still waits");
}

/// A worker with prefetched short jobs never becomes empty by chance either, so it is cleared.
#[test]
fn a_worker_with_a_window_is_cleared_for_a_suspect() {
    let (mut w, _, mail) = pool_of(1);
    w.train(&job(mail), Span(50));
    let worker = w.live()[0];
    w.submit_many(500, &job(mail));
    let suspect = w.submit(job(mail).crashes(1));
    for _ in 0..64 {
        if w.on(suspect).is_some() {
            return;
        }
        w.submit(job(mail));
        let running = w.core.assigned_to(worker).next().expect("work waits");
        w.run(running, Span(50));
    }
    panic!("the suspect still waits");
}

/// A worker is not cleared while one of its tasks waits for a call that only this worker could serve.
#[test]
fn a_worker_whose_tasks_wait_for_its_pool_is_not_cleared() {
    let (mut w, pool) = World::ready_as(workers(1), &Hello::slots(2));
    let users = w.calls(pool, "users.get", QueueConfig::default());
    let outer = w.submit(call(users));
    let suspect = w.submit(call(users).idempotent().crashes(1));
    let inner = w.submit(call(users).inside(w.live()[0]));
    assert!(w.on(inner).is_some() && w.waits(suspect));
    w.done(inner);
    let other = w.submit(call(users));
    assert!(w.waits(other), "now it is cleared");
    w.done(outer);
    assert!(w.on(suspect).is_some());
}

/// A suspect has the worker to itself, so a call that it makes to the same worker would never run.
#[test]
fn a_suspect_that_calls_its_own_pool_is_rejected() {
    let (mut w, pool) = World::ready_as(workers(1), &Hello::slots(2));
    let users = w.calls(pool, "users.get", QueueConfig::default());
    let suspect = w.submit(call(users).idempotent().crashes(1));
    let worker = w.on(suspect).expect("it runs alone");
    let inner = w.submit(call(users).inside(worker));
    assert_eq!(w.outcome(inner), Some(Outcome::WouldDeadlock));
}

/// When one pool takes the suspect, a worker that another pool had cleared for it is free again.
#[test]
fn a_suspect_taken_by_one_pool_frees_the_cleared_worker_of_another() {
    let (mut w, first) = World::ready_as(workers(1), &Hello::slots(2));
    let second = w.core.add_pool("second", workers(1));
    w.boot_as(&Hello::slots(2));
    let [ours, theirs] = [(first, "ours"), (second, "theirs")]
        .map(|(pool, name)| w.jobs(pool, name, QueueConfig::default()));
    let shared = w.jobs(first, "shared", QueueConfig::default());
    w.core
        .add_queue(Kind::Jobs, "shared", QueueConfig::default(), &[second]);
    let busy = [ours, theirs].map(|name| w.submit(job(name)));
    let suspect = w.submit(job(shared).crashes(1));
    let waiting = w.submit_many(3, &job(theirs));
    assert!(w.waits(suspect) && w.assigned(&waiting).is_empty());
    w.done(busy[0]);
    assert!(w.on(suspect).is_some());
    assert_eq!(
        w.assigned(&waiting).len(),
        1,
        "the other pool waits for it no more"
    );
}

/// A cleared worker serves other tasks again if the suspect is cancelled.
#[test]
fn a_cleared_worker_serves_again_after_the_suspect_is_cancelled() {
    let (mut w, pool) = World::ready_as(workers(1), &Hello::slots(2));
    let mail = w.jobs(pool, "mail", QueueConfig::default());
    w.submit(job(mail));
    let suspect = w.submit(job(mail).crashes(1));
    let next = w.submit(job(mail));
    assert!(w.waits(next));
    w.cancel(suspect, false);
    assert!(w.on(next).is_some());
}

/// A task remains a suspect after a restart of the server, and after a worker has returned it.
#[test]
fn only_an_answer_ends_suspicion() {
    let (mut w, _, mail) = pool_of(2);
    let known = w.submit_many(2, &job(mail).crashes(1));
    assert_eq!(w.assigned(&known), known[..1]);
    w.step(Event::Left {
        worker: w.on(known[0]).expect("it is assigned"),
    });
    assert_eq!(
        w.assigned(&known),
        known[..1],
        "the same one again, not both"
    );
}

/// A task whose worker was killed for another reason does not become a suspect.
#[test]
fn a_bystander_does_not_become_a_suspect() {
    let (mut w, pool) = World::ready(PoolConfig {
        stop_grace: secs(4),
        ..workers(1)
    });
    let users = w.calls(pool, "users.get", QueueConfig::default());
    let task = w.submit(call(users).idempotent().time_left(secs(60)));
    let worker = w.on(task).expect("it runs");
    w.step(Event::Drain);
    w.pass(secs(4));
    w.take_actions();
    w.exit(worker, Exit::Signal(9));
    let Some(Action::Finish { facts, .. }) = w
        .take_actions()
        .into_iter()
        .find(|action| matches!(action, Action::Finish { .. }))
    else {
        panic!("drained");
    };
    assert_eq!(facts.crashes, 0);
}

/// When eight different tasks crash on one version, the version is blamed.
#[test]
fn a_version_that_eight_tasks_kill_is_blamed() {
    let (mut w, pool, _) = pool_of(1);
    deaths(&mut w, pool, 7);
    assert_eq!(w.core.pool(pool).2, Health::Healthy);
    deaths(&mut w, pool, 1);
    assert_eq!(w.core.pool(pool).2, Health::Blamed);
    assert!(w.notices().contains(&Notice::Health {
        pool,
        health: Health::Blamed
    }));
}

/// The server reuses task ids, but two tasks with the same id are still different tasks.
#[test]
fn tasks_with_a_reused_id_are_different_tasks() {
    let (mut w, pool) = World::ready(workers(1));
    let users = w.calls(pool, "users.get", QueueConfig::default());
    for _ in 0..8 {
        w.submit_as(TaskId(0), call(users));
        w.crash_worker_of(TaskId(0));
        w.boot();
    }
    assert_eq!(w.core.pool(pool).2, Health::Blamed);
}

/// A task that crashes repeatedly counts as one task.
#[test]
fn repeated_crashes_of_one_task_do_not_blame_the_version() {
    let (mut w, pool) = World::ready(PoolConfig {
        crash_budget: 20,
        ..workers(1)
    });
    let mail = w.jobs(pool, "mail", QueueConfig::default());
    let poison = w.submit(job(mail));
    for _ in 0..12 {
        w.crash_worker_of(poison);
        w.boot();
    }
    assert_eq!(w.core.pool(pool).2, Health::Healthy);
}

/// The death of a worker counts once, however many tasks the worker had.
#[test]
fn one_death_with_many_tasks_counts_once() {
    let (mut w, pool) = World::ready_as(workers(1), &Hello::slots(16));
    let mail = w.jobs(pool, "mail", QueueConfig::default());
    let worker = w.live()[0];
    for task in w.submit_many(16, &job(mail)) {
        w.step(Event::Started { worker, task });
    }
    w.die(worker);
    assert_eq!(w.core.pool(pool).2, Health::Healthy);
}

/// Deaths that are too long ago, or of another version, do not add up.
#[test]
fn only_deaths_within_a_minute_count() {
    let (mut w, pool, _) = pool_of(1);
    deaths(&mut w, pool, 7);
    w.pass(secs(61));
    deaths(&mut w, pool, 7);
    assert_eq!(w.core.pool(pool).2, Health::Healthy);
}

#[test]
fn deaths_of_different_versions_do_not_add_up() {
    let (mut w, pool, _) = pool_of(1);
    deaths(&mut w, pool, 7);
    w.step(Event::Reload { pool });
    w.boot();
    let old = w.in_state("stopping")[0];
    w.exit(old, Exit::Code(0));
    deaths(&mut w, pool, 7);
    assert_eq!(w.core.pool(pool).2, Health::Healthy);
    deaths(&mut w, pool, 1);
    assert_eq!(w.core.pool(pool).2, Health::Blamed);
}

/// While the version is blamed, its tasks may crash three times as often before quarantine.
#[test]
fn tasks_of_a_blamed_version_have_a_larger_crash_budget() {
    let (mut w, pool, mail) = pool_of(1);
    deaths(&mut w, pool, 8);
    assert_eq!(w.core.pool(pool).2, Health::Blamed);
    let victim = w.submit(job(mail));
    for crashes in 1..=8 {
        w.crash_worker_of(victim);
        w.boot();
        assert!(w.end(victim).is_none(), "after {crashes}");
    }
    w.crash_worker_of(victim);
    assert!(matches!(
        w.outcome(victim),
        Some(Outcome::Quarantined { crashes: 9, .. })
    ));
}

/// Blame expires, and the operator is notified.
#[test]
fn blame_expires() {
    let (mut w, pool, _) = pool_of(1);
    deaths(&mut w, pool, 8);
    w.pass(secs(59));
    assert_eq!(w.core.pool(pool).2, Health::Blamed);
    w.take_actions();
    w.pass(secs(1));
    assert_eq!(w.core.pool(pool).2, Health::Healthy);
    assert!(w.notices().contains(&Notice::Health {
        pool,
        health: Health::Healthy
    }));
}

/// When the blame has expired, the usual crash budget applies again.
#[test]
fn the_usual_crash_budget_applies_after_blame_expires() {
    let (mut w, pool, mail) = pool_of(1);
    deaths(&mut w, pool, 8);
    w.pass(secs(60));
    let victim = w.submit(job(mail).crashes(2));
    w.crash_worker_of(victim);
    assert!(matches!(
        w.outcome(victim),
        Some(Outcome::Quarantined { crashes: 3, .. })
    ));
}

/// Deaths of another version do not displace those that count.
#[test]
fn deaths_of_two_versions_are_counted_side_by_side() {
    let (mut w, pool) = World::ready(workers(2));
    let users = w.calls(pool, "users.get", QueueConfig::default());
    let last = w.submit(call(users).time_left(secs(999)).limit(secs(999)));
    deaths(&mut w, pool, 7);
    w.step(Event::Reload { pool });
    w.boot();
    deaths(&mut w, pool, 7);
    assert_eq!(w.core.pool(pool).2, Health::Healthy);
    w.crash_worker_of(last);
    assert_eq!(w.core.pool(pool).2, Health::Blamed);
}

#[test]
fn a_death_exactly_a_minute_ago_does_not_count() {
    let (mut w, pool, _) = pool_of(1);
    deaths(&mut w, pool, 7);
    w.pass(secs(60));
    deaths(&mut w, pool, 1);
    assert_eq!(w.core.pool(pool).2, Health::Healthy);
}

/// A suspect whose tenant has reached its limit cannot run. A worker that was cleared for it is used again,
/// in the other pool too.
#[test]
fn a_suspect_at_its_tenants_limit_clears_no_worker() {
    let (mut w, first) = World::ready_as(workers(2), &Hello::slots(2));
    let second = w.core.add_pool("second", workers(1));
    w.boot_as(&Hello::slots(2));
    let [ours, theirs] = [(first, "ours"), (second, "theirs")]
        .map(|(pool, name)| w.jobs(pool, name, QueueConfig::default()));
    let one = QueueConfig {
        per_key: 1,
        ..QueueConfig::default()
    };
    let shared = w.jobs(first, "shared", one.clone());
    w.core.add_queue(Kind::Jobs, "shared", one, &[second]);
    let running = w.submit_many(4, &job(ours));
    w.submit(job(theirs));
    let idle = w.on(running[0]).expect("it runs");
    let other = running.iter().find(|task| w.on(**task) != Some(idle));
    let other = *other.expect("there are two workers");
    for (worker, task) in [(idle, running[0]), (w.on(other).expect("it runs"), other)] {
        w.step(Event::Started { worker, task });
        w.done(task);
    }
    let suspect = w.submit(job(shared).key("a").crashes(1));
    let waiting = w.submit(job(theirs));
    assert!(
        w.waits(suspect) && w.waits(waiting),
        "a worker of each is cleared"
    );
    let innocent = w.submit(job(shared).key("a"));
    assert!(w.on(innocent).is_some(), "the third one has a slot");
    assert!(w.on(waiting).is_some());
}

/// A pool grows even if its blame expires just as work begins to starve.
#[test]
fn a_pool_grows_while_blame_expires() {
    let (mut w, pool) = World::ready(PoolConfig {
        max: 2,
        ..workers(1)
    });
    deaths(&mut w, pool, 8);
    let mail = w.jobs(pool, "mail", QueueConfig::default());
    w.pass(ms(59_980));
    w.submit_many(2, &job(mail));
    w.pass(ms(20));
    assert_eq!(w.core.pool(pool).2, Health::Healthy);
    assert!(w.starting().is_empty());
    w.pass(ms(30));
    assert_eq!(w.starting().len(), 1);
}
