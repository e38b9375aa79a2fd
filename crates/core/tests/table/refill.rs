//! Tests of the load window: jobs wait in a store that may contain millions, and the core loads a window of
//! each lane.
use crate::support::*;
use stoker_core::*;

const LANE: u32 = 8;

struct Store {
    w: World,
    mail: NameId,
    queue: QueueId,
}

/// A store with one busy worker and a load window of eight jobs per lane.
fn store() -> (Store, TaskId) {
    let mut w = World::with(Limits {
        load_window: LANE,
        ..Limits::default()
    });
    let pool = w.core.add_pool("app", workers(1));
    w.boot();
    let mail = w.jobs(pool, "mail", QueueConfig::default());
    let running = w.submit(job(mail));
    let queue = w.queue(mail);
    (Store { w, mail, queue }, running)
}

fn refills(w: &World) -> Vec<(u8, KeyId)> {
    let refill = |action: &Action| match action {
        Action::Refill { class, key, .. } => Some((*class, *key)),
        _ => None,
    };
    w.seen.iter().filter_map(refill).collect()
}

impl Store {
    fn has_room(&self, key: &str) -> bool {
        self.w.core.has_room(self.queue, 3, key.as_bytes())
    }

    fn backlog(&mut self, key: &str) {
        self.w.step(Event::Backlog {
            queue: self.queue,
            class: 3,
            key: key.as_bytes(),
        });
    }

    fn refilled(&mut self, key: KeyId, more: bool) {
        self.w.step(Event::Refilled {
            queue: self.queue,
            class: 3,
            key,
            more,
        });
    }

    /// Fills the lane of tenant `a`.
    fn fill(&mut self) -> Vec<TaskId> {
        let tasks = self.w.submit_many(LANE as usize, &job(self.mail).key("a"));
        assert!(!self.has_room("a"));
        tasks
    }
}

#[test]
fn a_lane_loads_at_most_its_window() {
    let (mut s, _) = store();
    for _ in 0..LANE {
        assert!(s.has_room("a"));
        s.w.submit(job(s.mail).key("a"));
    }
    assert!(!s.has_room("a"));
    assert!(s.has_room("b"), "each tenant has its own");
    assert!(s.w.core.has_room(s.queue, 2, b"a"), "and each class");
    assert_eq!(s.w.core.refill_size(s.queue), 4);
}

/// Once the store has jobs of a lane, new ones go to the store too, so that they do not overtake.
#[test]
fn new_jobs_do_not_overtake_jobs_in_the_store() {
    let (mut s, running) = store();
    let tasks = s.fill();
    s.backlog("a");
    s.w.done(running);
    assert!(s.w.on(tasks[0]).is_some());
    assert!(!s.has_room("a"));
}

#[test]
fn a_low_lane_requests_more_only_once() {
    let (mut s, running) = store();
    let tasks = s.fill();
    s.backlog("a");
    s.w.take_actions();
    s.w.done(running);
    for (done, task) in tasks[..5].iter().enumerate() {
        let left = LANE as usize - 1 - done;
        assert_eq!(
            refills(&s.w).len(),
            usize::from(left <= 4),
            "with {left} left"
        );
        s.w.done(*task);
    }
    let [(class, key)] = refills(&s.w)[..] else {
        panic!()
    };
    assert_eq!((class, s.w.core.key_name(s.queue, key)), (3, &b"a"[..]));
    s.w.submit_many(2, &job(s.mail).key("a"));
    s.refilled(key, true);
    assert_eq!(refills(&s.w).len(), 2, "still little, so once more");
    s.w.submit_many(6, &job(s.mail).key("a"));
    s.refilled(key, false);
    assert_eq!(refills(&s.w).len(), 2);
}

#[test]
fn an_empty_store_reopens_the_lane() {
    let (mut s, running) = store();
    let tasks = s.fill();
    s.backlog("a");
    s.w.done(running);
    tasks[..7].iter().for_each(|task| s.w.done(*task));
    let (_, key) = refills(&s.w)[0];
    assert!(!s.has_room("a"));
    s.refilled(key, false);
    assert!(s.has_room("a"));
}

/// A backlog reported for a lane that has room again is requested at once.
#[test]
fn a_late_backlog_is_requested_at_once() {
    let (mut s, _) = store();
    s.w.submit(job(s.mail).key("a"));
    s.w.take_actions();
    s.backlog("a");
    assert_eq!(refills(&s.w).len(), 1);
    s.backlog("a");
    assert_eq!(refills(&s.w).len(), 1, "once");
}

/// A key is not forgotten while its tasks have been requested from the store, even if none of them is
/// loaded.
#[test]
fn a_key_stays_while_its_tasks_are_requested() {
    let (mut s, running) = store();
    let task = s.w.submit(job(s.mail).key("a"));
    s.backlog("a");
    s.w.done(running);
    s.w.done(task);
    let (_, key) = refills(&s.w)[0];
    assert!(s.w.core.knows_key(s.queue, b"a"));
    let next = s.w.submit(job(s.mail).key("a"));
    s.refilled(key, false);
    s.w.done(next);
    assert_eq!(s.w.outcome(next), Some(Outcome::Answered));
}

/// The request must not be lost when another tenant's debt is forgotten meanwhile.
#[test]
fn no_request_for_keys_is_lost() {
    let (mut s, running) = store();
    let rich = s.w.submit(job(s.mail).key("rich"));
    s.w.done(running);
    s.w.run(rich, ms(1));
    assert!(s.w.core.knows_key(s.queue, b"rich"), "it owes");
    let first = s.w.submit(job(s.mail).key("a"));
    s.backlog("a");
    s.w.run(first, secs(1));
    let (_, key) = refills(&s.w)[0];
    s.w.take_actions();
    let second = s.w.submit(job(s.mail).key("a"));
    assert!(s.w.on(second).is_some());
    s.refilled(key, true);
    assert_eq!(
        refills(&s.w).len(),
        1,
        "the lane is empty and the store has more"
    );
}

/// A response to a request that was not made is ignored.
#[test]
fn a_response_without_a_request_is_ignored() {
    let (mut s, _) = store();
    s.refilled(KeyId(77), true);
    s.refilled(KeyId(77), false);
    assert_eq!(refills(&s.w), []);
}

/// Even the smallest load window requests one job.
#[test]
fn the_smallest_lane_requests_one_job() {
    let mut w = World::with(Limits {
        load_window: 1,
        ..Limits::default()
    });
    let pool = w.core.add_pool("app", workers(1));
    let mail = w.jobs(pool, "mail", QueueConfig::default());
    assert_eq!(w.core.refill_size(w.queue(mail)), 1);
}

/// Fills all room for tenants: each one has a task waiting.
fn crowd(s: &mut Store) {
    for n in 0..4_095_u32 {
        let (id, key) = (TaskId(100 + n), format!("tenant {n}"));
        s.w.books.submit(id);
        let task = NewTask {
            id,
            key: key.as_bytes(),
            ..job(s.mail).0
        };
        s.w.core.step(s.w.now, Event::Arrived(task), &mut s.w.seen);
    }
}

fn key_refills(w: &World) -> usize {
    w.count(|action| matches!(action, Action::RefillKeys { .. }))
}

/// Regression test (simulation, seed 781 with jobs changed while the disk fails): while memory was short, each push of an
/// unknown key added a request, and each answer to one made another.
#[test]
fn keys_are_requested_once_at_a_time() {
    let (mut s, _) = store();
    for tenant in ["a", "b", "c"] {
        s.backlog(tenant);
    }
    assert_eq!(key_refills(&s.w), 1);
    let queue = s.queue;
    let answer = |more| Event::RefilledKeys { queue, more };
    s.w.take_actions();
    s.w.step(answer(true));
    assert_eq!(key_refills(&s.w), 1, "the store has more keys");
    s.w.take_actions();
    s.backlog("d");
    assert_eq!(key_refills(&s.w), 0);
    s.w.step(answer(false));
    assert_eq!(key_refills(&s.w), 1, "d may have come too late");
    s.w.take_actions();
    s.w.step(answer(false));
    assert_eq!(key_refills(&s.w), 0);
}

/// Tasks of tenants without room stay in the store until another tenant has gone.
#[test]
fn tenants_without_room_wait_in_the_store() {
    let (mut s, running) = store();
    crowd(&mut s);
    assert!(s.has_room("tenant 7") && !s.has_room("one more"));
    s.backlog("one more");
    assert_eq!(key_refills(&s.w), 0);
    s.w.cancel(TaskId(100), false);
    assert_eq!(key_refills(&s.w), 1, "one has gone");
    assert!(s.has_room("one more"));
    s.w.submit(job(s.mail).key("one more"));
    s.w.step(Event::RefilledKeys {
        queue: s.queue,
        more: true,
    });
    assert_eq!(key_refills(&s.w), 1, "full again");
    s.w.cancel(TaskId(101), false);
    assert_eq!(key_refills(&s.w), 2);
    s.w.step(Event::RefilledKeys {
        queue: s.queue,
        more: true,
    });
    assert_eq!(
        key_refills(&s.w),
        3,
        "there is room still, and the store has more"
    );
    s.w.step(Event::RefilledKeys {
        queue: s.queue,
        more: false,
    });
    s.w.cancel(TaskId(102), false);
    assert_eq!(key_refills(&s.w), 3);
    s.w.done(running);
}

/// A tenant that has only a debt makes room for one that has tasks.
#[test]
fn debtors_make_room() {
    let (mut s, running) = store();
    s.w.done(running);
    let rich = s.w.submit(job(s.mail).key("rich"));
    s.w.run(rich, secs(9));
    assert!(s.w.core.knows_key(s.queue, b"rich"));
    crowd(&mut s);
    assert!(!s.w.core.knows_key(s.queue, b"rich"));
    s.w.core.check_invariants();
}

/// A tenant with a debt and with more tasks in the store is not forgotten.
#[test]
fn a_debtor_with_a_backlog_stays() {
    let (mut s, running) = store();
    s.w.done(running);
    let rich = s.w.submit(job(s.mail).key("rich"));
    s.w.run(rich, secs(9));
    s.w.take_actions();
    s.backlog("rich");
    let (_, key) = refills(&s.w)[0];
    crowd(&mut s);
    assert!(s.w.core.knows_key(s.queue, b"rich"));
    s.refilled(key, false);
    s.w.core.check_invariants();
}

/// While the server drains, it requests no jobs from the store, because it would only return them.
#[test]
fn nothing_is_requested_during_a_drain() {
    let (mut s, running) = store();
    let tasks = s.fill();
    s.backlog("a");
    s.w.step(Event::Drain);
    tasks[..6].iter().for_each(|task| s.w.cancel(*task, false));
    s.backlog("b");
    s.w.done(running);
    for worker in s.w.in_state("stopping") {
        s.w.exit(worker, Exit::Code(0));
    }
    assert!(s.w.books.drained && refills(&s.w).is_empty() && key_refills(&s.w) == 0);
}

/// With many tenants, fewer jobs of each are loaded, so that memory stays bounded, but never fewer than
/// four.
#[test]
fn lanes_are_shorter_where_tenants_are_many() {
    let (mut w, pool) = World::ready(workers(1));
    let mail = w.jobs(pool, "mail", QueueConfig::default());
    let queue = w.queue(mail);
    w.submit(job(mail));
    let room = |w: &World| (w.core.refill_size(queue), w.core.free_key_slots(queue));
    assert_eq!((room(&w), w.core.lane_size()), ((128, 4_095), 256));
    for n in 0..255_u32 {
        let (id, key) = (TaskId(100 + n), format!("tenant {n}"));
        w.books.submit(id);
        let task = NewTask {
            id,
            key: key.as_bytes(),
            ..job(mail).0
        };
        w.core.step(w.now, Event::Arrived(task), &mut w.seen);
    }
    let (size, keys) = room(&w);
    assert!((30..=32).contains(&size) && keys == 3_840, "{size} {keys}");
    assert!(w.core.find_key(queue, b"tenant 7").is_some());
    assert_eq!(w.core.find_key(queue, b"tenant 999"), None);
    let has_room = |w: &World| w.core.has_room(queue, 3, b"tenant 7");
    w.submit_many(50, &job(mail).key("tenant 7"));
    assert!(has_room(&w));
    w.submit_many(20, &job(mail).key("tenant 7"));
    assert!(!has_room(&w));
}

/// A queue without tenants uses the whole room for its one lane.
#[test]
fn a_queue_without_tenants_loads_a_full_lane() {
    let mut w = World::with(Limits {
        load_window: 16_384,
        ..Limits::default()
    });
    let pool = w.core.add_pool("app", workers(1));
    let mail = w.jobs(pool, "mail", QueueConfig::default());
    assert_eq!(w.core.refill_size(w.queue(mail)), 8_192);
}
