//! Signals that ask to stop. They only set a flag, which is checked wherever the lab waits, so that servers and files can
//! be removed first.

use crate::error::{Error, Result};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// How long a wait may last before the flag is checked again.
pub(crate) const PAUSE: Duration = Duration::from_millis(100);

/// Whether the lab should stop.
#[derive(Clone, Debug, Default)]
pub(crate) struct Interrupt(Arc<AtomicBool>);

impl Interrupt {
    /// From now on, INT, TERM and HUP do not end the process.
    pub(crate) fn install() -> Result<Self> {
        let interrupt = Self::default();
        for signal in [SIGINT, SIGTERM, SIGHUP] {
            signal_hook::flag::register(signal, interrupt.0.clone())?;
        }
        Ok(interrupt)
    }

    pub(crate) fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// Fails if the lab should stop.
    pub(crate) fn check(&self) -> Result {
        match self.is_set() {
            true => Err(Error::Interrupted),
            false => Ok(()),
        }
    }
}
