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
fn a_process_that_exits_as_planned_is_replaced_at_once() {
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
fn a_short_process_that_exits_as_planned_is_replaced_once_a_second() {
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
fn a_process_that_fails_at_once_is_restarted_with_backoff() {
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

/// For a worker that speaks the protocol and exits before it was useful, the exit code makes no difference.
#[test]
fn the_exit_code_of_a_worker_with_the_protocol_is_ignored() {
    let (mut w, worker) = one_after(workers(1), ms(500));
    w.exit(worker, Exit::Code(12));
    assert!(w.starting().is_empty());
}

/// Starting the process alone does not prove that the pool is healthy.
#[test]
fn a_pool_is_healthy_once_its_process_has_lived_for_a_while() {
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
fn the_memory_of_a_process_is_measured_regularly() {
    let (mut w, worker) = one_after(
        PoolConfig {
            memory_limit: 100 * MB,
            ..silent(1)
        },
        ms(1),
    );
    w.take_actions();
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
    assert!(w.was_killed(worker, StopReason::Memory));
}

#[test]
fn without_a_memory_limit_no_timer_is_set() {
    let (w, _) = one_after(silent(2), secs(120));
    assert_eq!(w.core.next_deadline(), None);
}

#[test]
fn a_reload_starts_the_new_process_before_it_stops_the_old_one() {
    let (mut w, old) = one_after(silent(1), secs(5));
    w.step(Event::Reload { pool: PoolId(0) });
    assert_eq!((w.live(), w.starting().len()), (vec![old], 1));
    w.boot();
    assert!(w.has_seen(&Action::Goaway {
        worker: old,
        why: StopReason::Replaced
    }));
}
