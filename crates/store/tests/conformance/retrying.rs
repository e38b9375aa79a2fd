//! Retries.

use crate::world::{World, job, job_of};
use stoker_store::{HistoryKind, QueuePolicy, RunCounters, State, StoreEvent, StoreRequest};

crate::every_engine! {
    a_loaded_job_is_fetched_again,
    a_retry_waits_for_its_time,
    a_retry_goes_behind_newer_jobs,
    a_retry_keeps_its_counters,
    a_retry_gets_its_checkpoint,
    a_checkpoint_is_dropped_when_the_job_is_done,
    a_parked_job_is_not_handed_over,
    a_parked_job_keeps_its_place_in_the_window,
    a_parked_job_ends,
    a_parked_job_can_be_released_later,
    the_oldest_history_entries_are_dropped,
}

fn a_retry_waits_for_its_time(world: &mut World) {
    let queue = world.queue("mails");
    let id = world.load(job(queue)).id;
    let due = world.now() + 1_000;
    world.retry(id, due, false);
    let view = world.view(id).unwrap();
    assert_eq!((view.state, view.due_ms), (State::Retrying, due));
    assert_eq!(view.error.unwrap().message, "not now");
    let history = view.whole.unwrap().history;
    assert_eq!(
        (history[0].what, history[0].text.as_str()),
        (HistoryKind::Retried, "App\\Boom: not now")
    );
    assert_eq!(world.refill(queue, b"", 10).0, []);
    world.advance(999);
    assert_eq!(world.backlogs(), []);
    world.advance(1);
    assert_eq!(world.backlogs(), [(0, vec![])]);
    assert_eq!(world.refill(queue, b"", 10), (vec![id], false));
    assert_eq!(world.state(id), Some(State::Ready));
}

fn a_retry_goes_behind_newer_jobs(world: &mut World) {
    let queue = world.queue_with(
        "mails",
        QueuePolicy {
            window: 1,
            ..QueuePolicy::default()
        },
    );
    let first = world.load(job(queue)).id;
    let second = world.add(job(queue));
    world.retry(first, world.now() + 10, false);
    world.advance(20);
    let third = world.add(job(queue));
    assert_eq!(world.refill(queue, b"", 10).0, [second, first, third]);
}

fn a_retry_keeps_its_counters(world: &mut World) {
    let queue = world.queue("mails");
    let id = world.load(job(queue)).id;
    let counters = RunCounters {
        attempt: 4,
        exceptions: 2,
        crashes: 1,
        ran_us: 77,
    };
    let (error, due_ms) = (world.error("x"), world.now() + 1);
    world.send(StoreRequest::Retry {
        job: id,
        counters,
        due_ms,
        error,
        output: None,
        park: false,
    });
    world.settle();
    world.advance(5);
    let (jobs, _) = world.refill_jobs(queue, 0, b"", 1);
    assert_eq!(
        (jobs[0].id, jobs[0].counters, jobs[0].due_ms),
        (id, counters, due_ms)
    );
    assert_eq!(
        (jobs[0].meta(), jobs[0].body()),
        (&b"meta"[..], &b"body"[..])
    );
}

fn a_retry_gets_its_checkpoint(world: &mut World) {
    let queue = world.queue("mails");
    let id = world.load(job(queue)).id;
    world.send(StoreRequest::Checkpoint {
        job: id,
        bytes: b"page 1".to_vec(),
    });
    world.send(StoreRequest::Checkpoint {
        job: id,
        bytes: b"page 2".to_vec(),
    });
    let whole = world.view(id).unwrap().whole.unwrap();
    assert_eq!(whole.checkpoint, Some(b"page 2".to_vec()));
    world.retry(id, world.now() + 1, false);
    world.advance(1);
    let (jobs, _) = world.refill_jobs(queue, 0, b"", 1);
    assert_eq!(jobs[0].checkpoint.as_deref(), Some(&b"page 2"[..]));
}

fn a_checkpoint_is_dropped_when_the_job_is_done(world: &mut World) {
    let queue = world.queue("mails");
    let jobs = [world.load(job(queue)).id, world.load(job(queue)).id];
    for id in jobs {
        world.send(StoreRequest::Checkpoint {
            job: id,
            bytes: b"page 1".to_vec(),
        });
    }
    world.done(jobs[0]);
    world.fail(jobs[1]);
    let of = |world: &mut World, id| world.view(id).unwrap().whole.unwrap().checkpoint;
    assert_eq!(of(world, jobs[0]), None);
    assert!(of(world, jobs[1]).is_some(), "it may run again");
}

fn a_parked_job_is_not_handed_over(world: &mut World) {
    let queue = world.queue_with(
        "mails",
        QueuePolicy {
            ordered: true,
            ..QueuePolicy::default()
        },
    );
    let id = world.load(job_of(queue, b"a")).id;
    world.retry(id, world.now() + 1_000, true);
    assert_eq!(world.state(id), Some(State::Retrying));
    world.advance(5_000);
    assert_eq!(world.backlogs(), []);
    assert_eq!(world.refill(queue, b"a", 10), (vec![], false));
    assert_eq!(world.refill_lanes(queue, 10, 10), (vec![], false));
    assert_eq!(world.state(id), Some(State::Retrying));
}

fn a_parked_job_keeps_its_place_in_the_window(world: &mut World) {
    let policy = QueuePolicy {
        ordered: true,
        window: 1,
        ..QueuePolicy::default()
    };
    let queue = world.queue_with("mails", policy);
    let id = world.load(job_of(queue, b"a")).id;
    world.retry(id, world.now() + 1_000, true);
    let next = world.accept(job_of(queue, b"a"));
    assert_eq!(next.1, None);
    // The lane has loaded jobs, so it is not among the lanes without any.
    assert_eq!(world.refill_lanes(queue, 10, 10), (vec![], false));
    assert_eq!(world.refill(queue, b"a", 10), (vec![next.0], false));
}

fn a_parked_job_ends(world: &mut World) {
    let queue = world.queue_with(
        "mails",
        QueuePolicy {
            ordered: true,
            ..QueuePolicy::default()
        },
    );
    let id = world.load(job_of(queue, b"a")).id;
    world.retry(id, world.now() + 10, true);
    world.advance(10);
    world.retry(id, world.now() + 10, true);
    world.advance(10);
    world.done(id);
    assert_eq!(world.state(id), Some(State::Done));
    let counts = world.counts(queue);
    assert_eq!(
        (counts.ready, counts.delayed, counts.done, counts.retried),
        (0, 0, 1, 2)
    );
}

fn a_parked_job_can_be_released_later(world: &mut World) {
    let queue = world.queue_with(
        "mails",
        QueuePolicy {
            ordered: true,
            ..QueuePolicy::default()
        },
    );
    let id = world.load(job_of(queue, b"a")).id;
    world.retry(id, world.now() + 10, true);
    world.retry(id, world.now() + 10, false);
    world.advance(10);
    assert_eq!(world.refill(queue, b"a", 10), (vec![id], false));
}

fn the_oldest_history_entries_are_dropped(world: &mut World) {
    let queue = world.queue("mails");
    let id = world.load(job(queue)).id;
    for number in 0..150 {
        world.send(StoreRequest::Note {
            job: id,
            what: HistoryKind::AfterAck,
            text: number.to_string(),
        });
    }
    let history = world.view(id).unwrap().whole.unwrap().history;
    assert_eq!(history.len(), 100);
    assert_eq!(
        (history[0].text.as_str(), history[99].text.as_str()),
        ("50", "149")
    );
}

fn a_loaded_job_is_fetched_again(world: &mut World) {
    let queue = world.queue_with(
        "mails",
        QueuePolicy {
            ordered: true,
            ..QueuePolicy::default()
        },
    );
    let job = world.load(job_of(queue, b"a"));
    let due_ms = world.now() + 5;
    world.send(StoreRequest::Checkpoint {
        job: job.id,
        bytes: b"page 3".to_vec(),
    });
    world.retry(job.id, due_ms, true);
    let fetch = |world: &mut World, id| {
        world.events.clear();
        world.send(StoreRequest::Fetch { job: id });
        match world.wait(|event| matches!(event, StoreEvent::Fetched { .. })) {
            StoreEvent::Fetched { job, .. } => job.map(|job| *job),
            other => panic!("{other:?}"),
        }
    };
    let again = fetch(world, job.id).unwrap();
    assert_eq!((again.counters.attempt, again.due_ms), (1, due_ms));
    assert_eq!(again.checkpoint.as_deref(), Some(&b"page 3"[..]));
    assert_eq!((again.bytes, again.meta_len), (job.bytes, job.meta_len));
    assert_eq!((again.queue, again.class, again.key), (queue, 0, job.key));
    world.done(job.id);
    assert_eq!(fetch(world, job.id), None);
}
