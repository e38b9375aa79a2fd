//! Plays the angel: starts processes, signals them and reports how they ended.

use crate::agenda::What;
use crate::body::number;
use crate::guests::is_guest;
use crate::ledger::Death;
use crate::model::{Model, Task};
use crate::peer::Peer;
use crate::pulls::Pull;
use crate::restart::Moment;
use crate::setup::Pool;
use crate::slots::Slots;
use crate::worker::Worker;
use crate::world::{ANGEL, SERVER, World};
use std::time::Duration;
use stoker_angel::{End, ToAngel, ToServer};
use stoker_os::{Signal, receive_record, sim, steady};
use stoker_wire::{Key, Type};

/// The server times a run from when it sent the task, the worker from when it read it. The two may differ by this
/// much.
const NEAR: Duration = Duration::from_millis(500);

impl World {
    pub(crate) fn angel_looks(&mut self) {
        loop {
            // There is no message, or the server has ended.
            let Ok((len @ 1.., _)) = receive_record(&self.angel.control, &mut self.angel.buffer)
            else {
                return;
            };
            let message: ToAngel =
                serde_json::from_slice(&self.angel.buffer[..len]).expect("a message");
            let message = self.angel.of_all_servers(message);
            self.note(|| format!("  the server asks: {}", short(&message)));
            match message {
                ToAngel::Spawn { worker, name, spec } => {
                    let pool = name.rsplit_once('-').map_or("", |(pool, _)| pool);
                    self.check_crowd(pool);
                    self.pools.insert(worker, pool.to_owned());
                    self.spawning.insert(worker, (name, spec));
                    let delay = self.dice("angel").micros(200, 20_000);
                    self.agenda.plan(steady() + delay, What::Spawned(worker));
                }
                ToAngel::Signal { worker, signal } if signal == Signal::TERM.as_raw() => {
                    let deaf = self.lively.deaf;
                    if !self.dice("workers").percent(deaf) {
                        self.plan_death(worker, true);
                    }
                }
                ToAngel::Signal { worker, .. } => {
                    self.check_interrupt(worker);
                    self.interrupt(worker);
                }
                ToAngel::Kill { worker } => {
                    if let Some(worker) = self.workers.get_mut(&worker) {
                        worker.is_to_die = true;
                    }
                    self.plan_death(worker, true);
                }
                ToAngel::Config { text } => self.angel.text = text,
                ToAngel::Timeouts { .. } | ToAngel::Done => {}
            }
        }
    }

    /// Checks that a pool does not exceed its maximum number of processes, including those that are about to end.
    fn check_crowd(&self, pool: &str) {
        let Some(of) = self.setup.pool(pool) else {
            return;
        };
        let mut keys = self.workers.keys().chain(self.spawning.keys());
        let is_of =
            |key: &&u64| !is_guest(**key) && self.pools.get(key).is_some_and(|name| name == pool);
        let there = keys.by_ref().filter(is_of).count() as u64;
        let most = self.setup.most_processes(of);
        assert!(
            there < most,
            "{pool} has {there} processes, and gets one more"
        );
    }

    pub(crate) fn plan_death(&mut self, key: u64, by_signal: bool) {
        // A process that exits by itself and has no run may take longer, because its code may still do something at
        // exit.
        let worker = self.workers.get(&key);
        let has_none = |worker: &Worker| worker.run.is_none() && worker.slots.is_none();
        let is_slow = !by_signal && worker.is_some_and(has_none);
        let most = match is_slow {
            true => self.lively.slow_end_us,
            false => 5_000,
        };
        let delay = self.dice("angel").micros(10, most);
        self.agenda
            .plan(steady() + delay, What::Dies(key, by_signal));
    }

    pub(crate) fn spawned(&mut self, key: u64) {
        let Some((name, spec)) = self.spawning.remove(&key) else {
            return;
        };
        if self.dice("angel").percent(2) && self.setup.trouble.crash > 0 {
            let error = "no such file".to_owned();
            return self.send(ToServer::SpawnFailed { worker: key, error }, Vec::new());
        }
        self.next_pid += 1;
        let pid = self.next_pid;
        sim::start_process(pid, ANGEL, 0, 20 << 20);
        let own = stoker_os::Peer { pid, uid: 0 };
        let server = stoker_os::Peer {
            pid: SERVER,
            uid: 0,
        };
        let (theirs, ours) = sim::socket_pair([own, server]);
        let (out_read, out) = sim::pipe();
        let (err_read, err) = sim::pipe();
        let lively = self.lively;
        let pool = self.pools.get(&key).and_then(|pool| self.setup.pool(pool));
        let pool = pool.map(|pool| &self.setup.pools[pool]);
        let (slots, pulls) = pool.map_or((1, false), |pool| (pool.slots, pool.pulls));
        let adapts = pool.is_some_and(Pool::is_exec);
        let mut worker = Worker::new(key, pid, Peer::new(ours), Model::that_runs());
        (worker.outputs, worker.name) = ([out, err], name);
        worker.is_soft = lively.is_soft(self.dice("workers"));
        let told = spec.env.iter().find(|(name, _)| name == "STOKER_SLOTS");
        let of_file = (slots.to_string(), adapts);
        assert!(
            told.map_or(!adapts, |(_, told)| (told.clone(), true) == of_file),
            "an adapter is told {told:?} slots, of {slots}"
        );
        if adapts {
            (worker.slots, worker.is_soft) = (Some(Slots::of_adapter(slots)), true);
        } else if slots > 1 {
            worker.slots = Some(Slots::new(slots));
        }
        if worker.slots.is_none() && !pulls {
            let tasks = spec.env.iter().find(|(name, _)| name == "STOKER_TASKS");
            worker.model.left = tasks.and_then(|(_, tasks)| tasks.parse().ok());
        }
        if pulls {
            (worker.model, worker.pull) = (Model::that_pulls(), Some(Pull::default()));
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
        self.agenda.plan(steady() + boots, What::Hello(key));
        let idle_deaths = self.lively.idle_deaths;
        if self.dice("idle deaths").percent(idle_deaths) {
            let after = self.dice("idle deaths").millis(200, 10_000);
            self.agenda.plan(steady() + after, What::DiesIdle(key));
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
    pub(crate) fn may_die_free(&mut self, key: u64) {
        let often = self.setup.often.idle_deaths;
        if self.dice("idle deaths").percent(often) {
            let late = self.setup.store.late_us;
            let after = self.dice("idle deaths").micros(1, late);
            self.agenda.plan(steady() + after, What::DiesIdle(key));
        }
    }

    /// Kills a worker that has no task, as the kernel may do when memory runs out.
    pub(crate) fn dies_idle(&mut self, key: u64) {
        // A task that the worker was sent and has not read would be blamed for its death, so such a worker is left
        // alone.
        let has_none =
            |worker: &Worker| worker.is_free() && !worker.holds() && !worker.peer.is_readable();
        if self.workers.get(&key).is_some_and(has_none) && !self.setup.cuts {
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
        if let Some(run) = &worker.run {
            self.check_run(&worker, run.task);
        }
        let mut unread = Vec::new();
        worker.peer.look_ahead(|frame| {
            let is_job = frame.kind == Type::Req && frame.meta.get(Key::JOB_ID).is_some();
            unread.extend(is_job.then(|| number(frame.body)).flatten());
        });
        unread.into_iter().for_each(|no| self.ledger.unread(no));
        self.own_ends(worker.own.client.as_ref());
        self.note_last_task(&worker);
        self.tasks_end(&worker, by_signal);
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
    /// Updates the model for the tasks of a worker that dies.
    fn tasks_end(&mut self, worker: &Worker, by_signal: bool) {
        self.ledger.has_leavers |= worker.slots.is_some();
        for no in worker.waiting_jobs() {
            self.ledger.died_unbegun(no, &self.setup);
            if worker.is_told() || worker.model.state == "gone" {
                self.ledger.may_count_as_returned(no);
            }
        }
        // A job whose answer was written only in part has not ended.
        let running = worker.running();
        let unreported = worker.ended.iter().map(|(task, _)| *task);
        for task in running.into_iter().chain(unreported) {
            self.is_moment(Moment::Crash);
            match task.is_job {
                true => {
                    let death = match by_signal && self.is_drained(worker, task) {
                        true => Death::Drained,
                        false => self.death_of(worker, task.no),
                    };
                    self.ledger.died(task.no, death, &self.setup);
                }
                false => self.ledger.calls.died(task.no),
            }
        }
    }

    /// Whether the job's worker is killed only because the server drains.
    fn is_drained(&self, worker: &Worker, task: Task) -> bool {
        let goes = worker.crashes || worker.is_rogue || worker.leaves_by_itself();
        let job = &self.ledger.jobs[task.no as usize];
        let is_sound = !job.may_be_cancelled() && !job.may_be_stopped && job.is_sure();
        let is_whole = worker.ended.is_empty();
        let serves = self.draining.is_some() && self.server.is_some();
        serves && !goes && is_sound && is_whole && self.is_in_time(worker, task.no)
    }

    /// How a worker's death counts for its job.
    fn death_of(&self, worker: &Worker, no: u64) -> Death {
        let ran = steady() - self.ledger.jobs[no as usize].began_at;
        // The server may be having the worker killed at this moment because of another of its tasks.
        let is_meant = |task: &Task| self.may_be_stopped(*task);
        let held = worker.slots.iter().flat_map(Slots::tasks);
        let is_stopped =
            held.chain(worker.running()).any(|task| is_meant(&task)) && worker.slots.is_some();
        let leaves = worker.is_told() || !worker.ended.is_empty() || is_stopped;
        // A worker that ends by itself while it is about to be killed counts as killed.
        let is_killed = worker.is_to_die && worker.crashes;
        match (worker.crashes, self.limit_of(worker, no)) {
            // A prefetched task is timed from its start, which the server may date later than the worker does.
            (true, Some(least)) if ran + NEAR < least && !leaves && !is_killed => Death::Crash,
            (false, Some(least)) if ran >= least && !leaves && self.draining.is_none() => {
                // The worker may have ended by itself before its time was up, and the server may notice that only
                // later.
                match worker.leaves_by_itself() {
                    true => Death::Unclear,
                    false => Death::Overdue,
                }
            }
            _ => Death::Unclear,
        }
    }

    /// Whether the job's run has not reached its time limit, so that the server has no reason to kill the worker for
    /// it.
    pub(crate) fn is_in_time(&self, worker: &Worker, no: u64) -> bool {
        let ran = steady() - self.ledger.jobs[no as usize].began_at;
        let limit = self.limit_of(worker, no);
        limit.is_some_and(|limit| ran + NEAR < limit)
    }
}

fn short(message: &ToAngel) -> String {
    match message {
        ToAngel::Spawn { worker, name, .. } => format!("spawn {worker} as {name}"),
        other => format!("{other:?}").chars().take(80).collect(),
    }
}
