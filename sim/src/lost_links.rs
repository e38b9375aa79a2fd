//! Connections of workers on other machines that are lost: whether and when such a worker resumes its session.

use crate::agenda::PlannedEvent;
use crate::behaviour::Act;
use crate::coverage::LINK_FATES;
use crate::interrupts::MAX_UNREAD_TIME;
use crate::link::{Cut, Link, LostSession};
use crate::setup::Setup;
use crate::worker::Worker;
use crate::world::World;
use std::time::Duration;
use stoker_os::steady;
use stoker_wire::{Encode, Type};

/// A run of a worker without a connection is continued after this time, unless it only has to answer.
pub(crate) const PAUSE_WITHOUT_CONNECTION: Duration = Duration::from_millis(20);

/// How a session ends that is not resumed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SessionEnd {
    /// There is nothing to resume, or `resume_timeout` is zero.
    Lost,
    Expired,
    /// The server has closed the connection, for example because of a time limit.
    Killed,
}

impl World {
    /// The gateway and the network of a new worker on another machine.
    pub(crate) fn new_link(&mut self, key: u64) -> Link {
        let mut link = Link::new(format!("session-{key}"), self.setup.resume_timeout);
        link.set_next_cut(self.draw_cut());
        link
    }

    fn draw_cut(&mut self) -> Option<Cut> {
        let every = self.setup.link_losses;
        if every == 0 || self.all_requested_at.is_some() {
            return None;
        }
        let dice = self.dice("links");
        let arrive = match dice.percent(50) {
            true => *dice.one_of(&[0, 100]),
            false => dice.below(100),
        };
        let after = dice.below(2 * every);
        Some(Cut { after, arrive })
    }

    /// Handles the loss of connections that was not handled yet.
    pub(crate) fn links_lost(&mut self) {
        for no in 0..self.guests.len() {
            let key = self.guests[no].key;
            let lost = self
                .workers
                .get(&key)
                .filter(|worker| worker.loses_connection());
            if lost.is_some() {
                self.link_lost(no, key);
            }
        }
        self.record_lost_calls();
        let workers = self.workers.values();
        let is_lost = |worker: &&Worker| worker.is_rogue || worker.connection.is_cut();
        let lost = workers.filter(is_lost).count();
        self.ledger.record_lost_workers(lost as u64);
    }

    /// Records the calls that were sent to workers without a connection.
    fn record_lost_calls(&mut self) {
        for guest in &self.guests {
            let worker = self.workers.get_mut(&guest.key);
            let connection = worker.map(|worker| &mut worker.connection);
            if let Some(connection) = connection.filter(|connection| connection.is_cut()) {
                let lost = connection.peek_calls();
                lost.into_iter().for_each(|no| self.ledger.calls.lost(no));
            }
        }
    }

    fn link_lost(&mut self, no: usize, key: u64) {
        let Some(worker) = self.workers.get_mut(&key) else {
            return;
        };
        worker.is_ready = false;
        let Some(link) = &mut worker.connection.link else {
            return;
        };
        link.go_down();
        let can_be_resumed = link.can_be_resumed();
        self.trace(|| format!("  worker {key} loses its connection"));
        self.count_link("connection lost");
        self.record_lost_calls();
        if !can_be_resumed {
            return self.end_session(no, key, SessionEnd::Lost);
        }
        let outage = match self.dice("links").percent(70) {
            true => self.dice("links").micros(50, 500_000),
            false => self.dice("links").millis(500, 25_000),
        };
        let grace = self.setup.resume_timeout;
        let at = steady() + outage.min(grace);
        self.agenda
            .plan(at, PlannedEvent::Reconnects(no, key, outage < grace));
    }

    /// The worker reconnects in time, or the gateway no longer waits for it.
    pub(crate) fn reconnects(&mut self, no: usize, key: u64, is_in_time: bool) {
        if !self
            .workers
            .get(&key)
            .is_some_and(|worker| worker.connection.is_cut())
        {
            return;
        }
        if !is_in_time {
            return self.end_session(no, key, SessionEnd::Expired);
        }
        self.record_busy();
        self.count_link("session resumed");
        let cut = self.draw_cut();
        if let Some(worker) = self.workers.get_mut(&key) {
            worker.connection.resume();
            (worker.is_ready, worker.ready_at) = (true, steady());
            if let Some(link) = &mut worker.connection.link {
                link.set_next_cut(cut);
            }
        }
        self.flush(key);
        self.plan_run(key);
    }

    /// The gateway closes the worker's connection to the server. To the server, the worker has died.
    pub(crate) fn end_session(&mut self, no: usize, key: u64, end: SessionEnd) {
        self.record_busy();
        let Some(worker) = self.workers.get_mut(&key) else {
            return;
        };
        let Some(link) = &worker.connection.link else {
            return;
        };
        let (session, open, is_idle) = (link.session(), link.open(), link.is_idle());
        let has_expired = end != SessionEnd::Lost;
        if has_expired {
            self.expired_sessions.add(&session.id, open);
            self.guests[no].lost_session = Some(session);
        } else if is_idle {
            // The gateway reports that the worker has left, so no task is to blame.
            worker.connection.link = None;
            worker.connection.put(Encode::new(Type::Goaway, 0));
            self.ledger.had_leaving_workers = true;
            let since = steady().saturating_sub(MAX_UNREAD_TIME);
            let mut ended = worker.just_ended.iter();
            let has_just_answered = ended.any(|(_, at)| *at >= since);
            if let Some(pool) = self.pools.get(&key).and_then(|pool| self.setup.pool(pool))
                && has_just_answered
            {
                self.ledger.left_after_answer(pool, &self.setup);
            }
        }
        self.count_link(match (end, is_idle) {
            (SessionEnd::Expired, _) => "session expired",
            (SessionEnd::Killed, _) => "worker killed while it had no connection",
            (SessionEnd::Lost, true) => "idle worker lost",
            (SessionEnd::Lost, false) => "worker lost",
        });
        self.dies(key, end == SessionEnd::Killed);
    }

    /// A worker whose session has expired reconnects, and still has its answers. The gateway rejects and counts them.
    pub(crate) fn reject_late_answers(&mut self, lost: &LostSession) {
        let late = self
            .expired_sessions
            .take_late_answers(&lost.id, &lost.held);
        assert_eq!(
            late, lost.unanswered,
            "exactly the answers that the server does not have are late: {lost:?}"
        );
        if late > 0 {
            self.count_link("late answers");
        }
    }

    fn count_link(&mut self, what: &str) {
        let fate = format!("link: {what}");
        assert!(
            LINK_FATES.contains(&fate.as_str()),
            "{fate} is not in the table"
        );
        *self.ledger.coverage.draws.entry(fate).or_default() += 1;
    }
}

impl Worker {
    /// Whether the worker has lost its connection, and this was not handled yet.
    fn loses_connection(&self) -> bool {
        self.is_ready && self.connection.is_cut()
    }

    /// Whether the run can go on without a connection: it only has to answer, and no other task waits.
    pub(crate) fn may_continue_unconnected(&self) -> bool {
        let is_last = |act: &Act| matches!(act, Act::Does("returns" | "throws"));
        let acts = self.run.iter().flat_map(|run| &run.acts);
        let mut acts = acts.map(|(_, act)| act);
        let ends = acts.next().is_some_and(is_last) && acts.next().is_none();
        let is_last = self.model.next_waiting().is_none() && self.model.tasks_left.is_none();
        ends && is_last && self.printed.is_empty() && !self.is_shutting_down()
    }
}

/// Removes the losses of connections from a setup. Returns whether there were any.
pub(crate) fn leave_out(setup: &mut Setup) -> bool {
    std::mem::take(&mut setup.link_losses) > 0
}
