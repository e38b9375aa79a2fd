//! Limits, and guarantees while many jobs are pushed.

use crate::world::{World, job, job_of};
use stoker_store::{
    Change, Ending, Filter, NewJob, Pushed, Query, QueuePolicy, RunCounters, Selection, State,
    StoreEvent, StoreRequest, Ticket, Trouble, tools,
};

#[test]
fn too_many_requests_are_rejected() {
    let mut world = World::sqlite();
    let queue = world.queue("mails");
    let push = |number| StoreRequest::Push {
        ticket: Ticket(number, 9),
        room: false,
        job: Box::new(job(queue)),
    };
    // Nothing is sent before the flush, so the number of requests in progress only grows.
    for number in 0..65_537 {
        world.send(push(number));
    }
    for number in 0..1_025 {
        let query = Query::Count(Filter::default());
        world.send(StoreRequest::Query {
            ticket: Ticket(number, 10),
            query,
        });
    }
    let busy = |event: &StoreEvent| {
        matches!(
            event,
            StoreEvent::Pushed {
                pushed: Pushed::Rejected(Trouble::Busy(_)),
                ..
            } | StoreEvent::Found {
                found: Err(Trouble::Busy(_)),
                ..
            }
        )
    };
    let last_look = |event: &StoreEvent| {
        matches!(
            event,
            StoreEvent::Found {
                ticket: Ticket(1_023, 10),
                ..
            }
        )
    };
    world.wait(last_look);
    let rejected: Vec<_> = world
        .events
        .iter()
        .filter(|event| busy(event))
        .cloned()
        .collect();
    assert_eq!(rejected.len(), 2, "{rejected:?}");
    assert!(rejected.iter().any(|event| matches!(
        event,
        StoreEvent::Pushed {
            ticket: Ticket(65_536, 9),
            ..
        }
    )));
    let ready = Filter {
        states: State::Ready.into(),
        ..Filter::default()
    };
    assert_eq!(world.count(ready), 65_536);
    assert_eq!(world.driver().bytes(), 0);
}

#[test]
fn the_bytes_of_pending_pushes_are_limited() {
    let mut world = World::sqlite();
    let queue = world.queue("mails");
    let big = NewJob {
        bytes: vec![0; 20 << 20].into(),
        meta_len: 0,
        ..job(queue)
    };
    for number in 0..4 {
        let job = Box::new(big.clone());
        world.send(StoreRequest::Push {
            ticket: Ticket(number, 9),
            room: false,
            job,
        });
    }
    world.settle();
    let accepted = world.events.iter().filter(|event| {
        matches!(
            event,
            StoreEvent::Pushed {
                pushed: Pushed::Accepted { .. },
                ..
            }
        )
    });
    assert_eq!(accepted.count(), 3);
    // A single push may exceed the limit.
    let huge = NewJob {
        bytes: vec![0; 70 << 20].into(),
        meta_len: 0,
        ..job(queue)
    };
    assert!(matches!(
        world.push_to(false, huge),
        Pushed::Accepted { .. }
    ));
    let (jobs, _) = world.refill_jobs(queue, 0, b"", 10);
    assert_eq!(
        jobs.iter()
            .map(|job| job.bytes.len() >> 20)
            .collect::<Vec<_>>(),
        [20, 20, 20, 70]
    );
}

/// The WAL is checkpointed and restarted, however long the store runs.
#[test]
fn the_wal_does_not_grow_forever() {
    let mut world = World::sqlite();
    let queue = world.queue_with(
        "mails",
        QueuePolicy {
            window: 10_000,
            done: 100,
            ..QueuePolicy::default()
        },
    );
    let mut longest = 0;
    for _ in 0..60 {
        let mut jobs = Vec::new();
        for _ in 0..100 {
            let ticket = world.ticket();
            let new = NewJob {
                bytes: vec![7; 10_000].into(),
                meta_len: 0,
                ..job(queue)
            };
            world.send(StoreRequest::Push {
                ticket,
                room: true,
                job: Box::new(new),
            });
        }
        world.settle();
        world.events.retain(|event| match event {
            StoreEvent::Pushed {
                pushed: Pushed::Accepted { id, .. },
                ..
            } => {
                jobs.push(*id);
                false
            }
            _ => true,
        });
        assert_eq!(jobs.len(), 100, "{:?}", world.events);
        for id in jobs {
            let ending = Ending::Done { result: None };
            world.send(StoreRequest::End {
                job: id,
                counters: RunCounters::default(),
                ending,
                ticket: None,
                output: None,
            });
        }
        world.settle();
        longest = longest.max(tools::describe(world.path()).unwrap().log_bytes);
    }
    // The bodies of the pushed jobs have 60 MB in total.
    assert!(longest < 48 << 20, "{longest}");
    let file = tools::describe(world.path()).unwrap().bytes;
    assert!(file < 24 << 20, "what has ended makes room: {file}");
}

/// Crashes a store at random points, again and again, and checks that no job is lost.
#[test]
fn crashes_lose_no_jobs() {
    let mut world = World::sqlite();
    let policy = QueuePolicy {
        window: 3,
        done: 20,
        ..QueuePolicy::default()
    };
    let mut random = 7_u64;
    let mut chance = move |bound: u64| {
        random = random
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (random >> 33) % bound
    };
    let mut unfinished = std::collections::BTreeSet::new();
    for _ in 0..25 {
        let queue = world.queue_with("mails", policy);
        let mut loaded = Vec::new();
        for _ in 0..40 {
            let key = format!("tenant{}", chance(5));
            match chance(4) {
                0 | 1 => {
                    let (id, job) = world.accept(job_of(queue, key.as_bytes()));
                    unfinished.insert(id);
                    loaded.extend(job.map(|job| job.id));
                }
                2 => loaded.extend(world.refill(queue, key.as_bytes(), 2).0),
                _ if loaded.is_empty() => {}
                _ => {
                    let id = loaded.swap_remove(chance(loaded.len() as u64) as usize);
                    match chance(3) {
                        0 => world.retry(id, world.now() + chance(50), false),
                        _ => {
                            world.done(id);
                            unfinished.remove(&id);
                        }
                    }
                }
            }
            world.advance(1);
        }
        world.send(StoreRequest::Running { jobs: loaded });
        world.settle();
        world.crash();
        let mut left = Vec::new();
        for state in [State::Ready, State::Delayed, State::Retrying] {
            left.extend(world.list(Filter {
                states: state.into(),
                ..Filter::default()
            }));
        }
        left.sort_unstable();
        // A job that crashed too often has failed instead.
        let failed = world.list(Filter {
            states: State::Failed.into(),
            ..Filter::default()
        });
        unfinished.retain(|id| !failed.contains(id));
        assert_eq!(left, unfinished.iter().copied().collect::<Vec<_>>());
        let checked = tools::check(world.path()).unwrap();
        assert_eq!(checked.problems, Vec::<String>::new());
    }
}

/// Opening a queue never waits. Pushes to a new queue wait for its row.
#[test]
fn a_queue_is_opened_while_another_program_writes() {
    let mut world = World::sqlite();
    world.queue("mails");
    world.settle();
    let other = rusqlite::Connection::open(world.path()).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let queue = world.queue("reports");
    let ticket = world.ticket();
    let job = Box::new(job(queue));
    world.send(StoreRequest::Push {
        ticket,
        room: true,
        job,
    });
    world.send(StoreRequest::Pause {
        queue,
        paused: true,
        ticket: None,
    });
    world.driver().flush();
    assert_eq!(world.driver().queues(), ["mails", "reports"]);
    other.execute_batch("ROLLBACK").unwrap();
    let event = world.wait(|event| matches!(event, StoreEvent::Pushed { .. }));
    assert!(
        matches!(
            &event,
            StoreEvent::Pushed {
                pushed: Pushed::Accepted { job: Some(_), .. },
                ..
            }
        ),
        "{event:?}"
    );
    world.crash();
    assert_eq!(world.driver().queues(), ["mails", "reports"]);
    assert!(
        world
            .driver()
            .open_queue("reports", QueuePolicy::default())
            .paused
    );
    assert_eq!(world.counts(queue).ready, 1);
}

/// A change whose filter matches nothing runs in slices, and other requests are served in between.
#[test]
fn a_change_that_matches_nothing_does_not_delay_other_requests() {
    let mut world = World::sqlite();
    let queue = world.queue("mails");
    for number in 0..50_000 {
        let job = Box::new(job(queue));
        world.send(StoreRequest::Push {
            ticket: Ticket(number, 9),
            room: false,
            job,
        });
    }
    world.settle();
    world.events.clear();
    let other = rusqlite::Connection::open(world.path()).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let ticket = world.ticket();
    let filter = Filter {
        kind: Some("NoSuchJob".to_owned()),
        ..Filter::default()
    };
    world.send(StoreRequest::Change {
        ticket,
        which: Selection::Many(filter),
        change: Change::Cancel,
    });
    world.driver().flush();
    // The push is sent while the change is in progress, and does not wait for its end.
    world.send(StoreRequest::Push {
        ticket: Ticket(1, 11),
        room: false,
        job: Box::new(job(queue)),
    });
    world.driver().flush();
    other.execute_batch("ROLLBACK").unwrap();
    world.wait(|event| matches!(event, StoreEvent::Changed { ticket: of, .. } if *of == ticket));
    let place = |matches: fn(&StoreEvent) -> bool| world.events.iter().position(matches).unwrap();
    let pushed = place(|event| matches!(event, StoreEvent::Pushed { .. }));
    let changed = place(|event| matches!(event, StoreEvent::Changed { .. }));
    assert!(pushed < changed, "{:?}", world.events);
}
