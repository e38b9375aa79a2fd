//! A full disk, on a separate small file system. Needs permission to mount.

use crate::world::{World, job, new_dir};
use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};
use std::path::{Path, PathBuf};
use stoker_store::{
    Ending, Filter, NewJob, Pushed, QueueNo, RunCounters, State, StoreEvent, StoreRequest, Ticket,
    Trouble, tools,
};

/// A small file system in memory.
struct Disk(PathBuf);

impl Disk {
    fn mount(mib: u32) -> Option<Self> {
        let dir = new_dir();
        let size = std::ffi::CString::new(format!("size={mib}m")).unwrap();
        match mount("tmpfs", &dir, "tmpfs", MountFlags::empty(), Some(&*size)) {
            Ok(()) => Some(Self(dir)),
            Err(errno) => {
                eprintln!("skipped: a small disk can't be mounted: {errno}");
                None
            }
        }
    }

    /// Fills the file system except for `free` bytes.
    fn fill(&self, free: u64) -> PathBuf {
        let path = self.0.join("ballast");
        let stat = rustix::fs::statvfs(&self.0).unwrap();
        let len = (stat.f_bavail * stat.f_frsize).saturating_sub(free);
        std::fs::write(&path, vec![1; len as usize]).unwrap();
        path
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        unmount(&self.0, UnmountFlags::DETACH).unwrap();
        std::fs::remove_dir(&self.0).unwrap();
    }
}

fn big(queue: QueueNo) -> NewJob {
    NewJob {
        bytes: vec![1; 100_000].into(),
        meta_len: 0,
        ..job(queue)
    }
}

/// A world whose directory is on this disk.
fn world_on(disk: &Path) -> World {
    let dir = disk.join("store");
    std::fs::create_dir(&dir).unwrap();
    World::at(dir.join("jobs.db"))
}

#[test]
fn a_full_disk_rejects_pushes_and_recovers() {
    let Some(disk) = Disk::mount(8) else {
        return;
    };
    let mut world = world_on(&disk.0);
    let queue = world.queue("mails");
    let loaded: Vec<_> = (0..3).map(|_| world.load(job(queue)).id).collect();
    let ballast = disk.fill(600_000);
    let mut accepted = 3;
    loop {
        match world.push(big(queue)) {
            Pushed::Accepted { .. } => accepted += 1,
            Pushed::Rejected(trouble) => {
                assert!(matches!(trouble, Trouble::Full(_)), "{trouble}");
                break;
            }
            other => panic!("{other:?}"),
        }
        assert!(accepted < 60, "the disk was never full");
    }
    assert!(matches!(
        world.wait(failing(true)),
        StoreEvent::Failing(Some(Trouble::Full(_)))
    ));
    // All accepted jobs exist. Ends of jobs wait until they can be written.
    let ready = Filter {
        states: State::Ready.into(),
        ..Filter::default()
    };
    assert_eq!(world.count(ready.clone()), accepted);
    let ticket = Ticket(77, 7);
    for job in &loaded {
        let counters = RunCounters {
            attempt: 1,
            ..RunCounters::default()
        };
        let ending = Ending::Done { result: None };
        world.send(StoreRequest::End {
            job: *job,
            counters,
            ending,
            ticket: Some(ticket),
            output: None,
        });
    }
    std::fs::remove_file(ballast).unwrap();
    world.wait(failing(false));
    world.settle();
    let ended = world
        .events
        .iter()
        .filter(|event| matches!(event, StoreEvent::Completed { .. }));
    assert_eq!(ended.count(), 3);
    assert!(matches!(world.push(job(queue)), Pushed::Accepted { .. }));
    assert_eq!(world.count(ready), accepted - 3 + 1);
    assert_eq!(world.counts(queue).done, 3);
    assert_eq!(
        tools::check(world.path()).unwrap().problems,
        Vec::<String>::new()
    );
    world.crash();
    assert_eq!(world.state(loaded[0]), Some(State::Done));
}

fn failing(is: bool) -> impl Fn(&StoreEvent) -> bool {
    move |event| matches!(event, StoreEvent::Failing(trouble) if trouble.is_some() == is)
}
