//! A bad page blocks only the requests that need it.

use crate::bad_page::{PAGE, damage, marked, never_failed, page_of_marked, pushed};
use crate::world::{World, job_of};
use std::os::unix::fs::FileExt;
use stoker_store::{Ending, JobId, NewJob, Pushed, QueueNo, QueuePolicy, StoreEvent};

/// A store, and the original content and position of its damaged page.
struct DamagedPage {
    world: World,
    at: u64,
    page: Vec<u8>,
}

impl DamagedPage {
    /// Damages a page in the middle of the marked body. The page's first bytes contain the number of the next
    /// overflow page.
    fn new(mut world: World) -> Self {
        world.reopen();
        world.stop();
        let (number, page) = page_of_marked(&world);
        let bad = Self {
            at: number * PAGE,
            page,
            world,
        };
        bad.write(&[0xee; 4]);
        bad
    }

    fn write(&self, bytes: &[u8]) {
        let file = std::fs::File::options().write(true).open(self.world.path());
        file.unwrap().write_all_at(bytes, self.at).unwrap();
    }

    fn repair(&self) {
        self.write(&self.page);
    }
}

/// Checks that the store accepts jobs and never reported that it could not.
fn check_accepts_jobs(world: &mut World, queue: QueueNo) {
    assert!(matches!(
        world.push_to(false, job_of(queue, b"new")),
        Pushed::Accepted { .. }
    ));
    never_failed(world);
}

#[test]
fn a_lane_is_handed_over_up_to_an_unreadable_job() {
    let mut world = World::sqlite();
    let queue = world.queue("mails");
    let first = pushed(&mut world, job_of(queue, b"bad"));
    let bad = pushed(&mut world, marked(queue, b"bad"));
    let behind = pushed(&mut world, job_of(queue, b"bad"));
    let good = pushed(&mut world, job_of(queue, b"good"));
    let mut bad_one = DamagedPage::new(world);
    let world = &mut bad_one.world;
    world.restart();
    world.queue("mails");

    let (lanes, _) = world.refill_lanes(queue, 9, 9);
    let ids: Vec<Vec<JobId>> = lanes
        .iter()
        .map(|lane| lane.jobs.iter().map(|job| job.id).collect())
        .collect();
    assert_eq!(ids, [vec![first], vec![good]]);
    assert!(lanes[0].more);
    world.send(stoker_store::StoreRequest::Refill {
        queue,
        class: 0,
        key: b"bad"[..].into(),
        limit: 5,
    });
    let reported = damage(world);
    assert_eq!(reported.len(), 1, "{reported:?}");
    assert!(
        reported[0].starts_with("jobs of queue mails, priority 0, key bad can't be read: "),
        "{reported:?}"
    );
    check_accepts_jobs(world, queue);
    world.done(good);

    bad_one.repair();
    let world = &mut bad_one.world;
    let event = world.wait(|event| matches!(event, StoreEvent::Refilled { .. }));
    let StoreEvent::Refilled { jobs, more, .. } = event else {
        unreachable!()
    };
    let ids: Vec<JobId> = jobs.iter().map(|job| job.id).collect();
    assert_eq!((ids, more), (vec![bad, behind], false));
}

#[test]
fn a_search_skips_an_unreadable_lane() {
    let mut world = World::sqlite();
    let queue = world.queue("mails");
    pushed(&mut world, marked(queue, b"bad"));
    let good = pushed(&mut world, job_of(queue, b"good"));
    let mut bad_one = DamagedPage::new(world);
    let world = &mut bad_one.world;
    world.restart();
    world.queue("mails");

    for _ in 0..3 {
        let (lanes, _) = world.refill_lanes(queue, 9, 9);
        for lane in lanes {
            assert_eq!((&*lane.key, lane.jobs[0].id), (&b"good"[..], good));
        }
    }
    assert_eq!(damage(world).len(), 1);
    check_accepts_jobs(world, queue);

    bad_one.repair();
    let world = &mut bad_one.world;
    world.wait(|event| matches!(event, StoreEvent::Backlog { key, .. } if **key == *b"bad"));
    assert_eq!(world.refill(queue, b"bad", 9).0.len(), 1);
}

#[test]
fn an_unreadable_delayed_job_does_not_stop_commits() {
    let mut world = World::sqlite();
    let queue = world.queue("mails");
    let due_ms = world.now() + 1_000;
    let delayed = NewJob {
        due_ms,
        ..marked(queue, b"")
    };
    let delayed = pushed(&mut world, delayed);
    let mut bad_one = DamagedPage::new(world);
    let world = &mut bad_one.world;
    world.restart();
    world.queue("mails");
    world.advance(2_000);
    for _ in 0..20 {
        check_accepts_jobs(world, queue);
    }
    let reported = damage(world);
    assert!(
        reported[0].starts_with("due jobs can't be made ready: "),
        "{reported:?}"
    );

    bad_one.repair();
    let world = &mut bad_one.world;
    world.wait(|event| matches!(event, StoreEvent::Backlog { key, .. } if key.is_empty()));
    assert_eq!(world.refill(queue, b"", 9).0, [delayed]);
}

#[test]
fn an_ended_job_that_cannot_be_deleted_does_not_stop_commits() {
    let mut world = World::sqlite();
    let policy = QueuePolicy {
        failed_ms: 1_000,
        ..QueuePolicy::default()
    };
    let queue = world.queue_with("mails", policy);
    let job = world.load(marked(queue, b"")).id;
    let error = world.error("boom");
    world.end(job, Ending::Failed(error));
    let mut bad_one = DamagedPage::new(world);
    let world = &mut bad_one.world;
    world.restart();
    world.queue_with("mails", policy);
    world.advance(2_000);
    for _ in 0..20 {
        check_accepts_jobs(world, queue);
        world.advance(100);
    }
    let reported = damage(world);
    assert!(
        reported[0].starts_with("expired data can't be deleted: "),
        "{reported:?}"
    );

    bad_one.repair();
    let world = &mut bad_one.world;
    world.wait(|event| matches!(event, StoreEvent::Counts { counts, .. } if counts.failed == 0));
    assert_eq!(world.view(job), None);
}
