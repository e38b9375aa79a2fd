//! A task, decoded from its REQ frame.

use stoker_wire::{Frame, Key};

#[derive(Debug)]
pub(super) struct Task {
    /// The id of the REQ frame, which the answer repeats.
    pub(super) id: u32,
    /// Name of the job's queue, or of the called method.
    pub(super) name: String,
    /// The id of the job; empty for a call.
    pub(super) label: String,
    pub(super) attempt: u8,
    pub(super) is_job: bool,
    pub(super) body: Vec<u8>,
}

impl Task {
    pub(super) fn of(frame: &Frame<'_>) -> Self {
        let job = frame.meta.get(Key::JOB_ID);
        Self {
            id: frame.id,
            name: frame.name.to_owned(),
            label: job.map_or(String::new(), format_uuid),
            attempt: frame.attempt,
            is_job: job.is_some(),
            body: frame.body.to_vec(),
        }
    }

    /// Replaces `{name}`, `{id}` and `{body}` in a word of the command with the values of this task.
    pub(super) fn fill(&self, word: &str) -> String {
        if !word.contains('{') {
            return word.to_owned();
        }
        let word = word
            .replace("{name}", &self.name)
            .replace("{id}", &self.label);
        // The body is inserted last, so that placeholders inside it are not replaced.
        word.replace("{body}", &String::from_utf8_lossy(&self.body))
    }
}

/// Formats the id of a job as a UUID with hyphens.
fn format_uuid(id: &[u8]) -> String {
    let hex: String = id.iter().map(|byte| format!("{byte:02x}")).collect();
    match hex.len() {
        32 => [
            &hex[..8],
            &hex[8..12],
            &hex[12..16],
            &hex[16..20],
            &hex[20..],
        ]
        .join("-"),
        _ => String::from_utf8_lossy(id).into_owned(),
    }
}
