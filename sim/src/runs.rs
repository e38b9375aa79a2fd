//! What workers do with their tasks.

use crate::agenda::What;
use crate::worker::{Course, draw};
use crate::world::World;
use stoker_os::steady;

impl World {
    pub(crate) fn worker_looks(&mut self, key: u64) {
        let Some(worker) = self.workers.get_mut(&key) else {
            return;
        };
        if !worker.ended && worker.read() {
            (worker.leaves, worker.ended) = (true, true);
        }
        self.go_on(key);
    }

    /// Begins the next task of a worker that has none, or has it leave.
    pub(crate) fn go_on(&mut self, key: u64) {
        let Some(worker) = self
            .workers
            .get(&key)
            .filter(|worker| worker.runs.is_none())
        else {
            return;
        };
        let Some(task) = worker.tasks.front().cloned() else {
            if worker.leaves {
                self.plan_death(key, false);
            }
            return;
        };
        let pid = worker.pid;
        if task.is_job {
            self.ledger.begins(task.no, pid, &self.setup.queues);
        }
        let setup = self.setup.clone();
        let (course, time) = draw(self.dice("runs"), &setup, task.is_job);
        self.note(|| {
            let kind = if task.is_job { "job" } else { "call" };
            format!(
                "  worker {key} begins {kind} {}: {course:?} in {time:?}",
                task.no
            )
        });
        if task.is_job && self.dice("output").percent(30) {
            self.write_output(key, task.no);
        }
        self.runs += 1;
        let (run, ends) = (self.runs, steady() + time);
        if let Some(worker) = self.workers.get_mut(&key) {
            (worker.runs, worker.run_no) = (Some((course, ends)), run);
        }
        self.agenda.plan(ends, What::RunEnds(key, run));
    }

    /// A run writes what tells it from others.
    pub(crate) fn write_output(&mut self, key: u64, no: u64) {
        let stream = self.dice("output").below(2) as usize;
        if let Some(worker) = self.workers.get(&key) {
            let line = format!("wrote-{no}\n");
            let mut rest = line.as_bytes();
            // A pipe that is full takes nothing, which is all the same here.
            while let Ok(count @ 1..) = stoker_os::write(&worker.outputs[stream], rest) {
                rest = &rest[count..];
            }
        }
    }

    pub(crate) fn run_ends(&mut self, key: u64, run: u64) {
        let Some(worker) = self
            .workers
            .get_mut(&key)
            .filter(|worker| worker.run_no == run)
        else {
            return;
        };
        let Some((course, _)) = worker.runs else {
            return;
        };
        if matches!(course, Course::Crash | Course::Hang) {
            return self.dies(key, true);
        }
        worker.runs = None;
        let Some(task) = worker.tasks.pop_front() else {
            return;
        };
        worker.answer(&task, course);
        if task.is_job {
            let (done, failed) = (course == Course::Well, course == Course::Error);
            self.ledger.ends(task.no, done, failed);
        }
        self.go_on(key);
    }
}
