//! The output of workers: lines with the mark of their run, which are kept as the output of its job or as the last
//! words of a worker.

use crate::model::Task;
use crate::slots::Slots;
use crate::worker::Worker;
use crate::world::World;
use stoker_os::sim;

/// The number of lines that some runs write at once, which is more than the server keeps.
const MANY_LINES: u64 = 40;

impl World {
    /// A run writes lines with its mark.
    pub(crate) fn write_output(&mut self, key: u64, task: Task) {
        let stream = self.dice("output").below(2) as usize;
        let lines = self
            .dice("output")
            .weighted(&[(90, 1), (9, MANY_LINES), (1, 10 * MANY_LINES)]);
        let closes = self.dice("output").percent(2);
        let Some(worker) = self.workers.get_mut(&key) else {
            return;
        };
        if closes {
            // Code that moves to the background closes its output. What it writes there belongs to no job.
            worker.outputs[stream] = sim::pipe().1;
        }
        let mut last = None;
        for line in 0..lines {
            let text = format!("{} {line}\n", task.mark());
            let mut rest = text.as_bytes();
            // If the pipe is full, the rest of the line is lost, which does not matter here.
            while let Ok(count @ 1..) = stoker_os::write(&worker.outputs[stream], rest) {
                rest = &rest[count..];
            }
            // The server can't know which task of a worker with several tasks has written a line.
            let is_known = rest.is_empty() && worker.slots.is_none();
            last = is_known.then_some(text);
        }
        if task.is_job {
            let job = &mut self.ledger.jobs[task.no as usize];
            job.streams |= 1 << stream;
            // What waits in two pipes may be read in any order.
            job.last_line = last.filter(|_| job.streams.count_ones() == 1);
        }
    }

    /// A worker breaks the protocol during this task, or returns it unanswered: the task may be the cause of its death.
    pub(crate) fn record_task_left(&mut self, name: &str, task: Task) {
        let known = self.last_tasks.entry(name.to_owned()).or_default();
        known.push(task.mark());
    }

    /// A worker dies: its last words must come from tasks that it has not answered.
    pub(crate) fn record_last_tasks(&mut self, worker: &Worker) {
        let running = worker.run.as_ref().map(|run| run.task.mark());
        let unreported = worker.ended.iter().map(|(task, _)| task.mark());
        let in_slots = worker.slots.iter().flat_map(Slots::assigned_tasks);
        let in_slots = in_slots.map(|task| task.mark());
        let all = running.into_iter().chain(unreported).chain(in_slots);
        let known = self.last_tasks.entry(worker.name.clone()).or_default();
        known.extend(all);
    }

    /// Checks that the last words of a worker in the log were written by a task that it died with.
    pub(crate) fn check_last_words(&self, log: &str) {
        for line in log.lines() {
            let Some((head, words)) = line.split_once("; last words: ") else {
                continue;
            };
            let head = head.split(" died with ").next().unwrap_or_default();
            let name = head.rsplit(' ').next().unwrap_or_default();
            let Some(tasks) = self.last_tasks.get(name) else {
                continue;
            };
            let mut marks = words
                .split_whitespace()
                .filter(|word| word.starts_with("wrote-") || word.starts_with("called-"));
            let unexpected = marks.find(|mark| !tasks.iter().any(|task| task == mark));
            assert!(
                unexpected.is_none(),
                "the last words of a worker are not from its last task; left: {line}"
            );
        }
    }
}
