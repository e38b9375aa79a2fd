//! Workers' output on its way to the log, within bounds.

use crate::observe::Stream;
use crate::plane::{Alarm, Plane};
use stoker_core::{Span, WorkerId};

/// How often it is reported how much of a worker's output was dropped.
const REPORT_EVERY: Span = Span::from_secs(5);

impl Plane {
    /// Logs what a worker wrote at `tag`, as much of it as its rate allows.
    pub(crate) fn log_output(&mut self, id: WorkerId, stream: Stream, tag: String, bytes: &[u8]) {
        let now = self.now;
        let Some(handle) = self.worker_handle_mut(id) else {
            return;
        };
        let admitted = handle.allowance.admit(now, stream, bytes);
        handle.log.note_output();
        let log = handle.log.clone();
        if admitted.is_cut {
            self.log.cut(&log, stream);
        }
        if admitted.is_first_drop {
            self.alarms.set(now + REPORT_EVERY, Alarm::Dropped(id));
        }
        if !admitted.bytes.is_empty() {
            self.log.output(&log, stream, tag, admitted.bytes.to_vec());
        }
    }

    /// Reports what was dropped of a worker's output, if anything was.
    pub(crate) fn report_dropped(&mut self, id: WorkerId) {
        let Some(handle) = self.worker_handle_mut(id) else {
            return;
        };
        if let Some(dropped) = handle.allowance.report() {
            let log = handle.log.clone();
            self.log.dropped(&log, dropped);
        }
    }
}
