//! Handles the end of a worker's process.

use crate::net::Flow;
use crate::plane::Plane;
use crate::workers::WorkerHandle;
use stoker_angel::{End, WorkerKey};
use stoker_core::{Event, Exit, WorkerId};

/// The maximum number of reads of a dead worker's socket, together more than its buffer holds.
const MAX_READS: usize = 1_000;
const READ_SIZE: usize = stoker_os::limit(64 << 10, 100);

impl Plane {
    /// Handles the exit of a worker that the angel has reaped.
    pub(crate) fn reaped(&mut self, key: WorkerKey, end: End) {
        let exit = match end {
            End::Code(code) => Exit::Code(code),
            End::Signal(signal) => Exit::Signal(signal),
        };
        self.worker_gone(WorkerHandle::of_key(key), exit);
    }

    /// Handles the end of a worker's process. What it wrote before is read first, so that an answered task stays
    /// answered. Only then does the core determine which task it died on.
    pub(crate) fn worker_gone(&mut self, id: WorkerId, exit: Exit) {
        let Some(handle) = self.worker_handle_mut(id) else {
            return;
        };
        handle.exit = Some(exit);
        let conn = handle.conn;
        self.read_all_output(id);
        if let Some(conn) = conn {
            let mut buffer = self.take_leftovers_buffer();
            for _ in 0..MAX_READS {
                let Some(socket) = self.peers.conns.get(conn).filter(|conn| !conn.closing) else {
                    break;
                };
                let (count, flow) = socket.read(&mut buffer[..READ_SIZE]);
                if count > 0 && !self.handle_bytes(conn, &buffer[..count], true) {
                    break;
                }
                if flow == Flow::Ended || count == 0 {
                    break;
                }
            }
            self.scratch.leftovers = buffer;
        }
        self.step(Event::Exited { worker: id, exit }, None);
        self.settle();
    }

    /// Removes a worker whose end has been handled.
    pub(crate) fn release(&mut self, id: WorkerId) {
        self.report_dropped(id);
        let Some(slot) = self.workers.handles.get_mut(id.slot as usize) else {
            return;
        };
        if slot.as_ref().is_none_or(|handle| handle.id != id) {
            return;
        }
        // Dropping the handle closes its descriptors, which also ends their registration with the poller.
        let Some(handle) = slot.take() else { return };
        self.log.closed(&handle.log);
        if let Some(alarm) = handle.end_alarm {
            self.alarms.cancel(alarm);
        }
        if let Some(conn) = handle.conn {
            self.forget_conn(conn);
        }
    }
}
