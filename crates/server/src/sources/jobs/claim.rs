//! Jobs of queues that acknowledge on delivery: the store counts them as done before a worker gets them.

use super::asked::Asked;
use super::loaded::LoadedJob;
use crate::observe::events;
use crate::plane::Plane;
use stoker_core::{Event, TaskId};
use stoker_store::{Ask, Ending, Job, JobId, NewJob};

impl Plane {
    /// Has the store count a job as done. Its worker gets it once that is safe.
    pub(crate) fn claim(&mut self, task: TaskId) {
        let Some(held) = self.jobs.loaded.get_mut(task) else {
            return;
        };
        held.claimed = true;
        let (job, mut run) = (held.job.id, held.job.run);
        // This is the run that does it.
        run.attempt = run.attempt.saturating_add(1);
        let told = Some(self.jobs.ticket(Asked::Claim { task, job }));
        let ending = Ending::Done { result: None };
        self.jobs.ask(Ask::End {
            job,
            run,
            ending,
            told,
            output: None,
        });
    }

    /// The job counts as done.
    pub(crate) fn claimed(&mut self, task: TaskId, job: JobId) {
        if !self.is_job(task, job) {
            return;
        }
        if let Some(held) = self.jobs.loaded.get_mut(task) {
            (held.acked, held.is_safe) = (true, true);
        }
        self.step(Event::Claimed { task }, None);
    }

    /// Whether a task is still this job: numbers of tasks are used again.
    pub(crate) fn is_job(&self, task: TaskId, job: JobId) -> bool {
        let held = self.jobs.loaded.get(task);
        held.is_some_and(|held| held.job.id == job)
    }

    /// A job that was claimed did not get to run before the server ends. Its record says done, so it is pushed
    /// anew, to the place that it had and without the idempotency key that would lead to that record.
    pub(crate) fn push_again(&mut self, held: LoadedJob) {
        let uuid = self.jobs.uuid(held.job.id);
        let text = format!(
            "job {uuid} was recorded as delivered and did not get to run before the shutdown: it is pushed again under a new id"
        );
        self.log.put(
            events::STORE_WARNING
                .says(text.clone())
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
        } = held.job;
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
        let ticket = self.jobs.ticket(Asked::Push {
            queue: of_queue,
            to: None,
            // It counted when it was first asked.
            user: None,
            owner: None,
        });
        if let Some(of_queue) = self.jobs.queue_mut(of_queue) {
            of_queue.pending += 1;
        }
        self.jobs.ask(Ask::Push {
            ticket,
            room: false,
            job: Box::new(job),
        });
    }
}
