//! The output of workers on stdout and stderr.

use crate::net::ConnId;
use crate::observe::Stream;
use crate::plane::Plane;
use crate::sources::Origin;
use crate::workers::WorkerHandle;
use stoker_core::{TaskId, WorkerId};
use stoker_os::{Errno, read};

/// The maximum number of bytes that are read at once of what a worker that has ended left behind.
const LEFTOVERS_SIZE: usize = 64 << 10;
/// The maximum number of bytes that are read of a pipe before an answer or a death is handled: more than a pipe can hold by
/// default. A worker that continues to write is not waited for.
const MAX_LEFTOVERS: usize = 20 * LEFTOVERS_SIZE;

impl Plane {
    /// Reads a worker's output and passes it to the log, attributed to the task that wrote it.
    pub(crate) fn read_output(&mut self, token: ConnId, stderr: bool, buffer: &mut [u8]) {
        let Some(id) = self.worker_of_token(token) else {
            return;
        };
        let stream = if stderr {
            Stream::Stderr
        } else {
            Stream::Stdout
        };
        // One read usually empties a pipe; a worker that refills it meanwhile is read again in the next turn.
        self.read_pipe(id, stream, buffer, false);
    }

    pub(crate) fn worker_of_token(&self, token: ConnId) -> Option<WorkerId> {
        let handle = self.workers.handles.get(token.slot as usize)?.as_ref()?;
        (WorkerHandle::token(handle.id) == token).then_some(handle.id)
    }

    /// Reads once. Returns the number of bytes, or 0 if nothing was read. `last` says that this is the last output of a task, which
    /// must be read before the task's answer to be attributed to it. It is bounded, because the socket of a worker
    /// whose output fills the log is not read ([`Self::pause_socket`]).
    fn read_pipe(&mut self, id: WorkerId, stream: Stream, buffer: &mut [u8], last: bool) -> usize {
        let behind = self.log.is_behind();
        let tag = |plane: &Self| plane.current_task_label(id);
        let Some(handle) = self.worker_handle_mut(id) else {
            return 0;
        };
        let is_full = !last && (behind || handle.log.is_full());
        if is_full && handle.exit.is_none() {
            self.pause_output(id, stream);
            return 0;
        }
        let Some(pipe) = handle.pipes.iter().find(|pipe| pipe.stream == stream) else {
            return 0;
        };
        match read(&pipe.fd, &mut *buffer) {
            Ok(count) if count > 0 => {
                // Until a worker is ready, all its output may explain why it does not become ready: PHP writes
                // parse errors to stdout unless it is configured otherwise.
                if stream == Stream::Stderr || !handle.ready {
                    handle.keep_stderr(&buffer[..count]);
                }
                let tag = tag(self);
                self.keep_output(id, &buffer[..count]);
                self.log_output(id, stream, tag, &buffer[..count]);
                count
            }
            Err(Errno::AGAIN | Errno::INTR) => 0,
            Ok(_) | Err(_) => {
                self.close_pipe(id, stream);
                0
            }
        }
    }

    fn close_pipe(&mut self, id: WorkerId, stream: Stream) {
        let Some(handle) = self
            .workers
            .handles
            .get_mut(id.slot as usize)
            .and_then(Option::as_mut)
        else {
            return;
        };
        if let Some(at) = handle.pipes.iter().position(|pipe| pipe.stream == stream) {
            // Its descriptor is closed, which also ends its registration with the poller.
            handle.pipes.swap_remove(at);
        }
    }

    /// Stops reading a pipe until the log has caught up. Only its worker may block because of this.
    fn pause_output(&mut self, id: WorkerId, stream: Stream) {
        self.set_paused(id, stream, true);
        let token = WorkerHandle::token(id);
        if !self.workers.paused_outputs.contains(&token) {
            self.workers.paused_outputs.push(token);
        }
    }

    /// Stops reading a worker's socket until the log has caught up, because its events are log lines too.
    pub(crate) fn pause_socket(&mut self, id: WorkerId, conn: ConnId) {
        if let Some(conn) = self.peers.conns.get_mut(conn) {
            conn.is_paused = true;
        }
        self.watch(conn);
        let token = WorkerHandle::token(id);
        if !self.workers.paused_outputs.contains(&token) {
            self.workers.paused_outputs.push(token);
        }
    }

    fn resume_socket(&mut self, id: WorkerId) {
        let Some(conn) = self.worker_handle(id).and_then(|handle| handle.conn) else {
            return;
        };
        if let Some(conn) = self.peers.conns.get_mut(conn) {
            conn.is_paused = false;
        }
        self.watch(conn);
    }

    fn set_paused(&mut self, id: WorkerId, stream: Stream, is_paused: bool) {
        let Some(handle) = self
            .workers
            .handles
            .get_mut(id.slot as usize)
            .and_then(Option::as_mut)
        else {
            return;
        };
        let token = WorkerHandle::token(id);
        for pipe in handle.pipes.iter_mut().filter(|pipe| pipe.stream == stream) {
            pipe.is_paused = is_paused;
            let source = crate::net::Source::Output {
                worker: token,
                stderr: stream == Stream::Stderr,
            };
            match is_paused {
                // A descriptor without requested events would still report EPOLLHUP in every turn.
                true => self.poller.remove(&pipe.fd),
                false => {
                    self.poller.add(&pipe.fd, source).ok();
                }
            }
        }
    }

    /// Resumes the paused outputs after the log has caught up.
    pub(crate) fn on_log_ready(&mut self) {
        self.log.catch_up();
        if self.log.is_behind() {
            return;
        }
        self.resume_zygotes();
        for token in std::mem::take(&mut self.workers.paused_outputs) {
            let Some(id) = self.worker_of_token(token) else {
                continue;
            };
            let Some(handle) = self.worker_handle(id) else {
                continue;
            };
            if handle.log.is_full() {
                self.workers.paused_outputs.push(token);
                continue;
            }
            let is_paused = handle
                .pipes
                .iter()
                .filter(|pipe| pipe.is_paused)
                .map(|pipe| pipe.stream);
            for stream in is_paused.collect::<Vec<Stream>>() {
                self.set_paused(id, stream, false);
                // The poller reports the pipe only in the next turn, and an answer may be read in this one.
                let mut buffer = self.take_leftovers_buffer();
                self.read_pipe(id, stream, &mut buffer, false);
                self.scratch.leftovers = buffer;
            }
            self.resume_socket(id);
        }
    }

    /// Reads everything that is left in a worker's pipes, before its answer or its death is handled.
    pub(crate) fn read_all_output(&mut self, id: WorkerId) {
        if self
            .worker_handle(id)
            .is_none_or(|handle| handle.pipes.is_empty())
        {
            return;
        }
        let mut buffer = self.take_leftovers_buffer();
        for stream in [Stream::Stdout, Stream::Stderr] {
            let mut total = 0;
            while total < MAX_LEFTOVERS {
                match self.read_pipe(id, stream, &mut buffer, true) {
                    0 => break,
                    count => total += count,
                }
            }
        }
        self.scratch.leftovers = buffer;
    }

    /// A buffer of [`LEFTOVERS_SIZE`]. It is allocated only once: filling one with zeros for each worker that ends would
    /// also displace everything else from the processor's cache.
    pub(crate) fn take_leftovers_buffer(&mut self) -> Vec<u8> {
        let mut buffer = std::mem::take(&mut self.scratch.leftovers);
        buffer.resize(LEFTOVERS_SIZE, 0);
        buffer
    }

    /// The task that a worker is running, as a label for log lines. If several are assigned, the label is the
    /// range of all.
    pub(crate) fn current_task_label(&self, id: WorkerId) -> String {
        let mut assigned = self.core.assigned_to(id);
        let Some(first) = assigned.next() else {
            return String::new();
        };
        match assigned.last() {
            None => self.task_label(first),
            Some(last) => format!("{}..{}", self.task_label(first), self.task_label(last)),
        }
    }

    /// Keeps the output of a worker with a single task as that task's output.
    fn keep_output(&mut self, id: WorkerId, bytes: &[u8]) {
        let mut assigned = self.core.assigned_to(id);
        let (first, second) = (assigned.next(), assigned.next());
        drop(assigned);
        if let (Some(task), None) = (first, second) {
            self.jobs.loaded.write(task, bytes);
        }
    }

    pub(crate) fn task_label(&self, task: TaskId) -> String {
        let payload = self.payload(task);
        match payload.origin {
            Origin::Job(job) => self.jobs.uuid(job).to_string(),
            _ => format!("{}#{}", self.core.name(payload.name), task.0 + 1),
        }
    }
}
