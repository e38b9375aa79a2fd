//! A disk that rejects writes for a while, simulated with a limit on the file size of this process.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

#[path = "support/world.rs"]
mod world;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use stoker_store::{
    Ending, Filter, JobId, NewJob, Pushed, QueueNo, RunCounters, State, StoreEvent, StoreRequest,
    Trouble, tools,
};
use world::{World, job};

fn limit(bytes: Option<u64>) {
    let maximum = getrlimit(Resource::Fsize).maximum;
    setrlimit(
        Resource::Fsize,
        Rlimit {
            current: bytes,
            maximum,
        },
    )
    .unwrap();
}

/// Prevents the WAL from growing.
fn limit_wal_growth(world: &World) {
    let log = std::fs::metadata(format!("{}-wal", world.path().display()));
    limit(Some(log.unwrap().len()));
}

/// Hands over all ready jobs, checks that the last one is `job`, and returns its run.
fn last_handed_over(world: &mut World, queue: QueueNo, job: JobId) -> RunCounters {
    let (jobs, _) = world.refill_jobs(queue, 0, b"", 9);
    let last = jobs.last().unwrap();
    assert_eq!(last.id, job);
    last.counters
}

/// In its own test binary, because the limit affects the whole process.
#[test]
fn the_store_recovers_from_a_write_error_on_its_own() {
    // Without a handler, SIGXFSZ would end the process.
    let xfsz = rustix::process::Signal::XFSZ.as_raw();
    signal_hook::flag::register(xfsz, Arc::new(AtomicBool::new(false))).unwrap();
    let mut world = World::sqlite();
    let queue = world.queue("mails");
    let loaded = world.load(job(queue)).id;
    let waits = world.add(job(queue));
    limit_wal_growth(&world);
    let big = NewJob {
        bytes: vec![1; 100_000].into(),
        meta_len: 0,
        ..job(queue)
    };
    let pushed = world.ticket();
    world.send(StoreRequest::Push {
        ticket: pushed,
        room: true,
        job: Box::new(big),
    });
    world.wait(|event| matches!(event, StoreEvent::Failing(Some(Trouble::Io(_)))));
    let stats = world.driver().stats();
    assert!(stats.commits > 0 && stats.failed_commits > 0, "{stats:?}");
    assert!(stats.file_bytes > 0 && stats.journal_bytes > 0, "{stats:?}");
    // It is unknown whether the large push is in the file until the file can be read; other pushes are
    // rejected.
    assert!(matches!(
        world.push(job(queue)),
        Pushed::Rejected(Trouble::Io(_))
    ));
    // Queries still work, and no accepted job is lost.
    assert_eq!(world.list(Filter::default()), [loaded, waits]);
    let ticket = world.ticket();
    let counters = RunCounters {
        attempt: 1,
        ..RunCounters::default()
    };
    let ending = Ending::Done { result: None };
    world.send(StoreRequest::End {
        job: loaded,
        counters,
        ending,
        ticket: Some(ticket),
        output: None,
    });
    world.settle();
    assert!(
        !world
            .events
            .iter()
            .any(|event| matches!(event, StoreEvent::Completed { .. }))
    );
    limit(None);
    world.wait(|event| matches!(event, StoreEvent::Failing(None)));
    assert!(
        world
            .events
            .iter()
            .any(|event| matches!(event, StoreEvent::Completed { .. }))
    );
    let answers = world.events.iter().filter(
        |event| matches!(event, StoreEvent::Pushed { ticket, pushed: Pushed::Rejected(_) } if *ticket == pushed),
    );
    assert_eq!(answers.count(), 1, "it was not in the file");
    assert_eq!(world.state(loaded), Some(State::Done));
    world.load(job(queue));
    assert_eq!(
        tools::check(world.path()).unwrap().problems,
        Vec::<String>::new()
    );
    let runs = world.load(job(queue)).id;
    world.send(StoreRequest::Running { jobs: vec![runs] });
    world.settle();
    limit_wal_growth(&world);
    world.crash();
    world.queue("mails");
    // The crash can't be written, but the store counts it in memory.
    let counters = last_handed_over(&mut world, queue, runs);
    assert_eq!(counters.crashes, 1);
    limit(None);
    world.wait(|event| matches!(event, StoreEvent::Failing(None)));
    assert_eq!(world.view(runs).unwrap().counters.crashes, 1);
    assert_eq!(world.state(loaded), Some(State::Done));
    assert_eq!(world.count(Filter::default()), 4);
    // The crash that would reach the limit is written only after the job was loaded for another run, so that
    // run counts.
    world.send(StoreRequest::Running { jobs: vec![runs] });
    world.settle();
    world.crash();
    world.queue("mails");
    world.refill_jobs(queue, 0, b"", 9);
    world.send(StoreRequest::Running { jobs: vec![runs] });
    world.settle();
    limit_wal_growth(&world);
    world.crash();
    world.queue("mails");
    let counters = last_handed_over(&mut world, queue, runs);
    assert_eq!(counters.crashes, 3);
    world.send(StoreRequest::End {
        job: runs,
        counters,
        ending: Ending::Done { result: None },
        ticket: None,
        output: None,
    });
    limit(None);
    world.wait(|event| matches!(event, StoreEvent::Failing(None)));
    world.settle();
    let view = world.view(runs).unwrap();
    assert_eq!((view.state, view.counters.crashes), (State::Done, 3));
}
