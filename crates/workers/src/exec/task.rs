//! One task, as its frame says.

use stoker_wire::{Frame, Key};

#[derive(Debug)]
pub(super) struct Task {
    /// On the wire.
    pub(super) id: u32,
    /// That of the queue, or of the method.
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

    /// A word of the command, with what this task puts in the place of `{name}`, `{id}` and `{body}`.
    pub(super) fn fill(&self, word: &str) -> String {
        if !word.contains('{') {
            return word.to_owned();
        }
        let word = word
            .replace("{name}", &self.name)
            .replace("{id}", &self.label);
        // Last: what the body says stands for itself.
        word.replace("{body}", &String::from_utf8_lossy(&self.body))
    }
}

/// The id of a job as people write it.
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
