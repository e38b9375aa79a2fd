//! Requests workers from the angel.

use crate::base;
use crate::clock::wall_ms;
use crate::net::{Role, Source};
use crate::observe::events;
use crate::observe::{Allowance, Stream, WorkerLog};
use crate::plane::Plane;
use crate::workers::{Pipe, SharedMemory, Version, WorkerHandle};
use stoker_angel::{ToAngel, WorkerKey};
use stoker_core::{Event, Exit, Offer, PoolId, WorkerId};
use stoker_os::{Fd, own_user};

impl Plane {
    /// Requests a worker from the angel.
    pub(crate) fn spawn(&mut self, worker: WorkerId, pool: PoolId, version: u32, number: u32) {
        let Some(version) = self.version_to_start(pool, version) else {
            return;
        };
        let name = format!("{}-{number}", version.spec.name);
        let log = WorkerLog::new(&version.spec.name, &name, 0);
        let zygote = version.zygote;
        let Ok(spec) = version.text() else {
            // This has the same effect as a message that could not be sent.
            self.angel.is_lost = true;
            return;
        };
        self.add_worker_handle(WorkerHandle {
            id: worker,
            pool,
            name: name.clone(),
            pid: 0,
            shared: SharedMemory::default(),
            conn: None,
            pipes: Vec::new(),
            log,
            allowance: Allowance::new(&self.config.log, self.now),
            started_ms: wall_ms(),
            ready: false,
            last_words: None,
            last_stderr: Vec::new(),
            kill_reason: None,
            end_alarm: None,
            exit: None,
            spawned: true,
            pidfd: None,
        });
        let message = ToAngel::Spawn {
            worker: WorkerHandle::key(worker),
            name,
            spec,
            zygote,
        };
        match zygote.is_some() && self.core.has_idle(pool) {
            true => self.send_to_angel_later(message),
            false => self.send_to_angel(&message),
        }
    }

    /// The configuration with which workers of a version are started. For a new version it is taken from the
    /// pool's current configuration.
    fn version_to_start(&mut self, pool: PoolId, version: u32) -> Option<&mut Version> {
        let (key, now) = ((pool, version), self.now);
        let known = self.workers.versions.get_mut(&key);
        let has_directory = known.map(|version| version.has_directory(now));
        if has_directory == Some(true) {
            return self.workers.versions.get_mut(&key);
        }
        if has_directory == Some(false) {
            // A release was removed before a reload switched its workers to the next one. The workers are started
            // in the next release, because only its code exists.
            base::refresh_removed_base(&mut self.launch, &mut self.log);
        }
        let spec = self.spec_to_start(self.pool_spec(pool)?);
        let version = self.workers.new_version(spec);
        let before = self.workers.versions.insert(key, version);
        if let Some(zygote) = before.and_then(|before| before.zygote) {
            self.end_zygote(zygote);
        }
        self.workers.versions.get_mut(&key)
    }

    /// Takes over the socket and the output pipes of a worker that was started.
    pub(crate) fn spawned(&mut self, key: WorkerKey, pid: i32, fds: Vec<Fd>) {
        let id = WorkerHandle::of_key(key);
        let mut fds = fds.into_iter();
        let (Some(stdout), Some(stderr)) = (fds.next(), fds.next()) else {
            return;
        };
        if self.worker_handle(id).is_none() {
            return self.send_to_angel(&ToAngel::Kill { worker: key });
        }
        let conn = fds
            .next()
            .map(|socket| self.add_conn(socket, Role::Worker(id)));
        let pool = self.core.worker(id).map(|(pool, _, _)| pool);
        let pool = pool
            .map(|pool| self.core.pool(pool).0.to_owned())
            .unwrap_or_default();
        let token = WorkerHandle::token(id);
        let pipes = [(stdout, Stream::Stdout), (stderr, Stream::Stderr)].map(|(fd, stream)| {
            let source = Source::Output {
                worker: token,
                stderr: stream == Stream::Stderr,
            };
            if let Err(error) = self.poller.add(&fd, source) {
                self.log.put(
                    events::CANNOT_WATCH
                        .message(format!("cannot watch a worker's output: {error}"))
                        .with("reason", error.to_string()),
                );
            }
            Pipe {
                fd,
                stream,
                is_paused: false,
            }
        });
        if let Some(handle) = self.worker_handle_mut(id) {
            handle.pid = pid;
            handle.conn = conn;
            handle.log = WorkerLog::new(&pool, &handle.name, pid);
            handle.pipes = pipes.into();
        }
        if conn.is_none() {
            self.mark_ready_without_protocol(id);
        }
    }

    /// Reports a process without the protocol as ready as soon as it runs. It receives no tasks.
    fn mark_ready_without_protocol(&mut self, worker: WorkerId) {
        let offer = Offer {
            slots: 1,
            soft_cancel: false,
            pull: false,
            tasks: 0,
            calls: &[],
            idempotent: &[],
            jobs: &[],
            exclusive: false,
        };
        self.step(Event::Hello { worker, offer }, None);
    }

    pub(crate) fn not_spawned(&mut self, key: WorkerKey, error: &str) {
        let id = WorkerHandle::of_key(key);
        let Some(handle) = self.worker_handle(id) else {
            return;
        };
        let is_root = own_user() == 0;
        let user = self.pool_spec(handle.pool);
        let user = user.and_then(|pool| pool.user.as_deref());
        let hint = match user {
            Some(user) if !is_root => {
                format!(" (only root can start workers as user = \"{user}\")")
            }
            _ => String::new(),
        };
        if let Some(handle) = self.worker_handle_mut(id) {
            handle.last_words = Some(format!("{error}{hint}"));
        }
        self.step(
            Event::Exited {
                worker: id,
                exit: Exit::NotStarted,
            },
            None,
        );
    }
}
