//! Issue 9, A19: every record has a checksum, so changes that Stoker did not make are detected.

use crate::world::{World, job};
use rusqlite::Connection;
use stoker_store::{
    Change, Ending, Filter, Found, JobId, NewJob, Options, Query, QueueNo, QueuePolicy, Selection,
    State, StoreEvent, StoreRequest, Trouble, Unique, tools,
};

/// A store with records of every kind.
fn store() -> (World, QueueNo) {
    let mut world = World::sqlite();
    let policy = QueuePolicy {
        payload_ms: 600_000,
        ..QueuePolicy::default()
    };
    let queue = world.queue_with("mails", policy);
    let done = world.load(job(queue)).id;
    let result = Some(stoker_store::Bytes {
        codec: 1,
        bytes: b"a result of some length".to_vec(),
    });
    world.end(done, Ending::Done { result });
    let plain = world.load(job(queue)).id;
    world.done(plain);
    let failed = world.load(job(queue)).id;
    world.fail(failed);
    let retried = world.load(job(queue)).id;
    world.retry(retried, world.now() + 60_000, false);
    let unique = Unique {
        key: "report seven".to_owned(),
        until_start: false,
        for_ms: None,
    };
    let ready = NewJob {
        key: b"tenant-of-a-name"[..].into(),
        idempotency: Some(b"order number seven"[..].into()),
        owner: Some("uid:33".into()),
        options: Some(Box::new(Options {
            kind: Some("Welcome".to_owned()),
            unique: Some(unique),
            ..Options::default()
        })),
        bytes: b"the body of a job that is ready"[..].into(),
        meta_len: 0,
        ..job(queue)
    };
    let ready = world.load(ready).id;
    world.send(StoreRequest::Checkpoint {
        job: ready,
        bytes: b"a checkpoint".to_vec(),
    });
    world.settle();
    (world, queue)
}

/// Stops the store and checkpoints its journal, so that all data is in the file.
fn close(world: &mut World) {
    let mut events = Vec::new();
    world.driver().close(&mut events).unwrap();
    world.stop();
}

/// Flips a bit wherever `text` occurs in the file. Returns the number of places.
fn flip(world: &World, text: &[u8]) -> usize {
    let mut bytes = std::fs::read(world.path()).unwrap();
    let places: Vec<usize> = bytes
        .windows(text.len())
        .enumerate()
        .filter_map(|(at, window)| (window == text).then_some(at + text.len() - 1))
        .collect();
    places.iter().for_each(|at| bytes[*at] ^= 1);
    std::fs::write(world.path(), bytes).unwrap();
    places.len()
}

fn problems(world: &World) -> Vec<String> {
    tools::check(world.path()).unwrap().problems
}

#[test]
fn all_rows_written_by_stoker_are_valid() {
    let (mut world, queue) = store();
    // These jobs have no result and no payload to keep, so they end by the plain path. One of them has had a
    // retry.
    let plain = world.queue("plain");
    let loaded: Vec<JobId> = (0..3).map(|_| world.load(job(plain)).id).collect();
    world.retry(loaded[1], world.now(), true);
    loaded.into_iter().for_each(|id| world.done(id));
    let other = world.add(job(plain));
    let jobs = world.list(Filter::default());
    for id in jobs {
        let change = match world.view(id).unwrap().state {
            State::Failed => Change::Retry { per_second: None },
            State::Done => Change::Discard,
            _ => Change::Suspend,
        };
        world.change(Selection::One(id), change).unwrap();
    }
    assert!(world.view(other).is_some());
    let elsewhere = world.queue("elsewhere");
    let all = Filter {
        queue: Some(queue),
        ..Filter::default()
    };
    world
        .change(Selection::Many(all), Change::Move { to: elsewhere })
        .unwrap();
    let found = tools::check(world.path()).unwrap();
    assert_eq!((found.problems, found.notes), (vec![], vec![]));
}

#[test]
fn a_flipped_bit_in_any_record_is_found() {
    for text in [
        &b"the body of a job that is ready"[..],
        b"uid:33",
        b"Welcome",
        b"a checkpoint",
        b"a result of some length",
        b"order number seven",
        b"report seven",
        b"boom",
    ] {
        let (mut world, _) = store();
        close(&mut world);
        let name = String::from_utf8_lossy(text);
        assert!(flip(&world, text) > 0, "{name}");
        let found = problems(&world);
        assert!(!found.is_empty(), "{name}");
    }
}

#[test]
fn a_damaged_job_is_reported_and_set_aside() {
    for part in [&b"the body of a job that is ready"[..], b"uid:33"] {
        let (mut world, queue) = store();
        let whole = world.add(NewJob {
            key: b"tenant-of-a-name"[..].into(),
            ..job(queue)
        });
        let ready = world.list(Filter {
            owner: Some("uid:33".into()),
            ..Filter::default()
        })[0];
        close(&mut world);
        flip(&world, part);
        world.restart();
        let queue = world.queue("mails");
        let (jobs, _) = world.refill_jobs(queue, 0, b"tenant-of-a-name", 9);
        let handed: Vec<JobId> = jobs.iter().map(|job| job.id).collect();
        assert_eq!(handed, [whole]);
        let id = world.driver().ids().uuid(ready).to_string();
        world.wait(|event| {
            matches!(event, StoreEvent::Damage(text) if text.contains(&id) && text.contains("set aside"))
        });
        assert_eq!(world.view(ready), None);
        assert_eq!(world.counts(queue).ready, 1);
        // The job can be read in the table `damaged`, and a check continues to report it.
        let db = Connection::open(world.path()).unwrap();
        let row: (i64, String, Vec<u8>) = db
            .query_row("SELECT id, origin, body FROM damaged", [], |row| {
                Ok((row.get(0)?, row.get(1)?, row.get(2)?))
            })
            .unwrap();
        assert_eq!((row.0 as u64, row.1.as_str()), (ready.0, "jobs"));
        assert_eq!(row.2.len(), b"the body of a job that is ready".len());
        let found = problems(&world);
        let is_named = |problem: &String| problem.contains("set aside in the table `damaged`");
        assert!(found.iter().any(is_named), "{found:?}");
    }
}

/// Damage is found by the scrub, without a request that needs the record.
#[test]
fn damage_is_found_soon_after_a_start() {
    let (mut world, _) = store();
    close(&mut world);
    // The error message of a failed job.
    flip(&world, b"\"message\":\"boom");
    world.restart();
    world.queue("mails");
    let event = world.wait(|event| matches!(event, StoreEvent::Damage(_)));
    assert!(format!("{event:?}").contains("was set aside"), "{event:?}");
    let left = world.list(State::Failed.into_filter());
    assert_eq!(left, []);
}

trait IntoFilter {
    fn into_filter(self) -> Filter;
}

impl IntoFilter for State {
    fn into_filter(self) -> Filter {
        Filter {
            states: self.into(),
            ..Filter::default()
        }
    }
}

/// A query returns the original data or an error.
#[test]
fn queries_do_not_return_damaged_data() {
    let (mut world, _) = store();
    let ready = world.list(State::Ready.into_filter())[0];
    close(&mut world);
    flip(&world, b"a checkpoint");
    world.restart();
    world.queue("mails");
    let found = {
        let ticket = world.ticket();
        world.send(StoreRequest::Query {
            ticket,
            query: Query::One(ready),
        });
        world.wait(|event| matches!(event, StoreEvent::Found { ticket: of, .. } if *of == ticket))
    };
    let StoreEvent::Found { found, .. } = found else {
        panic!()
    };
    let is_meant = matches!(&found, Err(Trouble::Io(text)) if text.contains("is damaged"));
    assert!(is_meant, "{found:?}");
    let one = matches!(
        world.query(Query::Count(Filter::default())),
        Found::Count(_)
    );
    assert!(one);
}

/// Rows written by another program have no checksum and do not count as damaged.
#[test]
fn rows_written_by_another_program_are_reported() {
    let (mut world, queue) = store();
    let id = world.list(State::Ready.into_filter())[0];
    let db = Connection::open(world.path()).unwrap();
    db.execute(
        "UPDATE jobs SET body = 'written by hand' || x'' WHERE id = ?1",
        [id.0 as i64],
    )
    .unwrap_err();
    db.execute(
        "UPDATE jobs SET body = CAST('written by hand' AS BLOB) WHERE id = ?1",
        [id.0 as i64],
    )
    .unwrap();
    db.execute("UPDATE ended SET class = 5 WHERE state = 5", [])
        .unwrap();
    db.execute("UPDATE queues SET settings = '{}'", []).unwrap();
    let found = tools::check(world.path()).unwrap();
    assert_eq!(found.problems, Vec::<String>::new());
    let says = |table: &str| {
        let is_meant =
            |note: &&String| note.starts_with(table) && note.contains("written by another program");
        found.notes.iter().filter(is_meant).count()
    };
    assert_eq!(
        [
            says("jobs: 1 row"),
            says("ended: 1 row"),
            says("queues: 1 row")
        ],
        [1; 3],
        "{:?}",
        found.notes
    );
    // The job runs with the body as it was written.
    world.crash();
    world.queue("mails");
    let (jobs, _) = world.refill_jobs(queue, 0, b"tenant-of-a-name", 9);
    assert_eq!(jobs[0].body(), b"written by hand");
    world.done(jobs[0].id);
    assert_eq!(problems(&world), Vec::<String>::new());
}

/// A change of a damaged row is possible, and does not make the damage look valid.
#[test]
fn a_change_does_not_hide_damage() {
    let (mut world, _) = store();
    let retried = world.list(State::Retrying.into_filter())[0];
    close(&mut world);
    let db = Connection::open(world.path()).unwrap();
    db.set_db_config(
        rusqlite::config::DbConfig::SQLITE_DBCONFIG_ENABLE_TRIGGER,
        false,
    )
    .unwrap();
    let which = [retried.0 as i64];
    db.execute("UPDATE jobs SET exceptions = 3 WHERE id = ?1", which)
        .unwrap();
    let is_named = |world: &World| {
        let found = problems(world);
        found.iter().any(|problem| problem.contains("damaged"))
    };
    assert!(is_named(&world));
    world.restart();
    world.queue("mails");
    world.send(StoreRequest::Progress {
        job: retried,
        percent: 7,
        text: "on".to_owned(),
    });
    world.settle();
    assert!(is_named(&world));
}

/// A bit is flipped in the body of one job after another: no damaged body is handed over.
#[test]
fn no_damaged_body_is_handed_over() {
    let (mut world, queue) = store();
    for n in 1..21_u8 {
        world.add(NewJob {
            bytes: vec![n; 40].into(),
            meta_len: 0,
            ..job(queue)
        });
    }
    close(&mut world);
    let good = std::fs::read(world.path()).unwrap();
    let bodies: Vec<usize> = (1..21_u8)
        .map(|n| {
            let body = vec![n; 40];
            let at = good.windows(40).position(|window| window == body);
            at.expect("it is in the file")
        })
        .collect();
    for at in bodies {
        let mut bytes = good.clone();
        bytes[at + 7] ^= 0x10;
        std::fs::write(world.path(), &bytes).unwrap();
        world.restart();
        let queue = world.queue("mails");
        let (jobs, _) = world.refill_jobs(queue, 0, b"", 99);
        let is_right = |body: &[u8]| body == b"body" || body.windows(2).all(|two| two[0] == two[1]);
        assert!(jobs.iter().all(|job| is_right(job.body())), "at {at}");
        assert_eq!(jobs.len(), 19, "at {at}");
        close(&mut world);
    }
    std::fs::write(world.path(), &good).unwrap();
    world.restart();
}
