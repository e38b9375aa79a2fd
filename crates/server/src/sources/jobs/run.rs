//! What happens between a job's delivery and its end.

use super::asked::Asked;
use super::loaded::LoadedJob;
use super::outcome::run_of;
use crate::observe::Stream;
use crate::plane::{Alarm, Plane};
use crate::sources::Origin;
use serde_json::Value;
use stoker_core::{Event, Facts, Span, TaskId, WorkerId};
use stoker_store::{Ask, Ending, JobId, MAX_CHECKPOINT, MAX_LINE};
use stoker_wire::{Encode, EventKind, Frame, Type};

/// How often a job's progress and checkpoints reach the store.
const TELL_EVERY: Span = Span::from_millis(100);

impl Plane {
    /// A worker is about to get a job.
    pub(crate) fn note_delivery(&mut self, task: TaskId) {
        let Some(held) = self.jobs.loaded.get_mut(task) else {
            return;
        };
        self.jobs.runs_changed = true;
        let first = !std::mem::replace(&mut held.delivered, true);
        let job = held.job.id;
        let options = held.job.options.as_deref();
        let unique = options.and_then(|options| options.unique.as_ref());
        if first && unique.is_some_and(|unique| unique.until_start) {
            self.jobs.ask(Ask::Started { job });
        }
    }

    /// The core has taken a job's acknowledgement; now its store must.
    pub(crate) fn acknowledge(&mut self, task: TaskId, facts: Facts) {
        let Some(held) = self.jobs.loaded.get_mut(task) else {
            return;
        };
        if std::mem::replace(&mut held.acked, true) {
            return;
        }
        let (job, mut run) = (held.job.id, run_of(held, facts, None));
        // This is the run that did it.
        run.attempt = run.attempt.saturating_add(1);
        // It goes on writing; what it wrote until now stays the beginning of that.
        let (untold, output) = (held.untold(), held.kept_output());
        let Some(worker) = facts.worker else {
            return;
        };
        untold
            .into_iter()
            .flatten()
            .for_each(|ask| self.jobs.ask(ask));
        let told = Some(self.jobs.ticket(Asked::Ack { worker, task, job }));
        let ending = Ending::Done { result: None };
        self.jobs.ask(Ask::End {
            job,
            run,
            ending,
            told,
            output,
        });
    }

    /// An acknowledgement is on the disk.
    pub(crate) fn acknowledged(&mut self, worker: WorkerId, task: TaskId, job: JobId) {
        if !self.is_job(task, job) {
            return;
        }
        if let Some(held) = self.jobs.loaded.get_mut(task) {
            held.is_safe = true;
        }
        self.tell_acked(worker, task);
    }

    /// Tells a worker that its acknowledgement is safe.
    fn tell_acked(&mut self, worker: WorkerId, task: TaskId) {
        let event = Encode {
            code: EventKind::ACK.0,
            ..Encode::new(Type::Event, self.payloads.number(task))
        };
        self.put_to(worker, event);
    }

    /// What a worker tells of a job that it runs.
    pub(crate) fn job_event(&mut self, worker: WorkerId, task: TaskId, frame: &Frame<'_>) {
        if !self
            .core
            .assigned_to(worker)
            .any(|assigned| assigned == task)
        {
            return;
        }
        if !matches!(self.payloads[task].origin, Origin::Job(_)) {
            return;
        }
        match EventKind(frame.code) {
            EventKind::ACK => {
                // A repeated acknowledgement is confirmed only once the first one is on the disk.
                let again = self.jobs.loaded.get(task).is_some_and(|held| held.is_safe);
                self.step(Event::Acknowledged { worker, task }, None);
                if again {
                    self.tell_acked(worker, task);
                }
            }
            EventKind::PROGRESS => {
                if let Some(held) = self.jobs.loaded.get_mut(task) {
                    held.progress = progress_of(frame.body).or(held.progress.take());
                    self.tell_progress(task);
                }
            }
            EventKind::CHECKPOINT if frame.body.len() <= MAX_CHECKPOINT => {
                self.jobs.loaded.save(task, frame.body);
                self.tell_progress(task);
            }
            EventKind::CHECKPOINT => {
                // As the worker's own words, which have a bound.
                let (bytes, tag) = (frame.body.len(), self.task_label(task));
                let text = format!(
                    "stoker: a checkpoint of {bytes} bytes is not kept: {MAX_CHECKPOINT} is the most\n"
                );
                self.log_output(worker, Stream::Stderr, tag, text.as_bytes());
            }
            _ => {}
        }
    }

    /// Passes on what a job told of itself, so much a second at the most: a loop that tells at every turn must
    /// not keep the store from its work. What comes in between is told a moment later.
    fn tell_progress(&mut self, task: TaskId) {
        let now = self.now;
        let Some(held) = self.jobs.loaded.get_mut(task) else {
            return;
        };
        if now.since(held.told_at) >= TELL_EVERY {
            held.told_at = now;
            let asks = held.untold();
            asks.into_iter()
                .flatten()
                .for_each(|ask| self.jobs.ask(ask));
        } else if !std::mem::replace(&mut held.is_put_off, true) {
            let at = held.told_at + TELL_EVERY;
            self.alarms.set(at, Alarm::Untold(task));
        }
    }

    /// A job told something of itself too soon after what it had told before. Now is the time.
    pub(crate) fn tell_what_waited(&mut self, task: TaskId) {
        if let Some(held) = self.jobs.loaded.get_mut(task) {
            held.is_put_off = false;
            if held.has_untold() {
                self.tell_progress(task);
            }
        }
    }

    /// Tells the store what it has not heard of a job.
    pub(crate) fn tell_untold(&mut self, held: &mut LoadedJob) {
        for ask in held.untold().into_iter().flatten() {
            self.jobs.ask(ask);
        }
    }

    /// Tells a durable store which jobs run, so that they count as crashed if this process does not come to
    /// say how they ended.
    pub(crate) fn tell_running(&mut self) {
        if self.jobs.inline || !std::mem::take(&mut self.jobs.runs_changed) {
            return;
        }
        let mut jobs = Vec::new();
        for worker in self.core.workers() {
            let slots = usize::from(worker.slots).max(1);
            for task in self.core.assigned_to(worker.id).take(slots) {
                if let Some(held) = self
                    .jobs
                    .loaded
                    .get(task)
                    .filter(|held| !held.claimed && !held.acked)
                {
                    jobs.push(held.job.id);
                }
            }
        }
        self.jobs.ask(Ask::Running { jobs });
    }
}

fn progress_of(body: &[u8]) -> Option<(u8, String)> {
    let value: Value = serde_json::from_slice(body).ok()?;
    let percent = value["percent"].as_f64().unwrap_or(0.0).clamp(0.0, 100.0) as u8;
    let text = value["text"].as_str().unwrap_or_default();
    let line: String = text
        .lines()
        .next()
        .unwrap_or_default()
        .chars()
        .take(MAX_LINE)
        .collect();
    Some((percent, line))
}
