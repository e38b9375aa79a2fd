//! What is true of workers' processes after every turn. The simulation calls it; a broken rule panics with its name.

use super::handle::LAST_STDERR;
use crate::plane::Plane;

impl Plane {
    /// Panics if more is kept of a worker than is bounded.
    pub(crate) fn check_worker_handles(&self) {
        for handle in self.worker_handles.iter().flatten() {
            let kept = handle.last_stderr.len();
            assert!(
                kept <= LAST_STDERR,
                "{kept} bytes are kept of a worker's last words"
            );
        }
    }
}
