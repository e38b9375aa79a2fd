//! Processes that do not speak the protocol: they run, grow, exit on their own, and end on TERM.

use crate::edge::Act;
use crate::sim::Sim;
use crate::support::*;
use stoker_core::*;

impl Sim {
    pub fn is_silent(&self, worker: WorkerId) -> bool {
        let proc = self.edge.procs.get(&worker);
        proc.is_some_and(|proc| !self.setup.pools[proc.pool].config.protocol)
    }

    /// The server says HELLO on the process's behalf as soon as it runs.
    pub fn begin_silent(&mut self, worker: WorkerId) {
        let pool = self.edge.procs[&worker].pool;
        let not_before = self.edge.not_before.get(&pool).copied();
        assert!(
            not_before.is_none_or(|at| at <= self.now),
            "one that ends well is followed more than once a second"
        );
        if self.trouble && self.chance.percent(5) {
            return self.schedule_exit(worker, Exit::NotStarted, Span(30_000));
        }
        let starts = Span(self.chance.within(300, 20_000));
        self.schedule_act(worker, starts, Act::Hello);
        self.live_silently(worker, starts);
    }

    /// Draws how long the process lives and how it ends.
    fn live_silently(&mut self, worker: WorkerId, starts: Span) {
        if self.chance.percent(30) {
            return;
        }
        let exit = match self.trouble {
            true => self.chance.weighted(&[
                (5, Exit::Code(0)),
                (3, Exit::Code(12)),
                (2, Exit::Code(1)),
                (1, Exit::Code(255)),
                (1, Exit::Signal(11)),
            ]),
            false => Exit::Code(0),
        };
        let min = if self.trouble { 0 } else { 3_000 };
        let lives = self.chance.of(&[ms(5), ms(900), ms(3_000), ms(20_000)]);
        let ends = Span(starts.0 + lives.max(ms(min)).0);
        self.schedule_act(worker, ends, Act::Ends(exit));
        if self.trouble && self.chance.percent(30) {
            let rss = self.chance.of(&[60, 120, 200]);
            self.edge.procs.get_mut(&worker).expect("it is there").rss = rss;
        }
    }

    /// When a reload begins or ends, the next process may start at once.
    pub fn clear_start_delay(&mut self, pool: PoolId) {
        self.edge.not_before.remove(&pool.index());
    }

    /// The process understands only TERM: it ends, unless it ignores signals.
    pub fn terminate_silent(&mut self, worker: WorkerId) {
        if !self.edge.procs[&worker].ignores_signals {
            let exit = self.chance.of(&[Exit::Code(0), Exit::Signal(15)]);
            self.schedule_exit(worker, exit, Span(800_000));
        }
    }

    /// After a process has exited cleanly, the next one may start only one second after that one became ready.
    pub fn ends_silently(&mut self, worker: WorkerId, exit: Exit) {
        let proc = &self.edge.procs[&worker];
        if let (Some(hello_at), Exit::Code(0 | 12)) = (proc.hello_at, exit) {
            let not_before = self.edge.not_before.entry(proc.pool).or_insert(Time(0));
            *not_before = (*not_before).max(hello_at + secs(1));
        }
    }
}
