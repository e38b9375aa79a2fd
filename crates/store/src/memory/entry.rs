//! A job in memory.

use crate::id::places_after;
use crate::job::truncate_text;
use crate::{
    Bytes, Ending, HistoryEntry, HistoryKind, Holder, Job, JobDetails, JobError, JobId, NewJob,
    QueuePolicy, RunCounters, State, View,
};

/// The maximum number of history entries of one job; the oldest are dropped first.
const MAX_HISTORY_ENTRIES: usize = 100;

/// A job and everything that the memory engine knows about it.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) job: Job,
    pub(super) state: State,
    /// The due time is by the steady clock.
    pub(super) is_delay: bool,
    /// The job is loaded into the scheduler.
    pub(super) loaded: bool,
    pub(super) idempotency: Option<Box<[u8]>>,
    pub(super) error: Option<JobError>,
    pub(super) progress: Option<(u8, String)>,
    pub(super) result: Option<Bytes>,
    pub(super) result_until: u64,
    /// When the payload of a done job expires.
    pub(super) payload_until: u64,
    pub(super) output: Option<Vec<u8>>,
    pub(super) history: Vec<HistoryEntry>,
    pub(super) ended_ms: u64,
    /// The job's position among all ended jobs, in the order in which they ended.
    pub(super) ended: u64,
}

impl Entry {
    pub(super) fn new(id: JobId, new: NewJob, now: u64, steady: u64) -> Self {
        let is_delay = new.delay_ms > 0;
        let (due_ms, is_overdue) = (new.due(now, steady), new.is_overdue(now));
        let state = match (new.suspended, new.delay_ms > 0 || new.due_ms > now) {
            (true, _) => State::Suspended,
            (_, true) => State::Delayed,
            _ => State::Ready,
        };
        Self {
            job: Job {
                id,
                queue: new.queue,
                class: new.class,
                key: new.key,
                // Jobs with the same order number are ordered by their ids.
                order: match (new.order, is_overdue) {
                    (Some(order), _) => order,
                    (None, true) => places_after(due_ms).end - 1,
                    (None, false) => id.0,
                },
                codec: new.codec,
                bytes: new.bytes,
                meta_len: new.meta_len,
                options: new.options,
                counters: RunCounters::default(),
                due_ms,
                checkpoint: None,
                owner: new.owner,
            },
            state,
            is_delay,
            loaded: false,
            idempotency: new.idempotency,
            error: None,
            progress: None,
            result: None,
            result_until: 0,
            payload_until: 0,
            output: None,
            history: Vec::new(),
            ended_ms: 0,
            ended: 0,
        }
    }

    pub(super) fn note(&mut self, at_ms: u64, what: HistoryKind, text: String) {
        if self.history.len() >= MAX_HISTORY_ENTRIES {
            self.history.remove(0);
        }
        self.history.push(HistoryEntry {
            at_ms,
            what,
            text,
            cut: 0,
        });
    }

    pub(super) fn end(&mut self, ending: Ending, ended: u64, now: u64, policy: &QueuePolicy) {
        self.state = ending.state();
        self.ended = ended;
        self.ended_ms = now;
        match ending {
            Ending::Done { result } => {
                let options = self.job.options.as_deref();
                let keep_ms = options.and_then(|options| options.keep_result_ms);
                self.result_until = now.saturating_add(keep_ms.unwrap_or(policy.result_ms));
                self.result = result;
                self.payload_until = now.saturating_add(policy.payload_ms);
                self.job.checkpoint = None;
            }
            Ending::Failed(error) => {
                let text = format!("{}: {}", error.class, first_line(&error.message));
                self.note(now, HistoryKind::Failed, text);
                self.error = Some(error);
            }
            Ending::Cancelled => self.note(now, HistoryKind::Cancelled, String::new()),
        }
    }

    /// Resets the counters and limits of a job for an operator's retry.
    pub(super) fn reset_for_retry(&mut self, now: u64) {
        let mut notes = self.history.iter().rev();
        let last_retry = notes.find(|note| note.what == HistoryKind::RetriedByOperator);
        let began = last_retry.map_or(self.job.id.created_ms(), |note| note.at_ms);
        self.note(now, HistoryKind::RetriedByOperator, String::new());
        let options = self.job.options.take();
        self.job.options = options.map(|options| Box::new(options.for_retry(began, now)));
        self.job.counters = RunCounters::default();
        self.error = None;
        self.progress = None;
        (self.ended_ms, self.ended) = (0, 0);
    }

    /// When the last of an ended job's result and payload expires. The rest of the job may be forgotten
    /// earlier.
    pub(super) fn kept_until(&self) -> u64 {
        let result = self.result.as_ref().map_or(0, |_| self.result_until);
        let has_payload = self.state == State::Done && !self.job.bytes.is_empty();
        result.max(if has_payload { self.payload_until } else { 0 })
    }

    pub(super) fn as_holder(&self) -> Holder {
        Holder {
            job: self.job.id,
            owner: self.job.owner.clone(),
        }
    }

    pub(super) fn kind(&self) -> Option<&str> {
        self.job.options.as_ref()?.kind.as_deref()
    }

    pub(super) fn view(&self, now: u64, whole: bool) -> View {
        let job = &self.job;
        View {
            id: job.id,
            queue: job.queue,
            state: self.state,
            class: job.class,
            key: job.key.clone(),
            counters: job.counters,
            created_ms: job.id.created_ms(),
            due_ms: job.due_ms,
            ended_ms: (self.ended_ms > 0).then_some(self.ended_ms),
            options: job.options.clone(),
            error: self.error.clone(),
            progress: self.progress.clone(),
            owner: job.owner.clone(),
            whole: whole.then(|| Box::new(self.whole(now))),
        }
    }

    /// The job with one entry of its history, if that entry exists.
    pub(super) fn history_entry(&self, now: u64, number: u64) -> View {
        let at = usize::try_from(number)
            .ok()
            .and_then(|at| at.checked_sub(1));
        let history_entry = at.and_then(|at| self.history.get(at));
        View {
            whole: Some(Box::new(JobDetails {
                history: history_entry.cloned().into_iter().collect(),
                ..JobDetails::default()
            })),
            ..self.view(now, false)
        }
    }

    fn whole(&self, now: u64) -> JobDetails {
        let has_payload = match self.state {
            State::Done => now < self.payload_until && !self.job.bytes.is_empty(),
            _ => true,
        };
        JobDetails {
            meta: if has_payload {
                self.job.meta().to_vec()
            } else {
                Vec::new()
            },
            body: has_payload.then(|| Bytes {
                codec: self.job.codec,
                bytes: self.job.body().to_vec(),
            }),
            result: self.result.clone().filter(|_| now < self.result_until),
            output: self.output.clone(),
            checkpoint: self.job.checkpoint.as_deref().map(<[u8]>::to_vec),
            idempotency: None,
            history: self.history.iter().map(truncated).collect(),
        }
    }
}

fn truncated(note: &HistoryEntry) -> HistoryEntry {
    let (text, cut) = truncate_text(&note.text);
    HistoryEntry { text, cut, ..*note }
}

pub(super) fn first_line(text: &str) -> &str {
    text.lines().next().unwrap_or_default()
}
