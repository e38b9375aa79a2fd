//! What the workers of one version of a pool are started with.

use crate::config::Pool as PoolSpec;
use std::io;
use std::path::Path;
use std::sync::Arc;
use stoker_angel::{SpecText, ZygoteKey};
use stoker_core::{Span, Time};

/// The time between two checks whether the directory exists. A pool whose workers run one task each starts thousands a
/// second.
const DIRECTORY_CHECK_INTERVAL: Span = Span::from_millis(10);

/// The configuration of a version, and its message to the angel.
pub(crate) struct Version {
    pub(crate) spec: Arc<PoolSpec>,
    /// Written when the first worker is started.
    text: Option<SpecText>,
    next_directory_check: Time,
    /// The zygote that forks the workers, if the strategy has one.
    pub(crate) zygote: Option<ZygoteKey>,
}

impl Version {
    /// `zygote` is used if the strategy has one.
    pub(crate) fn new(spec: Arc<PoolSpec>, zygote: ZygoteKey) -> Self {
        let has_zygote = spec.strategy.has_zygote;
        Self {
            spec,
            text: None,
            next_directory_check: Time::ZERO,
            zygote: has_zygote.then_some(zygote),
        }
    }

    pub(crate) fn has_directory(&mut self, now: Time) -> bool {
        if now < self.next_directory_check {
            return true;
        }
        let exists = self.spec.directory.as_deref().is_none_or(Path::is_dir);
        if exists {
            self.next_directory_check = now + DIRECTORY_CHECK_INTERVAL;
        }
        exists
    }

    /// How the angel starts a worker.
    pub(crate) fn text(&mut self) -> io::Result<SpecText> {
        if let Some(text) = &self.text {
            return Ok(text.clone());
        }
        let text = SpecText::new(&self.spec.worker_spec())?;
        Ok(self.text.insert(text).clone())
    }
}
