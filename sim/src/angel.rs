//! Plays the angel: starts processes, signals them and reports how they ended.

use crate::agenda::PlannedEvent;
use crate::connection::Connection;
use crate::growth::BYTES_AT_START;
use crate::guests::is_guest;
use crate::interrupts::RUN_START_TOLERANCE;
use crate::ledger::Death;
use crate::model::{Model, Task};
use crate::pulls::Pull;
use crate::restart::Trigger;
use crate::slots::Slots;
use crate::worker::Worker;
use crate::world::{ANGEL, SERVER, World};
use stoker_angel::{End, ToAngel, ToServer};
use stoker_os::{Signal, receive_record, sim, steady};

impl World {
    pub(crate) fn angel_reads(&mut self) {
        loop {
            // There is no message, or the server has ended.
            let Ok((len @ 1.., _)) = receive_record(&self.angel.control, &mut self.angel.buffer)
            else {
                return;
            };
            let message: ToAngel =
                serde_json::from_slice(&self.angel.buffer[..len]).expect("a message");
            let message = self.angel.with_global_worker_number(message);
            self.trace(|| format!("  the server requests: {}", summary(&message)));
            match message {
                ToAngel::Spawn {
                    worker,
                    name,
                    spec,
                    zygote,
                } => {
                    let pool = name.rsplit_once('-').map_or("", |(pool, _)| pool);
                    self.check_process_count(pool);
                    self.pools.insert(worker, pool.to_owned());
                    let spec = spec.parse().expect("a spec");
                    self.spawning.insert(worker, (name, spec, zygote));
                    let delay = self.dice("angel").micros(200, 20_000);
                    self.agenda
                        .plan(steady() + delay, PlannedEvent::Spawned(worker));
                }
                ToAngel::Signal { worker, signal } if signal == Signal::TERM.as_raw() => {
                    let ignores_term = self.behaviour.ignores_term;
                    if !self.dice("workers").percent(ignores_term) {
                        self.plan_death(worker, true);
                    }
                }
                ToAngel::Signal { worker, .. } => {
                    self.check_interrupt(worker);
                    self.interrupt(worker);
                }
                ToAngel::Kill { worker } => {
                    if let Some(worker) = self.workers.get_mut(&worker) {
                        worker.kill_requested = true;
                    }
                    self.plan_death(worker, true);
                }
                ToAngel::Config { text } => self.angel.text = text,
                // Zygotes have no process here.
                ToAngel::EndZygote { .. } | ToAngel::Timeouts { .. } | ToAngel::Done => {}
            }
        }
    }

    /// Checks that a pool does not exceed its maximum number of processes, including those that are about to end.
    fn check_process_count(&self, pool: &str) {
        let Some(at) = self.setup.pool(pool) else {
            return;
        };
        let mut keys = self.workers.keys().chain(self.spawning.keys());
        let is_of =
            |key: &&u64| !is_guest(**key) && self.pools.get(key).is_some_and(|name| name == pool);
        let there = keys.by_ref().filter(is_of).count() as u64;
        let max = self.setup.max_processes(at);
        assert!(
            there < max,
            "pool {pool} has {there} processes, and the server starts another one"
        );
    }

    pub(crate) fn plan_death(&mut self, key: u64, by_signal: bool) {
        // A process that exits by itself and has no run may take longer, because its code may still do something at
        // exit.
        let worker = self.workers.get(&key);
        let has_none = |worker: &Worker| worker.run.is_none() && worker.slots.is_none();
        let is_slow = !by_signal && worker.is_some_and(has_none);
        let max = match is_slow {
            true => self.behaviour.slow_end_us,
            false => 5_000,
        };
        let delay = self.dice("angel").micros(10, max);
        self.agenda
            .plan(steady() + delay, PlannedEvent::Dies(key, by_signal));
    }

    pub(crate) fn spawned(&mut self, key: u64) {
        let Some((name, spec, zygote)) = self.spawning.remove(&key) else {
            return;
        };
        if self.dice("angel").percent(2) && self.setup.trouble.crash > 0 {
            self.record_failed_boot(key);
            let error = "no such file".to_owned();
            let message = match zygote {
                None => ToServer::SpawnFailed { worker: key, error },
                Some(zygote) => ToServer::ZygoteEnded {
                    zygote,
                    end: End::Code(255),
                    is_expected: false,
                    reason: None,
                    waiting: vec![key],
                },
            };
            return self.send(message, Vec::new());
        }
        self.next_pid += 1;
        let pid = self.next_pid;
        sim::start_process(pid, ANGEL, 0, BYTES_AT_START);
        let own = stoker_os::Peer { pid, uid: 0 };
        let server = stoker_os::Peer {
            pid: SERVER,
            uid: 0,
        };
        let (theirs, ours) = sim::socket_pair([own, server]);
        let (out_read, out) = sim::pipe();
        let (err_read, err) = sim::pipe();
        let behaviour = self.behaviour;
        let pool = self.pools.get(&key).and_then(|pool| self.setup.pool(pool));
        let has_soft_cancel = behaviour.draw_soft_cancel(self.dice("workers"));
        let pool = pool.map(|pool| &self.setup.pools[pool]);
        let (mut slots, pulls) = pool.map_or((1, false), |pool| (pool.slots, pool.pulls));
        let mut worker = Worker::new(key, pid, Connection::new(ours), Model::loop_worker());
        (worker.outputs, worker.name) = ([out, err], name);
        worker.has_soft_cancel = has_soft_cancel;
        let slots_env = spec.env.iter().find(|(name, _)| name == "STOKER_SLOTS");
        let adapter_slots = slots_env.map(|(_, slots)| slots.parse().expect("a number of slots"));
        assert!(
            pool.is_none_or(|pool| pool.may_start_worker(adapter_slots)),
            "a worker starts with STOKER_SLOTS = {adapter_slots:?}, which no section of its pool permits"
        );
        if let Some(adapter_slots) = adapter_slots {
            slots = adapter_slots;
            (worker.slots, worker.has_soft_cancel) = (Some(Slots::of_adapter(slots)), true);
        } else if slots > 1 && pool.is_some_and(|pool| !pool.may_be_exec()) {
            worker.slots = Some(Slots::new(slots));
        }
        if worker.slots.is_none() && !pulls {
            let tasks = spec.env.iter().find(|(name, _)| name == "STOKER_TASKS");
            worker.model.tasks_left = tasks.and_then(|(_, tasks)| tasks.parse().ok());
        }
        if pulls {
            (worker.model, worker.pull) = (Model::pull_worker(), Some(Pull::default()));
        }
        self.workers.insert(key, worker);
        self.send(
            ToServer::Spawned { worker: key, pid },
            vec![out_read, err_read, theirs],
        );
        let boots = match self.dice("workers").below(100) < self.setup.trouble.crash {
            true => return self.plan_death(key, false),
            false => self.dice("workers").millis(1, 200),
        };
        self.agenda.plan(steady() + boots, PlannedEvent::Hello(key));
        let idle_deaths = self.behaviour.idle_deaths;
        if self.dice("idle deaths").percent(idle_deaths) {
            let after = self.dice("idle deaths").millis(200, 10_000);
            self.agenda
                .plan(steady() + after, PlannedEvent::DiesIfIdle(key));
        }
    }

    pub(crate) fn hello(&mut self, key: u64) {
        let pool = self.pools.get(&key).cloned().unwrap_or_default();
        if let Some(worker) = self.workers.get_mut(&key) {
            worker.hello(&self.setup, &pool);
        }
        self.plan_pull(key);
    }

    /// A worker has become free. It may be killed before it gets the next job, whose delivery the store is still
    /// recording.
    pub(crate) fn may_kill_freed_worker(&mut self, key: u64) {
        let percent = self.setup.frequencies.idle_deaths;
        if self.dice("idle deaths").percent(percent) {
            let max_delay = self.setup.store.max_delay_us;
            let after = self.dice("idle deaths").micros(1, max_delay);
            self.agenda
                .plan(steady() + after, PlannedEvent::DiesIfIdle(key));
        }
    }

    /// Kills a worker that has no task, as the kernel may do when memory runs out.
    pub(crate) fn kill_if_idle(&mut self, key: u64) {
        // A worker that was sent a task and has not read it is not killed, because the server would blame that task.
        let has_none = |worker: &Worker| {
            worker.is_free() && !worker.has_tasks() && !worker.connection.is_readable()
        };
        if self.workers.get(&key).is_some_and(has_none) && !self.setup.short_io {
            self.dies(key, true);
        }
    }

    pub(crate) fn dies(&mut self, key: u64, by_signal: bool) {
        if self.spawning.contains_key(&key) {
            // The angel handles one request at a time, and the spawn is still under way.
            return self.plan_death(key, by_signal);
        }
        let Some(mut worker) = self.workers.remove(&key) else {
            return;
        };
        if worker.answered == 0 {
            self.record_failed_boot(key);
        }
        for task in worker.running() {
            self.check_run(&worker, task);
        }
        for no in worker.new_unread_jobs() {
            self.ledger.died_unread(no);
        }
        let unread = worker.connection.peek_calls();
        for no in worker.waiting_calls().into_iter().chain(unread) {
            self.ledger.calls.left_worker(no);
            // What earlier tasks have left in memory may only be measured when the server has sent the next one.
            if worker.connection.is_cut() || self.is_far_too_large(&worker) {
                self.ledger.calls.may_be_blamed(no);
            }
        }
        self.drop_nested_requests(worker.nested.client.as_ref());
        self.record_last_tasks(&worker);
        self.end_tasks_of(&worker, by_signal);
        let pool = self.pools.get(&key).and_then(|pool| self.setup.pool(pool));
        if let Some(pool) = pool.filter(|_| self.is_far_too_large(&worker)) {
            self.ledger.may_be_blamed_unbegun(pool, &self.setup);
        }
        sim::end_process(worker.pid);
        drop(worker);
        let end = match by_signal {
            true => End::Signal(9),
            false => End::Code(0),
        };
        if !is_guest(key) {
            self.send(ToServer::Exited { worker: key, end }, Vec::new());
        }
    }
}

impl World {
    /// A process did not start, or has ended before it had run a task.
    fn record_failed_boot(&mut self, key: u64) {
        let pool = self.pools.get(&key).and_then(|pool| self.setup.pool(pool));
        if let Some(pool) = pool {
            self.ledger.calls.failed_boots[pool] += 1;
        }
    }

    /// Updates the model for the tasks of a worker that dies.
    fn end_tasks_of(&mut self, worker: &Worker, by_signal: bool) {
        self.ledger.had_leaving_workers |= worker.slots.is_some();
        for no in worker.waiting_jobs() {
            self.ledger.died_before_start(no, &self.setup);
            if worker.is_shutting_down() || worker.model.state == "gone" {
                self.ledger.record_return(no);
            }
        }
        // A job whose answer was written only in part has not ended.
        let running = worker.running();
        let unreported = worker.ended.iter().map(|(task, _)| *task);
        for task in running.into_iter().chain(unreported) {
            self.on_trigger(Trigger::Crash);
            match task.is_job {
                true => {
                    let death = match by_signal && self.is_killed_by_drain(worker, task) {
                        true => Death::Drained,
                        false => self.death_of(worker, task),
                    };
                    self.ledger.died(task.no, death, &self.setup);
                    // The server may read a change before it notices the death, and then kill the worker: that does not
                    // count as a crash of the other tasks of a worker with several slots.
                    if death == Death::Crash && worker.slots.is_none() {
                        self.change_after_crash(task.no);
                    }
                }
                false => self.ledger.calls.died(task.no),
            }
        }
    }

    /// Whether the job's worker is killed only because the server drains.
    fn is_killed_by_drain(&self, worker: &Worker, task: Task) -> bool {
        let goes = worker.has_crashed || worker.is_rogue || worker.leaves_by_itself();
        let job = &self.ledger.jobs[task.no as usize];
        let is_sound = !job.may_be_cancelled() && !job.may_be_stopped && job.is_state_known();
        let is_whole = worker.ended.is_empty() && !self.is_far_too_large(worker);
        let serves = self.draining.is_some() && self.server.is_some();
        serves && !goes && is_sound && is_whole && self.is_in_time(worker, task)
    }

    /// How a worker's death counts for its job.
    fn death_of(&self, worker: &Worker, task: Task) -> Death {
        let ran = steady() - self.ledger.jobs[task.no as usize].began_at;
        let max = self.max_run_time(worker, task);
        // The server may be having the worker killed at this moment because of another of its tasks.
        let is_meant = |task: &Task| self.may_be_stopped(*task);
        let in_slots = worker.slots.iter().flat_map(Slots::assigned_tasks);
        let is_stopped =
            in_slots.chain(worker.running()).any(|task| is_meant(&task)) && worker.slots.is_some();
        let leaves = worker.is_shutting_down() || !worker.ended.is_empty() || is_stopped;
        // A worker that ends by itself while it is about to be killed counts as killed.
        let is_killed = worker.kill_requested && worker.has_crashed;
        match (worker.has_crashed, self.time_limit_of(worker, task)) {
            // A prefetched task is timed from its start, which the server may date later than the worker does.
            (true, Some(min)) if max + RUN_START_TOLERANCE < min && !leaves && !is_killed => {
                Death::Crash
            }
            (false, Some(min)) if ran >= min && !leaves && self.draining.is_none() => {
                // The worker may have ended by itself before its time was up, and the server may notice that only
                // later. Or the server killed it for its memory.
                match worker.leaves_by_itself() || self.is_far_too_large(worker) {
                    true => Death::Unclear,
                    false => Death::Overdue,
                }
            }
            _ => Death::Unclear,
        }
    }

    /// Whether the job's run has not reached its time limit, so that the server has no reason to kill the worker for
    /// it.
    pub(crate) fn is_in_time(&self, worker: &Worker, task: Task) -> bool {
        let limit = self.time_limit_of(worker, task);
        limit.is_some_and(|limit| self.max_run_time(worker, task) + RUN_START_TOLERANCE < limit)
    }
}

fn summary(message: &ToAngel) -> String {
    match message {
        ToAngel::Spawn { worker, name, .. } => format!("spawn {worker} as {name}"),
        other => format!("{other:?}").chars().take(80).collect(),
    }
}
