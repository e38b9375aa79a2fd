//! Jobs with a due time or a delay.

use crate::world::{World, job, job_of};
use stoker_store::{
    Change, Filter, NewJob, Pushed, QueueNo, QueuePolicy, Selection, State, StoreRequest, Ticket,
};

crate::every_engine! {
    a_delayed_job_waits,
    due_jobs_are_handed_over_in_the_order_of_their_times,
    delays_and_due_times_share_one_order,
    many_jobs_are_due_at_once,
    an_overdue_job_goes_before_newer_jobs,
    overdue_jobs_keep_the_order_of_their_times,
    an_overdue_job_is_handed_over_although_others_are_loaded,
    an_overdue_job_waits_without_room,
    an_overdue_job_causes_no_double_loading,
    many_jobs_were_due_at_the_same_time,
    a_parked_job_does_not_affect_the_places_of_others,
    a_suspended_job_never_becomes_due,
    a_delay_ignores_clock_changes,
    a_due_time_follows_the_clock,
    a_moved_ready_job_stays_ready_after_a_clock_change,
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
    // The delayed job does not block the lane.
    let second = world.load(job(queue)).id;
    world.advance(500);
    assert_eq!(world.backlogs(), [(0, vec![])]);
    assert_eq!(world.refill(queue, b"", 5), (vec![id], false));
    world.done(second);
    world.done(id);
}

fn due_jobs_are_handed_over_in_the_order_of_their_times(world: &mut World) {
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

fn delays_and_due_times_share_one_order(world: &mut World) {
    let queue = world.queue("mails");
    let now = world.now();
    let due = |in_ms: u64| NewJob {
        due_ms: now + in_ms,
        ..job(queue)
    };
    let delayed = |delay_ms: u64| NewJob {
        delay_ms,
        ..job(queue)
    };
    let jobs = [due(40), delayed(30), due(20), delayed(10)].map(|new| world.add(new));
    world.advance(100);
    let in_order = [jobs[3], jobs[2], jobs[1], jobs[0]];
    assert_eq!(world.refill(queue, b"", 10).0, in_order);
}

fn many_jobs_are_due_at_once(world: &mut World) {
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

/// A job that was due `ago` milliseconds before its push.
fn overdue(world: &World, queue: QueueNo, ago: u64) -> NewJob {
    NewJob {
        due_ms: world.now() - ago,
        ..job(queue)
    }
}

/// Issue 9, A29.
fn an_overdue_job_goes_before_newer_jobs(world: &mut World) {
    let queue = world.queue("mails");
    let first = world.load(job(queue));
    assert_eq!(first.due_ms, world.now());
    world.advance(1_000);
    let second = world.load(job(queue));
    let between = world.load(overdue(world, queue, 500));
    assert_eq!(between.due_ms, world.now() - 500);
    assert!(first.order < between.order && between.order < second.order);
    assert_eq!(world.view(between.id).unwrap().due_ms, between.due_ms);
    let same = world.load(overdue(world, queue, 500));
    assert!(same.order >= between.order && same.order < second.order);
}

fn overdue_jobs_keep_the_order_of_their_times(world: &mut World) {
    let queue = world.queue("mails");
    let now = world.now();
    let due = |ago: u64| NewJob {
        due_ms: now - ago,
        ..job(queue)
    };
    let news = [job(queue), due(200), due(300), due(100), due(300), due(0)];
    let jobs = news.map(|new| match world.push_to(false, new) {
        Pushed::Accepted { id, job: None } => id,
        other => panic!("{other:?}"),
    });
    let [plain, ago_200, ago_300, ago_100, again_300, now_due] = jobs;
    let (first, more) = world.refill(queue, b"", 4);
    assert_eq!(
        (first, more),
        (vec![ago_300, again_300, ago_200, ago_100], true)
    );
    assert_eq!(world.refill(queue, b"", 4), (vec![plain, now_due], false));
}

fn an_overdue_job_is_handed_over_although_others_are_loaded(world: &mut World) {
    let policy = QueuePolicy {
        window: 2,
        ..QueuePolicy::default()
    };
    let queue = world.queue_with("mails", policy);
    let loaded = [world.load(job(queue)).id, world.load(job(queue)).id];
    let behind = world.add(job(queue));
    let early = world.load(overdue(world, queue, 10)).id;
    let (_, none) = world.accept(job(queue));
    assert_eq!(none, None, "the window is full for others");
    assert_eq!(world.refill(queue, b"", 1), (vec![behind], true));
    loaded
        .into_iter()
        .chain([early])
        .for_each(|id| world.done(id));
}

fn an_overdue_job_waits_without_room(world: &mut World) {
    let queue = world.queue("mails");
    let loaded = [world.load(job(queue)).id, world.load(job(queue)).id];
    let news = [20, 30, 10].map(|ago| overdue(world, queue, ago));
    world.backlogs();
    let [ago_20, ago_30, ago_10] = news.map(|new| match world.push_to(false, new) {
        Pushed::Accepted { id, job: None } => id,
        other => panic!("{other:?}"),
    });
    assert_eq!(world.backlogs(), [(0, vec![])]);
    assert_eq!(world.refill(queue, b"", 2), (vec![ago_30, ago_20], true));
    let next = world.add(job(queue));
    assert_eq!(world.refill(queue, b"", 9), (vec![ago_10, next], false));
    loaded.into_iter().for_each(|id| world.done(id));
}

fn an_overdue_job_causes_no_double_loading(world: &mut World) {
    let policy = QueuePolicy {
        window: 3,
        ..QueuePolicy::default()
    };
    let queue = world.queue_with("mails", policy);
    let loaded: Vec<_> = (0..3).map(|_| world.load(job(queue)).id).collect();
    let early = overdue(world, queue, 10);
    let Pushed::Accepted { id, job: None } = world.push_to(false, early) else {
        panic!("there was no room");
    };
    let behind = world.add(job(queue));
    assert_eq!(world.refill(queue, b"", 1), (vec![id], true));
    assert_eq!(world.refill(queue, b"", 1), (vec![behind], false));
    assert_eq!(world.refill(queue, b"", 1), (vec![], false));
    loaded
        .into_iter()
        .chain([id, behind])
        .for_each(|id| world.done(id));
    assert_eq!(world.refill_lanes(queue, 9, 9), (vec![], false));
    assert_eq!(world.counts(queue).done, 5);
}

/// More jobs than one millisecond has places for.
fn many_jobs_were_due_at_the_same_time(world: &mut World) {
    let queue = world.queue("mails");
    let new = overdue(world, queue, 500);
    for number in 0..17_000 {
        world.send(StoreRequest::Push {
            ticket: Ticket(number, 9),
            room: false,
            job: Box::new(new.clone()),
        });
    }
    let last = world.push_to(false, overdue(world, queue, 400));
    let Pushed::Accepted { id: last, .. } = last else {
        panic!("{last:?}");
    };
    let (jobs, more) = world.refill(queue, b"", 20_000);
    assert_eq!((jobs.len(), more), (17_001, false));
    assert!(
        jobs.is_sorted() && jobs[17_000] == last,
        "as they were pushed"
    );
}

fn a_parked_job_does_not_affect_the_places_of_others(world: &mut World) {
    let policy = QueuePolicy {
        ordered: true,
        ..QueuePolicy::default()
    };
    let queue = world.queue_with("mails", policy);
    let rests = world.load(overdue(world, queue, 500));
    world.retry(rests.id, world.steady() + 1_000, true);
    let next = world.load(overdue(world, queue, 500));
    assert!(next.order >= rests.order);
    if world.is_durable() {
        let path = world.path().clone();
        world.stop();
        let checked = stoker_store::tools::check(&path).unwrap();
        assert_eq!(checked.problems, Vec::<String>::new());
    }
}

fn a_suspended_job_never_becomes_due(world: &mut World) {
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
fn a_delay_ignores_clock_changes(world: &mut World) {
    const HOUR: i64 = 3_600_000;
    let queue = world.queue("mails");
    for set in [-HOUR, HOUR] {
        let new = NewJob {
            delay_ms: 2_000,
            ..job(queue)
        };
        let (delayed, handed) = world.accept(new);
        assert_eq!(handed, None);
        let retried = world.load(job(queue)).id;
        let due_ms = world.steady() + 2_000;
        world.retry(retried, due_ms, false);
        let failed = world.load(job(queue)).id;
        world.fail(failed);
        let other = world.load(job(queue)).id;
        world.fail(other);
        let many = Filter {
            states: State::Failed.into(),
            ..Filter::default()
        };
        // One retry is due at once, and the other a second later.
        let slowly = Change::Retry {
            per_second: Some(1),
        };
        world
            .change(Selection::Many(many), slowly)
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

fn a_due_time_follows_the_clock(world: &mut World) {
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

/// Seed 28420: a ready job stays ready when it is moved after the clock was set back.
fn a_moved_ready_job_stays_ready_after_a_clock_change(world: &mut World) {
    let queue = world.queue("mails");
    let other = world.queue("others");
    let Pushed::Accepted { id, job: None } = world.push_to(false, job(queue)) else {
        panic!("it is accepted, and waits in the store");
    };
    world.set_clock(-3_600_000);
    let to = Change::Move { to: other };
    let moved = world.change(Selection::One(id), to).expect("it goes well");
    assert_eq!(moved.count, 1);
    assert_eq!(world.state(id), Some(State::Ready));
    assert_eq!(world.refill(other, b"", 1).0, [id]);
    world.done(id);
}
