//! Jobs out of one store, a JSON object each: what `import` takes.

use crate::plane::Plane;
use serde_json::{Value, json};
use stoker_store::View;

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
        if let Some(owner) = &view.owner {
            value["owner"] = owner.as_ref().into();
        }
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
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
