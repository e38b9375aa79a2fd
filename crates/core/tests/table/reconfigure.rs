//! Tests of pools and queues that a configuration adds and removes while the server runs (issue 9,
//! A25).
use crate::support::*;
use stoker_core::*;

fn two_pools(hello: &Hello) -> (World, PoolId, PoolId) {
    let mut w = World::default();
    let [first, second] = ["first", "second"].map(|name| w.core.add_pool(name, workers(1)));
    w.boot_as(hello);
    (w, first, second)
}

fn pool_of(w: &World, task: TaskId) -> PoolId {
    w.view(w.on(task).expect("it runs")).pool
}

#[test]
fn a_pool_that_is_added_starts_its_workers_and_serves() {
    let (mut w, _) = World::ready(workers(1));
    let pool = w.core.add_pool("late", workers(2));
    let mail = w.jobs(pool, "mail", QueueConfig::default());
    w.boot();
    let tasks = w.submit_many(2, &job(mail));
    assert!(tasks.iter().all(|task| pool_of(&w, *task) == pool));
}

#[test]
fn workers_of_a_removed_pool_finish_their_tasks_and_stop() {
    let (mut w, first, _) = two_pools(&Hello::default());
    let mail = w.jobs(first, "mail", QueueConfig::default());
    let runs = w.submit(job(mail));
    let busy = w.on(runs).expect("it runs");
    w.step(Event::PoolRemoved { pool: first });
    assert!(w.has_seen(&Action::Goaway {
        worker: busy,
        why: StopReason::Surplus
    }));
    assert_eq!(w.core.find_pool("first"), None);
    assert_eq!(w.core.pools().count(), 1);
    let waits = w.submit(job(mail));
    w.done(runs);
    assert_eq!(w.outcome(runs), Some(Outcome::Answered));
    w.exit(busy, Exit::Code(0));
    assert!(w.waits(waits), "its jobs stay");
    assert_eq!(w.starting(), [], "and nobody is started for them");
}

#[test]
fn a_pool_that_boots_is_removed_at_once() {
    let (mut w, pool) = World::of(workers(1));
    w.step(Event::Tick);
    let boots = w.starting();
    w.step(Event::PoolRemoved { pool });
    assert!(w.was_killed(boots[0], StopReason::Surplus));
    w.exit(boots[0], Exit::Signal(9));
    w.pass(secs(60));
    assert_eq!(w.core.workers().count(), 0);
}

/// What the workers of a removed pool have announced does not count any more.
#[test]
fn a_queue_that_only_removed_pools_announced_can_be_removed() {
    let (mut w, first, second) = two_pools(&Hello::serving(&[], &["news"]));
    let news = w.core.resolve_job("news").expect("it is served");
    let queue = w.queue(news);
    assert!(!w.core.is_removable(queue));
    for pool in [first, second] {
        w.step(Event::PoolRemoved { pool });
    }
    for worker in w.in_state("stopping") {
        w.exit(worker, Exit::Code(0));
    }
    assert!(w.core.is_removable(queue));
}

#[test]
fn a_pool_that_is_added_again_serves_the_waiting_tasks() {
    let (mut w, first, _) = two_pools(&Hello::default());
    let mail = w.jobs(first, "mail", QueueConfig::default());
    w.step(Event::PoolRemoved { pool: first });
    let task = w.submit(job(mail));
    let again = w.core.add_pool("first", workers(1));
    assert_ne!(again, first, "the old one has a worker yet");
    w.jobs(again, "mail", QueueConfig::default());
    w.boot();
    assert_eq!(pool_of(&w, task), again);
    w.exit(w.in_state("stopping")[0], Exit::Code(0));
    let third = w.core.add_pool("third", workers(1));
    assert_eq!(third, first, "a number is used again");
    w.boot();
    let other = w.jobs(third, "other", QueueConfig::default());
    let task = w.submit(job(other));
    assert_eq!(pool_of(&w, task), third);
}

#[test]
fn a_queue_that_moves_to_another_pool_leaves_the_first() {
    let (mut w, first, second) = two_pools(&Hello::default());
    let mail = w.jobs(first, "mail", QueueConfig::default());
    let task = w.submit(job(mail));
    assert_eq!(pool_of(&w, task), first);
    w.jobs(second, "mail", QueueConfig::default());
    w.core.unbind_other_pools(w.queue(mail), &[second]);
    let next = w.submit(job(mail));
    assert_eq!(pool_of(&w, next), second);
    w.done(task);
    let waits = w.submit(job(mail));
    assert!(w.waits(waits), "the first pool has an idle worker");
    w.done(next);
    assert_eq!(pool_of(&w, waits), second);
}

/// The jobs of a queue without a section are served by the pools that announced it, and otherwise wait.
#[test]
fn a_queue_without_a_section_is_served_by_the_pools_that_announced_it() {
    let (mut w, first) = World::ready_as(workers(1), &Hello::serving(&[], &["mail"]));
    let second = w.core.add_pool("second", workers(1));
    w.boot();
    let config = QueueConfig {
        limit: 1,
        ..QueueConfig::default()
    };
    let mail = w.jobs(second, "mail", config.clone());
    w.core.unbind_other_pools(w.queue(mail), &[second]);
    let print = w.jobs(second, "print", config);
    for name in [mail, print] {
        let queue = w.queue(name);
        w.step(Event::Unconfigured { queue });
        assert_eq!(*w.core.queue(queue).config, QueueConfig::default());
    }
    let announced = w.submit(job(mail));
    assert_eq!(pool_of(&w, announced), first);
    let nobodys = w.submit(job(print));
    assert!(w.waits(nobodys));
    w.jobs(second, "print", QueueConfig::default());
    w.step(Event::Tick);
    assert_eq!(pool_of(&w, nobodys), second, "it came back");
}

#[test]
fn pools_that_serve_any_queue_serve_one_without_a_section() {
    let (mut w, first) = World::ready_as(workers(1), &Hello::serving(&[], &["*"]));
    let second = w.core.add_pool("second", workers(1));
    w.boot();
    let [mail, print] = ["mail", "print"].map(|name| w.jobs(second, name, QueueConfig::default()));
    let queue = w.queue(mail);
    w.step(Event::Unconfigured { queue });
    let task = w.submit(job(mail));
    assert_eq!(pool_of(&w, task), first);
    w.done(task);
    w.step(Event::PoolRemoved { pool: second });
    let task = w.submit(job(print));
    assert_eq!(pool_of(&w, task), first);
}

/// A call that waits for a service without workers would never be answered.
#[test]
fn calls_that_no_pool_serves_any_more_are_ended() {
    let (mut w, first, _) = two_pools(&Hello::default());
    let get = w.calls(first, "users.get", QueueConfig::default());
    let queue = w.queue(get);
    w.step(Event::Paused {
        queue,
        paused: true,
    });
    let task = w.submit(call(get));
    assert!(w.waits(task));
    w.step(Event::Unconfigured { queue });
    assert_eq!(w.outcome(task), Some(Outcome::NoWorker));
}

#[test]
fn a_declaration_of_idempotence_can_be_removed() {
    let announced = Hello {
        idempotent: vec!["users.get".into()],
        ..Hello::serving(&["users.get", "users.set"], &[])
    };
    let (mut w, pool) = World::ready_as(workers(1), &announced);
    let [get, set] =
        ["users.get", "users.set"].map(|name| w.calls(pool, name, QueueConfig::default()));
    w.core.declare_idempotent("users.set");
    assert!(w.core.is_idempotent(set));
    let service = w.queue(set);
    w.core.undeclare_idempotent(service);
    assert!(!w.core.is_idempotent(set));
    assert!(w.core.is_idempotent(get), "its worker says so");
}

/// A reload in progress ends when its pool is removed.
#[test]
fn a_pool_is_removed_while_it_is_reloaded() {
    let (mut w, pool) = World::ready(workers(2));
    w.step(Event::Reload { pool });
    w.step(Event::PoolRemoved { pool });
    assert!(w.has_seen(&Action::Reloaded { pool, done: false }));
    for worker in w.core.workers().map(|worker| worker.id).collect::<Vec<_>>() {
        w.exit(worker, Exit::Code(0));
    }
    w.pass(secs(60));
    assert_eq!(w.core.workers().count(), 0);
}
