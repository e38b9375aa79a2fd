//! The invariants of the data plane's job state, which hold after every turn. The simulation checks them; a
//! violation panics with the name of the invariant.

use super::loaded::LoadedJobs;
use super::state::Jobs;
use super::waiter::Waiter;
use crate::plane::{Plane, Todo};
use crate::sources::Origin;
use crate::users::UserId;
use std::collections::HashSet;

impl Jobs {
    fn waits_for_store(&self) -> impl Iterator<Item = &Waiter> {
        self.waiter_slots()
            .iter()
            .filter_map(|(_, waiter)| waiter.as_ref())
    }

    /// The users whose pushes the store has not answered.
    pub(crate) fn users_of_pushes(&self) -> impl Iterator<Item = UserId> {
        self.waits_for_store().filter_map(|waiter| match waiter {
            Waiter::Push { user, .. } => *user,
            _ => None,
        })
    }

    /// The users who created undeclared queues that exist.
    pub(crate) fn creators(&self) -> impl Iterator<Item = UserId> {
        self.all_queues().filter_map(|(_, queue)| queue.creator)
    }
}

impl Plane {
    /// Each load is postponed only once, so that their number is bounded.
    fn check_postponed(&self) {
        let (mut keys, mut lanes, mut jobs) = (HashSet::new(), HashSet::new(), HashSet::new());
        let is_first = self.jobs.postponed.iter().all(|load| match load {
            Todo::RefillKeys { queue } => keys.insert(*queue),
            Todo::Refill { queue, class, key } => lanes.insert((*queue, *class, *key)),
            Todo::Fetch { job } => jobs.insert(*job),
            _ => false,
        });
        assert!(is_first, "a load is postponed twice");
    }

    /// Panics if the state of jobs is inconsistent with the core or with the pending requests to the store.
    pub(crate) fn check_jobs(&self) {
        self.jobs.loaded.check();
        self.jobs.parked.check();
        for (task, loaded) in self.jobs.loaded.iter() {
            assert!(
                self.core.is_loaded(task),
                "a loaded job is unknown to the core"
            );
            let origin = self.payload(task).origin;
            assert_eq!(
                origin,
                Origin::Job(loaded.job.id),
                "the task of a loaded job belongs to something else"
            );
        }
        self.check_postponed();
        let (places, free) = (self.jobs.waiter_slots(), self.jobs.free_waiter_slots());
        assert_eq!(
            places.len(),
            free.len() + self.jobs.waits_for_store().count(),
            "entries of pending store requests"
        );
        let is_received = !self.jobs.inline || self.jobs.waits_for_store().next().is_none();
        assert!(is_received, "a request to an inline store is still pending");
        for (id, queue) in self.jobs.all_queues() {
            let is_its_own =
                |waiter: &&Waiter| matches!(waiter, Waiter::Push { queue, .. } if *queue == id);
            let pushes = self.jobs.waits_for_store().filter(is_its_own).count();
            assert_eq!(queue.pending, pushes as u64, "pushes under way of a queue");
        }
        let mut overridden = self.admin.overrides.keys();
        assert!(
            overridden.all(|id| self.core.queues().any(|queue| queue.id == *id)),
            "a queue that was removed is overridden"
        );
        let loads = self.payloads.in_use();
        assert_eq!(
            loads,
            self.core.tasks(),
            "tasks of the core and what they carry"
        );
    }
}

impl LoadedJobs {
    fn check(&self) {
        let bytes: usize = self.iter().map(|(_, loaded)| loaded.size()).sum();
        assert_eq!(self.bytes(), bytes, "bytes of jobs that are held");
        for (task, loaded) in self.iter() {
            assert_eq!(
                self.task_of(loaded.job.id),
                Some(task),
                "a job is found by its id"
            );
        }
    }
}
