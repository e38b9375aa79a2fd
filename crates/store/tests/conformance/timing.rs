//! Jobs that wait for their time.

use crate::world::{World, job, job_of};
use stoker_store::{NewJob, State};

crate::every_engine! {
    a_delayed_job_waits,
    due_jobs_come_in_the_order_of_their_times,
    many_come_due_at_once,
    a_time_that_has_passed_is_now,
    a_suspended_job_waits_for_ever,
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
