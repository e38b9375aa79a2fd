//! Zygotes: started when the first worker is requested from them, and the life of the workers that they fork.
//!
//! A zygote's children are its own, so it reports how they end, unless it makes them children of the angel when it
//! forks them. When a zygote ends, its children become children of the angel, which is a subreaper.

use super::{Angel, Phase, Worker};
use crate::zygote::{Address, Report, Requested, Zygote, inspect_zygote};
use crate::{End, SpecText, ToServer, WorkerKey, ZygoteKey, procfs, spawn};
use rustix::fd::BorrowedFd;
use std::io;

/// The signal by which a child of a zygote may end itself when it has finished its work. It counts as exit code 0:
/// it is faster than the exit of a language runtime, which would clean up what belongs to the zygote.
const FINISHED: End = End::Signal(libc::SIGVTALRM);

/// The maximum number of reports of a zygote that are handled at once, so that it can't keep this process busy.
const MAX_REPORTS: usize = 1024;
/// The maximum number of ends that are kept for reports that may be on their way.
const MAX_EARLY_ENDS: usize = 4096;

impl Angel {
    /// Requests a worker from a zygote, which is started first if there is none.
    pub(super) fn spawn_from_zygote(
        &mut self,
        zygote: ZygoteKey,
        worker: WorkerKey,
        name: String,
        spec: &SpecText,
    ) {
        let running = |other: &Zygote| other.key == zygote && !other.is_ending;
        let at = match self.zygotes.iter().position(running) {
            Some(at) => at,
            None => match self.start_zygote(zygote, &name, spec) {
                Ok(at) => at,
                Err(error) => return self.spawn_failed(worker, &error),
            },
        };
        match self.zygotes[at].is_ready() {
            true => self.request(at, worker, name),
            false => self.zygotes[at].waiting.push((worker, name)),
        }
    }

    fn start_zygote(&mut self, key: ZygoteKey, worker: &str, spec: &SpecText) -> io::Result<usize> {
        let pool = worker.rsplit_once('-').map_or(worker, |(pool, _)| pool);
        let name = format!("{pool}-zygote");
        let cookie = self.new_cookie();
        let path = self.listening.path();
        let address = Address::open()?;
        let recipe = self.recipes.get_or_prepare(spec)?;
        let started = spawn::zygote(recipe, &name, &path, &cookie, &address.name, &self.parent)?;
        let pid = started.pid;
        let zygote = Zygote::new(key, pid, cookie, address, spec.clone());
        self.zygotes.push(zygote);
        self.send(&ToServer::ZygoteStarted { zygote: key, pid }, started.fds);
        Ok(self.zygotes.len() - 1)
    }

    fn spawn_failed(&mut self, worker: WorkerKey, error: &io::Error) {
        let error = error.to_string();
        self.send(&ToServer::SpawnFailed { worker, error }, Vec::new());
    }

    fn request(&mut self, at: usize, worker: WorkerKey, name: String) {
        let cookie = self.new_cookie();
        let zygote = &mut self.zygotes[at];
        let sent = spawn::Ends::open(true).and_then(|ends| {
            zygote.request(worker, &name, &cookie, &ends.worker)?;
            Ok(ends.server)
        });
        match sent {
            Ok(fds) => {
                let requested = Requested { name, cookie, fds };
                zygote.requested.insert(worker, requested);
            }
            // The zygote is about to end and may ask to be replaced. What happens to the worker is decided when it has ended.
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {
                zygote.is_ending = true;
                zygote.waiting.push((worker, name));
            }
            Err(error) => self.spawn_failed(worker, &error),
        }
    }

    /// Handles what zygotes have reported.
    pub(super) fn receive_from_zygotes(&mut self) {
        for at in 0..self.zygotes.len() {
            self.receive_from_zygote(at);
        }
        if !self.early_ends.is_empty() && !self.zygotes.iter().any(Zygote::is_awaited) {
            self.early_ends.clear();
        }
    }

    fn receive_from_zygote(&mut self, at: usize) {
        for _ in 0..MAX_REPORTS {
            let handled = match self.zygotes[at].receive() {
                Ok(None) => return,
                Ok(Some(report)) => self.on_report(at, report),
                Err(error) => Err(error),
            };
            let Err(error) = handled else {
                continue;
            };
            if error.kind() == io::ErrorKind::UnexpectedEof {
                // The zygote is about to end by itself, with an exit code that says why.
                self.zygotes[at].is_ending = true;
                continue;
            }
            self.zygotes[at].fault.get_or_insert(error.to_string());
            self.zygotes[at].kill();
        }
    }

    fn on_report(&mut self, at: usize, report: Report) -> io::Result<()> {
        match report {
            Report::Ready { .. } if self.zygotes[at].is_ready() => {
                return Err(io::Error::other("it reported twice that it is ready"));
            }
            Report::Ready { signal } => {
                self.zygotes[at].set_ready(signal);
                let (zygote, findings) =
                    (self.zygotes[at].key, inspect_zygote(self.zygotes[at].pid));
                let message = ToServer::ZygoteReady { zygote, findings };
                self.send(&message, Vec::new());
                for (worker, name) in std::mem::take(&mut self.zygotes[at].waiting) {
                    self.request(at, worker, name);
                }
            }
            Report::Spawned { worker, pid } => return self.forked(at, worker, pid),
            Report::Exited { worker, end } => {
                let reporter = Some(self.zygotes[at].pid);
                let known = self.workers.get(&worker);
                if known.is_some_and(|known| known.zygote == reporter) {
                    self.worker_ended(worker, end);
                }
            }
            Report::Failed { worker, error } => {
                if self.zygotes[at].take_request(worker).is_some() {
                    self.spawn_failed(worker, &io::Error::other(error));
                }
            }
        }
        Ok(())
    }

    /// Takes over a process that a zygote has forked. The zygote is not trusted: it runs as the pool's user, and this
    /// process may be root.
    fn forked(&mut self, at: usize, worker: WorkerKey, pid: i32) -> io::Result<()> {
        let (zygote, own) = (self.zygotes[at].pid, self.parent.pid.as_raw_nonzero().get());
        let birth = procfs::birth(pid);
        // A child of this process may as well be an orphan of another user.
        let is_own = birth.is_some_and(|birth| birth.parent == own);
        let is_own = is_own && self.zygotes[at].is_of_same_user(pid);
        let is_known = self.by_pid.contains_key(&pid) || !self.is_unknown_child(pid);
        let is_of_zygote = birth.is_none_or(|birth| birth.parent == zygote);
        if pid == zygote || is_known || !is_own && !is_of_zygote {
            return Err(io::Error::other(format!(
                "it reported process {pid} as its child, which it is not"
            )));
        }
        let Some(requested) = self.zygotes[at].take_request(worker) else {
            // The worker is no longer wanted. If its process has ended, the pid may denote a group of others.
            if birth.is_some() {
                procfs::kill_tree(pid);
            }
            return Ok(());
        };
        let Requested { name, cookie, fds } = requested;
        let early = self.early_ends.remove(&pid);
        let reaped_here = is_own || early.is_some();
        let process = Worker {
            pid,
            name,
            cookie,
            zygote: (!reaped_here).then_some(zygote),
            is_forked: true,
            birth,
        };
        self.zygotes[at].has_forked = true;
        self.workers.insert(worker, process);
        self.by_pid.insert(pid, worker);
        self.send(&ToServer::Spawned { worker, pid }, fds);
        if let Some(end) = early {
            self.worker_ended(worker, end);
        }
        Ok(())
    }

    /// Whether a process is neither the server, a gateway, a zygote nor an inherited child.
    fn is_unknown_child(&self, pid: i32) -> bool {
        let is_server = self.server.is_some_and(|(server, _)| server == pid);
        let is_zygote = self.zygotes.iter().any(|zygote| zygote.pid == pid);
        !is_server && !is_zygote && !self.is_gateway(pid) && !self.inherited_children.contains(&pid)
    }

    /// Handles the end of a worker's process.
    pub(super) fn worker_ended(&mut self, key: WorkerKey, end: End) {
        let Some(worker) = self.workers.remove(&key) else {
            return;
        };
        self.by_pid.remove(&worker.pid);
        let end = match end {
            FINISHED if worker.is_forked => End::Code(0),
            end => end,
        };
        self.ended.push(worker);
        self.send(&ToServer::Exited { worker: key, end }, Vec::new());
    }

    /// Keeps the end of a child that is unknown, because its zygote's report may still be on its way.
    pub(super) fn keep_early_end(&mut self, pid: i32, end: End) {
        let is_awaited = self.zygotes.iter().any(Zygote::is_awaited);
        if is_awaited && self.early_ends.len() < MAX_EARLY_ENDS {
            self.early_ends.insert(pid, end);
        }
    }

    /// Handles the end of a zygote. Returns false if the process was not a zygote.
    pub(super) fn zygote_ended(&mut self, pid: i32, end: End) -> bool {
        let Some(at) = self.zygotes.iter().position(|zygote| zygote.pid == pid) else {
            return false;
        };
        // Handles what the zygote reported before it ended.
        self.receive_from_zygote(at);
        let mut zygote = self.zygotes.swap_remove(at);
        self.adopt_children(pid);
        let mut waiting = zygote.take_waiting();
        // The zygote asks to be replaced by one that boots again.
        let is_replaced = zygote.has_forked && end == End::Code(0);
        let moved = match is_replaced && !zygote.is_unwanted {
            true => std::mem::take(&mut waiting),
            false => Vec::new(),
        };
        let message = ToServer::ZygoteEnded {
            zygote: zygote.key,
            end,
            is_expected: zygote.is_unwanted || is_replaced,
            reason: zygote.fault,
            waiting: waiting.into_iter().map(|(worker, _)| worker).collect(),
        };
        self.send(&message, Vec::new());
        for (worker, name) in moved {
            self.spawn_from_zygote(zygote.key, worker, name, &zygote.spec);
        }
        true
    }

    /// The children of a zygote that has ended are children of this process now. One whose end it did not report any
    /// more has no known exit status.
    fn adopt_children(&mut self, zygote: i32) {
        let mut lost = Vec::new();
        for (key, worker) in &mut self.workers {
            if worker.zygote == Some(zygote) {
                worker.zygote = None;
                if !worker.exists() {
                    lost.push(*key);
                }
            }
        }
        for key in lost {
            self.worker_ended(key, End::Signal(libc::SIGKILL));
        }
    }

    /// Kills a zygote. Its workers continue.
    pub(super) fn end_zygote(&mut self, key: ZygoteKey) {
        let of_key = self.zygotes.iter_mut().filter(|zygote| zygote.key == key);
        for zygote in of_key.filter(|zygote| !zygote.is_unwanted) {
            zygote.is_unwanted = true;
            zygote.kill();
        }
    }

    /// Cancels the start of a worker that has no process yet. Returns whether there was such a worker.
    pub(super) fn cancel_request(&mut self, worker: WorkerKey) -> bool {
        let cancelled = self
            .zygotes
            .iter_mut()
            .any(|zygote| zygote.cancel_request(worker));
        if cancelled {
            let end = End::Signal(libc::SIGKILL);
            self.send(&ToServer::Exited { worker, end }, Vec::new());
        }
        cancelled
    }

    pub(super) fn is_zygote(&self, pid: i32) -> bool {
        self.zygotes.iter().any(|zygote| zygote.pid == pid)
    }

    /// The descriptors to wait on.
    pub(super) fn zygote_fds(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.zygotes.iter().filter_map(Zygote::fd)
    }

    /// Forgets everything, because the server has ended and all workers have been killed.
    pub(super) fn forget_zygotes(&mut self) {
        debug_assert!(self.phase != Phase::Serving, "zygotes are still needed");
        self.zygotes.clear();
        self.early_ends.clear();
    }
}
