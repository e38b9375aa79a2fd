//! Answers to operators, made from the store's answers.

use crate::MAX_FRAME;
use crate::net::ConnId;
use crate::plane::Plane;
use crate::sources::jobs::{
    OperatorReply, applicable, failure, history_line, job_details, job_summary, rejection_of,
};
use serde::Serialize;
use stoker_api::job;
use stoker_store::{Found, Group, Trouble, View};
use stoker_wire::Status;

/// The maximum size of an answer's payload: a frame minus its header and metadata.
const MAX_PAYLOAD: usize = MAX_FRAME - 4096;

impl Plane {
    /// The store has applied an operator's change. The second number of the result counts the loaded jobs that
    /// were skipped, because they are running or about to run.
    pub(crate) fn answer_changed(
        &mut self,
        conn: ConnId,
        id: u32,
        result: Result<(u64, u64), Trouble>,
    ) {
        match result {
            Ok((count, skipped)) => self.answer_json(conn, id, &job::Changed { count, skipped }),
            Err(trouble) => self.answer_trouble(conn, id, &trouble),
        }
    }

    fn answer_trouble(&mut self, conn: ConnId, id: u32, trouble: &Trouble) {
        let (status, text) = rejection_of(trouble);
        self.status(conn, id, status, &text, None);
    }

    /// Sends an operator the result of a query, once the store has answered it.
    pub(crate) fn answer_found(
        &mut self,
        conn: ConnId,
        id: u32,
        what: OperatorReply,
        found: Result<Found, Trouble>,
    ) {
        match found {
            Err(trouble) => self.answer_trouble(conn, id, &trouble),
            Ok(Found::One(None)) => self.answer_trouble(conn, id, &Trouble::NotFound),
            Ok(Found::One(Some(view))) => self.answer_one(conn, id, what, &view),
            Ok(Found::Count(count)) => self.answer_json(conn, id, &job::Counted { count }),
            Ok(Found::List { jobs, more }) => self.answer_page(conn, id, what, &jobs, more),
            Ok(Found::Groups(groups)) => {
                let groups = groups.iter().map(|group| self.group(group)).collect();
                self.answer_json(conn, id, &job::GroupList { groups });
            }
        }
    }

    fn answer_one(&mut self, conn: ConnId, id: u32, what: OperatorReply, view: &View) {
        if !self.may_see(conn, view.owner.as_ref(), Some(view.id)) {
            let text = "this job belongs to another user: only its owner, root and the user that Stoker runs as may see \
                        it";
            return self.status(conn, id, Status::PERMISSION_DENIED, text, None);
        }
        match what {
            OperatorReply::Fits(change) => {
                match applicable(change).any(|state| state == view.state) {
                    true => self.answer_json(conn, id, &job::Counted { count: 1 }),
                    false => self.answer_trouble(conn, id, &Trouble::State(view.state)),
                }
            }
            OperatorReply::Note(number) => self.answer_note(conn, id, view, number),
            OperatorReply::Export => {
                let (jobs, next) = (vec![self.exported_json(view)], None);
                self.answer_json(conn, id, &job::Exports { jobs, next });
            }
            _ => {
                let job = job_details(self, view);
                self.answer_json(conn, id, &job);
            }
        }
    }

    fn answer_note(&mut self, conn: ConnId, id: u32, view: &View, number: u64) {
        let line = view
            .whole
            .as_deref()
            .and_then(|whole| whole.history.first());
        match line {
            Some(line) => self.answer_json(conn, id, &history_line(line)),
            None => {
                let text = format!(
                    "the job's history has no line {number}: 'stoker jobs show' lists its lines"
                );
                self.status(conn, id, Status::NOT_FOUND, &text, None);
            }
        }
    }

    fn answer_page(
        &mut self,
        conn: ConnId,
        id: u32,
        what: OperatorReply,
        views: &[View],
        more: bool,
    ) {
        if what == OperatorReply::Export {
            let (jobs, next) = self.fitting(views, more, Self::exported_json);
            return self.answer_json(conn, id, &job::Exports { jobs, next });
        }
        let (mut jobs, next) = self.fitting(views, more, job_summary);
        if what == OperatorReply::ListWithoutRunning {
            jobs.retain(|job| job.state != job::State::Running);
        }
        self.answer_json(conn, id, &job::Jobs { jobs, next });
    }

    /// The longest prefix of a page's jobs that fits into a frame, at least one job, and the id of its last job
    /// if more jobs follow.
    fn fitting<T: Serialize>(
        &self,
        views: &[View],
        more: bool,
        shape: impl Fn(&Self, &View) -> T,
    ) -> (Vec<T>, Option<uuid::Uuid>) {
        let (mut jobs, mut size) = (Vec::with_capacity(views.len()), 0);
        for view in views {
            let job = shape(self, view);
            size += json_len(&job) + 1;
            if size > MAX_PAYLOAD && !jobs.is_empty() {
                break;
            }
            jobs.push(job);
        }
        let more = more || jobs.len() < views.len();
        let last = jobs.len().checked_sub(1).filter(|_| more);
        let next = last.map(|last| self.jobs.uuid(views[last].id));
        (jobs, next)
    }

    fn group(&self, group: &Group) -> job::Group {
        job::Group {
            fingerprint: format!("{:016x}", group.fingerprint),
            count: group.count,
            queue: self.queue_name(group.queue).map(str::to_owned),
            first_at: crate::clock::rfc3339(group.first_ms),
            last_at: crate::clock::rfc3339(group.last_ms),
            job: self.jobs.uuid(group.job),
            error: failure(&group.error, false),
        }
    }
}

/// The length of a value as JSON, in bytes.
fn json_len<T: Serialize>(value: &T) -> usize {
    struct Counter(usize);
    impl std::io::Write for Counter {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0 += bytes.len();
            Ok(bytes.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let mut counter = Counter(0);
    match serde_json::to_writer(&mut counter, value) {
        Ok(()) => counter.0,
        Err(_) => usize::MAX / 2,
    }
}
