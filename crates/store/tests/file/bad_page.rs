//! A job whose page is damaged, and the events that follow.

use crate::world::{World, job_of};
use stoker_store::{JobId, NewJob, Pushed, QueueNo, StoreEvent};

pub(crate) const PAGE: u64 = 4_096;

/// The text that fills the body of the job whose page will be damaged.
const MARK: &[u8] = b"this one will be bad ";

/// A job with a body so long that it has pages of its own.
pub(crate) fn marked(queue: QueueNo, key: &[u8]) -> NewJob {
    NewJob {
        bytes: MARK.repeat(1_000).into(),
        meta_len: 0,
        ..job_of(queue, key)
    }
}

/// The number and content of a page in the middle of the marked body. The store's WAL must have been
/// checkpointed.
pub(crate) fn page_of_marked(world: &World) -> (u64, Vec<u8>) {
    let bytes = std::fs::read(world.path()).unwrap();
    let is_marked = |page: &[u8]| page.windows(MARK.len()).filter(|it| *it == MARK).count() > 100;
    let pages = (0..).zip(bytes.chunks(PAGE as usize));
    let marked: Vec<(u64, &[u8])> = pages.filter(|(_, page)| is_marked(page)).collect();
    // The last but one of these pages, because the first ones may belong to a row that has moved.
    let (number, page) = *marked.iter().nth_back(1).expect("a page full of that body");
    (number, page.to_vec())
}

/// Pushes a job that stays in the store.
pub(crate) fn pushed(world: &mut World, job: NewJob) -> JobId {
    match world.push_to(false, job) {
        Pushed::Accepted { id, .. } => id,
        other => panic!("{other:?}"),
    }
}

pub(crate) fn damage(world: &mut World) -> Vec<String> {
    world.settle();
    let reported = world.events.iter().filter_map(|event| match event {
        StoreEvent::Damage(text) => Some(text.clone()),
        _ => None,
    });
    reported.collect()
}

pub(crate) fn never_failed(world: &World) {
    let failing = |event: &StoreEvent| matches!(event, StoreEvent::Failing(_));
    assert!(!world.events.iter().any(failing), "{:?}", world.events);
}
