use crate::clock::rfc3339;
use crate::plane::Plane;
use crate::store::{JobNo, State};
use serde_json::{Value, json};

/// The state a job is in, as people name it. Whether a ready job runs, only the core knows.
pub(crate) fn state_name(plane: &Plane, job: JobNo) -> &'static str {
    let entry = &plane.store[job];
    match entry.state {
        State::Ready if entry.task.is_some_and(|task| plane.core.is_running(task)) => "running",
        State::Ready => "ready",
        State::Delayed => "delayed",
        State::Retrying => "retrying",
        State::Done => "done",
        State::Failed => "failed",
        State::Cancelled => "cancelled",
    }
}

/// The stored state behind a name; running is ready to the store.
pub(crate) fn state_named(name: &str) -> Option<State> {
    Some(match name {
        "ready" | "running" => State::Ready,
        "delayed" => State::Delayed,
        "retrying" => State::Retrying,
        "done" => State::Done,
        "failed" => State::Failed,
        "cancelled" => State::Cancelled,
        _ => return None,
    })
}

/// A job as every door shows it. `whole` adds what only one job at a time is asked for.
pub(crate) fn job_json(plane: &Plane, job: JobNo, whole: bool) -> Value {
    let entry = &plane.store[job];
    let error = entry.error.as_ref().map(|error| {
        let first = error.message.lines().next().unwrap_or_default();
        let message = if whole { &error.message } else { first };
        json!({"class": error.class, "message": message, "place": error.place,
            "at": rfc3339(error.at_ms)})
    });
    let mut value = json!({
        "id": entry.id.to_string(),
        "queue": plane.core.queue(entry.spec.queue).name,
        "state": state_name(plane, job),
        "attempt": entry.attempt,
        "crashes": entry.crashes,
        "priority": entry.spec.class,
        "key": (!entry.spec.key.is_empty()).then(|| String::from_utf8_lossy(&entry.spec.key)),
        "created_at": rfc3339(entry.spec.created_ms),
        "due_at": rfc3339(entry.spec.due_ms),
        "error": error,
    });
    if whole {
        value["tries"] = entry.spec.tries.into();
        value["ended_at"] = (entry.ended_ms > 0).then(|| rfc3339(entry.ended_ms)).into();
        value["body"] = match entry.state {
            State::Done => Value::Null,
            _ => String::from_utf8_lossy(entry.body()).into(),
        };
    }
    value
}
