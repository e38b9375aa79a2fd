//! Handles events between a job's delivery and its end.

use super::loaded::LoadedJob;
use super::outcome::run_of;
use super::waiter::Waiter;
use crate::observe::Stream;
use crate::plane::{Alarm, Plane};
use crate::sources::Origin;
use serde_json::Value;
use stoker_core::{Event, Facts, Span, TaskId, WorkerId};
use stoker_store::{Ending, JobId, MAX_CHECKPOINT, MAX_LINE, StoreRequest};
use stoker_wire::{Encode, EventKind, Frame, Type};

/// The minimum time between two reports of a job's progress and checkpoints to the store.
const REPORT_INTERVAL: Span = Span::from_millis(100);

impl Plane {
    /// Records that a job is about to be sent to a worker.
    pub(crate) fn record_delivery(&mut self, task: TaskId) {
        let Some(loaded) = self.jobs.loaded.get_mut(task) else {
            return;
        };
        self.jobs.runs_changed = true;
        let first = !std::mem::replace(&mut loaded.delivered, true);
        let job = loaded.job.id;
        let options = loaded.job.options.as_deref();
        let unique = options.and_then(|options| options.unique.as_ref());
        if first && unique.is_some_and(|unique| unique.until_start) {
            self.jobs.send(StoreRequest::Started { job });
        }
    }

    /// Has the store record a job as done that its worker has acknowledged.
    pub(crate) fn acknowledge(&mut self, task: TaskId, facts: Facts) {
        let Some(loaded) = self.jobs.loaded.get_mut(task) else {
            return;
        };
        if std::mem::replace(&mut loaded.acked, true) {
            return;
        }
        let (job, mut counters) = (loaded.job.id, run_of(loaded, facts, None));
        // Counts the current run.
        counters.attempt = counters.attempt.saturating_add(1);
        // The run continues to write output; what it has written so far is the beginning of that.
        let (unreported, output) = (loaded.take_unreported(), loaded.kept_output());
        let Some(worker) = facts.worker else {
            return;
        };
        unreported
            .into_iter()
            .flatten()
            .for_each(|request| self.jobs.send(request));
        let ticket = Some(self.jobs.create_ticket(Waiter::Ack { worker, task, job }));
        let ending = Ending::Done { result: None };
        self.jobs.send(StoreRequest::End {
            job,
            counters,
            ending,
            ticket,
            output,
        });
    }

    /// Handles the store's confirmation that an acknowledged job is recorded.
    pub(crate) fn acknowledged(&mut self, worker: WorkerId, task: TaskId, job: JobId) {
        if !self.is_job(task, job) {
            return;
        }
        if let Some(loaded) = self.jobs.loaded.get_mut(task) {
            loaded.is_durable = true;
        }
        self.confirm_ack(worker, task);
    }

    /// Confirms to a worker that its acknowledgement is durable.
    fn confirm_ack(&mut self, worker: WorkerId, task: TaskId) {
        let event = Encode {
            code: EventKind::ACK.0,
            ..Encode::new(Type::Event, self.payloads.number(task))
        };
        self.put_to(worker, event);
    }

    /// Handles a worker's event about a job that it runs.
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
                // A repeated acknowledgement is confirmed only once the first one is on disk.
                let again = self
                    .jobs
                    .loaded
                    .get(task)
                    .is_some_and(|loaded| loaded.is_durable);
                self.step(Event::Acknowledged { worker, task }, None);
                if again {
                    self.confirm_ack(worker, task);
                }
            }
            EventKind::PROGRESS => {
                if let Some(loaded) = self.jobs.loaded.get_mut(task) {
                    loaded.progress = progress_of(frame.body).or(loaded.progress.take());
                    self.report_progress(task);
                }
            }
            EventKind::CHECKPOINT if frame.body.len() <= MAX_CHECKPOINT => {
                self.jobs.loaded.save(task, frame.body);
                self.report_progress(task);
            }
            EventKind::CHECKPOINT => {
                // Report it as output of the worker, which is subject to the log's rate limit.
                let (bytes, tag) = (frame.body.len(), self.task_label(task));
                let text = format!(
                    "stoker: a checkpoint of {bytes} bytes is dropped: the limit is {MAX_CHECKPOINT} bytes\n"
                );
                self.log_output(worker, Stream::Stderr, tag, text.as_bytes());
            }
            _ => {}
        }
    }

    /// Reports a job's progress and checkpoints to the store, at a limited rate: a job that reports in a tight
    /// loop must not overload the store. Reports in between are delayed.
    fn report_progress(&mut self, task: TaskId) {
        let now = self.now;
        let Some(loaded) = self.jobs.loaded.get_mut(task) else {
            return;
        };
        if now.since(loaded.reported_at) >= REPORT_INTERVAL {
            loaded.reported_at = now;
            let requests = loaded.take_unreported();
            requests
                .into_iter()
                .flatten()
                .for_each(|request| self.jobs.send(request));
        } else if !std::mem::replace(&mut loaded.has_report_alarm, true) {
            let at = loaded.reported_at + REPORT_INTERVAL;
            self.alarms.set(at, Alarm::Unreported(task));
        }
    }

    /// Sends a delayed report.
    pub(crate) fn report_delayed_progress(&mut self, task: TaskId) {
        if let Some(loaded) = self.jobs.loaded.get_mut(task) {
            loaded.has_report_alarm = false;
            if loaded.has_unreported() {
                self.report_progress(task);
            }
        }
    }

    /// Sends the reports of a job that the store has not received.
    pub(crate) fn report_unreported(&mut self, loaded: &mut LoadedJob) {
        for request in loaded.take_unreported().into_iter().flatten() {
            self.jobs.send(request);
        }
    }

    /// Reports the running jobs to a durable store, so that they count as crashed if this process dies
    /// before it reports their outcomes.
    pub(crate) fn report_running(&mut self) {
        if self.jobs.inline || !std::mem::take(&mut self.jobs.runs_changed) {
            return;
        }
        let mut jobs = Vec::new();
        for worker in self.core.workers() {
            let slots = usize::from(worker.slots).max(1);
            for task in self.core.assigned_to(worker.id).take(slots) {
                if let Some(loaded) = self
                    .jobs
                    .loaded
                    .get(task)
                    .filter(|loaded| !loaded.claimed && !loaded.acked)
                {
                    jobs.push(loaded.job.id);
                }
            }
        }
        self.jobs.send(StoreRequest::Running { jobs });
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
