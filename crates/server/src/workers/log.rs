//! Passes workers' output to the log, within limits.

use crate::observe::Stream;
use crate::plane::{Alarm, Plane};
use stoker_core::{Span, WorkerId};

/// How often the amount of a worker's dropped output is logged.
const REPORT_INTERVAL: Span = Span::from_secs(5);

impl Plane {
    /// Logs what a worker wrote while it ran `tag`, as far as its rate limit allows.
    pub(crate) fn log_output(&mut self, id: WorkerId, stream: Stream, tag: String, bytes: &[u8]) {
        let now = self.now;
        let Some(handle) = self.worker_handle_mut(id) else {
            return;
        };
        let admitted = handle.allowance.admit(now, stream, bytes);
        handle.log.record_output();
        let log = handle.log.clone();
        if admitted.is_cut {
            self.log.cut(&log, stream);
        }
        if admitted.is_first_drop {
            self.alarms.set(now + REPORT_INTERVAL, Alarm::Dropped(id));
        }
        if !admitted.bytes.is_empty() {
            self.log
                .put_output(&log, stream, tag, admitted.bytes.to_vec());
        }
    }

    /// Logs how much of a worker's output was dropped, if any was.
    pub(crate) fn report_dropped(&mut self, id: WorkerId) {
        let Some(handle) = self.worker_handle_mut(id) else {
            return;
        };
        if let Some(dropped) = handle.allowance.report() {
            let log = handle.log.clone();
            self.log.put_dropped(&log, dropped);
        }
    }
}
