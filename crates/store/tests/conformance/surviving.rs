//! What survives a restart, and what is stored for queues.

use crate::repeated;
use crate::world::{World, job, job_of};
use stoker_store::{
    Counts, HistoryKind, NewJob, Pushed, QueuePolicy, RunCounters, State, StoreEvent, StoreRequest,
};

crate::every_engine! {
    queue_numbers_survive,
    a_queue_stays_paused,
    jobs_survive,
    order_survives,
    order_by_past_times_survives,
    counts_survive,
    keys_survive,
    job_numbers_continue_after_a_restart,
    running_jobs_count_as_crashed,
    parked_jobs_stay_parked,
    jobs_behind_a_parked_job_are_reported,
    ends_of_the_same_commit_hide_no_backlog,
    a_queue_that_is_no_longer_ordered_parks_no_jobs,
    due_times_survive,
}

fn queue_numbers_survive(world: &mut World) {
    let (one, two) = (world.queue("one"), world.queue("two"));
    assert_ne!(one, two);
    assert_eq!(world.queue("one"), one);
    assert_eq!(world.driver().queues(), ["one", "two"]);
    if world.is_durable() {
        world.reopen();
        assert_eq!(world.driver().queues(), ["one", "two"]);
        assert_eq!((world.queue("two"), world.queue("one")), (two, one));
    }
}

fn a_queue_stays_paused(world: &mut World) {
    let queue = world.queue("mails");
    world.send(StoreRequest::Pause {
        queue,
        paused: true,
        ticket: None,
    });
    world.send(StoreRequest::Settings {
        queue,
        settings: "{\"weight\":3}".to_owned(),
        ticket: None,
    });
    world.settle();
    if world.is_durable() {
        world.crash();
    }
    let opened = world.driver().open_queue("mails", QueuePolicy::default());
    assert_eq!(
        (opened.paused, opened.settings.as_str()),
        (true, "{\"weight\":3}")
    );
    world.send(StoreRequest::Pause {
        queue,
        paused: false,
        ticket: None,
    });
    world.settle();
    assert!(
        !world
            .driver()
            .open_queue("mails", QueuePolicy::default())
            .paused
    );
}

fn jobs_survive(world: &mut World) {
    if !world.is_durable() {
        return;
    }
    for how in [World::reopen, World::crash] {
        let queue = world.queue("mails");
        let loaded = world.load(job_of(queue, b"a")).id;
        let waits = match world.push_to(false, job_of(queue, b"a")) {
            Pushed::Accepted { id, .. } => id,
            other => panic!("{other:?}"),
        };
        how(world);
        let queue = world.queue("mails");
        assert_eq!(world.refill(queue, b"a", 10).0, [loaded, waits]);
        for id in [loaded, waits] {
            world.done(id);
        }
    }
}

fn order_survives(world: &mut World) {
    if !world.is_durable() {
        return;
    }
    let policy = QueuePolicy {
        window: 3,
        ..QueuePolicy::default()
    };
    let queue = world.queue_with("mails", policy);
    let jobs: Vec<_> = (0..10).map(|_| world.add(job(queue))).collect();
    world.refill(queue, b"", 2);
    world.done(jobs[0]);
    world.reopen();
    let queue = world.queue_with("mails", policy);
    assert_eq!(world.accept(job(queue)).1, None, "others wait before it");
    assert_eq!(world.refill(queue, b"", 9).0, jobs[1..]);
}

fn order_by_past_times_survives(world: &mut World) {
    let queue = world.queue("mails");
    world.accept(job(queue));
    let now = world.now();
    let jobs = [20, 30, 10].map(|ago| {
        let new = NewJob {
            due_ms: now - ago,
            ..job(queue)
        };
        world.accept(new).0
    });
    if world.is_durable() {
        world.crash();
        world.queue("mails");
        world.advance(100);
        let early = NewJob {
            due_ms: now - 15,
            ..job(queue)
        };
        let Pushed::Accepted { id: early, .. } = world.push_to(false, early) else {
            panic!("it is accepted");
        };
        let found = world.refill(queue, b"", 4).0;
        assert_eq!(found, [jobs[1], jobs[0], early, jobs[2]]);
    }
}

fn counts_survive(world: &mut World) {
    if !world.is_durable() {
        return;
    }
    let queue = world.queue("mails");
    let jobs: Vec<_> = (0..5).map(|_| world.load(job(queue)).id).collect();
    world.done(jobs[0]);
    world.fail(jobs[1]);
    world.retry(jobs[2], world.now() + 1_000, false);
    world.add(NewJob {
        suspended: true,
        ..job(queue)
    });
    let counts = world.counts(queue);
    world.crash();
    let queue = world.queue("mails");
    assert_eq!(world.counts(queue), counts);
    let expected = Counts {
        ready: 2,
        delayed: 1,
        suspended: 1,
        done: 1,
        failed: 1,
        retried: 1,
        cancelled: 0,
    };
    assert_eq!(counts, expected);
}

fn keys_survive(world: &mut World) {
    if !world.is_durable() {
        return;
    }
    let queue = world.queue("mails");
    let new = NewJob {
        idempotency: Some(b"1"[..].into()),
        ..job(queue)
    };
    let id = world.load(new.clone()).id;
    let uuid = world.driver().ids().uuid(id);
    world.crash();
    world.queue("mails");
    assert_eq!(world.push(new), repeated(id));
    assert_eq!(world.driver().ids().number(uuid), Some(id));
}

fn job_numbers_continue_after_a_restart(world: &mut World) {
    if !world.is_durable() {
        return;
    }
    let queue = world.queue("mails");
    let mut last = world.load(job(queue)).id;
    for _ in 0..3 {
        // All earlier jobs have been deleted, but no job number is used twice.
        world.done(last);
        world.crash();
        let queue = world.queue_with(
            "mails",
            QueuePolicy {
                done: 0,
                ..QueuePolicy::default()
            },
        );
        world.settle();
        let next = world.load(job(queue)).id;
        assert!(next > last, "{next} after {last}");
        last = next;
    }
}

fn running_jobs_count_as_crashed(world: &mut World) {
    if !world.is_durable() {
        return;
    }
    let queue = world.queue("mails");
    let (ran, waited) = (world.load(job(queue)).id, world.load(job(queue)).id);
    for crashes in 1..=2 {
        world.send(StoreRequest::Running { jobs: vec![ran] });
        world.settle();
        world.crash();
        world.queue("mails");
        let (jobs, _) = world.refill_jobs(queue, 0, b"", 10);
        assert_eq!(
            jobs.iter().map(|job| job.id).collect::<Vec<_>>(),
            [ran, waited]
        );
        assert_eq!(
            (jobs[0].counters.crashes, jobs[1].counters.crashes),
            (crashes, 0)
        );
    }
    // With two suspects, neither of them can be blamed, even if only one of them would reach the limit.
    let other = world.load(job(queue)).id;
    let counters = RunCounters {
        crashes: 1,
        ..RunCounters::default()
    };
    let (error, due_ms) = (world.error("it died"), world.now());
    world.send(StoreRequest::Retry {
        job: other,
        counters,
        due_ms,
        error,
        output: None,
        park: false,
    });
    world.send(StoreRequest::Running {
        jobs: vec![other, ran],
    });
    world.settle();
    world.crash();
    world.queue("mails");
    world.until("all are ready", |world| world.counts(queue).ready == 3);
    let (jobs, _) = world.refill_jobs(queue, 0, b"", 10);
    assert!(
        jobs.iter()
            .all(|job| job.counters.crashes == if job.id == waited { 0 } else { 2 })
    );
    // With one suspect, it is blamed.
    world.send(StoreRequest::Running {
        jobs: vec![ran, waited],
    });
    world.settle();
    world.crash();
    world.queue("mails");
    let view = world.view(ran).unwrap();
    assert_eq!((view.state, view.counters.crashes), (State::Failed, 3));
    assert_eq!(view.error.unwrap().class, "Quarantined");
    let history = view.whole.unwrap().history;
    assert!(history.iter().any(|note| note.what == HistoryKind::Crashed));
    assert_eq!(world.view(waited).unwrap().counters.crashes, 1);
    // Closing the store does not count as a crash.
    world.refill(queue, b"", 10);
    world.send(StoreRequest::Running { jobs: vec![waited] });
    world.reopen();
    assert_eq!(world.view(waited).unwrap().counters.crashes, 1);
}

fn parked_jobs_stay_parked(world: &mut World) {
    if !world.is_durable() {
        return;
    }
    let policy = QueuePolicy {
        ordered: true,
        window: 4,
        ..QueuePolicy::default()
    };
    let queue = world.queue_with("mails", policy);
    let rests = world.load(job_of(queue, b"a")).id;
    let next = world.load(job_of(queue, b"a")).id;
    let due = world.now() + 10_000;
    world.retry(rests, due, true);
    world.crash();
    world.queue_with("mails", policy);
    world.settle();
    let parked = world.events.iter().filter_map(|event| match event {
        StoreEvent::Parked { job } => Some((job.id, job.due_ms, job.counters.attempt)),
        _ => None,
    });
    assert_eq!(parked.collect::<Vec<_>>(), [(rests, due, 1)]);
    assert_eq!(world.refill(queue, b"a", 10), (vec![next], false));
    world.advance(20_000);
    assert_eq!(world.refill(queue, b"a", 10), (vec![], false));
    world.done(rests);
    world.done(next);
    let counts = world.counts(queue);
    assert_eq!((counts.ready, counts.delayed, counts.done), (0, 0, 2));
}

fn jobs_behind_a_parked_job_are_reported(world: &mut World) {
    if !world.is_durable() {
        return;
    }
    let policy = QueuePolicy {
        ordered: true,
        ..QueuePolicy::default()
    };
    let queue = world.queue_with("mails", policy);
    let rests = world.load(job_of(queue, b"a")).id;
    world.load(job_of(queue, b"a"));
    world.retry(rests, world.now() + 10_000, true);
    world.crash();
    world.queue_with("mails", policy);
    // The lane has loaded jobs, so the search for lanes without any does not find it.
    assert_eq!(world.refill_lanes(queue, 10, 10), (vec![], false));
    assert_eq!(world.backlogs(), [(0, b"a".to_vec())]);
}

fn ends_of_the_same_commit_hide_no_backlog(world: &mut World) {
    if !world.is_durable() {
        return;
    }
    let queue = world.queue("mails");
    let loaded = world.add(job_of(queue, b"a"));
    let first = world.add(job_of(queue, b"b"));
    world.crash();
    let queue = world.queue("mails");
    assert_eq!(world.refill(queue, b"a", 10).0, [loaded]);
    let ticket = world.ticket();
    world.send(StoreRequest::Push {
        ticket,
        room: true,
        job: Box::new(job_of(queue, b"b")),
    });
    world.send(StoreRequest::End {
        job: loaded,
        counters: RunCounters::default(),
        ending: stoker_store::Ending::Done { result: None },
        ticket: None,
        output: None,
    });
    let pushed =
        world.wait(|event| matches!(event, StoreEvent::Pushed { ticket: of, .. } if *of == ticket));
    let StoreEvent::Pushed {
        pushed: Pushed::Accepted { id, job },
        ..
    } = pushed
    else {
        panic!("{pushed:?}");
    };
    assert_eq!(job, None, "another waits before it");
    assert_eq!(world.refill(queue, b"b", 10).0, [first, id]);
}

fn a_queue_that_is_no_longer_ordered_parks_no_jobs(world: &mut World) {
    if !world.is_durable() {
        return;
    }
    let queue = world.queue_with(
        "mails",
        QueuePolicy {
            ordered: true,
            ..QueuePolicy::default()
        },
    );
    let id = world.load(job_of(queue, b"a")).id;
    world.retry(id, world.now() + 1_000, true);
    world.crash();
    world.queue("mails");
    world.advance(500);
    assert_eq!(world.refill(queue, b"a", 10).0, []);
    world.advance(500);
    assert_eq!(world.refill(queue, b"a", 10).0, [id]);
}

fn due_times_survive(world: &mut World) {
    if !world.is_durable() {
        return;
    }
    let queue = world.queue("mails");
    let due_ms = world.now() + 1_000;
    let delayed = world.add(NewJob {
        due_ms,
        ..job(queue)
    });
    let retried = world.load(job(queue)).id;
    world.retry(retried, due_ms + 1, false);
    world.crash();
    world.queue("mails");
    assert_eq!(world.refill(queue, b"", 10).0, []);
    world.advance(1_001);
    assert_eq!(world.refill(queue, b"", 10).0, [delayed, retried]);
}
