//! Tests of workers from the start of their process to their HELLO, and of what happens if no HELLO
//! arrives.
use crate::support::*;
use stoker_core::*;

/// Lets all booting workers fail. Returns their number.
fn fail_boots(w: &mut World) -> usize {
    let starting = w.starting();
    starting
        .iter()
        .for_each(|worker| w.exit(*worker, Exit::Code(255)));
    starting.len()
}

fn waits(w: &World) -> Vec<Span> {
    let wait = |notice: &Notice| match notice {
        Notice::BootFailed { again_in, .. } => Some(*again_in),
        _ => None,
    };
    w.notices().iter().filter_map(wait).collect()
}

#[test]
fn the_minimum_is_started_a_few_at_a_time() {
    let mut w = World::with(Limits {
        boots_at_once: 2,
        ..Limits::default()
    });
    w.core.add_pool("app", workers(5));
    w.core.add_pool("other", workers(2));
    w.step(Event::Tick);
    for _ in 0..6 {
        let starting = w.starting();
        assert_eq!(starting.len(), 2);
        w.hello(starting[0], &Hello::default());
    }
    w.boot();
    assert_eq!((w.live().len(), w.starting().len()), (7, 0));
}

#[test]
fn workers_are_numbered_within_their_pool() {
    let (mut w, pool) = World::ready(workers(2));
    let spawned = |number| move |action: &Action| matches!(action, Action::Spawn { number: of, version: 1, .. } if *of == number);
    assert_eq!((w.count(spawned(1)), w.count(spawned(2))), (1, 1));
    let dead = w.live()[0];
    w.die(dead);
    w.pass(secs(1));
    assert_eq!(w.count(spawned(3)), 1, "a number is not used again");
    let starting = w.starting()[0];
    assert_eq!(w.core.worker(starting), Some((pool, 3, 1)));
    assert_eq!(w.core.worker(dead), None);
}

#[test]
fn workers_of_a_replacing_pool_have_other_numbers_than_those_that_still_run() {
    let (mut w, _) = World::ready(workers(2));
    let replacing = w.core.add_pool("app", workers(1));
    w.step(Event::Tick);
    let starting = w.starting()[0];
    assert_eq!(w.core.worker(starting), Some((replacing, 3, 1)));
}

#[test]
fn a_worker_that_is_not_ready_in_time_is_killed() {
    let (mut w, pool) = World::of(PoolConfig {
        boot_timeout: secs(3),
        ..workers(1)
    });
    w.step(Event::Tick);
    let slow = w.starting()[0];
    w.pass(ms(2_999));
    assert_eq!(w.starting(), [slow]);
    w.pass(ms(1));
    assert!(w.was_killed(slow, StopReason::BootTimeout));
    w.hello(slow, &Hello::default());
    assert!(w.live().is_empty(), "too late");
    w.exit(slow, Exit::Signal(9));
    assert_eq!(waits(&w).len(), 1, "that is a failed boot");
    assert_eq!(w.core.pool(pool).2, Health::Starting);
}

/// The delay between boots doubles, with jitter, up to half a minute.
#[test]
fn the_delay_between_failed_boots_doubles() {
    let (mut w, _) = World::of(workers(1));
    w.step(Event::Tick);
    let mut full = 200;
    for _ in 0..12 {
        assert_eq!(fail_boots(&mut w), 1);
        let wait = waits(&w)[0];
        assert!(
            wait >= ms(full / 2) && wait <= ms(full),
            "{wait:?} of {full} ms"
        );
        assert!(w.starting().is_empty());
        w.take_actions();
        w.pass(wait);
        full = (full * 2).min(30_000);
    }
}

#[test]
fn three_failed_boots_make_a_pool_unhealthy_until_one_succeeds() {
    let (mut w, pool) = World::of(workers(1));
    let users = w.calls(pool, "users.get", QueueConfig::default());
    let patient = w.submit(call(users).time_left(secs(60)));
    w.step(Event::Tick);
    for failed in 1..=3 {
        assert_eq!(
            w.core.pool(pool).2,
            Health::Starting,
            "after {}",
            failed - 1
        );
        fail_boots(&mut w);
        w.pass(secs(1));
    }
    let health = Health::Failing { boots: 3 };
    assert_eq!(w.core.pool(pool).2, health);
    assert!(w.notices().contains(&Notice::Health { pool, health }));
    let rejected = w.submit(call(users));
    let retry_after = secs(1);
    assert_eq!(
        w.outcome(rejected),
        Some(Outcome::Unavailable { retry_after })
    );
    w.take_actions();
    fail_boots(&mut w);
    let told = |notice: &Notice| matches!(notice, Notice::Health { .. });
    assert!(
        !w.notices().iter().any(told),
        "repeated failures are not reported again"
    );
    w.pass(secs(10));
    w.boot();
    assert_eq!(w.core.pool(pool).2, Health::Healthy);
    assert!(w.notices().iter().any(told));
    assert!(w.on(patient).is_some(), "the waiting task is served");
}

/// While a pool has a worker, it serves tasks, even if the other workers fail to boot.
#[test]
fn a_failing_pool_with_a_live_worker_is_not_down() {
    let (mut w, pool) = World::ready(workers(2));
    let users = w.calls(pool, "users.get", QueueConfig::default());
    let dead = w.live()[0];
    w.die(dead);
    for _ in 0..4 {
        w.pass(secs(10));
        fail_boots(&mut w);
    }
    assert!(matches!(w.core.pool(pool).2, Health::Failing { .. }));
    let task = w.submit(call(users));
    assert!(w.on(task).is_some());
}

/// Jobs wait until the pool is healthy again.
#[test]
fn jobs_wait_while_a_pool_is_down() {
    let (mut w, pool) = World::of(workers(1));
    let mail = w.jobs(pool, "mail", QueueConfig::default());
    w.step(Event::Tick);
    for _ in 0..4 {
        fail_boots(&mut w);
        w.pass(secs(10));
    }
    let task = w.submit(job(mail));
    assert!(w.waits(task));
}

#[test]
fn a_process_that_could_not_be_started_is_a_failed_boot() {
    let (mut w, _) = World::of(workers(1));
    w.step(Event::Tick);
    w.exit(w.starting()[0], Exit::NotStarted);
    assert_eq!(waits(&w).len(), 1);
    assert!(w.starting().is_empty());
}

type Way<'a> = &'a dyn Fn(&mut World, WorkerId);

/// Workers that send garbage instead of HELLO, that offer more than the limits allow, or that die
/// right after HELLO have never been of use. None of them is started again without a delay.
#[test]
fn a_worker_that_dies_before_it_was_useful_is_a_failed_boot() {
    let endless: Vec<String> = (0..40).map(|n| format!("queue {n}")).collect();
    let limits = || Limits {
        boots_at_once: 100,
        queues: 30,
        ..Limits::default()
    };
    let garbage = |w: &mut World, worker| w.step(Event::Misbehaved { worker });
    let leaves = |w: &mut World, worker| w.step(Event::Left { worker });
    let offers = |w: &mut World, worker| {
        w.hello(
            worker,
            &Hello {
                jobs: endless.clone(),
                ..Hello::default()
            },
        );
    };
    let greets = |w: &mut World, worker| w.hello(worker, &Hello::default());
    let greets_and_leaves = |w: &mut World, worker| {
        w.hello(worker, &Hello::default());
        w.step(Event::Left { worker });
    };
    let ways: [(&str, Way<'_>); 5] = [
        ("garbage", &garbage),
        ("leaves", &leaves),
        ("offers", &offers),
        ("greets", &greets),
        ("greets and leaves", &greets_and_leaves),
    ];
    for (way, fails) in ways {
        let mut w = World::with(limits());
        let pool = w.core.add_pool("app", workers(1));
        w.step(Event::Tick);
        let (mut failed, until) = (0, w.now + secs(60));
        while w.now < until {
            for worker in w.starting() {
                failed += 1;
                fails(&mut w, worker);
                w.pass(ms(5));
                w.exit(worker, Exit::Code(1));
            }
            w.pass(ms(5));
        }
        assert!(
            (8..15).contains(&failed),
            "{way}: {failed} times in a minute"
        );
        assert!(
            matches!(w.core.pool(pool).2, Health::Failing { .. }),
            "{way}"
        );
    }
}

/// When many idle workers die at once, they are all replaced within moments, as after a single
/// failure.
#[test]
fn idle_workers_that_die_together_count_as_one_failed_boot() {
    let (mut w, pool) = World::ready(workers(50));
    for worker in w.live() {
        w.exit(worker, Exit::Signal(9));
    }
    assert_eq!(w.core.pool(pool).2, Health::Healthy);
    w.pass(ms(200));
    w.boot();
    assert_eq!(w.live().len(), 50);
}

/// A worker that has completed a task and then dies idle is replaced at once.
#[test]
fn a_worker_that_completed_a_task_is_replaced_at_once() {
    let (mut w, pool) = World::ready(workers(1));
    let mail = w.jobs(pool, "mail", QueueConfig::default());
    let task = w.submit(job(mail));
    w.done(task);
    w.die(w.live()[0]);
    assert_eq!(w.starting().len(), 1);
}

/// A worker that connects by itself proves nothing about the command that the pool starts.
#[test]
fn a_worker_that_connects_by_itself_does_not_end_the_backoff() {
    let (mut w, pool) = World::of(PoolConfig {
        max: 5,
        ..workers(2)
    });
    w.step(Event::Tick);
    for _ in 0..3 {
        fail_boots(&mut w);
        w.pass(secs(2));
    }
    fail_boots(&mut w);
    w.join(pool, &Hello::default());
    assert!(w.starting().is_empty());
    assert!(matches!(w.core.pool(pool).2, Health::Failing { .. }));
}

/// The death of a worker that connected by itself, or of one of an older version, says nothing about the pool's
/// current command.
#[test]
fn deaths_of_connected_or_older_workers_are_not_failed_boots() {
    let (mut w, pool) = World::ready(workers(2));
    let guest = w.join(pool, &Hello::default());
    let old = w.live()[0];
    w.exit(guest, Exit::ConnectionLost);
    w.step(Event::Reload { pool });
    w.exit(old, Exit::Code(1));
    assert_eq!(waits(&w), []);
    for worker in [guest, old] {
        let died =
            |notice: &Notice| matches!(notice, Notice::Died { worker: of, .. } if *of == worker);
        assert!(w.notices().iter().any(died));
    }
}

/// Workers that failed together are not started again at the same moment.
#[test]
fn delays_between_boots_have_jitter() {
    let (mut w, _) = World::of(workers(12));
    w.step(Event::Tick);
    fail_boots(&mut w);
    let parts: Vec<u64> = (waits(&w).iter().zip(0..))
        .map(|(wait, failed)| wait.0 * 100 / (200_000 << failed).min(30_000_000))
        .collect();
    assert!(
        parts.iter().take(4).any(|percent| *percent > 60),
        "{parts:?}"
    );
}

/// Work that arrives meanwhile does not delay a boot.
#[test]
fn new_work_does_not_delay_a_due_boot() {
    let (mut w, pool) = World::of(PoolConfig {
        max: 2,
        ..workers(1)
    });
    let mail = w.jobs(pool, "mail", QueueConfig::default());
    w.step(Event::Tick);
    fail_boots(&mut w);
    let wait = waits(&w)[0];
    w.pass(Span(wait.0 - 10_000));
    w.submit(job(mail));
    assert!(w.starting().is_empty());
    w.pass(ms(10));
    assert_eq!(w.starting().len(), 1);
}

/// A worker that replaces a dead one gets its full time to boot, whatever deadline the dead one had.
#[test]
fn a_successor_has_its_own_boot_timeout() {
    let (mut w, pool) = World::ready(workers(1));
    let mail = w.jobs(pool, "mail", QueueConfig::default());
    let task = w.submit(job(mail).limit(secs(5)));
    w.crash_worker_of(task);
    let successor = w.starting();
    assert_eq!(successor.len(), 1);
    w.pass(secs(59));
    assert_eq!(w.starting(), successor);
    w.pass(secs(1));
    assert!(w.was_killed(successor[0], StopReason::BootTimeout));
}

/// The worker may do work that does not come from the server, or there was none.
#[test]
fn a_worker_that_was_ready_for_a_while_is_not_a_failed_boot() {
    let (mut w, _) = World::ready(workers(1));
    let worker = w.live()[0];
    w.pass(secs(2));
    w.take_actions();
    w.exit(worker, Exit::Code(0));
    let again = w.take_actions();
    assert!(
        again
            .iter()
            .any(|action| matches!(action, Action::Spawn { .. })),
        "{again:?}"
    );
    let failed = |action: &Action| matches!(action, Action::Notice(Notice::BootFailed { .. }));
    assert!(!again.iter().any(failed), "{again:?}");
}

/// The pools whose workers were started since the last call, in order.
fn started(w: &mut World) -> Vec<PoolId> {
    let pool = |action: Action| match action {
        Action::Spawn { pool, .. } => Some(pool),
        _ => None,
    };
    w.take_actions().into_iter().filter_map(pool).collect()
}

fn one_at_once() -> World {
    World::with(Limits {
        boots_at_once: 1,
        ..Limits::default()
    })
}

#[test]
fn pools_take_turns_to_start_workers() {
    let mut w = one_at_once();
    let (a, b) = (
        w.core.add_pool("a", workers(3)),
        w.core.add_pool("b", workers(3)),
    );
    w.step(Event::Tick);
    w.boot();
    let started = started(&mut w);
    assert_eq!(started.len(), 6);
    for count in 1..6 {
        let of = |pool| started[..count].iter().filter(|of| **of == pool).count();
        assert!(of(a).abs_diff(of(b)) <= 2, "{started:?}");
    }
}

/// A pool whose workers live for one task boots all the time.
#[test]
fn a_pool_that_always_boots_does_not_delay_others() {
    for names in [["busy", "calm"], ["calm", "busy"]] {
        let mut w = one_at_once();
        let pools = names.map(|name| {
            let config = match name {
                "busy" => PoolConfig {
                    tasks_per_worker: 1,
                    ..workers(3)
                },
                _ => workers(1),
            };
            w.core.add_pool(name, config)
        });
        let named = |name: &str| pools[usize::from(names[1] == name)];
        let (busy, calm) = (named("busy"), named("calm"));
        let of = |w: &World, pool| {
            let mut live = w.live().into_iter();
            live.find(|id| w.core.worker(*id).is_some_and(|worker| worker.0 == pool))
        };
        w.step(Event::Tick);
        w.boot();
        let name = w.jobs(busy, "work", QueueConfig::default());
        w.submit_many(50, &job(name));
        w.pass(secs(5));
        for turn in 0..9 {
            while let Some(worker) = of(&w, busy) {
                let task = w.core.assigned_to(worker).next().expect("work");
                w.done(task);
                w.exit(worker, Exit::Code(0));
            }
            if turn == 0 {
                let dead = of(&w, calm).expect("it was ready");
                w.exit(dead, Exit::Signal(9));
            }
            w.hello(w.starting()[0], &Hello::default());
        }
        assert!(of(&w, calm).is_some(), "{names:?}");
    }
}

#[test]
fn a_pool_whose_boots_fail_does_not_delay_others() {
    let mut w = one_at_once();
    let bad = w.core.add_pool("bad", workers(2));
    w.step(Event::Tick);
    fail_boots(&mut w);
    w.pass(secs(1));
    assert_eq!(started(&mut w), [bad, bad], "it tries again, and hangs");
    let good = w.core.add_pool("good", workers(2));
    w.step(Event::Tick);
    assert_eq!(started(&mut w), [good]);
    w.hello(w.starting()[1], &Hello::default());
    assert_eq!(started(&mut w), [good], "one at once");
}

#[test]
fn failing_pools_take_turns_too() {
    let mut w = one_at_once();
    for name in ["a", "b", "c"] {
        w.core.add_pool(name, workers(1));
    }
    w.step(Event::Tick);
    for _ in 0..3 {
        fail_boots(&mut w);
    }
    w.seen.clear();
    for _ in 0..3_000 {
        w.pass(ms(100));
        assert!(w.starting().len() <= 1);
        fail_boots(&mut w);
    }
    let started = started(&mut w);
    for pool in w.core.pools().collect::<Vec<_>>() {
        let own = started.iter().filter(|of| **of == pool).count();
        assert!(own >= 5, "{started:?}");
    }
}

#[test]
fn a_slow_boot_does_not_delay_others() {
    let mut w = one_at_once();
    let slow = w.core.add_pool("slow", workers(2));
    w.step(Event::Tick);
    let quick = w.core.add_pool("quick", workers(2));
    w.step(Event::Tick);
    assert_eq!(started(&mut w), [slow]);
    w.pass(ms(4_999));
    assert_eq!(started(&mut w), []);
    w.pass(ms(1));
    assert_eq!(started(&mut w), [quick], "but the slow pool has its one");
    w.pass(secs(5));
    assert_eq!(started(&mut w), [], "and the quick one, too");
}
