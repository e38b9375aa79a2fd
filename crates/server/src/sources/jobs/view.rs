//! Converts jobs for display.

use crate::clock::rfc3339;
use crate::plane::Plane;
use stoker_api::job::{Details, Failure, HistoryLine, Job as Shown, Progress, WholeJob};
use stoker_store::{Bytes, HistoryEntry, Job, JobError, State, View, fingerprint};

use super::exchange::{exported_options, shown_state};

/// A job as it appears in lists.
pub(crate) fn job_summary(plane: &Plane, view: &View) -> Shown {
    let task = plane.jobs.loaded.task_of(view.id);
    let runs = task.is_some_and(|task| plane.core.is_running(task));
    let is_running = runs && !view.state.is_final();
    let options = view.options.as_deref();
    let progress = |(percent, text): &(u8, String)| Progress {
        percent: *percent,
        text: text.clone(),
    };
    Shown {
        id: plane.jobs.uuid(view.id),
        queue: plane.queue_name(view.queue).map(str::to_owned),
        state: match is_running {
            true => stoker_api::job::State::Running,
            false => shown_state(view.state),
        },
        kind: options.and_then(|options| options.kind.clone()),
        // The number of runs that have ended, plus one if the job is running.
        attempt: view.counters.attempt.saturating_add(u16::from(is_running)),
        crashes: view.counters.crashes,
        priority: view.class,
        key: (!view.key.is_empty()).then(|| text_of(&view.key)),
        created_at: rfc3339(view.created_ms),
        due_at: rfc3339(view.due_ms),
        ended_at: view.ended_ms.map(rfc3339),
        error: view
            .error
            .as_ref()
            .map(|error| failure(error, view.whole.is_some())),
        progress: view.progress.as_ref().map(progress),
    }
}

/// A job with all details, which are shown only if a single job is requested.
pub(crate) fn job_details(plane: &Plane, view: &View) -> WholeJob {
    let job = job_summary(plane, view);
    let Some(whole) = view.whole.as_deref() else {
        let details = Details::default();
        return WholeJob { job, details };
    };
    let options = view.options.as_deref();
    let shown = |bytes: &Bytes| text_of(&bytes.bytes);
    let details = Details {
        owner: view.owner.as_deref().map(str::to_owned),
        exceptions: view.counters.exceptions,
        ran_ms: view.counters.ran_us as f64 / 1_000.0,
        tries: options.and_then(|options| options.tries),
        options: options.and_then(|options| serde_json::to_value(exported_options(options)).ok()),
        body: whole.body.as_ref().map(shown),
        codec: whole.body.as_ref().map(|body| body.codec),
        result: whole.result.as_ref().map(shown),
        output: whole.output.as_deref().map(text_of),
        checkpoint: whole.checkpoint.as_deref().map(text_of),
        history: whole.history.iter().map(history_line).collect(),
    };
    WholeJob { job, details }
}

/// A line of the history, as far as it was read.
pub(crate) fn history_line(note: &HistoryEntry) -> HistoryLine {
    let text = match note.cut {
        0 => note.text.clone(),
        cut => format!("{}… ({cut} bytes more: show this line alone)", note.text),
    };
    HistoryLine {
        at: rfc3339(note.at_ms),
        what: note.what.name().to_owned(),
        text,
    }
}

/// A failure. In lists, only the first line of its message is included.
pub(crate) fn failure(error: &JobError, whole: bool) -> Failure {
    let first = error.message.lines().next().unwrap_or_default();
    let message = if whole { &error.message } else { first };
    Failure {
        class: error.class.clone(),
        message: message.to_owned(),
        place: error.place.clone(),
        at: rfc3339(error.at_ms),
        fingerprint: format!("{:016x}", fingerprint(error)),
    }
}

fn text_of(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// A view of a loaded job, from what is known in memory.
pub(crate) fn view_of(job: &Job) -> View {
    View {
        id: job.id,
        queue: job.queue,
        state: State::Ready,
        class: job.class,
        key: job.key.clone(),
        counters: job.counters,
        created_ms: job.id.created_ms(),
        due_ms: job.due_ms,
        ended_ms: None,
        options: job.options.clone(),
        error: None,
        progress: None,
        owner: job.owner.clone(),
        whole: None,
    }
}
