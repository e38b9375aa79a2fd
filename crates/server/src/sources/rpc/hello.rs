//! HELLO, the first frame of a connection, which identifies the peer.

use super::fault::Fault;
use crate::MAX_FRAME;
use crate::net::{Client, ConnId, Role};
use crate::plane::Plane;
use crate::users::UserId;
use stoker_core::{Kind, Offer, PoolId, ServedByOtherPool, WorkerId};
use stoker_wire::{Encode, Frame, Hello, Role as HelloRole, Status, Type, Welcome};

impl Plane {
    /// Handles the first frame of a connection that the peer has opened.
    pub(crate) fn hello(&mut self, id: ConnId, frame: &Frame<'_>) -> Result<(), Fault> {
        let hello = Hello::parse(frame.body)?;
        if let Some(relayed) = &hello.relayed {
            self.identify_relayed(id, relayed)?;
        }
        match hello.role {
            HelloRole::Client => self.greet_client(id, &hello),
            HelloRole::Worker => self.greet_connected(id, &hello)?,
            HelloRole::Gateway => self.greet_gateway(id, &hello)?,
        }
        Ok(())
    }

    pub(super) fn greet_client(&mut self, id: ConnId, hello: &Hello) {
        self.greet_client_with(id, hello, Welcome::default());
    }

    /// Makes the connection one of a client, and answers its HELLO with these fields.
    pub(super) fn greet_client_with(&mut self, id: ConnId, hello: &Hello, welcome: Welcome) {
        let worker = hello
            .worker
            .as_deref()
            .and_then(|name| self.worker_named(name));
        let is_inside = hello.relayed.as_ref().map(|_| {
            // The processes on another machine are not known, but the identity of both connections is.
            worker.is_some_and(|worker| self.user_of_worker(worker) == self.user_of(id))
        });
        let user = self.user_of(id);
        let owner = user.and_then(|user| self.memory.users[user].identity.owner());
        if let Some(conn) = self.peers.conns.get_mut(id) {
            conn.active_at = self.now;
            conn.role = Role::Client(Client {
                worker: worker.filter(|_| is_inside != Some(false)),
                is_inside,
                owner,
                ..Client::default()
            });
        }
        self.welcome(id, welcome);
        if self.core.is_draining() {
            self.goaway_client(id);
        }
    }

    /// Handles a worker that Stoker did not start. It needs a pool, and permission to join it.
    fn greet_connected(&mut self, id: ConnId, hello: &Hello) -> Result<(), Fault> {
        let Some(conn) = self.peers.conns.get(id) else {
            return Ok(());
        };
        // Workers can't join pools of processes without the protocol.
        let pools = self.config.pools.iter().filter(|pool| pool.core.protocol);
        // A worker that names no pool joins the one that serves what it offers.
        let serving = self.core.pool_for(&offer(hello));
        let serving = serving.map(|pool| self.core.pool(pool).0);
        let wanted = hello.pool.as_deref().or(serving);
        let spec = pools
            .clone()
            .find(|pool| wanted.is_none_or(|name| pool.name == name));
        let found = spec.and_then(|spec| Some((spec, self.core.find_pool(&spec.name)?)));
        let Some((spec, pool)) = found else {
            let name = wanted.unwrap_or_default();
            let names: Vec<&str> = pools.map(|pool| pool.name.as_str()).collect();
            let text = format!(
                "there is no pool '{name}'; expected one of: {}",
                names.join(", ")
            );
            return Err(Fault::Rejected(Status::NOT_FOUND, text));
        };
        let name = &spec.name;
        // A gateway has checked whether a worker on another machine may serve what it offers.
        let has_token = spec.token.is_some() && spec.token == hello.token;
        let right_token = has_token || hello.relayed.is_some();
        if !right_token && !self.is_own_user(conn.peer.uid) {
            let text = format!("joining pool '{name}' as another user requires the pool's token");
            return Err(Fault::Rejected(Status::UNAUTHENTICATED, text));
        }
        if let Err(ServedByOtherPool { kind, name, pool }) = self.core.may_join(pool, &offer(hello))
        {
            let (what, section) = match kind {
                Kind::Calls => ("service", "service"),
                Kind::Jobs => ("queue", "queue"),
            };
            let text = format!(
                "the {what} '{name}' is served by pool '{pool}', not by '{}': join that pool, or name both pools in [{section}.{name}]",
                spec.name
            );
            return Err(Fault::Rejected(Status::PERMISSION_DENIED, text));
        }
        if hello.relayed.is_some()
            && let Some(name) = self.find_not_offered(pool, hello)
        {
            let text = format!(
                "pool '{}' also serves '{name}', which this worker does not offer: every worker of a pool can be assigned \
                 all its tasks, so a worker on another machine must offer all of them, or join a pool of its own",
                spec.name
            );
            return Err(Fault::Rejected(Status::PERMISSION_DENIED, text));
        }
        self.join(id, pool, hello);
        Ok(())
    }

    /// A queue or service of a pool that a worker does not offer. What it offers is what its token permits.
    fn find_not_offered(&self, pool: PoolId, hello: &Hello) -> Option<String> {
        let of_pool = self
            .core
            .queues()
            .filter(|queue| queue.pools.contains(&pool));
        let mut missing = of_pool.filter(|queue| match queue.kind {
            Kind::Jobs => !hello.jobs.iter().any(|job| job == "*" || job == queue.name),
            Kind::Calls => {
                let mut calls = hello.calls.iter();
                !calls.any(|call| stoker_wire::service_of(call) == queue.name)
            }
        });
        missing.next().map(|queue| queue.name.to_owned())
    }

    /// Whether a uid belongs to the server or to root. These users are administrators.
    pub(crate) fn is_own_user(&self, uid: u32) -> bool {
        uid == 0 || uid == stoker_os::own_user()
    }

    fn user_of(&self, id: ConnId) -> Option<UserId> {
        self.peers.conns.get(id)?.user
    }

    fn user_of_worker(&self, worker: WorkerId) -> Option<UserId> {
        self.user_of(self.worker_handle(worker)?.conn?)
    }

    fn worker_named(&self, name: &str) -> Option<WorkerId> {
        self.workers
            .handles
            .iter()
            .flatten()
            .find(|handle| handle.name == name)
            .map(|handle| handle.id)
    }

    /// Answers the HELLO of a worker.
    pub(crate) fn welcome_worker(
        &mut self,
        id: ConnId,
        worker: String,
        pool: String,
        version: u32,
    ) {
        let welcome = Welcome {
            worker: Some(worker),
            pool: Some(pool),
            version: Some(version),
            ..Welcome::default()
        };
        self.welcome(id, welcome);
    }

    /// Answers a HELLO.
    pub(super) fn welcome(&mut self, id: ConnId, welcome: Welcome) {
        let welcome = Welcome {
            v: 1,
            max_frame: MAX_FRAME,
            max_inflight: self.config.max_inflight,
            ..welcome
        };
        let Ok(body) = serde_json::to_vec(&welcome) else {
            return;
        };
        if let Some(conn) = self.peers.conns.get_mut(id) {
            conn.put(Encode {
                body: &body,
                prio: 0,
                ..Encode::new(Type::Welcome, 0)
            });
        }
        self.mark_dirty(id);
    }
}

/// Converts the offer in a HELLO to the form of the core.
pub(crate) fn offer(hello: &Hello) -> Offer<'_> {
    Offer {
        slots: hello.slots.unwrap_or(1),
        soft_cancel: hello.soft_cancel,
        pull: hello.pull,
        tasks: hello.tasks.unwrap_or(0),
        calls: &hello.calls,
        idempotent: &hello.idempotent,
        jobs: &hello.jobs,
        // A token may permit only what the worker offers.
        exclusive: hello.relayed.is_some(),
    }
}
