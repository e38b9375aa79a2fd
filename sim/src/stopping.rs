//! Stoker shuts down in the middle of work. Where jobs are on the disk it is started again, and has to go on with
//! exactly what was left. Where jobs are in memory they are lost, and the log says how many.

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

/// The maximum time that a server needs after the grace of its workers: for the angel's signals, for clients that do
/// not read their last answers, and for what the store still writes.
const CLOSES: Duration = Duration::from_secs(8);
/// The maximum time that a server needs after the grace of its workers if its disk fails.
const CLOSES_BADLY: Duration = Duration::from_secs(70);
/// Within this time clients have read what the server wrote before it ended.
const READ: Duration = Duration::from_secs(2);

/// Shutdowns in the middle of work.
#[derive(Debug, Default)]
pub(crate) struct Stops {
    /// The numbers of client actions after which a shutdown begins.
    at: BTreeSet<u64>,
    /// Stoker shuts down in the middle of work, and will be started again.
    in_middle: bool,
    /// The number of jobs that are left, as the server reported when it ended properly. It is set until the next server
    /// begins.
    left: Option<u64>,
    /// The jobs in memory are lost, and no other server is started.
    is_last: bool,
    /// When a worker last had a task during the present drain.
    busy_until: Duration,
}

/// Draws how often Stoker shuts down in the middle of a seed.
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

    /// The server dies while it drains. Returns whether the drain began in the middle of work.
    pub(crate) fn end_unwell(&mut self) -> bool {
        std::mem::take(&mut self.in_middle)
    }
}

impl World {
    /// A client has acted, so a shutdown may be due.
    pub(crate) fn plan_stop(&mut self) {
        let asked = self.asked;
        if self.stops.at.first().is_some_and(|at| *at <= asked) {
            self.stops.at.pop_first();
            let longest = self.setup.longest_us;
            let after = self.dice("stopping").micros(0, longest);
            self.agenda.plan(steady() + after, What::Stops);
        }
    }

    /// The next job of a queue is about to be recorded as delivered: a shutdown may begin before that is written.
    pub(crate) fn stop_meets_claim(&mut self) {
        if self.dice("stopping").percent(2) && self.stops.at.pop_first().is_some() {
            let late = self.setup.store.late_us;
            let after = self.dice("stopping").micros(0, late);
            self.agenda.plan(steady() + after, What::Stops);
        }
    }

    /// Jobs wait behind another one that waits for its retry: a shutdown may begin, and the next server has to keep
    /// their order.
    pub(crate) fn stop_meets_parked(&mut self) {
        if self.dice("stopping").percent(25) && self.stops.at.pop_first().is_some() {
            let after = self.dice("stopping").micros(0, 50_000);
            self.agenda.plan(steady() + after, What::Stops);
        }
    }

    /// An operator shuts Stoker down.
    pub(crate) fn stop(&mut self) {
        if self.server.is_none() || self.draining.is_some() || self.waits_since.is_some() {
            return;
        }
        self.look_meets_stop();
        self.change_meets_stop();
        // A client may not know yet that its connection is to a server that is dead.
        let clients = self.clients.iter_mut().flatten();
        let clients = clients.filter(|client| !sim::is_cut(&client.peer.fd));
        clients.for_each(Client::is_owed);
        self.stops.in_middle = true;
        self.drain();
    }

    /// Records, while the server drains, that a worker still has a task.
    pub(crate) fn note_busy(&mut self) {
        if self.draining.is_some() && self.workers.values().any(Worker::holds) {
            self.stops.busy_until = steady();
        }
    }

    /// The server has drained and ended.
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

    /// Checks that the drain ended within the longest grace, and soon after the last task.
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

    /// No other server is started: clients read what the server wrote before it ended, and the seed ends.
    fn loses_jobs(&mut self, left: u64) {
        self.ledger.check_lost(left);
        self.stops.is_last = true;
        self.asked = self.setup.requests;
        self.agenda.plan(steady() + READ, What::Ends);
    }

    /// Called between two servers. If the first one ended properly, the store must have exactly what the model says.
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
    /// Jobs in memory are lost with their server. Checks that their number is the one that the server reports.
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
