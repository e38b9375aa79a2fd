//! Jobs of queues that acknowledge on delivery: the store records them as done before a worker receives them.

use super::loaded::LoadedJob;
use super::waiter::Waiter;
use crate::observe::events;
use crate::plane::Plane;
use stoker_core::{Event, TaskId};
use stoker_store::{Ending, Job, JobId, NewJob, StoreRequest};

impl Plane {
    /// Has the store record a job as done. Its worker receives it once that is saved.
    pub(crate) fn claim(&mut self, task: TaskId) {
        let Some(loaded) = self.jobs.loaded.get_mut(task) else {
            return;
        };
        loaded.claimed = true;
        let (job, mut counters) = (loaded.job.id, loaded.job.counters);
        // Counts the run that is about to start.
        counters.attempt = counters.attempt.saturating_add(1);
        let ticket = Some(self.jobs.create_ticket(Waiter::Claim { task, job }));
        let ending = Ending::Done { result: None };
        self.jobs.send(StoreRequest::End {
            job,
            counters,
            ending,
            ticket,
            output: None,
        });
    }

    /// Handles the store's confirmation that a job is recorded as done.
    pub(crate) fn claimed(&mut self, task: TaskId, job: JobId) {
        if !self.is_job(task, job) {
            return;
        }
        if let Some(loaded) = self.jobs.loaded.get_mut(task) {
            (loaded.acked, loaded.is_durable) = (true, true);
        }
        self.step(Event::Claimed { task }, None);
    }

    /// Whether a task is still this job, since task ids are reused.
    pub(crate) fn is_job(&self, task: TaskId, job: JobId) -> bool {
        let loaded = self.jobs.loaded.get(task);
        loaded.is_some_and(|loaded| loaded.job.id == job)
    }

    /// Pushes a claimed job again that did not run before the shutdown. Its record says that it is done, so the
    /// new job gets the same place, but not the idempotency key, which would lead to that record.
    pub(crate) fn push_again(&mut self, loaded: LoadedJob) {
        let uuid = self.jobs.uuid(loaded.job.id);
        let text = format!(
            "job {uuid} was recorded as delivered, but did not run before the shutdown: it is pushed again with a new \
             id"
        );
        self.log.put(
            events::STORE_WARNING
                .message(text.clone())
                .with("reason", text),
        );
        let Job {
            queue,
            class,
            key,
            order,
            codec,
            bytes,
            meta_len,
            options,
            owner,
            ..
        } = loaded.job;
        let job = NewJob {
            queue,
            class,
            key,
            codec,
            bytes,
            meta_len,
            options,
            idempotency: None,
            due_ms: 0,
            delay_ms: 0,
            suspended: false,
            order: Some(order),
            owner,
        };
        let Some(of_queue) = self.jobs.queue_id(queue) else {
            return;
        };
        let ticket = self.jobs.create_ticket(Waiter::Push {
            queue: of_queue,
            to: None,
            // The job was charged to the quota when it was first pushed.
            user: None,
            owner: None,
        });
        if let Some(of_queue) = self.jobs.queue_mut(of_queue) {
            of_queue.pending += 1;
        }
        self.jobs.send(StoreRequest::Push {
            ticket,
            room: false,
            job: Box::new(job),
        });
    }
}
