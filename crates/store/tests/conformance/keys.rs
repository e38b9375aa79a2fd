//! Unique and idempotency keys.

use crate::repeated;
use crate::world::{World, job};
use stoker_store::{
    Change, Changed, Ending, Filter, NewJob, Options, Pushed, QueueNo, QueuePolicy, Selection,
    StoreRequest, Trouble, Unique,
};

crate::every_engine! {
    a_unique_key_is_held_until_the_end,
    a_unique_key_is_held_while_a_job_retries,
    a_unique_key_may_be_held_until_the_start,
    a_unique_key_may_be_held_for_a_time,
    a_returning_job_does_not_take_its_key_from_another,
    unique_keys_are_per_queue,
    a_cancelled_job_frees_its_key,
    a_retried_job_takes_its_key_again,
    a_job_is_not_retried_while_another_holds_its_key,
    a_moved_job_keeps_its_key,
    a_moved_job_frees_its_key_in_the_old_queue,
    a_moved_job_holds_its_key_no_longer_than_before,
    a_job_does_not_move_to_a_queue_where_its_key_is_held,
    a_repeated_push_returns_the_same_job,
    a_repeated_push_is_recognised_until_its_key_expires,
    a_repeated_push_is_detected_before_a_taken_key,
}

fn unique_with(queue: QueueNo, until_start: bool, for_ms: Option<u64>) -> NewJob {
    let unique = Some(Unique {
        key: "report 7 \"ü\"".to_owned(),
        until_start,
        for_ms,
    });
    NewJob {
        options: Some(Box::new(Options {
            unique,
            ..Options::default()
        })),
        ..job(queue)
    }
}

pub(crate) fn unique(queue: QueueNo) -> NewJob {
    unique_with(queue, false, None)
}

fn a_unique_key_is_held_until_the_end(world: &mut World) {
    let queue = world.queue("mails");
    for ending in [
        Ending::Done { result: None },
        Ending::Cancelled,
        Ending::Failed(world.error("x")),
    ] {
        let id = world.load(unique(queue)).id;
        assert_eq!(world.push(unique(queue)), Pushed::Taken(id.into()));
        world.send(StoreRequest::Started { job: id });
        assert_eq!(world.push(unique(queue)), Pushed::Taken(id.into()));
        world.end(id, ending);
    }
    world.load(unique(queue));
}

fn a_unique_key_is_held_while_a_job_retries(world: &mut World) {
    let queue = world.queue("mails");
    let id = world.load(unique(queue)).id;
    world.retry(id, world.now() + 1_000, false);
    assert_eq!(world.push(unique(queue)), Pushed::Taken(id.into()));
    world.advance(2_000);
    assert_eq!(world.push(unique(queue)), Pushed::Taken(id.into()));
}

fn a_unique_key_may_be_held_until_the_start(world: &mut World) {
    let queue = world.queue("mails");
    let first = world.load(unique_with(queue, true, None)).id;
    assert_eq!(
        world.push(unique_with(queue, true, None)),
        Pushed::Taken(first.into())
    );
    world.send(StoreRequest::Started { job: first });
    let second = world.load(unique_with(queue, true, None)).id;
    // The second job has the key now, and the end of the first job does not release it.
    world.done(first);
    assert_eq!(world.push(unique(queue)), Pushed::Taken(second.into()));
}

/// Simulation, seed 59852 of 2026-11-23: the returning job was rejected and lost.
fn a_returning_job_does_not_take_its_key_from_another(world: &mut World) {
    let queue = world.queue("mails");
    let other = world.load(unique(queue)).id;
    let back = NewJob {
        order: Some(1),
        ..unique(queue)
    };
    let back_too = back.clone();
    let id = world.load(back).id;
    assert_ne!(id, other);
    assert_eq!(world.push(unique(queue)), Pushed::Taken(other.into()));
    world.done(id);
    assert_eq!(world.push(unique(queue)), Pushed::Taken(other.into()));
    world.done(other);
    // If no other job has the key, the returning job gets it again.
    let id = world.load(back_too).id;
    assert_eq!(world.push(unique(queue)), Pushed::Taken(id.into()));
}

fn a_unique_key_may_be_held_for_a_time(world: &mut World) {
    let queue = world.queue("mails");
    let first = world.load(unique_with(queue, false, Some(1_000))).id;
    world.advance(999);
    assert_eq!(world.push(unique(queue)), Pushed::Taken(first.into()));
    world.advance(1);
    let second = world.load(unique(queue)).id;
    world.done(first);
    assert_eq!(world.push(unique(queue)), Pushed::Taken(second.into()));
}

fn unique_keys_are_per_queue(world: &mut World) {
    let (one, other) = (world.queue("one"), world.queue("other"));
    world.load(unique(one));
    world.load(unique(other));
}

fn a_cancelled_job_frees_its_key(world: &mut World) {
    let queue = world.queue("mails");
    let id = world.add(NewJob {
        suspended: true,
        ..unique(queue)
    });
    assert_eq!(world.push(unique(queue)), Pushed::Taken(id.into()));
    assert_eq!(
        world
            .change(Selection::One(id), Change::Cancel)
            .unwrap()
            .count,
        1
    );
    world.load(unique(queue));
}

fn a_retried_job_takes_its_key_again(world: &mut World) {
    let queue = world.queue("mails");
    let id = world.load(unique(queue)).id;
    world.fail(id);
    world
        .change(Selection::One(id), Change::Retry { per_second: None })
        .unwrap();
    assert_eq!(world.push(unique(queue)), Pushed::Taken(id.into()));
    assert_eq!(world.refill(queue, b"", 1).0, [id]);
    world.done(id);
    world.load(unique(queue));
}

fn a_job_is_not_retried_while_another_holds_its_key(world: &mut World) {
    let queue = world.queue("mails");
    let first = world.load(unique(queue)).id;
    world.fail(first);
    let second = world.load(unique(queue)).id;
    let again = Change::Retry { per_second: None };
    assert_eq!(
        world.change(Selection::One(first), again.clone()),
        Err(Trouble::Taken(second.into()))
    );
    let all = Selection::Many(Filter::default());
    let count = |world: &mut World| {
        let changed = world.change(all.clone(), again.clone());
        changed.unwrap().count
    };
    assert_eq!(count(world), 0);
    world.fail(second);
    // Only one of the two is retried, because it then holds the key.
    assert_eq!(count(world), 1);
    assert_eq!(world.refill(queue, b"", 9).0, [first]);
}

fn a_moved_job_keeps_its_key(world: &mut World) {
    let (queue, other) = (world.queue("mails"), world.queue("other"));
    for (until_start, for_ms) in [(false, None), (false, Some(60_000)), (true, None)] {
        let new = |queue| unique_with(queue, until_start, for_ms);
        let Pushed::Accepted { id, .. } = world.push_to(false, new(queue)) else {
            panic!("it is free");
        };
        world
            .change(Selection::One(id), Change::Move { to: other })
            .unwrap();
        assert_eq!(world.push(new(other)), Pushed::Taken(id.into()));
        let free = world.load(new(queue)).id;
        world.done(free);
        assert_eq!(world.refill(other, b"", 9).0, [id]);
        world.done(id);
    }
}

fn a_moved_job_frees_its_key_in_the_old_queue(world: &mut World) {
    let (queue, other) = (world.queue("mails"), world.queue("other"));
    let new = |queue| unique_with(queue, false, Some(1_000));
    let Pushed::Accepted { id, .. } = world.push_to(false, new(queue)) else {
        panic!("it is free");
    };
    let to = |to| Change::Move { to };
    world.change(Selection::One(id), to(other)).unwrap();
    world.advance(999);
    assert_eq!(world.push_to(false, new(other)), Pushed::Taken(id.into()));
    world.advance(1);
    world.change(Selection::One(id), to(queue)).unwrap();
    let later = world.push_to(false, new(queue));
    assert!(matches!(later, Pushed::Accepted { .. }), "{later:?}");
}

fn a_moved_job_holds_its_key_no_longer_than_before(world: &mut World) {
    let (queue, other) = (world.queue("mails"), world.queue("other"));
    let new = |queue| unique_with(queue, false, Some(1_000));
    let Pushed::Accepted { id, .. } = world.push_to(false, new(queue)) else {
        panic!("it is free");
    };
    world.advance(600);
    world
        .change(Selection::One(id), Change::Move { to: other })
        .unwrap();
    world.advance(399);
    assert_eq!(world.push_to(false, new(other)), Pushed::Taken(id.into()));
    world.advance(1);
    let later = world.push_to(false, new(other));
    assert!(matches!(later, Pushed::Accepted { .. }), "{later:?}");
}

fn a_job_does_not_move_to_a_queue_where_its_key_is_held(world: &mut World) {
    let (here, there) = (world.queue("mails"), world.queue("others"));
    let Pushed::Accepted { id: waiting, .. } = world.push_to(false, unique(here)) else {
        panic!("it is free");
    };
    let holder = world.load(unique(there)).id;
    let to = Change::Move { to: there };
    assert_eq!(
        world.change(Selection::One(waiting), to.clone()),
        Err(Trouble::Taken(holder.into()))
    );
    let all = Selection::Many(Filter {
        queue: Some(here),
        ..Filter::default()
    });
    assert_eq!(world.change(all, to.clone()), Ok(Changed::default()));
    assert_eq!(world.refill(here, b"", 9).0, [waiting]);
    // A job that the scheduler releases for a move that is not possible stays loaded.
    let changed = world
        .change(Selection::Loaded(vec![waiting]), to.clone())
        .unwrap();
    assert_eq!((changed.count, changed.loaded), (0, vec![waiting]));
    assert_eq!(world.push(unique(here)), Pushed::Taken(waiting.into()));
    world.done(holder);
    let changed = world.change(Selection::Loaded(vec![waiting]), to).unwrap();
    assert_eq!(changed.count, 1);
    assert_eq!(world.push(unique(there)), Pushed::Taken(waiting.into()));
    world.load(unique(here));
}

fn idempotent(queue: QueueNo, key: &[u8]) -> NewJob {
    NewJob {
        idempotency: Some(key.into()),
        ..job(queue)
    }
}

fn a_repeated_push_returns_the_same_job(world: &mut World) {
    let (queue, other) = (world.queue("mails"), world.queue("other"));
    let id = world.load(idempotent(queue, b"order \xff 1")).id;
    assert_eq!(world.push(idempotent(queue, b"order \xff 1")), repeated(id));
    world.done(id);
    assert_eq!(world.push(idempotent(queue, b"order \xff 1")), repeated(id));
    world.load(idempotent(queue, b"order \xff 2"));
    world.load(idempotent(other, b"order \xff 1"));
}

fn a_repeated_push_is_recognised_until_its_key_expires(world: &mut World) {
    let queue = world.queue_with(
        "mails",
        QueuePolicy {
            idempotency_ms: 1_000,
            ..QueuePolicy::default()
        },
    );
    let first = world.load(idempotent(queue, b"1")).id;
    world.advance(999);
    assert_eq!(world.push(idempotent(queue, b"1")), repeated(first));
    world.advance(1);
    let second = world.load(idempotent(queue, b"1")).id;
    assert_eq!(world.push(idempotent(queue, b"1")), repeated(second));
}

fn a_repeated_push_is_detected_before_a_taken_key(world: &mut World) {
    let queue = world.queue("mails");
    let new = NewJob {
        idempotency: Some(b"1"[..].into()),
        ..unique(queue)
    };
    let id = world.load(new.clone()).id;
    assert_eq!(world.push(new), repeated(id));
    assert_eq!(world.push(unique(queue)), Pushed::Taken(id.into()));
}
