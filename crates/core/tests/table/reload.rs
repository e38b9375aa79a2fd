//! Tests of reloads: every worker is replaced by one of a new version, without losing capacity or work.
use crate::support::*;
use stoker_core::*;

fn pool_of(count: u32) -> (World, PoolId, NameId) {
    let limits = Limits {
        boots_at_once: 2,
        ..Limits::default()
    };
    let mut w = World::with(limits);
    let pool = w.core.add_pool(
        "app",
        PoolConfig {
            max: count + 2,
            ..workers(count)
        },
    );
    w.boot();
    let mail = w.jobs(pool, "mail", QueueConfig::default());
    w.take_actions();
    (w, pool, mail)
}

fn versions(w: &World) -> Vec<u32> {
    w.live()
        .into_iter()
        .map(|worker| w.view(worker).version)
        .collect()
}

/// Lets the workers that were asked to stop exit.
fn stop_idle(w: &mut World) {
    for worker in w.in_state("stopping") {
        w.exit(worker, Exit::Code(0));
    }
}

fn reloaded(w: &World, pool: PoolId) -> Option<bool> {
    w.seen.iter().rev().find_map(|action| match action {
        Action::Reloaded { pool: of, done } if *of == pool => Some(*done),
        _ => None,
    })
}

#[test]
fn a_reload_never_has_fewer_workers_than_before() {
    let (mut w, pool, mail) = pool_of(5);
    let tasks = w.submit_many(3, &job(mail).limit(secs(600)));
    w.step(Event::Reload { pool });
    while let Some(worker) = w.starting().first().copied() {
        assert!(w.starting().len() <= 2, "a few at a time");
        assert!(w.live().len() >= 5, "never below");
        w.hello(worker, &Hello::default());
        stop_idle(&mut w);
    }
    assert_eq!(versions(&w), [2; 5]);
    assert_eq!(
        reloaded(&w, pool),
        None,
        "old workers still finish their tasks"
    );
    for task in tasks {
        w.done(task);
        assert_eq!(w.outcome(task), Some(Outcome::Answered));
        stop_idle(&mut w);
    }
    assert_eq!(reloaded(&w, pool), Some(true));
    assert_eq!(w.core.pool(pool).3, 2);
}

/// Idle workers are replaced first, then those that were assigned their task last.
#[test]
fn idle_workers_are_replaced_first() {
    let (mut w, pool, mail) = pool_of(2);
    let task = w.submit(job(mail).limit(secs(600)));
    let busy = w.on(task).expect("it runs");
    w.step(Event::Reload { pool });
    w.hello(w.starting()[0], &Hello::default());
    assert_eq!(w.view(busy).state, WorkerState::Busy);
}

/// A worker of the old version that still boots is not waited for.
#[test]
fn booting_workers_of_the_old_version_are_killed() {
    let mut w = World::default();
    let pool = w.core.add_pool("app", workers(2));
    w.step(Event::Tick);
    let old = w.starting();
    w.step(Event::Reload { pool });
    assert!(
        old.iter()
            .all(|worker| w.was_killed(*worker, StopReason::Replaced))
    );
    assert_eq!(w.starting().len(), 2);
    w.boot();
    assert_eq!(versions(&w), [2, 2]);
    assert_eq!(reloaded(&w, pool), None, "the old ones have not gone yet");
    old.iter()
        .for_each(|worker| w.exit(*worker, Exit::Signal(9)));
    assert_eq!(reloaded(&w, pool), Some(true));
}

#[test]
fn a_version_that_does_not_boot_is_given_up() {
    let (mut w, pool, mail) = pool_of(3);
    w.step(Event::Reload { pool });
    for _ in 0..3 {
        assert_eq!(reloaded(&w, pool), None);
        w.pass(secs(2));
        w.exit(w.starting()[0], Exit::Code(255));
    }
    assert_eq!(reloaded(&w, pool), Some(false));
    assert!(w.notices().contains(&Notice::ReloadGivenUp { pool }));
    assert_eq!((versions(&w), w.core.pool(pool).3), (vec![1; 3], 1));
    assert_eq!(
        w.core.pool(pool).2,
        Health::Healthy,
        "the old version is well"
    );
    let task = w.submit(job(mail));
    w.crash_worker_of(task);
    w.boot();
    assert_eq!(
        versions(&w),
        [1; 3],
        "and what is started is of the old version"
    );
}

/// The next reload starts a new version rather than the one that failed, even while workers of the failed
/// one still run.
#[test]
fn a_version_that_was_given_up_is_not_started_again() {
    let (mut w, pool, _) = pool_of(3);
    w.step(Event::Reload { pool });
    let bad = w.starting()[0];
    w.hello(bad, &Hello::default());
    for _ in 0..3 {
        w.pass(secs(2));
        let starting = w.starting()[0];
        w.exit(starting, Exit::Code(255));
    }
    assert_eq!(reloaded(&w, pool), Some(false));
    w.step(Event::Reload { pool });
    w.boot();
    assert_eq!(w.core.pool(pool).3, 3);
    assert_eq!(versions(&w), [3; 3]);
    assert!(!w.live().contains(&bad));
}

/// A new version whose workers crash is given up, and its running workers are replaced again.
#[test]
fn a_version_that_is_blamed_is_given_up() {
    let (mut w, pool, _) = pool_of(2);
    let users = w.calls(pool, "users.get", QueueConfig::default());
    let long = w.submit(call(users).time_left(secs(9_999)).limit(secs(9_999)));
    w.step(Event::Reload { pool });
    w.boot();
    assert_eq!(versions(&w), [2, 2]);
    for task in w.submit_many(8, &call(users)) {
        w.crash_worker_of(task);
        stop_idle(&mut w);
        w.boot();
    }
    assert_eq!(reloaded(&w, pool), Some(false));
    w.boot();
    stop_idle(&mut w);
    assert_eq!(versions(&w), [1, 1]);
    w.done(long);
}

/// The last crashes of the old version do not count against the new one, which may fix them.
#[test]
fn deaths_of_the_old_version_do_not_give_up_the_new_one() {
    let (mut w, pool, _) = pool_of(9);
    let users = w.calls(pool, "users.get", QueueConfig::default());
    let tasks = w.submit_many(9, &call(users).time_left(secs(999)).limit(secs(999)));
    w.step(Event::Reload { pool });
    for task in &tasks[..8] {
        w.crash_worker_of(*task);
    }
    assert_eq!(w.core.pool(pool).2, Health::Blamed);
    assert_eq!(reloaded(&w, pool), None);
    w.boot();
    assert_eq!(versions(&w), [2; 9]);
}

/// The new version can be given up even while the old version is blamed.
#[test]
fn a_new_version_can_be_given_up_while_the_old_one_is_blamed() {
    let (mut w, pool, _) = pool_of(10);
    let users = w.calls(pool, "users.get", QueueConfig::default());
    let tasks = w.submit_many(10, &call(users).time_left(secs(999)).limit(secs(999)));
    tasks[..8].iter().for_each(|task| w.crash_worker_of(*task));
    w.boot();
    w.step(Event::Reload { pool });
    w.boot();
    for task in w.submit_many(8, &call(users)) {
        w.crash_worker_of(task);
        w.boot();
    }
    assert_eq!(reloaded(&w, pool), Some(false));
}

/// A reload is not done before a worker of the new version has shown that it works.
#[test]
fn a_reload_is_not_done_before_a_new_worker_is_ready() {
    let (mut w, pool, mail) = pool_of(1);
    let task = w.submit(job(mail));
    w.step(Event::Reload { pool });
    w.crash_worker_of(task);
    assert_eq!(
        reloaded(&w, pool),
        None,
        "the last old worker died, and no new one is ready"
    );
    for _ in 0..3 {
        w.pass(secs(2));
        w.exit(w.starting()[0], Exit::Code(255));
    }
    assert_eq!(
        reloaded(&w, pool),
        Some(false),
        "so there is something to go back to"
    );
    w.pass(secs(2));
    w.boot();
    assert_eq!(versions(&w), [1]);
}

/// After a death during a reload, the lost capacity is restored before more old workers are stopped.
#[test]
fn a_death_during_a_reload_costs_no_second_worker() {
    let (mut w, pool, mail) = pool_of(3);
    let task = w.submit(job(mail));
    w.step(Event::Reload { pool });
    w.crash_worker_of(task);
    assert_eq!(w.live().len(), 2);
    w.hello(w.starting()[0], &Hello::default());
    assert_eq!(w.live().len(), 3);
    while let Some(worker) = w.starting().first().copied() {
        w.hello(worker, &Hello::default());
        assert!(w.live().len() >= 3);
    }
    assert_eq!(versions(&w), [2; 3]);
}

/// A reload during a reload replaces all workers. If it fails, the pool returns to the last version that
/// worked.
#[test]
fn a_reload_during_a_reload_keeps_the_first_fallback() {
    let (mut w, pool, _) = pool_of(3);
    w.step(Event::Reload { pool });
    w.hello(w.starting()[0], &Hello::default());
    w.step(Event::Reload { pool });
    assert_eq!(w.core.pool(pool).3, 3);
    for _ in 0..3 {
        w.pass(secs(2));
        w.exit(w.starting()[0], Exit::Code(255));
    }
    assert_eq!((reloaded(&w, pool), w.core.pool(pool).3), (Some(false), 1));
    w.boot();
    assert_eq!(versions(&w), [1; 3]);
}

/// Workers that connected by themselves get GOAWAY at once, because whatever started them starts the new ones.
#[test]
fn connected_workers_are_sent_goaway_at_once() {
    let (mut w, pool) = World::of(PoolConfig {
        spawned: false,
        ..workers(2)
    });
    let guests = [0, 1].map(|_| w.join(pool, &Hello::default()));
    w.step(Event::Reload { pool });
    for guest in guests {
        assert!(w.has_seen(&Action::Goaway {
            worker: guest,
            why: StopReason::Replaced
        }));
        assert_eq!(reloaded(&w, pool), None);
        w.exit(guest, Exit::ConnectionLost);
    }
    assert_eq!(reloaded(&w, pool), Some(true));
    let back = w.join(pool, &Hello::default());
    assert_eq!(w.view(back).version, 2);
}

#[test]
fn a_pool_without_workers_is_reloaded_at_once() {
    let (mut w, pool) = World::of(PoolConfig {
        min: 0,
        ..workers(2)
    });
    w.step(Event::Reload { pool });
    assert_eq!(reloaded(&w, pool), Some(true));
}

/// A caller that waits for a reload is notified, also when the server drains.
#[test]
fn a_drain_ends_a_reload() {
    let (mut w, pool, _) = pool_of(1);
    w.step(Event::Reload { pool });
    w.step(Event::Drain);
    assert_eq!(reloaded(&w, pool), Some(false));
    let told = |action: &Action| matches!(action, Action::Reloaded { .. });
    w.books
        .workers
        .clone()
        .into_iter()
        .for_each(|worker| w.exit(worker, Exit::Code(0)));
    assert_eq!(w.count(told), 1);
    w.step(Event::Reload { pool });
    assert_eq!(
        w.count(told),
        2,
        "and one that comes too late is given up at once"
    );
    assert_eq!(reloaded(&w, pool), Some(false));
}

/// If a pool is scaled down during a reload, the reload completes first, and no successor is killed for it.
#[test]
fn a_reload_continues_while_a_pool_is_scaled_down() {
    let (mut w, pool, _) = pool_of(3);
    w.step(Event::Reload { pool });
    w.hello(w.starting()[0], &Hello::default());
    w.take_actions();
    w.step(Event::Scale {
        pool,
        min: 1,
        max: 1,
    });
    assert_eq!(w.count(|action| matches!(action, Action::Kill { .. })), 0);
    w.boot();
    stop_idle(&mut w);
    assert_eq!((versions(&w), reloaded(&w, pool)), (vec![2], Some(true)));
}
