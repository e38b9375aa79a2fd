//! Times operators' changes of jobs and callers' cancellations to coincide with another event: the disk fails, the server
//! shuts down, or the job waits behind a slow run, is about to be recorded as delivered, or waits for its retry.

use crate::behaviour::Act;
use crate::ledger::{Filter, Verb};
use crate::operator::{self, Effect};
use crate::restart::Trigger;
use crate::world::World;
use serde_json::Value;
use std::collections::VecDeque;
use std::time::Duration;

/// A run of at least this length lets other events happen while tasks wait behind it.
const MIN_LONG_RUN: Duration = Duration::from_millis(5);

impl World {
    /// The disk fails, and an operator changes a job. The server releases the job at once, and can't write the change.
    pub(crate) fn change_during_fault(&mut self) {
        let to = self.queue_for_move();
        let jobs = self.ledger.jobs_in_line(&self.setup);
        self.change_one(&jobs, 70, &[Verb::Cancel, Verb::Suspend, Verb::Move(to)]);
        self.override_twice();
    }

    /// An operator pauses a queue and resumes it at once, or the other way round, or sets two limits: the second one must
    /// apply, even if the first could not be written.
    fn override_twice(&mut self) {
        let there = self.operators();
        let serves = self.draining.is_none() && self.all_requested_at.is_none();
        if !serves || there.is_empty() || !self.dice("moments").percent(50) {
            return;
        }
        let client = *self.dice("moments").one_of(&there);
        let setup = self.setup.clone();
        let kind = self.dice("moments").below(3);
        for (queue, name) in setup
            .declared_queues()
            .map(|queue| queue.name.clone())
            .enumerate()
        {
            let (one, other) = (
                operator::pause(queue, &name),
                operator::resume(queue, &name),
            );
            let both = match kind {
                0 => [one, other],
                1 => [other, one],
                _ => [1, 2].map(|limit| operator::set_limit(queue, &name, limit)),
            };
            for request in both {
                self.operate(client, request);
            }
        }
    }

    /// Stoker is about to shut down, and an operator changes a job. The server returns waiting jobs to the store, which
    /// may report them as skipped.
    pub(crate) fn change_during_shutdown(&mut self) {
        let to = self.queue_for_move();
        let jobs = self.ledger.jobs_in_line(&self.setup);
        self.change_one(&jobs, 50, &[Verb::Cancel, Verb::Suspend, Verb::Move(to)]);
    }

    /// Stoker is about to shut down, and an operator requests a list, which may take the server several turns.
    pub(crate) fn list_during_shutdown(&mut self) {
        let operators = self.operators();
        if self.setup.operations > 0 && self.dice("looks").percent(40) && !operators.is_empty() {
            let client = *self.dice("looks").one_of(&operators);
            let setup = self.setup.clone();
            let drawn = operator::read_request(self.dice("looks"), &setup);
            self.operate(client, drawn);
        }
    }

    /// The clients whose user is an operator.
    fn operators(&self) -> Vec<usize> {
        let all = 0..self.clients.len();
        all.filter(|no| no.is_multiple_of(3) && self.clients[*no].is_some())
            .collect()
    }

    /// A run begins while other tasks wait behind it, which their worker does not read for a while. An operator changes
    /// one of these jobs.
    pub(crate) fn change_behind_long_run(&mut self, acts: &VecDeque<(Duration, Act)>) {
        let lasts: Duration = acts.iter().map(|(after, _)| *after).sum();
        if lasts < MIN_LONG_RUN {
            return;
        }
        self.on_trigger(Trigger::BehindLongRun);
        self.cancel_old_running_jobs();
        let to = self.queue_for_move();
        let behind = self.jobs_behind();
        self.change_one(&behind, 30, &[Verb::Cancel, Verb::Cancel, Verb::Move(to)]);
    }

    /// An operator cancels all running jobs that are older than those of this seed.
    fn cancel_old_running_jobs(&mut self) {
        let filter = Filter {
            states: vec!["running"],
            older_ms: Some(self.dice("moments").within(500, 3_600_000)),
            ..Filter::default()
        };
        self.change(filter, 5, &[Verb::Cancel]);
    }

    /// A run begins while calls wait behind it. The client of one of these calls cancels it at once.
    pub(crate) fn cancel_behind_run(&mut self, key: u64) {
        let percent = self.setup.frequencies.cancels;
        let Some(worker) = self.workers.get(&key) else {
            return;
        };
        let behind: Vec<u64> = worker.model.waiting_calls().collect();
        if behind.is_empty() || !self.dice("moments").percent(percent) {
            return;
        }
        let call = *self.dice("moments").one_of(&behind);
        let calls = &mut self.ledger.calls;
        let mut clients = self.clients.iter_mut().flatten();
        clients.any(|client| client.cancel_call(call, calls));
    }

    /// A job was pushed to a queue that acknowledges on delivery, and an operator changes one of the newest jobs.
    /// Earlier jobs are about to be recorded as delivered, and the new job may get the number of one that is removed.
    pub(crate) fn change_during_delivery(&mut self, queue: usize) {
        if self.setup.queues[queue].on_delivery.known() == Some(true) {
            let to = self.queue_for_move();
            let jobs = self.ledger.newest_jobs_of(queue);
            self.change_one(&jobs, 40, &[Verb::Cancel, Verb::Suspend, Verb::Move(to)]);
        }
    }

    /// A worker has become free, so the next job of a queue that acknowledges on delivery is about to be recorded as
    /// delivered. An operator changes that job, or all of them.
    pub(crate) fn change_next_delivery(&mut self, queue: usize) {
        if self.setup.queues[queue].on_delivery.known() == Some(true) {
            self.shutdown_during_delivery();
            let to = self.queue_for_move();
            let jobs = self.ledger.next_jobs_of(queue);
            let percent = self.setup.frequencies.claims;
            let verbs = [Verb::Cancel, Verb::Suspend, Verb::Move(to)];
            match self.dice("moments").percent(20) {
                true => self.change_all(queue, percent, &verbs),
                false => self.change_one(&jobs, percent, &verbs),
            }
        }
    }

    /// A job of an ordered queue waits for its retry while others of its key wait behind it. An operator changes it.
    pub(crate) fn change_parked(&mut self, no: u64) {
        let to = self.queue_for_move();
        let verbs = [
            Verb::Release,
            Verb::Release,
            Verb::Cancel,
            Verb::Suspend,
            Verb::Move(to),
        ];
        self.change_one(&[no], 15, &verbs);
    }

    /// A job's worker has crashed, so the job waits to run alone. An operator changes it.
    pub(crate) fn change_after_crash(&mut self, no: u64) {
        let to = self.queue_for_move();
        let verbs = [Verb::Suspend, Verb::Move(to), Verb::Move(to), Verb::Cancel];
        self.change_one(&[no], 10, &verbs);
    }

    /// A run begins. An operator changes the jobs of its queue with the same key, or all of its queue: a change skips those
    /// that run.
    pub(crate) fn change_beside_run(&mut self, no: u64) {
        let job = &self.ledger.jobs[no as usize];
        let Some(queue) = job.queue() else { return };
        let key = job.options.key.clone();
        let to = self.queue_for_move();
        let key = key.filter(|_| self.dice("moments").percent(70));
        let filter = Filter {
            queue: Some(queue),
            key,
            ..Filter::default()
        };
        self.change(filter, 2, &[Verb::Suspend, Verb::Move(to)]);
    }

    fn queue_for_move(&mut self) -> usize {
        let queues = self.setup.queues.len() as u64;
        self.dice("moments").below(queues) as usize
    }

    /// In this percentage of cases, an operator changes one of these jobs.
    fn change_one(&mut self, jobs: &[u64], percent: u64, verbs: &[Verb]) {
        if !jobs.is_empty() {
            let one = Some(*self.dice("moments").one_of(jobs));
            let filter = Filter {
                one,
                ..Filter::default()
            };
            self.change(filter, percent, verbs);
        }
    }

    /// In this percentage of cases, an operator changes all jobs of a queue.
    fn change_all(&mut self, queue: usize, percent: u64, verbs: &[Verb]) {
        let filter = Filter {
            queue: Some(queue),
            ..Filter::default()
        };
        self.change(filter, percent, verbs);
    }

    fn change(&mut self, filter: Filter, percent: u64, verbs: &[Verb]) {
        let serves = self.draining.is_none() && self.all_requested_at.is_none();
        let is_wanted = self.dice("moments").percent(percent) && self.setup.operations > 0;
        let there = self.operators();
        if !serves || !is_wanted || there.is_empty() {
            return;
        }
        let client = *self.dice("moments").one_of(&there);
        let verb = *self.dice("moments").one_of(verbs);
        self.operate(
            client,
            ("stoker.job", Value::Null, Effect::Changes(verb, filter)),
        );
    }
}
