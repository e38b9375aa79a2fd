//! The requests that are drawn, and how they name the jobs of the store in memory.

use super::{CLASSES, KEYS, MANY, NAMES, Twins, queue};
use stoker_store::{
    Bytes, Change, Ending, Filter, HistoryKind, JobError, JobId, NewJob, Options, RunCounters,
    Selection, State, States, StoreRequest,
};

/// Far enough ahead that it does not come before the test ends.
const LATER_MS: u64 = 1 << 40;
/// Where reports about a job are cut, and more.
const SIZES: [usize; 3] = [3, 200, 4_000];

impl Twins {
    /// Draws any request but a change. `None` if it would be about a loaded job, and there is none.
    pub(super) fn draw_request(&mut self) -> Option<StoreRequest> {
        match self.dice.below(20) {
            0..6 => Some(self.draw_push()),
            6 => Some(self.draw_pause()),
            7 => Some(self.draw_settings()),
            8..12 => self.draw_end(),
            12..15 => self.draw_retry(),
            _ => self.draw_report(),
        }
    }

    /// A job that the store hands over at once.
    pub(super) fn push_of_ready_job(&mut self) -> StoreRequest {
        loop {
            let push = self.draw_push();
            if matches!(&push, StoreRequest::Push { job, .. } if job.due_ms == 0 && !job.suspended)
            {
                return push;
            }
        }
    }

    fn draw_push(&mut self) -> StoreRequest {
        self.labels += 1;
        let is_plain = self.dice.percent(40);
        let options = Options {
            kind: Some(format!("kind{}", self.dice.below(2))),
            ..Options::default()
        };
        let job = NewJob {
            queue: queue(self.dice.below(2) as usize),
            class: self.dice.below(CLASSES.into()) as u8,
            key: self.dice.one_of(&KEYS).to_vec().into(),
            bytes: self.labels.to_string().into_bytes().into(),
            options: (!is_plain).then(|| Box::new(options)),
            due_ms: match self.dice.percent(15) {
                true => stoker_os::wall_ms() + LATER_MS,
                false => 0,
            },
            suspended: self.dice.percent(10),
            ..NewJob::default()
        };
        StoreRequest::Push {
            ticket: self.on_disk.ticket(),
            room: true,
            job: Box::new(job),
        }
    }

    fn draw_pause(&mut self) -> StoreRequest {
        let (at, paused) = (self.dice.below(2) as usize, self.dice.percent(50));
        self.is_paused[at] = paused;
        StoreRequest::Pause {
            queue: queue(at),
            paused,
            ticket: None,
        }
    }

    fn draw_settings(&mut self) -> StoreRequest {
        let at = self.dice.below(NAMES.len() as u64) as usize;
        self.labels += 1;
        self.settings[at] = format!("{{\"weight\":{}}}", self.labels);
        StoreRequest::Settings {
            queue: queue(at),
            settings: self.settings[at].clone(),
            ticket: None,
        }
    }

    fn loaded_job(&mut self) -> Option<JobId> {
        let at = self.dice.below(self.loaded.len().max(1) as u64) as usize;
        let number = *self.loaded.get(at)?;
        Some(self.ids[number][0])
    }

    /// A loaded job that the scheduler then no longer has.
    fn unloaded_job(&mut self) -> Option<JobId> {
        let job = self.loaded_job()?;
        let number = self.numbers[&job];
        self.loaded.retain(|loaded| *loaded != number);
        Some(job)
    }

    fn counters(&mut self) -> RunCounters {
        RunCounters {
            attempt: self.dice.within(1, 9) as u16,
            exceptions: self.dice.below(3) as u16,
            crashes: self.dice.below(5) as u8,
            ran_us: self.dice.below(1_000),
        }
    }

    fn draw_end(&mut self) -> Option<StoreRequest> {
        let job = self.unloaded_job()?;
        let ending = match self.dice.below(4) {
            0 => Ending::Failed(self.error()),
            1 => Ending::Cancelled,
            2 => Ending::Done {
                result: Some(Bytes {
                    codec: 1,
                    bytes: self.text().into_bytes(),
                }),
            },
            _ => Ending::Done { result: None },
        };
        Some(StoreRequest::End {
            job,
            counters: self.counters(),
            ending,
            ticket: None,
            output: self.output(),
        })
    }

    fn draw_retry(&mut self) -> Option<StoreRequest> {
        let park = !self.dies && self.dice.percent(50);
        let job = match park {
            true => self.loaded_job()?,
            false => self.unloaded_job()?,
        };
        Some(StoreRequest::Retry {
            job,
            counters: self.counters(),
            due_ms: stoker_os::wall_ms() + LATER_MS,
            error: self.error(),
            output: self.output(),
            park,
        })
    }

    /// A report about a job that runs.
    fn draw_report(&mut self) -> Option<StoreRequest> {
        let job = self.loaded_job()?;
        let text = self.text();
        Some(match self.dice.below(4) {
            0 => StoreRequest::Checkpoint {
                job,
                bytes: text.into_bytes(),
            },
            1 => StoreRequest::Progress {
                job,
                percent: self.dice.below(101) as u8,
                text: text.chars().take(200).collect(),
            },
            2 => StoreRequest::Note {
                job,
                what: HistoryKind::Acknowledged,
                text,
            },
            _ => StoreRequest::Started { job },
        })
    }

    fn output(&mut self) -> Option<Vec<u8>> {
        self.dice.percent(50).then(|| self.text().into_bytes())
    }

    /// A text that no other request has.
    fn text(&mut self) -> String {
        self.labels += 1;
        let size = *self.dice.one_of(&SIZES);
        let mut text = self.labels.to_string();
        text.extend(std::iter::repeat_n('x', size - text.len().min(size)));
        text
    }

    fn error(&mut self) -> JobError {
        JobError {
            class: self.dice.one_of(&["Boom", "Bang"]).to_string(),
            message: self.text(),
            place: None,
            at_ms: 0,
        }
    }

    pub(super) fn draw_change(&mut self) -> Option<(Selection, Change)> {
        let change = match self.dice.below(7) {
            0 => Change::Retry { per_second: None },
            1 => Change::Cancel,
            2 => Change::Discard,
            3 => Change::Suspend,
            4 => Change::Release,
            5 => Change::Edit {
                body: Bytes {
                    codec: 2,
                    bytes: self.text().into_bytes(),
                },
            },
            _ => Change::Move {
                to: queue(self.dice.below(2) as usize),
            },
        };
        let which = match self.dice.percent(50) {
            // An edit of many jobs that was interrupted would be made twice, and be twice in the history.
            false if !matches!(change, Change::Edit { .. }) => Selection::Many(self.filter()),
            _ => Selection::One(self.any_job()?),
        };
        Some((which, change))
    }

    /// Loaded jobs, as the scheduler releases them for an operator, and a change that applies to them.
    pub(super) fn draw_loaded(&mut self) -> (Selection, Change) {
        let change = match self.dice.percent(50) {
            true => Change::Cancel,
            false => Change::Suspend,
        };
        let count = self.dice.within(1, MANY as u64) as usize;
        let loaded = self.loaded.iter().take(count);
        let jobs = loaded.map(|number| self.ids[*number][0]).collect();
        (Selection::Loaded(jobs), change)
    }

    fn any_job(&mut self) -> Option<JobId> {
        let at = self.dice.below(self.ids.len().max(1) as u64) as usize;
        self.ids.get(at).map(|ids| ids[0])
    }

    fn filter(&mut self) -> Filter {
        let state = *self.dice.one_of(&State::ALL);
        Filter {
            queue: self.dice.percent(50).then(|| queue(0)),
            states: match self.dice.percent(50) {
                true => States::default().with(state),
                false => States::default(),
            },
            ..Filter::default()
        }
    }

    /// The same request to the store in memory.
    pub(super) fn of_memory(&self, mut request: StoreRequest) -> StoreRequest {
        let id = |job: JobId| self.ids[self.numbers[&job]][1];
        match &mut request {
            StoreRequest::End { job, .. }
            | StoreRequest::Retry { job, .. }
            | StoreRequest::Started { job }
            | StoreRequest::Checkpoint { job, .. }
            | StoreRequest::Progress { job, .. }
            | StoreRequest::Note { job, .. }
            | StoreRequest::Change {
                which: Selection::One(job),
                ..
            } => *job = id(*job),
            StoreRequest::Change {
                which: Selection::Loaded(jobs),
                ..
            } => jobs.iter_mut().for_each(|job| *job = id(*job)),
            _ => {}
        }
        request
    }
}
