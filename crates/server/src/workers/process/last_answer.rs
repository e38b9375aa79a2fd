//! A worker that has answered the last task of its life, and ends by itself.
//!
//! Its end would wake this process several times: for each pipe, for the socket, and for the angel's report, after which
//! everything that is left is read. So it is no longer watched, unless it takes long to end.

use crate::alarms::AlarmKey;
use crate::net::Source;
use crate::observe::Stream;
use crate::plane::{Alarm, Plane};
use crate::workers::WorkerHandle;
use stoker_core::{Span, WorkerId, WorkerState};

/// The time after which a worker that has not ended is watched again: it may still write, and block until that is read.
const END_TIMEOUT: Span = Span::from_millis(50);

impl Plane {
    /// Stops watching a worker if it has just answered its last task and ends without being asked to.
    pub(crate) fn note_last_answer(&mut self, worker: WorkerId) {
        if self.core.worker_state(worker) != Some(WorkerState::Stopping) {
            return;
        }
        let handle = self.worker_handle(worker).filter(|handle| handle.spawned);
        let Some((handle, conn)) = handle.and_then(|handle| Some((handle, handle.conn?))) else {
            return;
        };
        let conn = self.peers.conns.get(conn);
        let Some(conn) = conn.filter(|conn| !conn.leaving && conn.reads && conn.out.is_empty())
        else {
            return;
        };
        if handle.pipes.iter().any(|pipe| pipe.is_paused) {
            return;
        }
        self.poller.remove(&conn.fd);
        for pipe in &handle.pipes {
            self.poller.remove(&pipe.fd);
        }
        self.await_end(worker, END_TIMEOUT, Alarm::Lingering(worker));
    }

    /// Watches a worker again that has not ended soon after its last answer.
    pub(crate) fn watch_lingering(&mut self, worker: WorkerId) {
        let Some(handle) = self.worker_handle(worker) else {
            return;
        };
        let token = WorkerHandle::token(worker);
        for pipe in handle.pipes.iter().filter(|pipe| !pipe.is_paused) {
            let stderr = pipe.stream == Stream::Stderr;
            let source = Source::Output {
                worker: token,
                stderr,
            };
            self.poller.add(&pipe.fd, source).ok();
        }
        if let Some(id) = handle.conn
            && let Some(conn) = self.peers.conns.get(id)
        {
            let source = Source::Conn(id);
            self.poller.add(&conn.fd, source).ok();
            self.poller
                .set(&conn.fd, source, conn.reads, conn.waits_to_write);
        }
    }

    /// Schedules a check of a worker that should end soon, instead of the one that was scheduled before.
    pub(crate) fn await_end(&mut self, worker: WorkerId, time: Span, check: Alarm) {
        let alarm: AlarmKey = self.alarms.set(self.now + time, check);
        let handle = self.worker_handle_mut(worker);
        let before = handle.and_then(|handle| handle.end_alarm.replace(alarm));
        if let Some(before) = before {
            self.alarms.cancel(before);
        }
    }
}
