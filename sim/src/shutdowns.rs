//! Simulates shutdowns in the middle of work. If jobs are on disk, Stoker is started again and must continue with
//! exactly the jobs that were left. If jobs are in memory, they are lost, and the log says how many.

use crate::agenda::PlannedEvent;
use crate::client::Client;
use crate::dice::Dice;
use crate::ledger::{Push, State};
use crate::setup::Setup;
use crate::stored::Stored;
use crate::storing::{Engine, Store};
use crate::worker::Worker;
use crate::world::World;
use std::collections::BTreeSet;
use std::time::Duration;
use stoker_os::{sim, steady};

/// The maximum time that a server needs after the grace of its workers: for the angel's signals, for clients that do
/// not read their last answers, and for what the store still writes.
const MAX_CLOSE_TIME: Duration = Duration::from_secs(8);
/// The maximum time that a server needs after the grace of its workers if its disk fails.
const MAX_CLOSE_TIME_WITH_FAULTS: Duration = Duration::from_secs(70);
/// Within this time clients have read what the server wrote before it ended.
const READ_TIME: Duration = Duration::from_secs(2);

/// Shutdowns in the middle of work.
#[derive(Debug, Default)]
pub(crate) struct Shutdowns {
    /// The numbers of client actions after which a shutdown begins.
    at: BTreeSet<u64>,
    /// Stoker shuts down in the middle of work, and will be started again.
    in_middle: bool,
    /// The number of jobs that are left, as the server reported when it ended properly. It is set until the next server
    /// begins.
    left: Option<u64>,
    /// The jobs in memory are lost, and no other server is started.
    is_last: bool,
    /// When a worker last had a task during the current drain.
    busy_until: Duration,
}

/// Draws how often Stoker shuts down in the middle of a seed.
pub(crate) fn draw_shutdowns(seed: u64, store: &Store) -> u64 {
    let dice = &mut Dice::of(seed, "stops");
    match store.engine {
        Engine::Sqlite => dice.weighted(&[(60, 0), (30, 1), (10, 3)]),
        Engine::Memory | Engine::Delayed => dice.weighted(&[(92, 0), (8, 1)]),
    }
}

impl Shutdowns {
    pub(crate) fn new(seed: u64, shutdowns: u64, requests: u64) -> Self {
        let mut dice = Dice::of(seed, "stopping");
        Self {
            at: (0..shutdowns)
                .map(|_| dice.below(requests.max(1)))
                .collect(),
            ..Self::default()
        }
    }

    pub(crate) fn is_last(&self) -> bool {
        self.is_last
    }

    /// The server dies while it drains. Returns whether the drain began in the middle of work.
    pub(crate) fn end_by_death(&mut self) -> bool {
        std::mem::take(&mut self.in_middle)
    }
}

impl World {
    /// A client has acted, so a shutdown may be due.
    pub(crate) fn plan_shutdown(&mut self) {
        let taken = self.actions_taken;
        if self.shutdowns.at.first().is_some_and(|at| *at <= taken) {
            self.shutdowns.at.pop_first();
            let longest = self.setup.max_run_us;
            let after = self.dice("stopping").micros(0, longest);
            self.agenda.plan(steady() + after, PlannedEvent::ShutsDown);
        }
    }

    /// The next job of a queue is about to be recorded as delivered: a shutdown may begin before that is written.
    pub(crate) fn shutdown_during_delivery(&mut self) {
        if self.dice("stopping").percent(2) && self.shutdowns.at.pop_first().is_some() {
            let max_delay = self.setup.store.max_delay_us;
            let after = self.dice("stopping").micros(0, max_delay);
            self.agenda.plan(steady() + after, PlannedEvent::ShutsDown);
        }
    }

    /// Jobs wait behind another one that waits for its retry: a shutdown may begin, and the next server has to keep
    /// their order.
    pub(crate) fn shutdown_while_parked(&mut self) {
        if self.dice("stopping").percent(25) && self.shutdowns.at.pop_first().is_some() {
            let after = self.dice("stopping").micros(0, 50_000);
            self.agenda.plan(steady() + after, PlannedEvent::ShutsDown);
        }
    }

    /// An operator shuts Stoker down.
    pub(crate) fn shut_down(&mut self) {
        if self.server.is_none() || self.draining.is_some() || self.all_requested_at.is_some() {
            return;
        }
        self.list_during_shutdown();
        self.change_during_shutdown();
        // A client may not know yet that its connection is to a server that is dead.
        let clients = self.clients.iter_mut().flatten();
        let clients = clients.filter(|client| !sim::is_peer_closed(&client.connection.fd));
        clients.for_each(Client::expect_answers);
        self.shutdowns.in_middle = true;
        self.drain();
    }

    /// Records, while the server drains, that a worker still has a task.
    pub(crate) fn record_busy(&mut self) {
        if self.draining.is_some() && self.workers.values().any(Worker::may_have_tasks) {
            self.shutdowns.busy_until = steady();
        }
    }

    /// The server has drained and ended.
    pub(crate) fn server_ended(&mut self) {
        self.trace(|| "the server has ended".to_owned());
        let mut server = self.server.take().expect("a server runs");
        self.log.extend(server.finish_log());
        let left = server.unfinished();
        server.end().expect("the server can be closed");
        self.check_drain();
        if !std::mem::take(&mut self.shutdowns.in_middle) {
            self.is_over = true;
            return;
        }
        if self.disk.is_none() {
            return self.end_with_lost_jobs(left);
        }
        self.draining = None;
        self.shutdowns.left = Some(left);
        self.ledger.unfinished = None;
        self.forget_plans();
        self.angel_ends();
        self.mark_disconnected_clients();
        self.plan_orphans_end();
    }

    /// Checks that the drain ended within the longest grace, and soon after the last task.
    fn check_drain(&self) {
        let took = steady() - self.draining.expect("the server drains");
        let grace = self.setup.max_stop_grace();
        let closes = match self.setup.store.faults {
            0 => MAX_CLOSE_TIME,
            _ => MAX_CLOSE_TIME_WITH_FAULTS,
        };
        let max = grace + closes;
        assert!(took <= max, "the drain took {took:?}, and may take {max:?}");
        let idle = took.min(steady() - self.shutdowns.busy_until);
        let max = closes + Duration::from_micros(self.behaviour.slow_end_us);
        assert!(
            idle <= max || !self.rogues.is_empty(),
            "the drain took {idle:?} after the last task, and may take {max:?}"
        );
    }

    /// No other server is started: clients read what the server wrote before it ended, and the seed ends.
    fn end_with_lost_jobs(&mut self, left: u64) {
        self.ledger.check_lost(left, &self.setup);
        self.shutdowns.is_last = true;
        self.actions_taken = self.setup.requests;
        self.agenda
            .plan(steady() + READ_TIME, PlannedEvent::SeedEnds);
    }

    /// Called between two servers. If the first one ended properly, the store must have exactly what the model says.
    pub(crate) fn check_left_by_drain(&mut self, stored: &Stored) {
        if self.ledger.has_drained() {
            self.ledger.mark_new_ids(stored, &self.setup);
        }
        let Some(left) = self
            .shutdowns
            .left
            .take()
            .filter(|_| self.setup.store.faults == 0)
        else {
            return;
        };
        assert!(
            stored.running.is_empty(),
            "jobs are stored as running after a shutdown: {:?}",
            stored.running
        );
        let there = stored.jobs.len() as u64;
        assert_eq!(left, there, "number of jobs that stay in the store");
        self.ledger.check_after_drain(stored, &self.setup);
    }
}

impl crate::ledger::Ledger {
    /// Jobs in memory are lost with their server. Checks that their number is the one that the server reports.
    fn check_lost(&self, reported: u64, setup: &Setup) {
        let jobs = self.jobs.iter();
        let certain = jobs.clone().filter(|job| {
            job.push == Push::Accepted
                && job.is_state_known()
                && !matches!(job.state, State::Ended(_))
                && !self.may_be_lost_at_delivery(job, setup)
        });
        let may = jobs.filter(|job| {
            let is_over = job.is_over() && job.is_state_known();
            job.push != Push::Rejected && !is_over
        });
        let (min, max) = (certain.count() as u64, may.count() as u64);
        assert!(
            (min..=max).contains(&reported),
            "the server reported {reported} lost jobs, and {min} to {max} were unfinished"
        );
    }
}
