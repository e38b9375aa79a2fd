//! Which jobs are handed over, and in what order.

use crate::world::{World, job, job_of};
use stoker_store::{NewJob, Pushed, QueuePolicy, StoreRequest, Ticket};

crate::every_engine! {
    a_job_is_loaded_as_it_was_pushed,
    a_job_is_not_loaded_without_room,
    the_window_limits_loaded_jobs,
    a_lane_is_handed_over_in_its_order,
    a_returning_job_keeps_its_place,
    a_backlog_is_reported_once,
    no_job_is_loaded_twice,
    an_ended_job_frees_its_slot_in_the_window,
    lanes_do_not_block_each_other,
    unloaded_lanes_take_turns,
    unloaded_lanes_are_found_among_loaded_ones,
    a_refill_may_return_nothing,
    one_unloaded_lane_is_found_among_many_loaded_ones,
}

fn a_job_is_loaded_as_it_was_pushed(world: &mut World) {
    let queue = world.queue("mails");
    let new = NewJob {
        class: 3,
        codec: 2,
        ..job_of(queue, b"tenant\0\xff")
    };
    let loaded = world.load(new.clone());
    assert_eq!(
        (loaded.queue, loaded.class, loaded.key),
        (queue, 3, new.key.clone())
    );
    assert_eq!(
        (loaded.codec, &loaded.bytes, loaded.meta_len),
        (2, &new.bytes, 4)
    );
    assert_eq!(loaded.due_ms, world.now());
    let (id, none) = match world.push_to(false, new.clone()) {
        Pushed::Accepted { id, job } => (id, job),
        other => panic!("{other:?}"),
    };
    assert_eq!(none, None);
    let (jobs, more) = world.refill_jobs(queue, 3, b"tenant\0\xff", 10);
    assert_eq!((jobs.len(), more), (1, false));
    assert_eq!(
        (jobs[0].id, jobs[0].meta(), jobs[0].body()),
        (id, &b"meta"[..], &b"body"[..])
    );
    assert_eq!(
        (jobs[0].codec, jobs[0].class, &*jobs[0].key),
        (2, 3, &b"tenant\0\xff"[..])
    );
    assert_eq!(jobs[0].due_ms, world.now());
}

fn a_job_is_not_loaded_without_room(world: &mut World) {
    let queue = world.queue("mails");
    assert!(matches!(
        world.push_to(false, job(queue)),
        Pushed::Accepted { job: None, .. }
    ));
    assert!(matches!(
        world.push_to(true, job(queue)),
        Pushed::Accepted { job: None, .. }
    ));
    assert_eq!(world.refill(queue, b"", 10).0.len(), 2);
}

fn the_window_limits_loaded_jobs(world: &mut World) {
    let queue = world.queue_with(
        "mails",
        QueuePolicy {
            window: 2,
            ..QueuePolicy::default()
        },
    );
    let handed: Vec<bool> = (0..4)
        .map(|_| world.accept(job(queue)).1.is_some())
        .collect();
    assert_eq!(handed, [true, true, false, false]);
}

fn a_lane_is_handed_over_in_its_order(world: &mut World) {
    let queue = world.queue_with(
        "mails",
        QueuePolicy {
            window: 1,
            ..QueuePolicy::default()
        },
    );
    let jobs: Vec<_> = (0..10).map(|_| world.add(job(queue))).collect();
    assert!(jobs.is_sorted());
    assert_eq!(world.refill(queue, b"", 4), (jobs[1..5].to_vec(), true));
    assert_eq!(world.refill(queue, b"", 5), (jobs[5..].to_vec(), false));
}

/// Campaign of 2026-11-23: a returning job went behind the other jobs with its key.
fn a_returning_job_keeps_its_place(world: &mut World) {
    let queue = world.queue("mails");
    let loaded = [(); 2].map(|()| world.load(job(queue)));
    let wait = |world: &mut World, job| match world.push_to(false, job) {
        Pushed::Accepted { id, job: None } => id,
        other => panic!("{other:?}"),
    };
    let waits = wait(world, job(queue));
    let back = loaded.map(|loaded| {
        world.done(loaded.id);
        let order = Some(loaded.order);
        let back = NewJob {
            order,
            ..job(queue)
        };
        wait(world, back)
    });
    let all = vec![back[0], back[1], waits];
    assert_eq!(world.refill(queue, b"", 10), (all, false));
}

fn a_backlog_is_reported_once(world: &mut World) {
    let queue = world.queue_with(
        "mails",
        QueuePolicy {
            window: 1,
            ..QueuePolicy::default()
        },
    );
    world.add(job(queue));
    assert_eq!(world.backlogs(), []);
    world.add(job(queue));
    assert_eq!(world.backlogs(), [(0, vec![])]);
    world.add(job(queue));
    assert_eq!(world.backlogs(), []);
    world.refill(queue, b"", 10);
    world.add(job(queue));
    assert_eq!(world.backlogs(), [(0, vec![])]);
}

fn no_job_is_loaded_twice(world: &mut World) {
    let queue = world.queue_with(
        "mails",
        QueuePolicy {
            window: 4,
            ..QueuePolicy::default()
        },
    );
    let mut jobs = Vec::new();
    for _ in 0..3 {
        jobs.push(world.load(job(queue)).id);
    }
    assert_eq!(world.refill(queue, b"", 10), (vec![], false));
    for _ in 0..3 {
        world.add(job(queue));
    }
    let (more, _) = world.refill(queue, b"", 10);
    assert_eq!(more.len(), 2);
    assert_eq!(world.refill(queue, b"", 10), (vec![], false));
    world.done(jobs[1]);
    world.done(more[0]);
    assert_eq!(world.refill(queue, b"", 10), (vec![], false));
}

fn an_ended_job_frees_its_slot_in_the_window(world: &mut World) {
    let queue = world.queue_with(
        "mails",
        QueuePolicy {
            window: 1,
            ..QueuePolicy::default()
        },
    );
    let first = world.load(job(queue)).id;
    world.done(first);
    let second = world.load(job(queue)).id;
    let third = world.add(job(queue));
    world.done(second);
    // The third job waits, so the fourth must not go before it.
    assert_eq!(world.accept(job(queue)).1, None);
    assert_eq!(world.refill(queue, b"", 1), (vec![third], true));
}

fn lanes_do_not_block_each_other(world: &mut World) {
    let queue = world.queue_with(
        "mails",
        QueuePolicy {
            window: 1,
            ..QueuePolicy::default()
        },
    );
    for key in [&b"a"[..], b"b", b"ab", b""] {
        assert!(world.accept(job_of(queue, key)).1.is_some(), "{key:?}");
        assert!(world.accept(job_of(queue, key)).1.is_none(), "{key:?}");
        let other_class = NewJob {
            class: 1,
            ..job_of(queue, key)
        };
        assert!(world.accept(other_class).1.is_some(), "{key:?}");
    }
    let other = world.queue("other");
    assert!(world.accept(job_of(other, b"a")).1.is_some());
}

fn unloaded_lanes_take_turns(world: &mut World) {
    let queue = world.queue("mails");
    for number in 0..10 {
        for _ in 0..3 {
            world.push_to(false, job_of(queue, format!("tenant{number}").as_bytes()));
        }
    }
    let (lanes, more) = world.refill_lanes(queue, 4, 2);
    assert_eq!((lanes.len(), more), (4, true));
    assert!(
        lanes.iter().all(|lane| lane.jobs.len() == 2 && lane.more),
        "{lanes:?}"
    );
    let (others, more) = world.refill_lanes(queue, 4, 3);
    assert_eq!((others.len(), more), (4, true));
    assert!(
        others.iter().all(|lane| lane.jobs.len() == 3 && !lane.more),
        "{others:?}"
    );
    // A lane that has no loaded jobs any more before its next turn waits for the other lanes.
    for loaded in &lanes[0].jobs {
        world.done(loaded.id);
    }
    let (last, more) = world.refill_lanes(queue, 2, 10);
    let all = lanes.iter().chain(&others).chain(&last);
    let mut keys: Vec<_> = all.map(|lane| lane.key.clone()).collect();
    keys.sort();
    keys.dedup();
    assert_eq!((keys.len(), more), (10, true));
    let (again, more) = world.refill_lanes(queue, 2, 10);
    assert_eq!((again.len(), more), (1, false));
    assert_eq!((&again[0].key, again[0].jobs.len()), (&lanes[0].key, 1));
}

fn unloaded_lanes_are_found_among_loaded_ones(world: &mut World) {
    let queue = world.queue("mails");
    for number in 0..50 {
        world.load(job_of(queue, format!("held{number}").as_bytes()));
    }
    assert_eq!(world.refill_lanes(queue, 5, 5), (vec![], false));
    world.push_to(false, job_of(queue, b"i am not held"));
    world.push_to(false, job_of(queue, b"nor am i"));
    let (lanes, more) = world.refill_lanes(queue, 1, 5);
    assert_eq!((lanes.len(), more), (1, true));
    let (lanes, more) = world.refill_lanes(queue, 1, 5);
    assert_eq!((lanes.len(), more), (1, false));
    assert_eq!(world.refill_lanes(queue, 1, 5), (vec![], false));
}

fn a_refill_may_return_nothing(world: &mut World) {
    let queue = world.queue("mails");
    assert_eq!(world.refill(queue, b"nobody", 5), (vec![], false));
    assert_eq!(world.refill_lanes(queue, 5, 5), (vec![], false));
}

fn one_unloaded_lane_is_found_among_many_loaded_ones(world: &mut World) {
    let queue = world.queue("mails");
    for number in 0..5_000 {
        world.send(StoreRequest::Push {
            ticket: Ticket(number, 9),
            room: true,
            job: Box::new(job_of(queue, format!("held{number}").as_bytes())),
        });
    }
    world.settle();
    let last = world.push_to(false, job_of(queue, b"last"));
    let Pushed::Accepted { id, job: None } = last else {
        panic!("{last:?}");
    };
    let (lanes, more) = world.refill_lanes(queue, 3, 3);
    assert_eq!((lanes.len(), lanes[0].jobs[0].id, more), (1, id, false));
    assert_eq!(world.refill_lanes(queue, 3, 3), (vec![], false));
}
