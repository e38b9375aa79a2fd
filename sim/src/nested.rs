//! Requests of task code: it pushes a job, or makes a call and waits for the answer, on a separate connection whose
//! HELLO names its worker.

use crate::behaviour::Act;
use crate::calls::CallSpec;
use crate::client::Client;
use crate::connection::Connection;
use crate::coverage::features;
use crate::gateway;
use crate::guests::is_guest;
use crate::model::Task;
use crate::push::Options;
use crate::request_kind::RequestKind;
use crate::worker::Worker;
use crate::world::{SOCKET, World};
use std::collections::VecDeque;
use std::path::Path;
use std::time::Duration;
use stoker_os::{sim, steady};

/// The maximum time that a task waits for a call of its own, in milliseconds.
const MAX_CALL_MS: u32 = 4_000;
/// Workers that wait for each other for this long do so until the deadlines of their calls.
const MIN_DEADLOCK_TIME: Duration = Duration::from_secs(2);

/// The requests of a worker's task code.
#[derive(Default)]
pub(crate) struct NestedRequests {
    pub(crate) client: Option<Client>,
    /// A task waits for an answer.
    pub(crate) waits: bool,
    /// The run that waits for an answer, at a worker with several slots.
    pub(crate) run: Option<u64>,
    /// Since when a task waits for a call that only the worker's own pool can serve.
    own_pool_call_since: Option<Duration>,
    /// When a task last stopped waiting for a call that only the worker's own pool can serve.
    own_pool_call_until: Duration,
}

impl World {
    /// Lets some tasks make a request before they go on.
    pub(crate) fn may_add_request(
        &mut self,
        key: u64,
        task: Task,
        acts: &mut VecDeque<(Duration, Act)>,
    ) {
        let nested_requests = self.behaviour.nested_requests;
        let is_enough = self.ledger.jobs.len() as u64 > 2 * self.setup.requests;
        let adapts = self.workers.get(&key).is_some_and(Worker::is_adapter);
        let may = !is_guest(key) && !adapts && self.all_requested_at.is_none();
        let is_deadly = !task.is_job && self.ledger.calls.is_deadly(task.no);
        if may && !is_enough && !is_deadly && self.dice("nested").percent(nested_requests) {
            acts.push_front((Duration::ZERO, Act::Calls));
        }
    }

    /// Makes a request for the task, which then waits for the answer.
    pub(crate) fn make_nested_request(&mut self, key: u64, task: Task) {
        let Some(worker) = self.workers.get_mut(&key) else {
            return;
        };
        if worker.nested.client.is_none() {
            let (pid, name) = (worker.pid, worker.name.clone());
            let is_remote = worker.is_remote;
            let from = match is_remote {
                true => gateway::PEER,
                false => stoker_os::Peer { pid, uid: 0 },
            };
            let fd = sim::connect(Path::new(SOCKET), from).expect("the server listens");
            let client = Client::of_worker(Connection::new(fd), pid, &name, is_remote);
            worker.nested.client = Some(client);
        }
        worker.nested.waits = true;
        let has_services = !self.setup.services.is_empty() && !self.setup.has_sites();
        match has_services && self.dice("nested").percent(60) {
            true => self.make_nested_call(key, task),
            false => self.make_nested_push(key, task),
        }
    }

    fn make_nested_push(&mut self, key: u64, task: Task) {
        let queues = self.setup.queues.len() as u64;
        let queue = self.dice("nested").below(queues) as usize;
        let drawn = self.setup.queues[queue].clone();
        let number = self.ledger.jobs.len() as u64;
        // In an ordered queue, each connection has keys of its own.
        let session = 1_000_000 + self.runs;
        let options = Options::draw(self.dice("nested"), &drawn, None, session, number);
        let features = features(&options, &drawn);
        let job = self.ledger.push(queue, 0, options.clone());
        self.trace(|| format!("  {task:?} pushes job {job}"));
        if let Some(client) = self.nested_client(key) {
            let open_requests = client.requests.open.len() as u64;
            client.push(job, &drawn.name, &options);
            let entry = &mut self.ledger.jobs[job as usize];
            (entry.features, entry.open_requests) = (features, open_requests);
        }
    }

    /// Makes a call with at most as much time as the task has.
    fn make_nested_call(&mut self, key: u64, task: Task) {
        let setup = self.setup.clone();
        let mut spec = CallSpec::draw(self.dice("nested"), &setup, 0);
        (spec.is_oneway, spec.deadly, spec.is_nested) = (false, None, true);
        // The task's code waits for a whole answer.
        spec.credit = None;
        let left = match task.is_job {
            true => None,
            false => self.ledger.calls.time_left(task.no),
        };
        let left = left.map_or(MAX_CALL_MS, |left| left.as_millis() as u32);
        spec.ttl_ms = Some(spec.ttl_ms.unwrap_or(MAX_CALL_MS).min(left).max(1));
        let pool = setup.services[spec.service].pool;
        let is_own_pool = self.pools.get(&key).and_then(|name| setup.pool(name)) == Some(pool);
        let Some(client) = self.nested_client(key) else {
            return;
        };
        let open_requests = client.requests.open.len() as u64;
        let name = setup.services[spec.service].call();
        let call = self.ledger.calls.start(spec.clone(), open_requests, &setup);
        self.trace(|| format!("  {task:?} makes call {call}"));
        if let Some(worker) = self.workers.get_mut(&key) {
            worker.nested.own_pool_call_since = is_own_pool.then(steady);
        }
        if let Some(client) = self.nested_client(key) {
            client.call(call, &spec, &name);
        }
    }

    /// The connection of the worker's task code.
    fn nested_client(&mut self, key: u64) -> Option<&mut Client> {
        self.workers.get_mut(&key)?.nested.client.as_mut()
    }

    /// The task code reads an answer, or the end of its connection.
    pub(crate) fn read_nested_answer(&mut self, key: u64) {
        self.ledger.calls.slots = self.slots_of_pools();
        self.ledger.calls.pool_is_deadlocked = self.pool_waits_for_itself(key);
        let client = self.nested_client(key);
        if client.is_some_and(Client::has_unread_rejection) {
            self.record_unread_calls();
        }
        let Some(worker) = self.workers.get_mut(&key) else {
            return;
        };
        let Some(client) = &mut worker.nested.client else {
            return;
        };
        let has_ended = client.read(&mut self.ledger, &self.setup);
        if !has_ended && !client.requests.open.is_empty() {
            return;
        }
        worker.nested.stop_waiting();
        let run = worker.nested.run.take();
        if has_ended {
            let client = worker.nested.client.take();
            self.drop_nested_requests(client.as_ref());
        }
        match run {
            Some(no) => self.plan_slot(key, no),
            None => self.plan_run(key),
        }
    }

    /// A run that waits for an answer has ended without it.
    pub(crate) fn abandon_nested_request(&mut self, key: u64) {
        let waits = |worker: &&mut Worker| {
            worker.nested.waits && worker.run.is_none() && worker.nested.run.is_none()
        };
        if let Some(worker) = self.workers.get_mut(&key).filter(waits) {
            worker.nested.stop_waiting();
            let client = worker.nested.client.take();
            self.drop_nested_requests(client.as_ref());
        }
    }

    /// A run that waits for an answer has ended without it, at a worker with several slots.
    pub(crate) fn abandon_nested_request_of_slot(&mut self, key: u64, no: u64) {
        let waits = |worker: &&mut Worker| worker.nested.run == Some(no);
        if let Some(worker) = self.workers.get_mut(&key).filter(waits) {
            worker.nested.run = None;
            worker.nested.stop_waiting();
            let client = worker.nested.client.take();
            self.drop_nested_requests(client.as_ref());
        }
    }

    /// No task reads the answers on this connection any more.
    pub(crate) fn drop_nested_requests(&mut self, client: Option<&Client>) {
        for kind in client
            .into_iter()
            .flat_map(|client| client.requests.open.values())
        {
            match kind {
                RequestKind::Push(job) => self.ledger.push_unknown(*job),
                RequestKind::Call(call) => self.ledger.calls.abandon(*call),
                _ => {}
            }
        }
    }

    /// Whether each worker of the pool has waited for a call that only this pool serves, at some time since this
    /// worker's task made its call. Asserts that no pool has all its workers waiting for each other for long.
    fn pool_waits_for_itself(&self, key: u64) -> bool {
        let Some(since) = self
            .workers
            .get(&key)
            .and_then(|worker| worker.nested.own_pool_call_since)
        else {
            return false;
        };
        let pool = self.pools.get(&key);
        let mates = || {
            let all = self.workers.values();
            all.filter(|worker| worker.is_ready && self.pools.get(&worker.key) == pool)
        };
        let is_stuck = |worker: &Worker| {
            let since = worker.nested.own_pool_call_since;
            let is_stuck = since.is_some_and(|at| at + MIN_DEADLOCK_TIME < steady());
            is_stuck && !worker.is_shutting_down() && worker.slot_count() == 1
        };
        let at = pool.and_then(|name| self.setup.pool(name));
        let is_whole = at.is_some_and(|at| {
            let there = mates().count() as u64;
            self.workers_stay(at) && there >= self.setup.max_workers(at)
        });
        assert!(
            !is_whole || !mates().all(is_stuck),
            "all workers of a pool wait for each other"
        );
        let is_counted = at.is_some_and(|at| self.setup.pools[at].may_be_spare());
        let could_serve = |worker: &Worker| {
            let waits = worker.nested.own_pool_call_since.is_some()
                || worker.nested.own_pool_call_until >= since;
            // Only one task of a worker waits at a time, so a worker with several slots may go on with the others, unless
            // that task runs alone. A worker that runs a limited number of tasks may have none left.
            let takes_no_other =
                worker.slot_count() == 1 || is_counted || self.may_run_alone(worker);
            let waits = waits && takes_no_other;
            // A worker that runs a task may not have read yet that it is to shut down.
            let has_read = !worker.connection.is_readable();
            // A worker that came after the call was made could not serve it then.
            let was_there = worker.ready_at < since;
            let stays = !worker.leaves_by_itself() && !worker.kill_requested;
            worker.is_settled() && was_there && has_read && !waits && stays
        };
        !mates().any(could_serve)
    }
}

impl World {
    /// Whether the worker may run a task that has killed a worker before, beside which it gets no others.
    fn may_run_alone(&self, worker: &Worker) -> bool {
        let mut running = worker.running().into_iter();
        running.any(|task| match task.is_job {
            true => self.ledger.jobs[task.no as usize].crashes.high > 0,
            false => self.ledger.calls.has_killed(task.no),
        })
    }

    /// Whether no worker of the pool leaves, and no other one comes.
    fn workers_stay(&self, pool: usize) -> bool {
        let trouble = self.setup.trouble;
        let stay = trouble.crash + trouble.hang == 0 && !self.behaviour.may_leave();
        let alone = self.setup.guests == 0 && !self.setup.has_restarts();
        stay && alone && self.setup.is_steady(pool) && self.draining.is_none()
    }
}

impl NestedRequests {
    fn stop_waiting(&mut self) {
        self.waits = false;
        if self.own_pool_call_since.take().is_some() {
            self.own_pool_call_until = steady();
        }
    }
}
