//! Tests of the names that workers announce. Workers that the server started speak for their pool; workers
//! that connected by themselves do not (issue 9, A8).
use crate::support::*;
use stoker_core::*;

fn connected() -> PoolConfig {
    PoolConfig {
        spawned: false,
        ..workers(0)
    }
}

/// Two pools without workers of their own.
fn two() -> (World, PoolId, PoolId) {
    let mut w = World::default();
    let pools = ["ours", "theirs"].map(|name| w.core.add_pool(name, connected()));
    (w, pools[0], pools[1])
}

fn pools_of(w: &World, kind: Kind, name: &str) -> Vec<PoolId> {
    let queue = w.core.find_queue(kind, name).expect("it is known");
    w.core.queue(queue).pools.to_vec()
}

#[test]
fn a_worker_that_connects_by_itself_cannot_join_with_a_name_of_another_pool() {
    let (mut w, ours, theirs) = two();
    w.calls(theirs, "users.get", QueueConfig::default());
    w.jobs(theirs, "mail", QueueConfig::default());
    for hello in [
        Hello::serving(&["users.delete"], &[]),
        Hello::serving(&[], &["mail"]),
    ] {
        let rejected = w
            .core
            .may_join(ours, &hello.offer())
            .expect_err("it is theirs");
        assert_eq!(rejected.pool, "theirs");
        assert_eq!(w.core.may_join(theirs, &hello.offer()), Ok(()));
    }
    let free = Hello::serving(&["other.get"], &["other", "*"]);
    assert_eq!(w.core.may_join(ours, &free.offer()), Ok(()));
}

/// Even an admitted worker takes over nothing that another pool serves.
#[test]
fn a_worker_that_connects_by_itself_cannot_take_over_a_queue_of_another_pool() {
    let (mut w, ours, theirs) = two();
    w.join(theirs, &Hello::serving(&["users.get"], &["mail"]));
    w.join(ours, &Hello::serving(&["users.get"], &["mail", "*"]));
    assert_eq!(pools_of(&w, Kind::Calls, "users"), [theirs]);
    assert_eq!(pools_of(&w, Kind::Jobs, "mail"), [theirs]);
}

#[test]
fn a_worker_that_connects_by_itself_serves_a_queue_until_a_spawned_worker_announces_it() {
    let mut w = World::default();
    let guests = w.core.add_pool("guests", connected());
    let app = w.core.add_pool("app", workers(1));
    w.step(Event::Tick);
    let hello = Hello::serving(&["users.get"], &["mail", "*"]);
    w.join(guests, &hello);
    assert_eq!(pools_of(&w, Kind::Calls, "users"), [guests]);
    let mail = w.core.resolve_job("mail").expect("it is served");
    let task = w.submit(job(mail));
    assert!(w.on(task).is_some());
    w.boot_as(&hello);
    assert_eq!(pools_of(&w, Kind::Calls, "users"), [app]);
    assert_eq!(pools_of(&w, Kind::Jobs, "mail"), [app]);
    w.done(task);
    w.core.resolve_job("new").expect("any queue is served");
    assert_eq!(pools_of(&w, Kind::Jobs, "new"), [app]);
}

#[test]
fn queues_are_unbound_when_the_last_worker_that_connected_has_gone() {
    let (mut w, ours, theirs) = two();
    let hello = Hello::serving(&["users.get"], &["mail"]);
    let worker = w.join(theirs, &hello);
    assert!(w.core.may_join(ours, &hello.offer()).is_err());
    w.exit(worker, Exit::ConnectionLost);
    assert_eq!(w.core.may_join(ours, &hello.offer()), Ok(()));
    let waits = w.core.resolve_job("mail").expect("its name is known");
    let waits = w.submit(job(waits));
    w.join(ours, &hello);
    assert!(w.on(waits).is_some(), "what was pushed meanwhile");
}

/// A queue of workers that connected by themselves is served as long as one of them is there.
#[test]
fn queues_stay_bound_while_another_worker_that_connected_is_there() {
    let (mut w, _, theirs) = two();
    let hello = Hello::serving(&["users.get"], &["mail"]);
    let [first, second] = [0, 1].map(|_| w.join(theirs, &hello));
    w.exit(first, Exit::ConnectionLost);
    assert_eq!(pools_of(&w, Kind::Calls, "users"), [theirs]);
    assert_eq!(pools_of(&w, Kind::Jobs, "mail"), [theirs]);
    let mail = w.core.resolve_job("mail").expect("it is served");
    let task = w.submit(job(mail));
    assert_eq!(w.on(task), Some(second));
}

#[test]
fn a_queue_configured_later_is_unbound_from_workers_that_connected_by_themselves() {
    let (mut w, ours, theirs) = two();
    w.join(theirs, &Hello::serving(&["users.get"], &["mail"]));
    w.calls(ours, "users.get", QueueConfig::default());
    w.jobs(ours, "mail", QueueConfig::default());
    assert_eq!(pools_of(&w, Kind::Calls, "users"), [ours]);
    assert_eq!(pools_of(&w, Kind::Jobs, "mail"), [ours]);
}

/// What workers announce is remembered even while the configuration decides who serves the queue.
#[test]
fn a_queue_that_is_no_longer_configured_is_served_by_those_who_announce_it() {
    let mut w = World::default();
    let [ours, theirs] = ["ours", "theirs"].map(|name| w.core.add_pool(name, workers(1)));
    let mail = w.jobs(ours, "mail", QueueConfig::default());
    w.step(Event::Tick);
    w.boot_as(&Hello::serving(&[], &["mail"]));
    assert_eq!(pools_of(&w, Kind::Jobs, "mail"), [ours]);
    let queue = w.queue(mail);
    w.step(Event::Unconfigured { queue });
    assert_eq!(pools_of(&w, Kind::Jobs, "mail"), [ours, theirs]);
}

#[test]
fn a_worker_without_a_pool_name_joins_the_pool_that_serves_its_queues() {
    let (mut w, _, theirs) = two();
    w.jobs(theirs, "mail", QueueConfig::default());
    let hello = Hello::serving(&[], &["other", "mail"]);
    assert_eq!(w.core.pool_for(&hello.offer()), Some(theirs));
    assert_eq!(w.core.pool_for(&Hello::default().offer()), None);
}

/// A worker that may run only what it offers must not get tasks of a queue that its pool serves later.
#[test]
fn an_exclusive_worker_leaves_before_its_pool_serves_something_else() {
    let mut w = World::default();
    let pool = w.core.add_pool("app", workers(1));
    w.step(Event::Tick);
    w.jobs(pool, "mail", QueueConfig::default());
    let exclusive = |jobs: &[&str]| Hello {
        exclusive: true,
        ..Hello::serving(&[], jobs)
    };
    let one = w.join(pool, &exclusive(&["mail"]));
    let all = w.join(pool, &exclusive(&["*"]));
    let invoices = w.jobs(pool, "invoices", QueueConfig::default());
    let task = w.submit(job(invoices));
    assert!(w.has_seen(&Action::Goaway {
        worker: one,
        why: StopReason::Replaced
    }));
    assert_eq!(w.on(task), Some(all), "its offer includes every queue");
    w.boot_as(&Hello::serving(&["users.get"], &[]));
    assert!(w.has_seen(&Action::Goaway {
        worker: all,
        why: StopReason::Replaced
    }));
}

/// A queue that nobody names is served only while a worker that offers every queue is there, and again once it is back.
#[test]
fn a_worker_that_offers_every_queue_may_leave_and_come_back() {
    let (mut w, ours, _) = two();
    let every = Hello::serving(&[], &["*"]);
    let first = w.join(ours, &every);
    let mail = w.core.resolve_job("mail").expect("any queue is served");
    w.exit(first, Exit::Code(0));
    assert!(w.core.resolve_job("other").is_err(), "nobody serves it");
    let task = w.submit(job(mail));
    let second = w.join(ours, &every);
    assert_eq!(w.on(task), Some(second));
}
