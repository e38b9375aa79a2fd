//! Sends the requests of clients and operators, and then waits until all jobs have ended.

use crate::agenda::PlannedEvent;
use crate::calls::CallSpec;
use crate::client::Client;
use crate::connection::Connection;
use crate::coverage::features;
use crate::dice::Dice;
use crate::gateway::{self, Gateway, RemoteToken};
use crate::ledger::Override;
use crate::operator::{self, Effect, Targets};
use crate::push::Options;
use crate::request_kind::RequestKind;
use crate::restart::Trigger;
use crate::worker::Worker;
use crate::world::{SOCKET, World};
use std::path::Path;
use std::rc::Rc;
use std::time::Duration;
use stoker_os::{sim, steady, wall_ms};

/// The process id of the first client.
const CLIENT: i32 = 100_000;
/// The maximum time until all jobs have ended: jobs that hang and are retried take long.
const MAX_TIME_TO_REST: Duration = Duration::from_secs(8_000);

impl World {
    pub(crate) fn client_acts(&mut self, no: usize) {
        if self.actions_taken >= self.setup.requests {
            return self.client_waits(no);
        }
        if self.clients[no].is_none() {
            self.connect_client(no);
        }
        let burst = self.dice("clients").weighted(&[(70, 1), (20, 5), (10, 40)]);
        for _ in 0..burst {
            self.act(no);
        }
        if self.dice("clients").below(100) < self.setup.trouble.hang_up {
            self.client_hangs_up(no);
        }
        let pause = match self.dice("clients").percent(65) {
            true => self.dice("clients").micros(10, 2_000),
            false => self.dice("clients").millis(1, 2_000),
        };
        let next = self.setup.after_break(steady() + pause);
        self.agenda.plan(next, PlannedEvent::ClientActs(no));
    }

    /// Connects a client, which belongs to one of three users.
    fn connect_client(&mut self, no: usize) {
        let (pid, user) = (CLIENT + no as i32, Self::user_of(no));
        let uid = user as u32;
        let mut limit = None;
        let gateway = match self.setup.remote_users[user] {
            Some(token) => {
                let token = self.token_at_reconnection(token);
                let limits = &mut self.ledger.calls.token_limits;
                limit = Some((uid, limits.report(uid, token.inflight)));
                Some(Gateway::Relay(uid, token))
            }
            None => self.setup.has_sites().then_some(Gateway::Http(uid)),
        };
        let from = match gateway {
            Some(_) => gateway::PEER,
            None => stoker_os::Peer { pid, uid },
        };
        let fd = sim::connect(Path::new(SOCKET), from).expect("the server listens");
        let mut client = Client::new(Connection::new(fd), pid, gateway);
        client.requests.limit_in_hello = limit;
        self.clients[no] = Some(client);
    }

    /// The limit of a token may have been changed since its peer last connected.
    fn token_at_reconnection(&mut self, token: RemoteToken) -> RemoteToken {
        match self.dice("tokens").percent(30) {
            true => token.with_other_limit(self.dice("tokens")),
            false => token,
        }
    }

    /// Creates separate dice for the next action. Returns false if the action is left out to shrink the seed.
    fn begin_action(&mut self) -> bool {
        let action = self.actions_taken;
        for part in ["asks", "operator"] {
            let dice = Dice::of_one(self.seed, part, action);
            self.dice.insert(part, dice);
        }
        !self.without.skips(action)
    }

    pub(crate) fn act(&mut self, no: usize) {
        self.actions_taken += 1;
        self.plan_shutdown();
        if !self.begin_action() {
            return;
        }
        let services = self.setup.services.len() as u64;
        let what = self.dice("asks").below(10);
        let session = self.sessions[no] * 100 + no as u64;
        // Every third client is root.
        if no.is_multiple_of(3) && self.dice("operator").below(100) < self.setup.operations {
            let setup = self.setup.clone();
            let jobs = self.ledger.jobs.len() as u64;
            let at = Targets {
                behind: self.jobs_behind(),
                waiting: self.ledger.waiting_jobs(),
            };
            let last = self
                .ledger
                .changes
                .last()
                .map(|change| (change.verb, change.filter.clone()));
            let drawn = operator::draw(self.dice("operator"), &setup, jobs, last, &at);
            return self.operate(no, drawn);
        }
        if what < self.setup.calls && services > 0 {
            return self.make_call(no);
        }
        if what == 9 {
            if let Some(client) = &mut self.clients[no] {
                client.list_queues(RequestKind::ListQueues);
            }
            return;
        }
        self.make_push(no, session);
    }

    /// Makes a call, or cancels one.
    fn make_call(&mut self, no: usize) {
        let setup = self.setup.clone();
        let cancels = self.dice("asks").percent(setup.frequencies.cancels);
        let is_newest = self.dice("asks").percent(50);
        let spec = CallSpec::draw(self.dice("asks"), &setup, (no % 3) as u32);
        let Some(client) = &mut self.clients[no] else {
            return;
        };
        let calls = &mut self.ledger.calls;
        if cancels {
            return client.cancel_one(calls, is_newest);
        }
        let name = setup.services[spec.service].call();
        let call = calls.start(spec.clone(), client.requests.open.len() as u64, &setup);
        client.call(call, &spec, &name);
    }

    fn make_push(&mut self, no: usize, session: u64) {
        let queues = self.setup.queues.len() as u64;
        let queue = self.dice("asks").below(queues) as usize;
        let drawn = self.setup.queues[queue].clone();
        let (setup, number) = (self.setup.clone(), self.ledger.jobs.len() as u64);
        let rich = setup.has_push_options.then_some(&setup.frequencies);
        let mut options = Options::draw(self.dice("asks"), &drawn, rich, session, number);
        if drawn.ordered {
            // An ordered queue runs jobs in the order in which they were pushed.
            options.due_at = None;
        }
        if rich.is_some() && self.dice("asks").percent(10) && self.push_again(no) {
            return;
        }
        let features = features(&options, &drawn);
        let job = self.ledger.push(queue, (no % 3) as u32, options.clone());
        if let Some(client) = &mut self.clients[no] {
            let entry = &mut self.ledger.jobs[job as usize];
            (entry.features, entry.open_requests) = (features, client.requests.open.len() as u64);
            entry.is_from_user = true;
            let ahead = options.due_at.map(|due| due.saturating_sub(wall_ms()));
            if let (Some(ahead), false) = (ahead, self.setup.wall_jumps) {
                entry.delay_by(Duration::from_millis(ahead));
            }
            client.push(job, &drawn.name, &options);
        }
        self.change_during_delivery(queue);
    }

    /// Repeats a push that this user has made under an idempotency key. Returns whether there was one.
    fn push_again(&mut self, no: usize) -> bool {
        let Some((job, queue)) = self.ledger.repeatable((no % 3) as u32) else {
            return false;
        };
        let options = self.ledger.jobs[job as usize].options.clone();
        let name = self.setup.queues[queue].name.clone();
        let other = self.dice("asks").percent(25);
        if let Some(client) = &mut self.clients[no] {
            let at = self.ledger.add_repeated_push(job);
            client.push_again(at, job, other, &name, &options);
        }
        true
    }

    pub(crate) fn operate(
        &mut self,
        no: usize,
        drawn: (&str, serde_json::Value, operator::Effect),
    ) {
        let (method, mut request, effect) = drawn;
        if self.clients[no].is_none() {
            return;
        }
        let kind = match effect {
            Effect::Changes(verb, filter) => {
                let sent = self.jobs_at_workers();
                let at = self.ledger.change(verb, filter, sent.as_ref(), &self.setup);
                let Some(change) = self.ledger.changes[at].request(&self.ledger, &self.setup)
                else {
                    return self.ledger.change_rejected(at);
                };
                request = change;
                self.on_trigger(Trigger::Change);
                self.fail_during_change();
                RequestKind::Change(at)
            }
            Effect::Imports(lines) => {
                let (import, imported) = self.import(lines);
                request = import;
                RequestKind::Import(imported)
            }
            Effect::Pauses(queue) => {
                self.ledger.paused.insert(queue);
                let number = self.ledger.overrides.requested(queue, Override::Paused, no);
                RequestKind::Override(queue, Override::Paused, number)
            }
            Effect::Resumes(queue) => {
                self.ledger.queue_resumed(queue);
                let number = self
                    .ledger
                    .overrides
                    .requested(queue, Override::Resumed, no);
                RequestKind::Override(queue, Override::Resumed, number)
            }
            Effect::Limits(queue, limit) => {
                Rc::make_mut(&mut self.setup).queues[queue]
                    .limit
                    .may_change_to(limit);
                let setting = Override::Limit(limit);
                let number = self.ledger.overrides.requested(queue, setting, no);
                if self.may_edit_limit(queue) {
                    // The file will soon set another limit.
                    self.ledger.overrides.file_limit_changes(queue);
                }
                RequestKind::Override(queue, setting, number)
            }
            Effect::Reserves(queue, reserve) => {
                let queues = &mut Rc::make_mut(&mut self.setup).queues;
                queues[queue].reserve.may_change_to(reserve);
                queues[queue].had_reserve_set = true;
                RequestKind::Reserve(queue)
            }
            Effect::Reads(read) => {
                self.ledger.reads.push(read);
                RequestKind::ReadJobs(self.ledger.reads.len() - 1)
            }
            Effect::Removes(queue) => RequestKind::RemoveQueue(queue, steady()),
            Effect::Scales(pool, size) => {
                let number = self.ledger.sizes.requested(pool, no);
                RequestKind::Scale(pool, size, number)
            }
            Effect::Reloads => {
                self.ledger.sizes.forget();
                RequestKind::ReloadPools
            }
            Effect::Clears(service) => RequestKind::ClearQuarantine(service, steady()),
            Effect::Edits => return self.edit_file(),
            Effect::Rejected => RequestKind::InvalidOperation,
            // A reserve may forbid a size or a limit.
            Effect::None if method != "stoker.job" => RequestKind::LimitedByReserve,
            Effect::None => RequestKind::Operation,
        };
        self.trace(|| format!("  {method} {request}"));
        self.ledger.coverage.count_request(method, &request);
        if let Some(client) = &mut self.clients[no] {
            client.operate(kind, method, &request);
        }
    }

    /// All requests were made. Once every client has its answers, the end of the seed begins.
    pub(crate) fn client_waits(&mut self, no: usize) {
        let is_open = |client: &Option<Client>| {
            client
                .as_ref()
                .is_some_and(|client| !client.requests.open.is_empty())
        };
        if is_open(&self.clients[no]) {
            return self.agenda.plan(
                steady() + Duration::from_secs(1),
                PlannedEvent::ClientActs(no),
            );
        }
        self.clients[no] = None;
        let is_over = self.clients.iter().all(Option::is_none);
        match (is_over, self.draining) {
            (true, None) => self.await_rest(),
            // The server drains in the middle of work. The next one then has to finish all jobs.
            (true, Some(_)) if self.all_requested_at.is_none() && !self.shutdowns.is_last() => {
                let soon = steady() + Duration::from_secs(1);
                self.agenda.plan(soon, PlannedEvent::ClientActs(no));
            }
            _ => {}
        }
    }

    /// Plans the next step towards the end of the seed. Steps that were planned before no longer count.
    pub(crate) fn plan_end(&mut self, after: Duration, what: fn(u64) -> PlannedEvent) {
        self.end_plan += 1;
        self.agenda.plan(steady() + after, what(self.end_plan));
    }

    /// Requests the list of queues repeatedly, and ends the seed when no unfinished job is left.
    pub(crate) fn await_rest(&mut self) {
        let now = steady();
        let since = *self.all_requested_at.get_or_insert(now);
        if !self.faults.are_over() {
            // While the disk fails, the counts leave out jobs in doubt and jobs that wait to be written.
            self.ledger.unfinished = None;
        }
        self.reset_reserves();
        if self.ledger.unfinished == Some(0) && self.clients[0].is_some() {
            return self.list_at_rest();
        }
        assert!(
            now - since < MAX_TIME_TO_REST,
            "unfinished jobs remain: {:?}, {}",
            self.ledger.unfinished,
            self.ledger.first_unfinished()
        );
        if self.clients[0].is_none() {
            self.connect_client(0);
        }
        // The list comes first: if memory is short, it may only be answered while no other answer waits.
        if let Some(client) = &mut self.clients[0] {
            client.list_queues(RequestKind::CheckRest);
        }
        for queue in self.ledger.paused.clone() {
            let name = self.setup.queues[queue].name.clone();
            self.operate(0, operator::resume(queue, &name));
        }
        self.operate(0, operator::release_all());
        for (at, pool) in self.setup.clone().pools.iter().enumerate() {
            self.operate(0, operator::reset_size(at, &pool.name));
        }
        self.plan_end(Duration::from_secs(5), PlannedEvent::ChecksRest);
    }

    /// Resets the reserves that operators have set while a reload is under way: beside them, the file may reserve more than
    /// a pool guarantees, and then it is not reloaded.
    fn reset_reserves(&mut self) {
        if self.edit.is_none() {
            return;
        }
        let setup = self.setup.clone();
        let queues = setup.queues.iter().enumerate();
        for (at, _) in queues.filter(|(_, queue)| queue.had_reserve_set) {
            self.operate(0, operator::reset_queue(&setup, at));
        }
    }

    /// All jobs have ended: requests the lists of jobs, queues and workers, and then shuts the server down.
    fn list_at_rest(&mut self) {
        let soon = Duration::from_secs(1);
        if self.workers.values().any(Worker::has_tasks) {
            // A task that counts as done may still run.
            return self.plan_end(soon, PlannedEvent::ChecksRest);
        }
        let Some(client) = self.clients[0]
            .as_mut()
            .filter(|client| client.requests.open.is_empty())
        else {
            return self.plan_end(soon, PlannedEvent::ChecksRest);
        };
        if self.edit.is_some() {
            // A reload is not answered yet.
            return self.plan_end(soon, PlannedEvent::ChecksRest);
        }
        let limit = self.setup.page;
        match self.ledger.next_page.take() {
            None => {
                self.ledger.restart_listing();
                client.list_jobs(None, limit);
            }
            Some(Some(after)) => client.list_jobs(Some(&after), limit),
            Some(None) if self.at_rest => {
                self.ledger.next_page = Some(None);
                if let Some((at, after)) = self.ledger.take_next_read() {
                    let request = self.ledger.reads[at].request(Some(&after));
                    client.operate(RequestKind::ReadJobsAtEnd(at), "stoker.job", &request);
                    return self.plan_end(soon, PlannedEvent::ChecksRest);
                }
                self.clients[0] = None;
                self.check_sizes_at_rest();
                return self.plan_end(soon, PlannedEvent::Drain);
            }
            Some(None) => {
                self.at_rest = true;
                self.ledger.next_page = Some(None);
                client.list_queues(RequestKind::ListQueuesAtEnd);
                let list = serde_json::json!({"op": "list"});
                client.operate(RequestKind::ListWorkersAtEnd, "stoker.worker", &list);
                for (no, id) in self.ledger.sample_jobs() {
                    client.show(no, &id);
                }
                let mut dice = Dice::of(self.seed, "reads at rest");
                for at in self.ledger.plan_reads(&mut dice, &self.setup) {
                    let request = self.ledger.reads[at].request(None);
                    client.operate(RequestKind::ReadJobsAtEnd(at), "stoker.job", &request);
                }
            }
        }
        self.plan_end(soon, PlannedEvent::ChecksRest);
    }

    /// A client hangs up.
    pub(crate) fn client_hangs_up(&mut self, no: usize) {
        self.sessions[no] += 1;
        self.hang_up(no);
    }

    /// The server has rejected the connection of a client, and has read none of its requests.
    fn forget_unread_requests(&mut self, no: usize) {
        let client = self.clients[no].as_ref();
        let open = client.filter(|client| !client.requests.has_received);
        let changes = open
            .into_iter()
            .flat_map(|client| client.requests.open.values());
        let changes = changes.filter_map(|kind| match kind {
            RequestKind::Change(at) => Some(*at),
            _ => None,
        });
        let changes: Vec<usize> = changes.collect();
        changes
            .into_iter()
            .for_each(|at| self.ledger.change_rejected(at));
    }

    /// A client's connection has ended.
    pub(crate) fn hang_up(&mut self, no: usize) {
        self.hung_up.push((no, steady()));
        if let Some(client) = self.clients[no].take() {
            for kind in client.requests.open.values() {
                // The effect of an unanswered change is not known. It stays open while its server lives.
                match kind {
                    RequestKind::Push(job) => self.ledger.push_unknown(*job),
                    RequestKind::Import(imported) => self.ledger.import_is_unknown(*imported),
                    RequestKind::Call(call) => self.ledger.calls.abandon(*call),
                    // If nothing was received on the connection, the next server may still read the request.
                    RequestKind::Change(at) if client.requests.has_received => {
                        self.ledger.abandon_change(*at)
                    }
                    _ => {}
                }
            }
        }
    }

    /// Follows some changes with another one of the same jobs, once the effect of the first is known.
    fn follow_up_changes(&mut self, no: usize) {
        for at in std::mem::take(&mut self.ledger.answered_changes) {
            if self.all_requested_at.is_some() || !self.dice("pairs").percent(40) {
                continue;
            }
            let (setup, change) = (self.setup.clone(), self.ledger.changes[at].clone());
            let (verb, filter) =
                operator::next_change(self.dice("pairs"), &setup, change.verb, change.filter);
            self.operate(
                no,
                (
                    "stoker.job",
                    serde_json::Value::Null,
                    Effect::Changes(verb, filter),
                ),
            );
        }
    }

    pub(crate) fn client_reads(&mut self, no: usize) {
        if self.clients[no].as_ref().is_some_and(Client::has_calls) {
            self.ledger.calls.slots = self.slots_of_pools();
            let client = self.clients[no].as_mut();
            if client.is_some_and(Client::has_unread_rejection) {
                self.record_unread_calls();
            }
        }
        let ended = match &mut self.clients[no] {
            Some(client) => client.read(&mut self.ledger, &self.setup),
            None => return,
        };
        if !ended {
            self.check_connections_of(no);
        }
        if let Some(edit) = self.ledger.answered_reload.take() {
            self.plan_reload_applies(edit);
        }
        self.follow_up_changes(no);
        if ended {
            let open = self.clients[no]
                .as_ref()
                .map_or(0, |client| client.requests.open.len());
            let client = self.clients[no].as_mut();
            let reason = client.and_then(|client| client.requests.closed_because.take());
            if let Some(reason) = &reason {
                self.check_reason_to_close(no, reason);
                self.forget_unread_requests(no);
            }
            let was_disconnected =
                self.disconnected.remove(&no) || reason.is_some() || self.may_lack_reason(no);
            if let Some(client) = &self.clients[no] {
                client.check_all_answered(no);
            }
            assert!(
                open == 0 || was_disconnected || self.draining.is_some(),
                "client {no} is disconnected while it waits for {open} answers"
            );
            self.hang_up(no);
        }
    }

    /// Records which calls workers were sent and have not read.
    pub(crate) fn record_unread_calls(&mut self) {
        let workers = self.workers.values_mut();
        let unread = workers.flat_map(|worker| worker.connection.peek_calls());
        self.ledger.calls.set_unread(&unread.collect());
    }

    /// The number of tasks that the workers of each pool can run at once. Only workers that have been ready for a
    /// while count.
    pub(crate) fn slots_of_pools(&self) -> Vec<u64> {
        let mut slots = vec![0; self.setup.pools.len()];
        for worker in self.workers.values() {
            let pool = self.pools.get(&worker.key);
            let pool = pool.and_then(|pool| self.setup.pool(pool));
            if let Some(pool) = pool.filter(|_| worker.is_settled()) {
                slots[pool] += worker.slot_count();
            }
        }
        slots
    }
}
