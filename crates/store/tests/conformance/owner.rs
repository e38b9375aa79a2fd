//! Issue 9, A5: a job keeps its owner in every state and table.

use crate::keys::unique;
use crate::world::{World, job};
use stoker_store::{
    Change, Ending, Filter, Holder, Import, Job, JobId, NewJob, Owner, Pushed, QueueNo,
    QueuePolicy, RunCounters, Selection, State, StoreEvent, StoreRequest, Ticket, Trouble,
};

crate::every_engine! {
    a_job_keeps_its_owner,
    the_remains_of_a_job_keep_its_owner,
    an_import_keeps_the_owner,
    jobs_are_found_by_their_owner,
    a_repeated_push_is_answered_with_the_holders_owner,
    a_repeated_push_with_another_body_is_reported,
    a_taken_unique_key_is_answered_with_the_holders_owner,
}

fn owned(queue: QueueNo, owner: &str) -> NewJob {
    NewJob {
        owner: Some(owner.into()),
        ..job(queue)
    }
}

fn owner_of(world: &mut World, job: JobId) -> Option<Owner> {
    world.view(job).expect("it is there").owner
}

fn fetched(world: &mut World, job: JobId) -> Job {
    world.send(StoreRequest::Fetch { job });
    match world.wait(|event| matches!(event, StoreEvent::Fetched { .. })) {
        StoreEvent::Fetched { job: Some(job), .. } => *job,
        other => panic!("{other:?}"),
    }
}

fn a_job_keeps_its_owner(world: &mut World) {
    let uid = Some(Owner::from("uid:33"));
    let (queue, other) = (world.queue("mails"), world.queue("elsewhere"));
    let loaded = world.load(owned(queue, "uid:33"));
    let id = loaded.id;
    assert_eq!(loaded.owner, uid);
    assert_eq!(fetched(world, id).owner, uid);
    world.retry(id, world.now() + 1_000, false);
    assert_eq!(owner_of(world, id), uid);
    world.advance(1_000);
    world.until("the retry is due", |world| world.counts(queue).ready == 1);
    assert_eq!(world.refill_jobs(queue, 0, b"", 1).0[0].owner, uid);
    world.fail(id);
    assert_eq!(owner_of(world, id), uid);
    let count = |world: &mut World, change| {
        let changed = world.change(Selection::One(id), change);
        assert_eq!(changed.expect("it is changed").count, 1);
        assert_eq!(owner_of(world, id), uid);
    };
    count(world, Change::Move { to: other });
    count(world, Change::Retry { per_second: None });
    count(world, Change::Suspend);
    count(world, Change::Release);
    assert_eq!(world.refill_jobs(other, 0, b"", 1).0[0].owner, uid);
    world.done(id);
    assert_eq!(world.view(id).expect("it is kept").state, State::Done);
    assert_eq!(owner_of(world, id), uid);
    // A job without an owner has none afterwards either.
    let id = world.load(job(queue)).id;
    assert_eq!(owner_of(world, id), None);
}

fn the_remains_of_a_job_keep_its_owner(world: &mut World) {
    let policy = QueuePolicy {
        done: 0,
        result_ms: 60_000,
        ..QueuePolicy::default()
    };
    let queue = world.queue_with("mails", policy);
    let id = world.load(owned(queue, "uid:33")).id;
    let result = Some(stoker_store::Bytes {
        codec: 1,
        bytes: b"7".to_vec(),
    });
    world.end(id, Ending::Done { result });
    world.advance(2_000);
    world.until("its row is forgotten", |world| {
        world.list(Filter::default()).is_empty()
    });
    assert_eq!(owner_of(world, id), Some("uid:33".into()));
}

fn an_import_keeps_the_owner(world: &mut World) {
    let queue = world.queue("mails");
    let import = |error| Import {
        job: owned(queue, "uid:34"),
        counters: RunCounters::default(),
        exported_id: "id-1".to_owned(),
        error,
        checkpoint: None,
    };
    let jobs = vec![import(None), import(Some(world.error("boom")))];
    let ticket = Ticket(999, 1);
    world.send(StoreRequest::Import { ticket, jobs });
    world.wait(|event| matches!(event, StoreEvent::Changed { .. }));
    let ids = world.list(Filter::default());
    let owners: Vec<_> = ids.iter().map(|id| owner_of(world, *id)).collect();
    assert_eq!(owners, [Some("uid:34".into()), Some("uid:34".into())]);
}

fn jobs_are_found_by_their_owner(world: &mut World) {
    let queue = world.queue("mails");
    let mine = world.load(owned(queue, "uid:33")).id;
    world.load(owned(queue, "uid:3"));
    world.load(job(queue));
    let failed = world.load(owned(queue, "uid:33")).id;
    world.fail(failed);
    let of = |owner: &str| Filter {
        owner: Some(owner.into()),
        ..Filter::default()
    };
    assert_eq!(world.list(of("uid:33")), [mine, failed]);
    assert_eq!(world.list(of("uid:35")), []);
    // A change of many jobs also respects the owner in its filter.
    let changed = world.change(
        Selection::Many(of("uid:33")),
        Change::Retry { per_second: None },
    );
    assert_eq!(changed.expect("it goes well").count, 1);
}

fn a_repeated_push_is_answered_with_the_holders_owner(world: &mut World) {
    let queue = world.queue("mails");
    let new = |owner: &str| NewJob {
        idempotency: Some(b"order-7"[..].into()),
        ..owned(queue, owner)
    };
    let id = world.load(new("uid:33")).id;
    let repeated = Pushed::Repeated {
        holder: Holder {
            job: id,
            owner: Some("uid:33".into()),
        },
        same_body: true,
    };
    assert_eq!(world.push(new("uid:34")), repeated);
    // The idempotency key outlives the deleted job.
    world.done(id);
    let discarded = world.change(Selection::One(id), Change::Discard);
    assert_eq!(discarded.expect("it goes well").count, 1);
    assert_eq!(world.push(new("uid:34")), repeated);
}

fn a_repeated_push_with_another_body_is_reported(world: &mut World) {
    let queue = world.queue("mails");
    let new = |bytes: &[u8], meta_len| NewJob {
        idempotency: Some(b"order-7"[..].into()),
        bytes: bytes.into(),
        meta_len,
        ..job(queue)
    };
    world.load(new(b"metabody", 4));
    let mut same = |new| match world.push(new) {
        Pushed::Repeated { same_body, .. } => same_body,
        other => panic!("{other:?}"),
    };
    assert!(same(new(b"metabody", 4)));
    // Metadata is not compared, because it differs between requests: each one has its own trace id.
    assert!(same(new(b"m3tabody", 4)));
    assert!(!same(new(b"metabodi", 4)));
    assert!(!same(new(b"metabody", 8)));
}

fn a_taken_unique_key_is_answered_with_the_holders_owner(world: &mut World) {
    let queue = world.queue("mails");
    let new = |owner: &str| NewJob {
        owner: Some(owner.into()),
        ..unique(queue)
    };
    let first = world.load(new("uid:33")).id;
    let holder = |job, owner: &str| Holder {
        job,
        owner: Some(owner.into()),
    };
    assert_eq!(
        world.push(new("uid:34")),
        Pushed::Taken(holder(first, "uid:33"))
    );
    world.fail(first);
    let second = world.load(new("uid:34")).id;
    assert_eq!(
        world.change(Selection::One(first), Change::Retry { per_second: None }),
        Err(Trouble::Taken(holder(second, "uid:34")))
    );
}
