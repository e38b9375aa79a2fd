//! What clients and operators ask for, and when all of it is done.

use crate::agenda::What;
use crate::client::{About, Client};
use crate::dice::Dice;
use crate::operator;
use crate::peer::Peer;
use crate::world::{SOCKET, World};
use std::path::Path;
use std::time::Duration;
use stoker_os::{sim, steady};
use stoker_wire::Key;

/// The first client's process.
const CLIENT: i32 = 100_000;
/// Jobs that hang and are tried again take long.
const LONGEST_REST: Duration = Duration::from_secs(3_000);

impl World {
    pub(crate) fn client_acts(&mut self, no: usize) {
        if self.asked >= self.setup.requests {
            return self.client_waits(no);
        }
        let from = stoker_os::Peer {
            pid: CLIENT + no as i32,
            uid: (no % 3) as u32,
        };
        if self.clients[no].is_none() {
            let fd = sim::connect(Path::new(SOCKET), from).expect("it listens");
            self.clients[no] = Some(Client::new(Peer::new(fd), from.pid));
            self.lives += 1;
        }
        let burst = self.dice("clients").weighted(&[(70, 1), (20, 5), (10, 40)]);
        for _ in 0..burst {
            self.ask(no);
        }
        if self.dice("clients").below(100) < self.setup.trouble.hang_up {
            self.hang_up(no);
        }
        let pause = match self.dice("clients").percent(65) {
            true => self.dice("clients").micros(10, 2_000),
            false => self.dice("clients").millis(1, 2_000),
        };
        self.agenda.plan(steady() + pause, What::ClientActs(no));
    }

    /// Each action has dice of its own. Returns whether it is to be done.
    fn begins_action(&mut self) -> bool {
        let action = self.asked;
        for part in ["asks", "operator"] {
            let dice = Dice::of_one(self.seed, part, action);
            self.dice.insert(part, dice);
        }
        !self.without.skips(action)
    }

    pub(crate) fn ask(&mut self, no: usize) {
        self.asked += 1;
        if !self.begins_action() {
            return;
        }
        let (services, queues) = (self.setup.services.len() as u64, self.setup.queues.len());
        let what = self.dice("asks").below(10);
        let life = self.lives * 100 + no as u64;
        // Every third client is root.
        if no.is_multiple_of(3) && self.dice("operator").below(100) < self.setup.operations {
            let setup = self.setup.clone();
            let drawn = operator::draw(self.dice("operator"), &setup);
            return self.operate(no, drawn);
        }
        if what < 2 && services > 0 {
            let service = self.dice("asks").below(services) as usize;
            let name = self.setup.services[service].name.clone();
            self.calls += 1;
            let call = self.calls;
            if let Some(client) = &mut self.clients[no] {
                client.call(call, &name);
            }
            return;
        }
        if what == 2 {
            if let Some(client) = &mut self.clients[no] {
                client.list_queues(About::Own);
            }
            return;
        }
        let queue = self.dice("asks").below(queues as u64) as usize;
        let drawn = self.setup.queues[queue].clone();
        let lane = self.dice("asks").below(3);
        let key = match drawn.ordered {
            true => 1 + life * 3 + lane,
            false => lane,
        };
        let (mut more, mut wait): (Vec<(Key, Vec<u8>)>, _) = (Vec::new(), Duration::ZERO);
        if !drawn.ordered && self.dice("asks").percent(20) {
            let delay = self.dice("asks").within(1, 3_000);
            more.push((Key::DELAY, delay.to_be_bytes().to_vec()));
            wait = Duration::from_millis(delay);
        }
        let job = self.ledger.push(queue, key, wait);
        if let Some(client) = &mut self.clients[no] {
            client.push(job, &drawn.name, key, &more);
        }
    }

    pub(crate) fn operate(
        &mut self,
        no: usize,
        drawn: (&str, serde_json::Value, operator::Effect),
    ) {
        let (method, request, effect) = drawn;
        self.note(|| format!("  {method} {request}"));
        self.ledger.operates(effect);
        if let Some(client) = &mut self.clients[no] {
            let about = match effect {
                operator::Effect::Rejected => About::WrongOperation,
                _ => About::Operation,
            };
            client.operate(about, method, &request);
        }
    }

    /// All was asked. The last client that has its answers ends the server.
    pub(crate) fn client_waits(&mut self, no: usize) {
        let is_open = |client: &Option<Client>| {
            client
                .as_ref()
                .is_some_and(|client| !client.open.is_empty())
        };
        if is_open(&self.clients[no]) {
            return self
                .agenda
                .plan(steady() + Duration::from_secs(1), What::ClientActs(no));
        }
        self.clients[no] = None;
        let is_over = self.clients.iter().all(Option::is_none);
        if is_over && self.draining.is_none() {
            self.await_rest();
        }
    }

    /// Asks again and again whether a job is left, and then has the server end.
    pub(crate) fn await_rest(&mut self) {
        let now = steady();
        let since = *self.waits_since.get_or_insert(now);
        assert!(
            now - since < LONGEST_REST,
            "jobs are left: {:?}",
            self.ledger.unfinished
        );
        if self.ledger.unfinished == Some(0) {
            self.clients[0] = None;
            return self
                .agenda
                .plan(now + Duration::from_millis(10), What::Drain);
        }
        if self.clients[0].is_none() {
            let from = stoker_os::Peer {
                pid: CLIENT,
                uid: 0,
            };
            let fd = sim::connect(Path::new(SOCKET), from).expect("it listens");
            self.clients[0] = Some(Client::new(Peer::new(fd), from.pid));
        }
        for queue in self.ledger.paused.clone() {
            let name = self.setup.queues[queue].name.clone();
            self.operate(0, operator::resume(&name));
        }
        if let Some(client) = &mut self.clients[0] {
            client.list_queues(About::Rest);
        }
        self.agenda.plan(now + Duration::from_secs(5), What::Rests);
    }

    pub(crate) fn hang_up(&mut self, no: usize) {
        if let Some(client) = self.clients[no].take() {
            for about in client.open.values() {
                if let About::Job(job) = about {
                    self.ledger.unknown(*job);
                }
            }
        }
    }

    pub(crate) fn client_looks(&mut self, no: usize) {
        let ended = match &mut self.clients[no] {
            Some(client) => client.read(&mut self.ledger),
            None => return,
        };
        if ended {
            let open = self.clients[no]
                .as_ref()
                .map_or(0, |client| client.open.len());
            let is_cut = self.cut.remove(&no);
            assert!(
                open == 0 || is_cut,
                "client {no} is disconnected while it waits for {open} answers"
            );
            self.hang_up(no);
        }
    }
}
