//! Jobs that wait for their time.

use crate::world::{World, job, job_of};
use stoker_store::{Change, Filter, NewJob, State, Which};

crate::every_engine! {
    a_delayed_job_waits,
    due_jobs_come_in_the_order_of_their_times,
    many_come_due_at_once,
    a_time_that_has_passed_is_now,
    a_suspended_job_waits_for_ever,
    a_delay_takes_its_time_however_the_clock_is_set,
    a_time_of_day_follows_the_clock,
}

fn a_delayed_job_waits(world: &mut World) {
    let queue = world.queue("mails");
    let due_ms = world.now() + 500;
    let (id, handed) = world.accept(NewJob {
        due_ms,
        ..job(queue)
    });
    assert_eq!(handed, None);
    let view = world.view(id).unwrap();
    assert_eq!((view.state, view.due_ms), (State::Delayed, due_ms));
    assert_eq!(world.refill(queue, b"", 1).0, []);
    // It is in nobody's way.
    let second = world.hold(job(queue)).id;
    world.advance(500);
    assert_eq!(world.backlogs(), [(0, vec![])]);
    assert_eq!(world.refill(queue, b"", 5), (vec![id], false));
    world.done(second);
    world.done(id);
}

fn due_jobs_come_in_the_order_of_their_times(world: &mut World) {
    let queue = world.queue("mails");
    let now = world.now();
    let delays = [30, 10, 20, 10];
    let jobs: Vec<_> = delays
        .iter()
        .map(|delay| {
            world.add(NewJob {
                due_ms: now + delay,
                ..job(queue)
            })
        })
        .collect();
    world.advance(100);
    assert_eq!(
        world.refill(queue, b"", 10).0,
        [jobs[1], jobs[3], jobs[2], jobs[0]]
    );
}

fn many_come_due_at_once(world: &mut World) {
    let queue = world.queue("mails");
    let due_ms = world.now() + 10;
    for number in 0..1_500 {
        world.add(NewJob {
            due_ms,
            ..job_of(queue, format!("{}", number % 3).as_bytes())
        });
    }
    world.advance(10);
    world.until("all are ready", |world| world.counts(queue).ready == 1_500);
    assert_eq!(world.refill(queue, b"0", 1_000).0.len(), 500);
    assert_eq!(world.refill(queue, b"1", 200).0.len(), 200);
}

fn a_time_that_has_passed_is_now(world: &mut World) {
    let queue = world.queue("mails");
    let due_ms = world.now() - 500;
    let held = world.hold(NewJob {
        due_ms,
        ..job(queue)
    });
    assert_eq!(held.due_ms, world.now());
}

fn a_suspended_job_waits_for_ever(world: &mut World) {
    let queue = world.queue("mails");
    let due_ms = world.now() + 10;
    let (id, handed) = world.accept(NewJob {
        suspended: true,
        due_ms,
        ..job(queue)
    });
    assert_eq!(handed, None);
    world.advance(1_000_000);
    assert_eq!(world.state(id), Some(State::Suspended));
    assert_eq!(world.refill(queue, b"", 1).0, []);
}

/// Issue 9, A20.
fn a_delay_takes_its_time_however_the_clock_is_set(world: &mut World) {
    const HOUR: i64 = 3_600_000;
    let queue = world.queue("mails");
    for set in [-HOUR, HOUR] {
        let new = NewJob {
            delay_ms: 2_000,
            ..job(queue)
        };
        let (delayed, handed) = world.accept(new);
        assert_eq!(handed, None);
        let retried = world.hold(job(queue)).id;
        let due_ms = world.steady() + 2_000;
        world.retry(retried, due_ms, false);
        let failed = world.hold(job(queue)).id;
        world.fail(failed);
        let other = world.hold(job(queue)).id;
        world.fail(other);
        let many = Filter {
            states: State::Failed.into(),
            ..Filter::default()
        };
        // One at once, and one a second later.
        let slowly = Change::Retry {
            per_second: Some(1),
        };
        world
            .change(Which::Many(many), slowly)
            .expect("it goes well");
        world.set_clock(set);
        world.advance(1_999);
        world.until("the second one is due", |world| {
            world.counts(queue).ready == 2
        });
        assert_eq!(world.counts(queue).delayed, 2);
        world.advance(1);
        world.until("all are due", |world| world.counts(queue).delayed == 0);
        let (jobs, _) = world.refill(queue, b"", 9);
        assert!(
            jobs.contains(&delayed) && jobs.contains(&retried),
            "{jobs:?}"
        );
        jobs.into_iter().for_each(|job| world.done(job));
    }
}

fn a_time_of_day_follows_the_clock(world: &mut World) {
    let queue = world.queue("mails");
    let due_ms = world.now() + 2_000;
    world.accept(NewJob {
        due_ms,
        ..job(queue)
    });
    world.set_clock(-3_600_000);
    world.advance(2_000);
    assert_eq!(world.counts(queue).delayed, 1);
    world.set_clock(3_600_000);
    world.advance(1);
    world.until("it is due", |world| world.counts(queue).delayed == 0);
}
