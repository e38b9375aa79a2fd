//! Ownership of jobs, and who may see them.
//!
//! A job belongs to the user who pushed it (`uid:33`, as reported by the kernel). A process inside a worker acts
//! for the owner of the task that it runs: a job that it pushes belongs to that owner, and it may see that
//! owner's jobs. Root and the server's own user may see all jobs.

use crate::net::ConnId;
use crate::plane::Plane;
use crate::sources::Origin;
use stoker_core::{TaskId, WorkerId};
use stoker_os::is_descendant;
use stoker_store::{JobId, Owner};

/// The maximum depth of nested calls that are followed to find the original caller.
const MAX_DEPTH: usize = 8;

impl Plane {
    /// The owner of a job that this connection pushes. `parent` is the number, on the worker's connection, of the
    /// task that pushes the job, if the client names it.
    pub(crate) fn owner_of_push(&mut self, conn: ConnId, parent: Option<u64>) -> Option<Owner> {
        match self.enclosing_worker(conn) {
            Some(worker) => self.represented_owner(worker, conn, parent, MAX_DEPTH),
            None => self.user_name(conn),
        }
    }

    /// Whether the peer of a connection may see a job, or what belongs to an owner.
    pub(crate) fn may_see(
        &mut self,
        conn: ConnId,
        owner: Option<&Owner>,
        job: Option<JobId>,
    ) -> bool {
        if self.is_administrator(conn)
            || (owner.is_some() && self.user_name(conn).as_ref() == owner)
        {
            return true;
        }
        let Some(worker) = self.enclosing_worker(conn) else {
            return false;
        };
        self.tasks_running_on(worker).into_iter().any(|task| {
            let running_job = self.jobs.loaded.get(task).map(|loaded| loaded.job.id);
            let is_this_job = job.is_some() && running_job == job;
            is_this_job
                || (owner.is_some() && self.owner_of_task(task, conn, MAX_DEPTH).as_ref() == owner)
        })
    }

    /// Whether the peer of a connection may see the id of a task.
    pub(crate) fn may_see_task(&mut self, conn: ConnId, task: TaskId) -> bool {
        let owner = self.owner_of_task(task, conn, MAX_DEPTH);
        match self.payload(task).origin {
            Origin::Job(job) => self.may_see(conn, owner.as_ref(), Some(job)),
            Origin::Call { conn: caller, .. } => caller == conn || self.is_administrator(conn),
            Origin::Free => false,
        }
    }

    fn user_name(&self, conn: ConnId) -> Option<Owner> {
        match &self.peers.conns.get(conn)?.role {
            crate::net::Role::Client(client) => client.owner.clone(),
            _ => None,
        }
    }

    /// The worker inside which a client runs: its HELLO names the worker, and its process descends from the
    /// worker's.
    fn enclosing_worker(&mut self, conn: ConnId) -> Option<WorkerId> {
        let peer = self.peers.conns.get(conn)?.peer;
        let client = self.client(conn)?;
        let (worker, known) = (client.worker?, client.is_inside);
        let process = self.worker_handle(worker)?.pid;
        let is_inside = known.unwrap_or_else(|| {
            peer.pid > 0 && (peer.pid == process || is_descendant(peer.pid, process))
        });
        if known.is_none()
            && let Some(client) = self.client(conn)
        {
            client.is_inside = Some(is_inside);
        }
        is_inside.then_some(worker)
    }

    /// The owner for whom a client inside a worker acts: that of the task that it names, or else that of all
    /// running tasks, if they have the same.
    fn represented_owner(
        &self,
        worker: WorkerId,
        conn: ConnId,
        parent: Option<u64>,
        depth: usize,
    ) -> Option<Owner> {
        let running = self.tasks_running_on(worker);
        let named = running.iter().find(|task| {
            let number = self.payloads.number(**task);
            parent == Some(u64::from(number))
        });
        if let Some(task) = named {
            return self.owner_of_task(*task, conn, depth);
        }
        let mut owners = running
            .iter()
            .map(|task| self.owner_of_task(*task, conn, depth));
        let Some(first) = owners.next() else {
            return self.user_name(conn);
        };
        match owners.all(|other| other == first) {
            true => first,
            // Tasks of several owners run, and the client does not name the one for which it acts.
            false => self.user_name(conn),
        }
    }

    fn tasks_running_on(&self, worker: WorkerId) -> Vec<TaskId> {
        let tasks = self.core.assigned_to(worker);
        tasks.filter(|task| self.core.is_running(*task)).collect()
    }

    /// The owner of a task: the owner of a job, or the caller of a call. `conn` is the client on whose behalf
    /// this is determined; it counts as the caller if the connection of a call's caller is closed.
    fn owner_of_task(&self, task: TaskId, conn: ConnId, depth: usize) -> Option<Owner> {
        match self.payload(task).origin {
            Origin::Job(_) => self.jobs.loaded.get(task)?.job.owner.clone(),
            Origin::Call { conn: caller, .. } => {
                let Some(crate::net::Role::Client(client)) =
                    self.peers.conns.get(caller).map(|conn| &conn.role)
                else {
                    return self.user_name(conn);
                };
                match client.worker.filter(|_| client.is_inside == Some(true)) {
                    Some(worker) if depth > 0 => {
                        self.represented_owner(worker, caller, None, depth - 1)
                    }
                    _ => client.owner.clone(),
                }
            }
            Origin::Free => None,
        }
    }
}
