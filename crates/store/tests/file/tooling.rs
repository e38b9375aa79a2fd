//! Backup, compaction and statistics of a file.

use crate::world::{World, job, job_of};
use stoker_store::{Filter, HistoryKind, QueuePolicy, StoreError, StoreRequest, tools};

#[test]
fn a_backup_is_a_complete_store() {
    let mut world = World::sqlite();
    let queue = world.queue("mails");
    let ran = world.load(job_of(queue, b"a")).id;
    world.send(StoreRequest::Running { jobs: vec![ran] });
    let waits = world.add(job(queue));
    let failed = world.load(job(queue)).id;
    world.fail(failed);
    let to = world.path().with_file_name("backup.db");
    tools::backup(world.path(), &to).unwrap();
    // The backup has the state of the time when it was made.
    world.done(ran);
    let error = tools::backup(world.path(), &to).unwrap_err();
    assert!(
        matches!(error, StoreError::Io { .. })
            && error.to_string().contains("the file exists already")
    );
    assert_eq!(
        tools::check(&to).unwrap(),
        tools::CheckReport {
            jobs: 3,
            problems: vec![],
            notes: vec![],
        }
    );
    let dir = crate::world::new_dir();
    std::fs::rename(&to, dir.join("jobs.db")).unwrap();
    let mut copy = World::at(dir.join("jobs.db"));
    let queue = copy.queue("mails");
    assert_eq!(copy.list(Filter::default()), [ran, waits, failed]);
    let (jobs, _) = copy.refill_jobs(queue, 0, b"a", 5);
    assert_eq!(
        (jobs[0].id, jobs[0].counters.crashes),
        (ran, 0),
        "it ran elsewhere"
    );
    let one = world.driver().ids().uuid(ran);
    assert_eq!(copy.driver().ids().number(one), Some(ran));
}

#[test]
fn a_store_is_described() {
    let mut world = World::sqlite();
    let queue = world.queue("mails");
    world.queue("reports");
    world.send(StoreRequest::Pause {
        queue,
        paused: true,
        ticket: None,
    });
    let id = world.load(job(queue)).id;
    world.done(id);
    world.add(job(queue));
    let description = tools::describe(world.path()).unwrap();
    assert_eq!(
        (description.version, description.created_ms),
        (4, crate::world::START)
    );
    assert!(
        description.bytes > 4_096 && description.log_bytes > 0,
        "{description:?}"
    );
    let names: Vec<_> = description
        .queues
        .iter()
        .map(|queue| queue.name.as_str())
        .collect();
    assert_eq!(names, ["mails", "reports"]);
    let mails = &description.queues[0];
    assert_eq!(
        (
            mails.paused,
            mails.kept,
            mails.counts.ready,
            mails.counts.done
        ),
        (true, 1, 1, 1)
    );
    let nowhere = world.path().with_file_name("nothing.db");
    assert!(matches!(
        tools::describe(&nowhere),
        Err(StoreError::Io { .. })
    ));
    assert!(!nowhere.exists());
}

#[test]
fn a_store_is_compacted() {
    let mut world = World::sqlite();
    let policy = QueuePolicy {
        window: 10_000,
        done: 0,
        ..QueuePolicy::default()
    };
    let queue = world.queue_with("mails", policy);
    let jobs: Vec<_> = (0..2_000).map(|_| world.load(job(queue)).id).collect();
    let stays = world.add(job(queue));
    for id in jobs {
        world.send(StoreRequest::End {
            job: id,
            counters: stoker_store::RunCounters::default(),
            ending: stoker_store::Ending::Done { result: None },
            ticket: None,
            output: None,
        });
    }
    world.settle();
    assert!(matches!(
        tools::compact(world.path()),
        Err(StoreError::Locked { .. })
    ));
    world.reopen();
    world.stop();
    let before = tools::describe(world.path()).unwrap();
    assert!(before.free_bytes > 0);
    tools::compact(world.path()).unwrap();
    let after = tools::describe(world.path()).unwrap();
    assert!(
        after.bytes < before.bytes && after.free_bytes == 0,
        "{before:?} {after:?}"
    );
    assert_eq!(
        tools::check(world.path()).unwrap().problems,
        Vec::<String>::new()
    );
    world.restart();
    assert_eq!(world.list(Filter::default()), [stays]);
}

/// A job is deleted by its entry in `ages`, which it got when it ended. Data that it writes after that adds a
/// later entry.
#[test]
fn data_written_after_the_end_is_deleted_with_its_job() {
    let mut world = World::sqlite();
    let policy = QueuePolicy {
        done: 0,
        ..QueuePolicy::default()
    };
    let queue = world.queue_with("mails", policy);
    let id = world.load(job(queue)).id;
    world.done(id);
    world.send(StoreRequest::Output {
        job: id,
        bytes: b"written late".to_vec(),
    });
    world.send(StoreRequest::Note {
        job: id,
        what: HistoryKind::AfterAck,
        text: "it failed all the same".to_owned(),
    });
    world.advance(5_000);
    let other = world.load(job(queue)).id;
    world.done(other);
    world.until("it is forgotten", |world| world.view(id).is_none());
    assert_eq!(
        tools::check(world.path()).unwrap().problems,
        Vec::<String>::new()
    );
}
