//! Jobs out of one store and into another, a JSON object each.

use super::{Answer, Refused};
use crate::net::ConnId;
use crate::plane::Plane;
use crate::sources::jobs::{MAX_META, Operator, Reach, is_own};
use serde_json::{Value, json};
use stoker_store::{Ask, Import, JobError, MAX_CHECKPOINT, NewJob, Options, Run, View};
use stoker_wire::{Frame, Meta};

/// Jobs in one request.
const IMPORT_MAX: usize = 1_000;

impl Plane {
    /// A job with all that another store needs to go on with it.
    pub(super) fn export_json(&self, view: &View) -> Value {
        let queue = self.jobs.queue_id(view.queue);
        let whole = view.whole.as_deref();
        let body = whole.and_then(|whole| whole.body.as_ref());
        let mut value = json!({
            "id": self.jobs.uuid(view.id).to_string(),
            "queue": queue.map(|queue| self.core.queue(queue).name),
            "state": view.state.name(),
            "priority": view.class,
            "attempt": view.run.attempt,
            "exceptions": view.run.exceptions,
            "crashes": view.run.crashes,
            "due_ms": view.due_ms,
            "options": view.options,
            "error": view.error,
            "codec": body.map(|body| body.codec),
        });
        let mut bytes = |key: &str, bytes: &[u8]| match std::str::from_utf8(bytes) {
            Ok(text) => value[key] = text.into(),
            Err(_) => value[format!("{key}_hex")] = hex(bytes).into(),
        };
        if !view.key.is_empty() {
            bytes("key", &view.key);
        }
        if let Some(meta) = whole
            .map(|whole| &whole.meta)
            .filter(|meta| !meta.is_empty())
        {
            bytes("meta", meta);
        }
        if let Some(body) = body {
            bytes("body", &body.bytes);
        }
        if let Some(checkpoint) = whole.and_then(|whole| whole.checkpoint.as_deref()) {
            bytes("checkpoint", checkpoint);
        }
        if let Some(key) = whole.and_then(|whole| whole.idempotency.as_deref()) {
            bytes("idempotency", key);
        }
        value
    }

    pub(super) fn import_jobs(&mut self, conn: ConnId, frame: &Frame<'_>, ask: &Value) -> Answer {
        let lines = ask["jobs"]
            .as_array()
            .map(Vec::as_slice)
            .unwrap_or_default();
        if lines.is_empty() || lines.len() > IMPORT_MAX {
            return Err(Refused::invalid(format!(
                "'jobs' is a list of 1 to {IMPORT_MAX} exported jobs"
            )));
        }
        let mut jobs = Vec::with_capacity(lines.len());
        for (at, line) in lines.iter().enumerate() {
            let wrong = |Refused(status, text)| Refused(status, format!("job {}: {text}", at + 1));
            jobs.push(self.import_of(line).map_err(wrong)?);
        }
        let what = Operator::Changed(Reach::None);
        let ticket = self.admin_ticket(conn, frame, what);
        self.jobs.ask(Ask::Import { ticket, jobs });
        Ok(None)
    }

    fn import_of(&mut self, line: &Value) -> Result<Import, Refused> {
        let queue = self.queue_named(super::text_of(line, "queue")?)?;
        let state = line["state"].as_str().unwrap_or("ready");
        if matches!(state, "done" | "cancelled") {
            let text = format!("a {state} job is not to run again; leave it out");
            return Err(Refused::invalid(text));
        }
        if state == "failed" && line["error"].is_null() {
            return Err(Refused::invalid("a failed job has an 'error'"));
        }
        let number = |key: &str, max: u64| line[key].as_u64().unwrap_or(0).min(max);
        let options: Option<Options> = serde_json::from_value(line["options"].clone())
            .map_err(|error| Refused::invalid(format!("options: {error}")))?;
        let error: Option<JobError> = serde_json::from_value(line["error"].clone())
            .map_err(|error| Refused::invalid(format!("error: {error}")))?;
        let meta = bytes_of(line, "meta")?;
        let own = |meta: Meta<'_>| meta.iter().any(|(key, _)| is_own(key));
        if Meta::parse(&meta).map_or(true, own) || meta.len() > MAX_META {
            return Err(Refused::invalid("'meta' is no metadata of a job"));
        }
        let key = bytes_of(line, "key")?;
        if key.len() > 200 {
            return Err(Refused::invalid("a 'key' has at most 200 bytes"));
        }
        let ordered = self.jobs.queue_id(queue);
        let ordered = ordered.is_some_and(|queue| self.core.queue(queue).config.ordered);
        let body = bytes_of(line, "body")?;
        let some_bytes_of =
            |key| bytes_of(line, key).map(|bytes| Some(bytes).filter(|b| !b.is_empty()));
        let (checkpoint, idempotency) =
            (some_bytes_of("checkpoint")?, some_bytes_of("idempotency")?);
        if checkpoint
            .as_ref()
            .is_some_and(|bytes| bytes.len() > MAX_CHECKPOINT)
        {
            let text = format!("a 'checkpoint' has at most {MAX_CHECKPOINT} bytes");
            return Err(Refused::invalid(text));
        }
        Ok(Import {
            checkpoint,
            was: line["id"].as_str().unwrap_or_default().to_owned(),
            run: Run {
                attempt: number("attempt", 60_000) as u16,
                exceptions: number("exceptions", 60_000) as u16,
                crashes: number("crashes", 100) as u8,
                ran_us: 0,
            },
            error: error.filter(|_| state == "failed"),
            job: NewJob {
                queue,
                class: if ordered {
                    3
                } else {
                    number("priority", 7) as u8
                },
                key: key.into(),
                codec: number("codec", 255) as u8,
                meta_len: meta.len(),
                bytes: [meta, body].concat().into(),
                options: options.map(Box::new),
                idempotency: idempotency.map(Vec::into_boxed_slice),
                due_ms: number("due_ms", u64::MAX),
                suspended: state == "suspended",
            },
        })
    }
}

/// Bytes that stand in a line as text, or as hexadecimal digits under `…_hex`.
fn bytes_of(line: &Value, key: &str) -> Result<Vec<u8>, Refused> {
    if let Some(text) = line[key].as_str() {
        return Ok(text.as_bytes().to_vec());
    }
    let Some(digits) = line[format!("{key}_hex")].as_str() else {
        return Ok(Vec::new());
    };
    let pairs = digits.as_bytes().chunks(2);
    let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok();
    pairs
        .map(byte)
        .collect::<Option<Vec<u8>>>()
        .ok_or_else(|| Refused::invalid(format!("'{key}_hex' is not hexadecimal")))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
