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
        let Some(link) = self.link_mut(id) else {
            return;
        };
        let admitted = link.allowance.admit(now, stream, bytes);
        link.log.note_output();
        let log = link.log.clone();
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
        let Some(link) = self.link_mut(id) else {
            return;
        };
        if let Some(dropped) = link.allowance.report() {
            let log = link.log.clone();
            self.log.dropped(&log, dropped);
        }
    }
}
