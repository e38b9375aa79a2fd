//! The invariants of worker handles, which hold after every turn. The simulation checks them; a violation panics
//! with the name of the invariant.

use super::handle::MAX_LAST_STDERR;
use crate::plane::Plane;

impl Plane {
    /// Panics if more output is kept of a worker than its limit.
    pub(crate) fn check_worker_handles(&self) {
        for handle in self.workers.handles.iter().flatten() {
            let kept = handle.last_stderr.len();
            assert!(
                kept <= MAX_LAST_STDERR,
                "{kept} bytes are kept of a worker's last words"
            );
        }
    }
}
