//! Tests of names: which pools serve them, and what happens to tasks whose name no pool serves.
use crate::support::*;
use stoker_core::*;

/// A call waits while a pool may still announce its name. After all pools were ready, the call is rejected.
#[test]
fn unknown_calls_wait_until_every_pool_was_ready() {
    let mut w = World::default();
    w.core.add_pool("first", workers(1));
    w.core.add_pool("second", workers(1));
    w.step(Event::Tick);
    let starting = w.starting();
    let [served, unserved] = ["late.get", "never.get"].map(|name| w.core.resolve_call(name));
    let served = w.submit(call(served.expect("a pool may serve it")));
    let unserved_name = unserved.expect("a pool may serve it");
    let unserved = w.submit(call(unserved_name));
    w.hello(starting[0], &Hello::default());
    assert!(w.waits(served) && w.waits(unserved));
    w.hello(starting[1], &Hello::serving(&["late.get"], &[]));
    assert!(w.on(served).is_some());
    assert_eq!(w.outcome(unserved), Some(Outcome::NoWorker));
    assert_eq!(w.core.resolve_call("other.get"), Err(UnknownName));
    let again = w.submit(call(unserved_name));
    assert_eq!(
        w.outcome(again),
        Some(Outcome::NoWorker),
        "also by a name known from before"
    );
}

/// If a pool fails to boot, such calls wait until their deadline.
#[test]
fn unknown_calls_wait_for_their_deadline() {
    let (mut w, _) = World::of(workers(1));
    w.step(Event::Tick);
    let name = w
        .core
        .resolve_call("late.get")
        .expect("a pool may serve it");
    let task = w.submit(call(name).time_left(secs(2)));
    w.pass(secs(2));
    assert_eq!(w.outcome(task), Some(Outcome::Deadline { ran: false }));
}

/// Calls do not wait for a pool that starts no workers on its own.
#[test]
fn pools_without_a_minimum_are_not_waited_for() {
    let (mut w, _) = World::of(PoolConfig {
        min: 0,
        ..workers(1)
    });
    assert_eq!(w.core.resolve_call("late.get"), Err(UnknownName));
    w.step(Event::Tick);
}

/// A configured queue is known, whether or not any worker serves it.
#[test]
fn calls_to_a_configured_queue_wait_for_its_workers() {
    let mut w = World::default();
    w.core
        .add_queue(Kind::Calls, "users", QueueConfig::default(), &[]);
    let name = w
        .core
        .resolve_call("users.get")
        .expect("its service is configured");
    let task = w.submit(call(name));
    assert!(w.waits(task));
}

#[test]
fn jobs_of_unknown_queues_wait_for_a_worker_that_serves_them() {
    let (mut w, _) = World::of(workers(1));
    let name = w.core.resolve_job("mail").expect("a pool may serve it");
    let task = w.submit(job(name));
    w.boot_as(&Hello::serving(&[], &["mail"]));
    assert!(w.on(task).is_some());
    assert_eq!(w.core.resolve_job("other"), Err(UnknownName));
}

/// A worker that serves `*` serves every queue of jobs, including those that are created later.
#[test]
fn a_star_serves_every_queue() {
    let (mut w, pool) = World::of(workers(2));
    let early = w.core.resolve_job("early").expect("a pool may serve it");
    let early = w.submit(job(early));
    w.boot_as(&Hello::serving(&[], &["*"]));
    assert!(w.on(early).is_some());
    let late = w.core.resolve_job("late").expect("the star serves it");
    let late = w.submit(job(late));
    assert!(w.on(late).is_some());
    let named = w.core.find_queue(Kind::Jobs, "late").expect("it was made");
    assert_eq!(w.core.queue(named).pools, [pool]);
}

/// Calls and jobs have separate namespaces.
#[test]
fn a_call_and_a_job_may_have_the_same_name() {
    let (mut w, _) = World::of(workers(2));
    w.boot_as(&Hello::serving(&["mail"], &["mail"]));
    let as_call = w.core.resolve_call("mail").expect("it is served");
    let as_job = w.core.resolve_job("mail").expect("it is served");
    assert_ne!(w.queue(as_call), w.queue(as_job));
    assert_eq!(
        (w.core.name(as_call), w.core.name(as_job)),
        ("mail", "mail")
    );
}

/// The service of a call is everything before the last dot of its name.
#[test]
fn methods_of_one_service_share_its_queue() {
    let (mut w, _) = World::of(workers(1));
    w.boot_as(&Hello::serving(&["a.b.get", "a.b.set", "a.get"], &[]));
    let [get, set, other] = ["a.b.get", "a.b.set", "a.get"].map(|call| w.core.resolve_call(call));
    let [get, set, other] = [get, set, other].map(|name| w.queue(name.expect("it is served")));
    assert_eq!(get, set);
    assert_ne!(get, other);
    assert_eq!(w.core.find_queue(Kind::Calls, "a.b"), Some(get));
}

/// A queue that the configuration assigned to a pool stays with it, whichever worker announces it.
#[test]
fn an_announcement_does_not_take_over_a_queue() {
    let mut w = World::default();
    let [ours, theirs] = ["ours", "theirs"].map(|name| w.core.add_pool(name, workers(1)));
    let users = w.calls(ours, "users.get", QueueConfig::default());
    w.boot_as(&Hello::serving(&["users.get"], &[]));
    assert_eq!(w.core.queue(w.queue(users)).pools, [ours]);
    let free = w
        .core
        .add_queue(Kind::Jobs, "free", QueueConfig::default(), &[]);
    w.join(theirs, &Hello::serving(&[], &["free"]));
    assert_eq!(
        w.core.queue(free).pools,
        [theirs],
        "but a free one is taken"
    );
}

/// Two pools that announce the same service share its queue.
#[test]
fn two_pools_can_serve_one_queue() {
    let mut w = World::default();
    w.core.add_pool("first", workers(1));
    w.core.add_pool("second", workers(1));
    w.boot_as(&Hello::serving(&["users.get"], &[]));
    let users = w.core.resolve_call("users.get").expect("it is served");
    let tasks = w.submit_many(2, &call(users));
    assert_eq!(w.assigned(&tasks).len(), 2);
    w.core
        .add_queue(Kind::Calls, "users", QueueConfig::default(), &[PoolId(1)]);
    let queue = w.core.queue(w.queue(users));
    let both = queue.pools.contains(&PoolId(1)) && queue.pools.len() == 2;
    assert!(both, "each pool is bound once");
}

/// The number of undeclared methods that callers can name is limited.
#[test]
fn the_number_of_undeclared_methods_is_limited() {
    let (mut w, _) = World::ready_as(workers(1), &Hello::serving(&["users.get"], &[]));
    let undeclared = (0..2_000).filter(|n| w.core.resolve_call(&format!("users.get{n}")).is_ok());
    assert_eq!(undeclared.count(), 999);
    assert!(w.core.resolve_call("users.get").is_ok());
}

/// Undeclared methods do not keep a worker from serving its own.
#[test]
fn undeclared_methods_do_not_keep_a_worker_out() {
    let (mut w, pool) = World::ready_as(workers(1), &Hello::serving(&["users.get"], &[]));
    for n in 0..2_000 {
        let _made_up = w.core.resolve_call(&format!("users.get{n}"));
    }
    w.step(Event::Scale {
        pool,
        min: 2,
        max: 2,
    });
    w.boot_as(&Hello::serving(&["users.get", "users.new"], &[]));
    assert_eq!(w.live().len(), 2);
    assert!(w.core.resolve_call("users.new").is_ok());
}

/// The number of undeclared queues is limited too, also while pools boot.
#[test]
fn the_number_of_undeclared_queues_is_limited() {
    let (mut w, _) = World::of(workers(1));
    let jobs = (0..200)
        .filter(|n| w.core.resolve_job(&format!("jobs{n}")).is_ok())
        .count();
    let calls = (0..200)
        .filter(|n| w.core.resolve_call(&format!("calls{n}.get")).is_ok())
        .count();
    assert_eq!(jobs + calls, 256);
    w.boot_as(&Hello::serving(&[], &["*"]));
    let limit = Limits::default().queues;
    let more = (0..limit)
        .filter(|n| w.core.resolve_job(&format!("more{n}")).is_ok())
        .count();
    assert_eq!(more, 1_000, "of any number, so that others find room");
    assert_eq!(w.core.queues().count(), 1_256);
}

/// A worker that offers more queues than there is room for is not admitted.
#[test]
fn an_offer_beyond_the_queue_limit_is_rejected() {
    let mut w = World::with(Limits {
        queues: 3,
        ..Limits::default()
    });
    w.core.add_pool("app", workers(1));
    w.step(Event::Tick);
    let worker = w.starting()[0];
    w.hello(worker, &Hello::serving(&["a.x", "b.x"], &["c", "d"]));
    assert!(w.was_killed(worker, StopReason::Misbehaved));
}

#[test]
fn views_show_pools_queues_and_workers() {
    let (mut w, pool) = World::ready(workers(1));
    let mail = w.jobs(
        pool,
        "mail",
        QueueConfig {
            weight: 3,
            ..QueueConfig::default()
        },
    );
    let came = w.now;
    let tasks = w.submit_many(3, &job(mail));
    w.pass(secs(2));
    let suspect = w.submit(job(mail).crashes(1));
    let view = w.core.queue(w.queue(mail));
    assert_eq!(
        (view.name, view.kind, view.config.weight),
        ("mail", Kind::Jobs, 3)
    );
    assert_eq!((view.waiting, view.running, view.assigned), (3, 1, 1));
    assert_eq!(view.oldest, Some(came));
    assert_eq!(w.core.pools().collect::<Vec<_>>(), [pool]);
    assert_eq!(
        (w.core.find_pool("app"), w.core.find_pool("other")),
        (Some(pool), None)
    );
    assert_eq!(w.core.pool(pool).0, "app");
    let worker = w.view(w.live()[0]);
    assert_eq!(
        (worker.task, worker.number, worker.done),
        (Some((tasks[0], came)), 1, 0)
    );
    assert_eq!(
        (worker.pool, worker.version, worker.spawned),
        (pool, 1, true)
    );
    w.done(tasks[0]);
    assert_eq!(w.view(worker.id).done, 1);
    assert!(w.on(suspect).is_some(), "suspects go first");
}

/// If a worker serves `*`, the number of undeclared queues is bounded by the limit of all queues.
#[test]
fn a_star_leaves_room_for_configured_queues() {
    let mut w = World::with(Limits {
        queues: 3,
        boots_at_once: 2,
        ..Limits::default()
    });
    w.core.add_pool("app", workers(1));
    assert!(!w.core.serves_all_jobs());
    w.boot_as(&Hello::serving(&[], &["*"]));
    assert!(w.core.serves_all_jobs());
    let names = ["a", "b", "c", "d"].map(|name| w.core.resolve_job(name).is_ok());
    assert_eq!(names, [true, true, true, false]);
}

/// Logs and assertions print a worker as its index and the number of earlier workers with this index.
#[test]
fn worker_ids_are_distinguishable_when_printed() {
    let (mut w, _) = World::ready(workers(2));
    let second = w.live()[1];
    assert_eq!(format!("{second:?}"), "w1.0");
    w.die(second);
    w.pass(secs(1));
    assert_eq!(format!("{:?}", w.starting()), "[w1.1]");
}

/// Methods that report the state of a single task or worker.
#[test]
fn views_of_a_single_task_or_worker() {
    let (mut w, pool) = World::ready(workers(1));
    let mail = w.jobs(pool, "mail", QueueConfig::default());
    let [running, waiting] = [0, 1].map(|_| w.submit(job(mail)));
    assert!(w.core.is_running(running) && !w.core.is_running(waiting));
    let worker = w.live()[0];
    assert_eq!(
        w.core.worker_state(worker),
        Some(stoker_core::WorkerState::Busy)
    );
    w.done(running);
    w.done(waiting);
    assert_eq!(
        w.core.worker_state(worker),
        Some(stoker_core::WorkerState::Ready)
    );
    assert!(!w.core.is_running(waiting) && !w.core.is_draining());
    w.die(worker);
    assert_eq!(w.core.worker_state(worker), None);
}

/// Queues that the store already knows exist before a worker serves them, but only up to the limit.
#[test]
fn queues_of_the_store_are_restored() {
    let mut w = World::with(Limits {
        queues: 2,
        ..Limits::default()
    });
    let [a, b, c] = ["a", "b", "c"].map(|name| w.core.restore_queue(name));
    assert!(a.is_some() && b.is_some() && a != b);
    assert_eq!((c, w.core.restore_queue("a")), (None, a));
}

/// A worker that serves `*` takes no queue away from another pool: it serves only jobs that no other pool
/// serves.
#[test]
fn a_star_does_not_take_over_a_queue() {
    let mut w = World::default();
    let [ours, theirs] = ["ours", "theirs"].map(|name| w.core.add_pool(name, workers(1)));
    let mail = w.jobs(ours, "mail", QueueConfig::default());
    let early = w.core.resolve_job("early").expect("a pool may serve it");
    let get = w.core.resolve_call("users.get").expect("the same");
    w.join(theirs, &Hello::serving(&[], &["*"]));
    let pools = |name| w.core.queue(w.queue(name)).pools;
    assert_eq!((pools(mail), pools(early)), (&[ours][..], &[theirs][..]));
    assert_eq!(pools(get), []);
}

/// Issue 9, A10: the id and name of a removed queue can be used again.
#[test]
fn the_id_and_name_of_a_removed_queue_can_be_reused() {
    let (mut w, _) = World::ready_as(workers(1), &Hello::serving(&[], &["*"]));
    let first = w.core.resolve_job("typo").expect("any is served");
    let id = w.core.queue_of_name(first);
    let running = w.submit(job(first));
    assert!(!w.core.remove_queue(id), "a job runs");
    w.done(running);
    assert!(w.core.remove_queue(id));
    assert!(!w.core.remove_queue(id), "it is removed");
    w.step(Event::Tick);
    assert_eq!(w.core.find_queue(Kind::Jobs, "typo"), None);
    assert_eq!(w.core.queues().count(), 0);
    let next = w.core.resolve_job("mails").expect("any is served");
    assert_eq!(
        (w.core.queue_of_name(next), next),
        (id, first),
        "used again"
    );
    assert_eq!(w.core.name(next), "mails");
    let task = w.submit(job(next));
    assert!(w.on(task).is_some(), "its pool serves it");
    w.done(task);
}

/// Issue 9, A10: removing undeclared queues makes room for others.
#[test]
fn removed_undeclared_queues_make_room_for_others() {
    let (mut w, pool) = World::ready_as(workers(1), &Hello::serving(&[], &["*"]));
    let made = |w: &mut World, n: u32| w.core.resolve_job(&format!("q{n}"));
    let names: Vec<_> = (0..1_000).map(|n| made(&mut w, n)).collect();
    assert!(names.iter().all(Result::is_ok));
    assert!(!w.core.accepts_job("more") && made(&mut w, 1_000).is_err());
    assert!(w.core.accepts_job("q7"), "it is there");
    let queue = w.core.find_queue(Kind::Jobs, "q7").expect("it was made");
    assert!(w.core.remove_queue(queue));
    assert!(w.core.accepts_job("more"));
    assert_eq!(
        w.core.find_queue(Kind::Jobs, "more"),
        None,
        "asking makes none"
    );
    assert!(made(&mut w, 1_000).is_ok());
    w.jobs(pool, "configured", QueueConfig::default());
    let configured = w
        .core
        .find_queue(Kind::Jobs, "configured")
        .expect("it is there");
    assert!(
        !w.core.remove_queue(configured),
        "the configuration names it"
    );
}
