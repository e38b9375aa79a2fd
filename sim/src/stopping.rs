//! Stoker is told to end in the middle of work. Where jobs are on the disk it is started again, and has to go on with
//! exactly what was left; where they are in memory they are lost, and the log says how many.

use crate::agenda::What;
use crate::client::Client;
use crate::dice::Dice;
use crate::ledger::{Push, State};
use crate::stored::Stored;
use crate::storing::{Engine, Store};
use crate::worker::Worker;
use crate::world::World;
use std::collections::BTreeSet;
use std::time::Duration;
use stoker_os::{sim, steady};

/// After the grace of its workers a server may take so long: the angel's signals, the last answers of clients that do not
/// take them, and what the store still writes.
const CLOSES: Duration = Duration::from_secs(8);
/// With a disk that fails.
const CLOSES_BADLY: Duration = Duration::from_secs(70);
/// Until then clients have read what the server has left them.
const READ: Duration = Duration::from_secs(2);

/// Ends in the middle of work.
#[derive(Debug, Default)]
pub(crate) struct Stops {
    /// After so many requests of clients.
    at: BTreeSet<u64>,
    /// Stoker was told to end, and is to be started again.
    in_middle: bool,
    /// The server has ended well, and the next one has not begun: how many jobs it says are left.
    left: Option<u64>,
    /// The jobs in memory are lost: nothing goes on.
    is_last: bool,
    /// When a worker last had a task, of the present drain.
    busy_until: Duration,
}

/// How often Stoker is told to end in the middle of a seed.
pub(crate) fn draw_stops(seed: u64, store: &Store) -> u64 {
    let dice = &mut Dice::of(seed, "stops");
    match store.engine {
        Engine::Sqlite => dice.weighted(&[(60, 0), (30, 1), (10, 3)]),
        Engine::Memory | Engine::Late => dice.weighted(&[(92, 0), (8, 1)]),
    }
}

impl Stops {
    pub(crate) fn new(seed: u64, stops: u64, requests: u64) -> Self {
        let mut dice = Dice::of(seed, "stopping");
        Self {
            at: (0..stops).map(|_| dice.below(requests.max(1))).collect(),
            ..Self::default()
        }
    }

    pub(crate) fn is_last(&self) -> bool {
        self.is_last
    }

    /// The server dies while it is to end. Returns whether that was in the middle of work.
    pub(crate) fn end_unwell(&mut self) -> bool {
        std::mem::take(&mut self.in_middle)
    }
}

impl World {
    /// A client has asked for something.
    pub(crate) fn plan_stop(&mut self) {
        let asked = self.asked;
        if self.stops.at.first().is_some_and(|at| *at <= asked) {
            self.stops.at.pop_first();
            let longest = self.setup.longest_us;
            let after = self.dice("stopping").micros(0, longest);
            self.agenda.plan(steady() + after, What::Stops);
        }
    }

    /// The next job of a queue is about to be recorded as delivered, which may be written after the drain has begun.
    pub(crate) fn stop_meets_claim(&mut self) {
        if self.dice("stopping").percent(2) && self.stops.at.pop_first().is_some() {
            let late = self.setup.store.late_us;
            let after = self.dice("stopping").micros(0, late);
            self.agenda.plan(steady() + after, What::Stops);
        }
    }

    /// Others wait behind a job that waits for its retry. The next server has to keep their order.
    pub(crate) fn stop_meets_parked(&mut self) {
        if self.dice("stopping").percent(25) && self.stops.at.pop_first().is_some() {
            let after = self.dice("stopping").micros(0, 50_000);
            self.agenda.plan(steady() + after, What::Stops);
        }
    }

    /// Somebody has Stoker end.
    pub(crate) fn stop(&mut self) {
        if self.server.is_none() || self.draining.is_some() || self.waits_since.is_some() {
            return;
        }
        self.look_meets_stop();
        self.change_meets_stop();
        // Some may not know yet that the server is dead to which they have connected.
        let clients = self.clients.iter_mut().flatten();
        let clients = clients.filter(|client| !sim::is_cut(&client.peer.fd));
        clients.for_each(Client::is_owed);
        self.stops.in_middle = true;
        self.drain();
    }

    /// While the server ends: whether a worker still has a task.
    pub(crate) fn note_busy(&mut self) {
        if self.draining.is_some() && self.workers.values().any(Worker::holds) {
            self.stops.busy_until = steady();
        }
    }

    /// The server ended as it was told to.
    pub(crate) fn has_ended(&mut self) {
        self.note(|| "the server is done".to_owned());
        let server = self.server.take().expect("it is there");
        let left = server.unfinished();
        server.end().expect("it ends well");
        self.check_drain();
        if !std::mem::take(&mut self.stops.in_middle) {
            self.is_over = true;
            return;
        }
        if self.disk.is_none() {
            return self.loses_jobs(left);
        }
        self.draining = None;
        self.stops.left = Some(left);
        self.ledger.unfinished = None;
        self.forget_plans();
        self.angel_ends();
        self.cut_clients();
        self.clear();
    }

    /// A drain ends once the longest grace is over, and within a short time if nothing hinders it.
    fn check_drain(&self) {
        let took = steady() - self.draining.expect("nobody told it to end");
        let grace = self.setup.longest_stop_grace();
        let closes = match self.setup.store.faults {
            0 => CLOSES,
            _ => CLOSES_BADLY,
        };
        let most = grace + closes;
        assert!(took <= most, "the drain took {took:?}, of {most:?}");
        let idle = took.min(steady() - self.stops.busy_until);
        let most = closes + Duration::from_micros(self.lively.slow_end_us);
        assert!(
            idle <= most || !self.rogues.is_empty(),
            "the drain went on for {idle:?} after the last task, of {most:?}"
        );
    }

    /// Nobody starts it again: clients read what they were left, and that is all.
    fn loses_jobs(&mut self, left: u64) {
        self.ledger.check_lost(left);
        self.stops.is_last = true;
        self.asked = self.setup.requests;
        self.agenda.plan(steady() + READ, What::Ends);
    }

    /// Between two servers, of which the first ended well: the store has what the model says, neither more nor less.
    pub(crate) fn check_what_was_left(&mut self, stored: &Stored) {
        if self.ledger.has_drained() {
            self.ledger.may_be_renamed(stored, &self.setup);
        }
        let Some(left) = self
            .stops
            .left
            .take()
            .filter(|_| self.setup.store.faults == 0)
        else {
            return;
        };
        assert!(
            stored.running.is_empty(),
            "nothing runs when a server has ended, and the store says so of {:?}",
            stored.running
        );
        let there = stored.jobs.len() as u64;
        assert_eq!(left, there, "jobs that stay in the store, by its server");
        self.ledger.was_left(stored, &self.setup);
    }
}

impl crate::ledger::Ledger {
    /// Jobs in memory are lost with their server, as many as it says.
    fn check_lost(&self, told: u64) {
        let jobs = self.jobs.iter();
        let sure = jobs.clone().filter(|job| {
            job.push == Push::Accepted && job.is_sure() && !matches!(job.state, State::Ended(_))
        });
        let may = jobs.filter(|job| {
            let is_over = job.is_over() && job.is_sure();
            job.push != Push::Refused && !is_over
        });
        let (least, most) = (sure.count() as u64, may.count() as u64);
        assert!(
            (least..=most).contains(&told),
            "{told} jobs got lost with the server, by its log: {least} to {most} had not finished"
        );
    }
}
