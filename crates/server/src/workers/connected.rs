//! Workers that were not started by Stoker and have connected to the socket.

use crate::clock::wall_ms;
use crate::net::{ConnId, Role, Source};
use crate::observe::events;
use crate::observe::{Allowance, WorkerLog};
use crate::plane::{Alarm, Plane};
use crate::sources::rpc::offer;
use crate::workers::peer_process::{PeerProcess, peer_process};
use crate::workers::{SharedMemory, WorkerHandle};
use stoker_core::{Event, Exit, PoolId, Span, WorkerId, WorkerState};
use stoker_os::{Signal, signal_process};
use stoker_wire::Hello;

/// The maximum time that a process may continue after its socket was closed, for shutdown functions and
/// destructors.
const SOCKETLESS_TIMEOUT: Span = Span::from_secs(2);

impl Plane {
    pub(crate) fn join(&mut self, conn: ConnId, pool: PoolId, hello: &Hello) {
        if let Some(conn) = self.peers.conns.get_mut(conn) {
            conn.named_pid = hello.pid;
        }
        // The connection's slot is the ticket by which `admit` finds it in this same step.
        self.step(
            Event::Joined {
                pool,
                ticket: conn.slot,
                offer: offer(hello),
            },
            None,
        );
    }

    /// Completes the registration of a connected worker that the core has accepted.
    pub(crate) fn admit(&mut self, id: WorkerId, ticket: u32, number: u32) {
        let conn = self
            .peers
            .conns
            .ids()
            .into_iter()
            .find(|conn| conn.slot == ticket);
        let Some(conn) = conn else { return };
        let Some((pool, _, version)) = self.core.worker(id) else {
            return;
        };
        let pool_name = self.core.pool(pool).0.to_owned();
        let name = format!("{pool_name}-{number}");
        let Some((peer, named)) = self
            .peers
            .conns
            .get(conn)
            .map(|conn| (conn.peer, conn.named_pid))
        else {
            return;
        };
        let PeerProcess { pid, pidfd } = peer_process(peer, named);
        if let Some(pidfd) = &pidfd {
            self.poller
                .add(pidfd, Source::Process(WorkerHandle::token(id)))
                .ok();
        }
        self.add_worker_handle(WorkerHandle {
            id,
            pool,
            name: name.clone(),
            pid,
            shared: SharedMemory::default(),
            conn: Some(conn),
            pipes: Vec::new(),
            log: WorkerLog::new(&pool_name, &name, pid),
            allowance: Allowance::new(&self.config.log, self.now),
            started_ms: wall_ms(),
            ready: true,
            last_words: None,
            last_stderr: Vec::new(),
            kill_reason: None,
            end_alarm: None,
            exit: None,
            spawned: false,
            pidfd,
        });
        if let Some(conn) = self.peers.conns.get_mut(conn) {
            conn.role = Role::Worker(id);
        }
        self.welcome_worker(conn, name, pool_name, version);
    }

    /// Handles the end of the process of a worker that connected by itself.
    pub(crate) fn process_ended(&mut self, token: ConnId) {
        if let Some(id) = self.worker_of_token(token) {
            self.worker_gone(id, Exit::ConnectionLost);
        }
    }

    /// Handles the end of a worker's socket. For a spawned worker, the exit of its process follows. A worker that
    /// connected by itself counts as gone.
    pub(crate) fn worker_conn_ended(&mut self, id: WorkerId) {
        let Some(handle) = self.worker_handle(id) else {
            return;
        };
        let conn = handle.conn;
        if !handle.spawned {
            return self.worker_gone(id, Exit::ConnectionLost);
        }
        if let Some(conn) = conn.and_then(|id| self.peers.conns.get(id)) {
            self.poller.remove(&conn.fd);
        }
        // The process is usually ending, and its exit status shows the cause. A process that continues without
        // its socket can neither receive tasks nor answer.
        self.await_end(id, SOCKETLESS_TIMEOUT, Alarm::Closed(id));
    }

    /// Ends a worker that has continued without its socket.
    pub(crate) fn kill_socketless(&mut self, id: WorkerId) {
        let is_leaving = matches!(
            self.core.worker_state(id),
            Some(WorkerState::Draining | WorkerState::Stopping) | None
        );
        if let Some(handle) = self.worker_handle(id).filter(|_| !is_leaving) {
            let name = handle.name.clone();
            let text = format!("{name} closed its socket but keeps running; it is killed");
            let entry = events::WORKER_MISBEHAVED.message(text).with("worker", name);
            self.log.put(entry.with("reason", "it closed its socket"));
            self.step(Event::Misbehaved { worker: id }, None);
        }
    }

    /// Closes the connection of a worker that connected by itself, after flushing its output. Its process
    /// continues.
    pub(crate) fn disconnect(&mut self, id: WorkerId) {
        if let Some(conn) = self.worker_handle(id).and_then(|handle| handle.conn) {
            self.flush_conn(conn);
        }
        self.worker_gone(id, Exit::ConnectionLost);
    }

    /// Kills a worker that connected by itself: by a signal if that is permitted, otherwise by closing its
    /// connection.
    pub(crate) fn kill_connected(&mut self, id: WorkerId) {
        let Some(handle) = self.worker_handle(id) else {
            return;
        };
        let pidfd = handle.pidfd.as_ref();
        // A process of another user can't be signalled. Then its connection is closed.
        if pidfd.is_some_and(|pidfd| signal_process(pidfd, Signal::KILL)) {
            return;
        }
        self.worker_gone(id, Exit::ConnectionLost);
    }
}
