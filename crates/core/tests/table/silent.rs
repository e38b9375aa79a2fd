//! Tests of pools whose processes do not speak the protocol: the processes are started, watched, replaced
//! and stopped, but are assigned no tasks.
use crate::support::*;
use stoker_core::*;

const MB: u64 = 1 << 20;

fn silent(count: u32) -> PoolConfig {
    PoolConfig {
        protocol: false,
        ..workers(count)
    }
}

/// A pool with one such process, which has run for this time.
fn one_after(config: PoolConfig, span: Span) -> (World, WorkerId) {
    let (mut w, _) = World::ready(config);
    w.pass(span);
    let worker = w.live()[0];
    (w, worker)
}

/// `queue:work` exits with 0 after its maximum number of jobs, and with 12 if it exceeds its memory limit.
#[test]
fn one_that_ends_well_is_followed_at_once() {
    for code in [0, 12] {
        let (mut w, worker) = one_after(silent(1), secs(1));
        let exit = Exit::Code(code);
        w.exit(worker, exit);
        assert_eq!(w.starting().len(), 1, "{code}");
        let died = Notice::Died {
            worker,
            exit,
            expected: true,
            quiet: false,
            why: None,
            crashed: None,
        };
        assert!(w.notices().contains(&died), "{:?}", w.notices());
    }
}

/// For example `queue:work --once`, or a process that was put into the background by mistake.
#[test]
fn one_that_ends_well_at_once_is_followed_once_a_second() {
    let (mut w, _) = World::ready(silent(1));
    for _ in 0..10 {
        w.pass(ms(5));
        w.exit(w.live()[0], Exit::Code(0));
        assert!(w.starting().is_empty());
        w.pass(ms(994));
        assert!(w.starting().is_empty());
        w.pass(ms(1));
        w.boot();
    }
    let failed = |notice: &Notice| matches!(notice, Notice::BootFailed { .. });
    assert!(!w.notices().iter().any(failed));
}

#[test]
fn one_that_ends_badly_at_once_waits_longer_and_longer() {
    for (span, exit) in [(ms(1_999), Exit::Code(1)), (ms(1_999), Exit::Signal(9))] {
        let (mut w, worker) = one_after(silent(1), span);
        w.exit(worker, exit);
        assert!(w.starting().is_empty(), "{exit:?} after {span:?}");
        let failed = |notice: &Notice| matches!(notice, Notice::BootFailed { .. });
        assert!(w.notices().iter().any(failed));
        w.pass(ms(200));
        assert_eq!(w.starting().len(), 1);
    }
}

/// For a worker that speaks the protocol and exits before it was of use, the exit code makes no difference.
#[test]
fn with_the_protocol_an_exit_code_says_nothing() {
    let (mut w, worker) = one_after(workers(1), ms(500));
    w.exit(worker, Exit::Code(12));
    assert!(w.starting().is_empty());
}

/// Starting the process alone does not prove that the pool is healthy.
#[test]
fn its_pool_is_healthy_again_when_it_has_lived_a_while() {
    let (mut w, pool) = World::ready(silent(1));
    for _ in 0..5 {
        w.exit(w.live()[0], Exit::Code(1));
        while w.starting().is_empty() {
            w.pass(ms(10));
        }
        w.boot();
    }
    let is_failing = |w: &World| matches!(w.core.pool(pool).2, Health::Failing { .. });
    w.pass(ms(1_999));
    assert!(is_failing(&w));
    w.pass(ms(1));
    assert_eq!(w.core.pool(pool).2, Health::Healthy);
    let told = w.notices().into_iter().filter_map(|notice| match notice {
        Notice::Health { health, .. } => Some(health),
        _ => None,
    });
    let told: Vec<Health> = told.collect();
    let [Health::Healthy, Health::Failing { .. }, Health::Healthy] = told[..] else {
        panic!("{told:?}");
    };
}

#[test]
fn its_memory_is_watched_all_the_time() {
    let (mut w, worker) = one_after(
        PoolConfig {
            memory_limit: 100 * MB,
            ..silent(1)
        },
        ms(1),
    );
    w.look();
    w.pass(secs(10));
    let measured = w.count(|action| *action == Action::Measure { worker });
    assert_eq!(measured, 5, "every 2 seconds");
    w.step(Event::Measured {
        worker,
        rss: 101 * MB,
    });
    assert_eq!((w.live(), w.starting().len()), (vec![worker], 1));
    w.step(Event::Measured {
        worker,
        rss: 150 * MB + 1,
    });
    assert!(w.was_killed(worker, Why::Memory));
}

#[test]
fn without_a_limit_nothing_is_due_of_it() {
    let (w, _) = one_after(silent(2), secs(120));
    assert_eq!(w.core.next_deadline(), None);
}

#[test]
fn a_reload_starts_the_new_before_it_ends_the_old() {
    let (mut w, old) = one_after(silent(1), secs(5));
    w.step(Event::Reload { pool: PoolId(0) });
    assert_eq!((w.live(), w.starting().len()), (vec![old], 1));
    w.boot();
    assert!(w.saw(&Action::Goaway {
        worker: old,
        why: Why::Replaced
    }));
}
