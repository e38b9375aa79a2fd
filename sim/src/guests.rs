//! Guests: workers that the angel does not start. They connect by themselves, and may leave at any time.

use crate::agenda::PlannedEvent;
use crate::connection::Connection;
use crate::dice::Dice;
use crate::gateway;
use crate::link::LostSession;
use crate::lost_links::SessionEnd;
use crate::model::Model;
use crate::pulls::Pull;
use crate::setup::Setup;
use crate::slots::Slots;
use crate::worker::Worker;
use crate::world::{ANGEL, SOCKET, World};
use std::path::Path;
use stoker_os::{Signal, sim, steady};

/// The first worker number and the first process id of guests, which the angel does not know.
const FIRST_KEY: u64 = 1 << 50;
const FIRST_PID: i32 = 300_000;
/// A user other than the server's, whose workers need the pool's token.
const OTHER_USER: u32 = 33;

/// How a guest takes tasks.
#[derive(Clone, Copy, Debug)]
enum Kind {
    Runs,
    Pulls,
    Slots(u16),
}

/// A process that connects as a worker, again and again.
pub(crate) struct Guest {
    pool: usize,
    kind: Kind,
    uid: u32,
    /// The guest's worker number on its current or last connection.
    pub(crate) key: u64,
    /// The session that expired while the guest had no connection.
    pub(crate) lost_session: Option<LostSession>,
}

impl Guest {
    fn draw(dice: &mut Dice, setup: &Setup) -> Self {
        let pool = dice.below(setup.pools.len() as u64) as usize;
        let has_token = setup.pools[pool].section.get("token").is_some();
        Self {
            pool,
            // Only workers of this kind resume their sessions.
            kind: match setup.remote_guests {
                true => *dice.one_of(&[Kind::Runs, Kind::Runs, Kind::Pulls, Kind::Slots(3)]),
                false => *dice.one_of(&[Kind::Runs, Kind::Pulls, Kind::Pulls, Kind::Slots(3)]),
            },
            uid: match has_token {
                true => *dice.one_of(&[OTHER_USER, sim::PROTECTED_USER]),
                false => 0,
            },
            key: 0,
            lost_session: None,
        }
    }
}

pub(crate) fn is_guest(key: u64) -> bool {
    key >= FIRST_KEY
}

impl World {
    pub(crate) fn plan_guests(&mut self) {
        for no in 0..self.setup.guests as usize {
            let setup = self.setup.clone();
            let guest = Guest::draw(self.dice("guests"), &setup);
            self.guests.push(guest);
            let at = self.dice("guests").millis(0, 500);
            self.agenda.plan(at, PlannedEvent::GuestActs(no));
        }
    }

    /// The guest connects if it is not connected, and may leave if it is.
    pub(crate) fn guest_acts(&mut self, no: usize) {
        if self.all_requested_at.is_some() || self.shutdowns.is_last() {
            return;
        }
        let key = self.guests[no].key;
        if !self.workers.contains_key(&key) && self.server.is_some() {
            self.connect_guest(no);
        } else if self.dice("guests").percent(15) {
            self.ask_guest_to_leave(key);
        }
        let pause = self.dice("guests").millis(100, 3_000);
        let next = self.setup.after_break(steady() + pause);
        self.agenda.plan(next, PlannedEvent::GuestActs(no));
    }

    fn connect_guest(&mut self, no: usize) {
        self.guest_connections += 1;
        let (key, pid) = (
            FIRST_KEY + self.guest_connections,
            FIRST_PID + self.guest_connections as i32,
        );
        let Guest {
            pool, kind, uid, ..
        } = self.guests[no];
        self.guests[no].key = key;
        sim::start_process(pid, ANGEL, uid, 20 << 20);
        let is_remote = self.setup.remote_guests;
        let own = match is_remote {
            true => gateway::PEER,
            false => stoker_os::Peer { pid, uid },
        };
        let fd = sim::connect(Path::new(SOCKET), own).expect("the server listens");
        let mut worker = Worker::new(key, pid, Connection::new(fd), Model::loop_worker());
        match kind {
            Kind::Runs => worker.model.set_connected(),
            Kind::Pulls => {
                (worker.model, worker.pull) = (Model::pull_worker(), Some(Pull::default()));
            }
            Kind::Slots(most) => worker.slots = Some(Slots::new(most)),
        }
        self.trace(|| format!("  worker {key} connects as a guest: {kind:?}"));
        let pool = self.setup.pools[pool].name.clone();
        worker.is_remote = is_remote;
        worker.hello(&self.setup, &pool);
        if is_remote && matches!(kind, Kind::Runs) {
            worker.connection.link = Some(self.new_link(key));
        }
        if let Some(lost) = self.guests[no].lost_session.take() {
            self.reject_late_answers(&lost);
        }
        self.pools.insert(key, pool);
        self.workers.insert(key, worker);
        self.plan_pull(key);
    }

    /// Handles the signals that the server has sent to guests, which the angel does not know. The server can't signal
    /// guests on other machines and those of a protected user, and closes their connections instead.
    pub(crate) fn guests_receive(&mut self) {
        for no in 0..self.guests.len() {
            let key = self.guests[no].key;
            let Some(worker) = self.workers.get(&key) else {
                continue;
            };
            let (pid, worker_is_cut) = (worker.pid, worker.connection.is_cut());
            let is_out_of_reach = worker.is_remote || self.guests[no].uid == sim::PROTECTED_USER;
            if is_out_of_reach && sim::is_peer_closed(&worker.connection.fd) {
                // A gateway closes the worker's connection too. On its next connection, the guest is a new worker.
                self.trace(|| format!("  worker {key} is disconnected"));
                self.ledger.had_disconnected_workers = true;
                if worker_is_cut {
                    self.end_session(no, key, SessionEnd::Killed);
                    continue;
                }
                self.dies(key, true);
                continue;
            }
            for signal in sim::signals(pid) {
                self.trace(|| format!("  worker {key} is sent {signal:?}"));
                match signal {
                    Signal::KILL => self.plan_death(key, true),
                    Signal::TERM => self.ask_guest_to_leave(key),
                    _ => self.interrupt(key),
                }
            }
        }
    }

    /// The guest is asked to shut down once it has nothing to do.
    fn ask_guest_to_leave(&mut self, key: u64) {
        let worker = self.workers.get(&key);
        let there = worker.filter(|worker| !worker.is_rogue && !worker.connection.is_cut());
        let Some(worker) = there else { return };
        match (&worker.slots, &worker.pull) {
            (Some(_), _) => self.slots_goaway(key),
            // A worker that takes tasks on request is killed, or leaves the next time that it has neither a task nor a
            // request.
            (None, Some(_)) => {}
            (None, None) if worker.model.state == "gone" => {}
            (None, None) => self.apply_worker_event(key, "TERM"),
        }
    }
}

/// The token that a worker of another user needs to join a pool.
pub(crate) fn token(setup: &Setup, pool: &str) -> Option<String> {
    let token = setup.pools[setup.pool(pool)?].section.get("token")?;
    Some(token.trim_matches('"').to_owned())
}
