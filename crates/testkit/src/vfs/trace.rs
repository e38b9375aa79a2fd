//! The calls so far, as one hash that equal runs share.

use super::{Call, Fault};
use xxhash_rust::xxh3::xxh3_64_with_seed;

/// The calls so far, as a hash that two equal runs share. The written bytes are not part of it: see
/// [`super::Disk::fingerprint`] for those.
#[derive(Default)]
pub(super) struct Trace {
    pub(super) calls: u64,
    pub(super) hash: u64,
    /// One line per call, if they are recorded.
    pub(super) lines: Option<Vec<String>>,
}

impl Trace {
    pub(super) fn note(&mut self, call: &Call<'_>, fault: Option<Fault>) {
        let numbers = [call.kind as u64, call.offset, call.len].map(u64::to_le_bytes);
        self.hash = xxh3_64_with_seed(numbers.as_flattened(), self.hash);
        self.hash = xxh3_64_with_seed(call.file.as_bytes(), self.hash);
        if let Some(fault) = fault {
            self.hash = xxh3_64_with_seed(format!("{fault:?}").as_bytes(), self.hash);
        }
        if let Some(lines) = &mut self.lines {
            lines.push(match fault {
                None => call.to_string(),
                Some(fault) => format!("{call}: {fault:?}"),
            });
        }
    }
}
