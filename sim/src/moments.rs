//! Operators' changes of jobs and callers' cancellations, timed to coincide with something else: the disk fails, the
//! server shuts down, or the job waits behind a slow run, is about to be recorded as delivered, or waits for its retry.

use crate::ledger::{Filter, Verb};
use crate::lively::Act;
use crate::operator::{self, Effect};
use crate::restart::Moment;
use crate::world::World;
use serde_json::Value;
use std::collections::VecDeque;
use std::time::Duration;

/// A run of at least this length lets other events happen while tasks wait behind it.
const LONG: Duration = Duration::from_millis(5);

impl World {
    /// The disk fails, and an operator changes a job. The server releases the job at once, and can't write the change.
    pub(crate) fn change_meets_fault(&mut self) {
        let to = self.queue_for_move();
        let jobs = self.ledger.jobs_in_line(&self.setup);
        self.change_one(&jobs, 70, &[Verb::Cancel, Verb::Suspend, Verb::Move(to)]);
    }

    /// Stoker is about to shut down, and an operator changes a job. The server returns waiting jobs to the store, which
    /// may report them as held.
    pub(crate) fn change_meets_stop(&mut self) {
        let to = self.queue_for_move();
        let jobs = self.ledger.jobs_in_line(&self.setup);
        self.change_one(&jobs, 50, &[Verb::Cancel, Verb::Suspend, Verb::Move(to)]);
    }

    /// Stoker is about to shut down, and an operator requests a list, which may take the server several turns.
    pub(crate) fn look_meets_stop(&mut self) {
        let operators = self.operators();
        if self.setup.operations > 0 && self.dice("looks").percent(40) && !operators.is_empty() {
            let client = *self.dice("looks").of_all(&operators);
            let setup = self.setup.clone();
            let drawn = operator::look(self.dice("looks"), &setup);
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
    pub(crate) fn is_stuck(&mut self, acts: &VecDeque<(Duration, Act)>) {
        let lasts: Duration = acts.iter().map(|(after, _)| *after).sum();
        if lasts < LONG {
            return;
        }
        self.is_moment(Moment::Stuck);
        let to = self.queue_for_move();
        let behind = self.jobs_behind();
        self.change_one(&behind, 30, &[Verb::Cancel, Verb::Cancel, Verb::Move(to)]);
    }

    /// A run begins while calls wait behind it. The client of one of these calls cancels it at once.
    pub(crate) fn cancel_meets_run(&mut self, key: u64) {
        let often = self.setup.often.cancels;
        let Some(worker) = self.workers.get(&key) else {
            return;
        };
        let behind: Vec<u64> = worker.model.waiting_calls().collect();
        if behind.is_empty() || !self.dice("moments").percent(often) {
            return;
        }
        let call = *self.dice("moments").of_all(&behind);
        let calls = &mut self.ledger.calls;
        let mut clients = self.clients.iter_mut().flatten();
        clients.any(|client| client.cancel_call(call, calls));
    }

    /// A job was pushed to a queue that acknowledges on delivery, and an operator changes one of the newest jobs.
    /// Earlier jobs are about to be recorded as delivered, and the new job may get the number of one that is removed.
    pub(crate) fn change_meets_claim(&mut self, queue: usize) {
        if self.setup.queues[queue].on_delivery.known() == Some(true) {
            let to = self.queue_for_move();
            let jobs = self.ledger.newest_of(queue);
            self.change_one(&jobs, 40, &[Verb::Cancel, Verb::Suspend, Verb::Move(to)]);
        }
    }

    /// A worker has become free, so the next job of a queue that acknowledges on delivery is about to be recorded as
    /// delivered. An operator changes that job, or all of them.
    pub(crate) fn change_meets_next(&mut self, queue: usize) {
        if self.setup.queues[queue].on_delivery.known() == Some(true) {
            self.stop_meets_claim();
            let to = self.queue_for_move();
            let jobs = self.ledger.next_of(queue);
            let often = self.setup.often.claims;
            let verbs = [Verb::Cancel, Verb::Suspend, Verb::Move(to)];
            match self.dice("moments").percent(20) {
                true => self.change_all(queue, often, &verbs),
                false => self.change_one(&jobs, often, &verbs),
            }
        }
    }

    /// A job of an ordered queue waits for its retry while others of its key wait behind it. An operator changes it.
    pub(crate) fn change_meets_parked(&mut self, no: u64) {
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

    fn queue_for_move(&mut self) -> usize {
        let queues = self.setup.queues.len() as u64;
        self.dice("moments").below(queues) as usize
    }

    /// In this percentage of cases, an operator changes one of these jobs.
    fn change_one(&mut self, jobs: &[u64], percent: u64, verbs: &[Verb]) {
        if !jobs.is_empty() {
            let one = Some(*self.dice("moments").of_all(jobs));
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
        let serves = self.draining.is_none() && self.waits_since.is_none();
        let is_wanted = self.dice("moments").percent(percent) && self.setup.operations > 0;
        let there = self.operators();
        if !serves || !is_wanted || there.is_empty() {
            return;
        }
        let client = *self.dice("moments").of_all(&there);
        let verb = *self.dice("moments").of_all(verbs);
        self.operate(
            client,
            ("stoker.job", Value::Null, Effect::Changes(verb, filter)),
        );
    }
}
