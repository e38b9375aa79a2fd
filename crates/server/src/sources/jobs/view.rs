use crate::clock::rfc3339;
use crate::plane::Plane;
use serde_json::{Value, json};
use stoker_store::{Bytes, Job, JobError, Note, State, View, fingerprint};

/// The state of a name; running is ready to the store.
pub(crate) fn state_named(name: &str) -> Option<State> {
    if name == "running" {
        return Some(State::Ready);
    }
    State::ALL.into_iter().find(|state| state.name() == name)
}

/// A job as every door shows it. What only one job at a time is asked for comes along if it is there.
pub(crate) fn job_json(plane: &Plane, view: &View) -> Value {
    let task = plane.jobs.held.task_of(view.id);
    let runs = task.is_some_and(|task| plane.core.is_running(task));
    let queue = plane.jobs.queue_id(view.queue);
    let options = view.options.as_deref();
    let is_whole = view.whole.is_some();
    let mut value = json!({
        "id": plane.jobs.uuid(view.id).to_string(),
        "queue": queue.map(|queue| plane.core.queue(queue).name),
        "state": if runs && !view.state.is_final() { "running" } else { view.state.name() },
        "type": options.and_then(|options| options.kind.as_deref()),
        "attempt": view.run.attempt,
        "crashes": view.run.crashes,
        "priority": view.class,
        "key": (!view.key.is_empty()).then(|| String::from_utf8_lossy(&view.key)),
        "created_at": rfc3339(view.created_ms),
        "due_at": rfc3339(view.due_ms),
        "ended_at": view.ended_ms.map(rfc3339),
        "error": view.error.as_ref().map(|error| error_json(error, is_whole)),
        "progress": view.progress.as_ref()
            .map(|(percent, text)| json!({"percent": percent, "text": text})),
    });
    if let Some(whole) = view.whole.as_deref() {
        value["exceptions"] = view.run.exceptions.into();
        value["ran_ms"] = (view.run.ran_us as f64 / 1_000.0).into();
        value["tries"] = options.and_then(|options| options.tries).into();
        value["options"] = options.map_or(Value::Null, |options| json!(options));
        value["body"] = whole.body.as_ref().map_or(Value::Null, text_of);
        value["codec"] = whole.body.as_ref().map(|body| body.codec).into();
        value["result"] = whole.result.as_ref().map_or(Value::Null, text_of);
        value["output"] = json!(whole.output.as_deref().map(String::from_utf8_lossy));
        value["checkpoint"] = json!(whole.checkpoint.as_deref().map(String::from_utf8_lossy));
        value["history"] = whole.history.iter().map(note_json).collect();
    }
    value
}

/// The longest text of the history that is shown: the payload before an edit may be as long as a frame.
const NOTE_SHOWN: usize = 64 << 10;

fn note_json(note: &Note) -> Value {
    let (at, what, text) = (rfc3339(note.at_ms), note.what.name(), &note.text);
    let mut ends = (0..=text.len().min(NOTE_SHOWN)).rev();
    let end = ends.find(|at| text.is_char_boundary(*at)).unwrap_or(0);
    let shown = &text[..end];
    match text.len() - shown.len() {
        0 => whole_note_json(note),
        cut => {
            let text = format!("{shown}… ({cut} bytes more: show this line alone)");
            json!({"at": at, "what": what, "text": text})
        }
    }
}

/// One line of the history, however long.
pub(crate) fn whole_note_json(note: &Note) -> Value {
    json!({"at": rfc3339(note.at_ms), "what": note.what.name(), "text": note.text})
}

/// A failure as every door shows it; its first line only, where many are listed.
pub(crate) fn error_json(error: &JobError, whole: bool) -> Value {
    let first = error.message.lines().next().unwrap_or_default();
    let message = if whole { &error.message } else { first };
    json!({"class": error.class, "message": message, "place": error.place,
        "at": rfc3339(error.at_ms), "fingerprint": format!("{:016x}", fingerprint(error))})
}

fn text_of(bytes: &Bytes) -> Value {
    String::from_utf8_lossy(&bytes.bytes).into()
}

/// A job that the core holds, as it is known here.
pub(crate) fn view_of(job: &Job) -> View {
    View {
        id: job.id,
        queue: job.queue,
        state: State::Ready,
        class: job.class,
        key: job.key.clone(),
        run: job.run,
        created_ms: job.id.made_ms(),
        due_ms: job.due_ms,
        ended_ms: None,
        options: job.options.clone(),
        error: None,
        progress: None,
        owner: job.owner.clone(),
        whole: None,
    }
}
