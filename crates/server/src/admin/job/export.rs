//! Exports jobs, each as a JSON object that `import` accepts.

use crate::plane::Plane;
use crate::sources::jobs::{exported_error, exported_options, shown_state};
use stoker_api::job::{Bytes, ExportedJob};
use stoker_api::{Number, QueueName, Text};
use stoker_store::View;

impl Plane {
    pub(super) fn exported_json(&self, view: &View) -> serde_json::Value {
        // The value consists of strings and numbers only, so this cannot fail.
        serde_json::to_value(self.exported(view)).unwrap_or_default()
    }

    /// A job with everything that another store needs to continue it.
    fn exported(&self, view: &View) -> ExportedJob {
        let queue = self.queue_name(view.queue).unwrap_or_default();
        let whole = view.whole.as_deref();
        let body = whole.and_then(|whole| whole.body.as_ref());
        let key = Some(&*view.key).filter(|key| !key.is_empty());
        let meta = whole.map(|whole| whole.meta.as_slice());
        let (key, key_hex) = lossless(key);
        let (meta, meta_hex) = lossless(meta.filter(|meta| !meta.is_empty()));
        let (text, body_hex) = lossless(body.map(|body| body.bytes.as_slice()));
        let checkpoint = whole.and_then(|whole| whole.checkpoint.as_deref());
        let (checkpoint, checkpoint_hex) = lossless(checkpoint);
        let idempotency = whole.and_then(|whole| whole.idempotency.as_deref());
        let (idempotency, idempotency_hex) = lossless(idempotency);
        ExportedJob {
            id: Some(Text(self.jobs.uuid(view.id).to_string())),
            queue: QueueName(queue.to_owned()),
            state: Some(shown_state(view.state)),
            priority: Some(Number(view.class.into())),
            attempt: Some(Number(view.counters.attempt.into())),
            exceptions: Some(Number(view.counters.exceptions.into())),
            crashes: Some(Number(view.counters.crashes.into())),
            due_ms: Some(Number(view.due_ms)),
            options: view.options.as_deref().map(exported_options),
            error: view.error.as_ref().map(exported_error),
            codec: body.map(|body| Number(body.codec.into())),
            owner: view.owner.as_ref().map(|owner| Text(owner.to_string())),
            key,
            key_hex,
            meta,
            meta_hex,
            body: text,
            body_hex,
            checkpoint,
            checkpoint_hex,
            idempotency,
            idempotency_hex,
        }
    }
}

/// The bytes as text if they are UTF-8, else as raw bytes.
fn lossless(bytes: Option<&[u8]>) -> (Option<String>, Option<Bytes>) {
    match bytes.map(|bytes| (bytes, std::str::from_utf8(bytes))) {
        None => (None, None),
        Some((_, Ok(text))) => (Some(text.to_owned()), None),
        Some((bytes, Err(_))) => (None, Some(Bytes(bytes.to_vec()))),
    }
}
