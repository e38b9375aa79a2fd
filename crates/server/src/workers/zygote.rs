//! Zygotes: processes of a pool from which the angel gets workers. They run no tasks; their output is logged, and
//! explains why no worker can be started.

use super::Pipe;
use super::handle::keep_last;
use crate::clock::{rfc3339, wall_ms};
use crate::net::Source;
use crate::observe::{Allowance, Entry, Stream, WorkerLog, events};
use crate::plane::Plane;
use crate::workers::WorkerHandle;
use stoker_angel::{End, ToAngel, WorkerKey, ZygoteKey};
use stoker_api::worker::{self, State};
use stoker_core::{Event, Exit, PoolId, WorkerId};
use stoker_os::{Errno, Fd, read, resident_bytes};

/// The maximum number of reads of a pipe whose zygote has ended, together more than the pipe holds.
const MAX_LAST_READS: usize = 20;

/// The process that forks the workers of one version of a pool.
pub(crate) struct ZygoteHandle {
    name: String,
    pool: String,
    /// The version of the pool.
    version: u32,
    pid: i32,
    /// Unix time in milliseconds.
    started_ms: u64,
    /// It has booted.
    is_ready: bool,
    pipes: Vec<Pipe>,
    log: WorkerLog,
    allowance: Allowance,
    /// The last part of its output. PHP writes errors to stdout unless it is configured otherwise.
    last_output: Vec<u8>,
}

impl Plane {
    pub(crate) fn zygote_started(&mut self, key: ZygoteKey, pid: i32, fds: Vec<Fd>) {
        let mut versions = self.workers.versions.iter();
        let found = versions.find(|(_, version)| version.zygote == Some(key));
        let Some(((_, version), pool)) = found.map(|(id, found)| (*id, found.spec.name.clone()))
        else {
            return self.send_to_angel(&ToAngel::EndZygote { zygote: key });
        };
        let pipes = fds.into_iter().zip([Stream::Stdout, Stream::Stderr]);
        let pipes = pipes.map(|(fd, stream)| Pipe {
            fd,
            stream,
            is_paused: false,
        });
        let name = format!("{pool}-zygote");
        let zygote = ZygoteHandle {
            log: WorkerLog::new(&pool, &name, pid),
            name,
            pool,
            version,
            pid,
            started_ms: wall_ms(),
            is_ready: false,
            pipes: pipes.collect(),
            allowance: Allowance::new(&self.config.log, self.now),
            last_output: Vec::new(),
        };
        for pipe in &zygote.pipes {
            self.poller.add(&pipe.fd, source(key, pipe.stream)).ok();
        }
        self.workers.zygotes.insert(key, zygote);
    }

    /// A zygote has booted. Logs the problems that forking it would cause.
    pub(crate) fn zygote_ready(&mut self, key: ZygoteKey, findings: Vec<String>) {
        let Some(zygote) = self.workers.zygotes.get_mut(&key) else {
            return;
        };
        zygote.is_ready = true;
        for finding in findings {
            let name = zygote.name.as_str();
            let entry = events::ZYGOTE_RISK.message(format!("{name}: {finding}"));
            let entry = entry
                .with("worker", name)
                .with("pool", zygote.pool.as_str());
            self.log
                .put(entry.with("pid", zygote.pid).with("reason", finding));
        }
    }

    /// Handles the end of a zygote: the workers that it was to fork could not be started.
    pub(crate) fn zygote_ended(
        &mut self,
        key: ZygoteKey,
        end: End,
        is_expected: bool,
        reason: Option<String>,
        waiting: &[WorkerKey],
    ) {
        // If workers wait for it, their failed starts are logged with its last words.
        let is_logged = waiting.is_empty() || is_expected;
        let (text, entry) = self.zygote_gone(key, end, is_expected, reason);
        entry
            .into_iter()
            .filter(|_| is_logged)
            .for_each(|entry| self.log.put(entry));
        for worker in waiting {
            let id = WorkerHandle::of_key(*worker);
            if let Some(handle) = self.worker_handle_mut(id) {
                handle.last_words = Some(text.clone());
                let exit = Exit::NotStarted;
                self.step(Event::Exited { worker: id, exit }, None);
            }
        }
    }

    /// Forgets a zygote. Returns how it ended, as text and as a log entry.
    fn zygote_gone(
        &mut self,
        key: ZygoteKey,
        end: End,
        is_expected: bool,
        reason: Option<String>,
    ) -> (String, Option<Entry>) {
        self.read_last_output(key);
        let how = match end {
            End::Code(code) => format!("exit code {code}"),
            End::Signal(signal) => format!("signal {signal}"),
        };
        let Some(mut zygote) = self.workers.zygotes.remove(&key) else {
            return (format!("its zygote ended with {how}"), None);
        };
        if let Some(dropped) = zygote.allowance.report() {
            self.log.put_dropped(&zygote.log, dropped);
        }
        self.log.closed(&zygote.log);
        let words = String::from_utf8_lossy(&zygote.last_output);
        let words = Some(words.trim()).filter(|words| !words.is_empty());
        let mut text = how.clone();
        for more in [reason.as_deref(), words].into_iter().flatten() {
            text.push_str(": ");
            text.push_str(more);
        }
        let name = &zygote.name;
        let (event, what) = match is_expected {
            true => (&events::ZYGOTE_GONE, format!("{name} has ended ({how})")),
            false => (&events::ZYGOTE_DIED, format!("{name} died with {text}")),
        };
        let entry = event.message(what).with("worker", name.as_str());
        let entry = entry.with("pool", zygote.pool.as_str());
        let entry = entry.with("pid", zygote.pid).with("exit", how);
        let entry = match is_expected {
            true => entry,
            false => entry
                .with("reason", reason)
                .with("last_words", words.map(str::to_owned)),
        };
        (format!("its zygote ended with {text}"), Some(entry))
    }

    /// All zygotes, ordered by pool and version.
    pub(crate) fn shown_zygotes(&self) -> Vec<worker::Zygote> {
        let zygotes = self.workers.zygotes.values().map(|zygote| worker::Zygote {
            id: zygote.name.clone(),
            pool: zygote.pool.clone(),
            version: zygote.version,
            pid: zygote.pid,
            state: match zygote.is_ready {
                true => State::Ready,
                false => State::Starting,
            },
            rss_bytes: resident_bytes(zygote.pid),
            started_at: rfc3339(zygote.started_ms),
        });
        let mut zygotes: Vec<worker::Zygote> = zygotes.collect();
        zygotes.sort_by(|a, b| (&a.pool, a.version, a.pid).cmp(&(&b.pool, b.version, b.pid)));
        zygotes
    }

    /// Ends the zygotes of a pool's versions, except those of the versions to keep. Workers that they have forked
    /// continue.
    pub(crate) fn end_zygotes(&mut self, pool: PoolId, keep: impl Fn(u32) -> bool) {
        let versions = self.workers.versions.iter_mut();
        let ended = versions.filter(|((owner, version), _)| *owner == pool && !keep(*version));
        let zygotes: Vec<ZygoteKey> = ended.filter_map(|(_, version)| version.zygote).collect();
        for zygote in zygotes {
            self.end_zygote(zygote);
        }
    }

    /// Ends the zygote of a worker that was not ready in time, if it has not even forked the worker.
    pub(crate) fn end_stuck_zygote(&mut self, worker: WorkerId) {
        let is_forked = self
            .worker_handle(worker)
            .is_none_or(|handle| handle.pid != 0);
        let known = self.core.worker(worker);
        let key = known.map(|(pool, _, version)| (pool, version));
        let version = key.and_then(|key| self.workers.versions.get(&key));
        if let Some(zygote) = version.and_then(|version| version.zygote)
            && !is_forked
        {
            self.end_zygote(zygote);
        }
    }

    pub(crate) fn end_zygote(&mut self, zygote: ZygoteKey) {
        self.send_to_angel(&ToAngel::EndZygote { zygote });
    }

    /// Reads a zygote's output once and logs it.
    pub(crate) fn read_zygote_output(&mut self, key: ZygoteKey, stream: Stream, buffer: &mut [u8]) {
        self.read_zygote_pipe(key, stream, buffer, false);
    }

    /// Reads once. Returns false if there is no more for now. `has_ended` says that the zygote has ended: what it has left is
    /// read even if the log is behind, because it may explain the end.
    fn read_zygote_pipe(
        &mut self,
        key: ZygoteKey,
        stream: Stream,
        buffer: &mut [u8],
        has_ended: bool,
    ) -> bool {
        let (now, is_behind) = (self.now, self.log.is_behind());
        let Some(zygote) = self.workers.zygotes.get_mut(&key) else {
            return false;
        };
        let Some(at) = zygote.pipes.iter().position(|pipe| pipe.stream == stream) else {
            return false;
        };
        if !has_ended && (is_behind || zygote.log.is_full()) {
            // The zygote blocks until the log has caught up.
            self.poller.remove(&zygote.pipes[at].fd);
            zygote.pipes[at].is_paused = true;
            return false;
        }
        match read(&zygote.pipes[at].fd, &mut *buffer) {
            Ok(count @ 1..) => {
                let bytes = &buffer[..count];
                keep_last(&mut zygote.last_output, bytes);
                let admitted = zygote.allowance.admit(now, stream, bytes);
                zygote.log.record_output();
                if admitted.is_cut {
                    self.log.cut(&zygote.log, stream);
                }
                if !admitted.bytes.is_empty() {
                    let bytes = admitted.bytes.to_vec();
                    self.log
                        .put_output(&zygote.log, stream, String::new(), bytes);
                }
                true
            }
            Err(Errno::AGAIN | Errno::INTR) => false,
            Ok(_) | Err(_) => {
                // Its descriptor is closed, which also ends its registration with the poller.
                zygote.pipes.swap_remove(at);
                false
            }
        }
    }

    fn read_last_output(&mut self, key: ZygoteKey) {
        let mut buffer = self.take_leftovers_buffer();
        for stream in [Stream::Stdout, Stream::Stderr] {
            for _ in 0..MAX_LAST_READS {
                if !self.read_zygote_pipe(key, stream, &mut buffer, true) {
                    break;
                }
            }
        }
        self.scratch.leftovers = buffer;
    }

    /// Resumes paused outputs after the log has caught up.
    pub(crate) fn resume_zygotes(&mut self) {
        let zygotes = self.workers.zygotes.iter_mut();
        for (key, zygote) in zygotes.filter(|(_, zygote)| !zygote.log.is_full()) {
            for pipe in zygote.pipes.iter_mut().filter(|pipe| pipe.is_paused) {
                pipe.is_paused = false;
                self.poller.add(&pipe.fd, source(*key, pipe.stream)).ok();
            }
        }
    }
}

fn source(zygote: ZygoteKey, stream: Stream) -> Source {
    Source::Zygote {
        zygote,
        stderr: stream == Stream::Stderr,
    }
}
