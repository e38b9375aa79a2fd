//! The invariants of memory accounting, which hold after every turn. The simulation checks them; a violation
//! panics with the name of the invariant.

use super::Memory;
use crate::net::{Charge, Conn, Role};
use crate::plane::Plane;
use crate::sources::Origin;
use crate::users::User;

impl Memory {
    /// Adds what a connection should have been charged.
    fn add(&mut self, conn: &Conn) {
        match conn.charged {
            Charge::Request(len) => self.requests += len,
            Charge::Begun(len) => self.begun += len,
            Charge::Granted(len) => self.granted += len,
        }
        self.outputs += conn.counted.held;
        match conn.counted.to_worker {
            true => self.to_workers += conn.counted.unsent,
            false => self.to_clients += conn.counted.unsent,
        }
        if let Some(user) = conn.user {
            let of_user = &mut self.users[user];
            of_user.connections += 1;
            of_user.bytes += conn.counted.held + conn.charged.len();
        }
    }

    /// All counters with their names.
    fn counters(&self) -> [(&'static str, usize); 7] {
        [
            ("half-read requests", self.requests),
            ("half-read answers with granted memory", self.granted),
            ("half-read answers", self.begun),
            ("unsent to clients", self.to_clients),
            ("unsent to workers", self.to_workers),
            ("outputs", self.outputs),
            ("reserved for answers", self.reserved),
        ]
    }
}

impl Plane {
    /// Panics if the counters of memory and of the users' shares differ from what is actually there.
    pub(crate) fn check_memory(&self) {
        let mut own = Memory::default();
        for user in self.memory.users.iter() {
            own.users.find_or_insert(user.identity.clone());
        }
        self.peers.conns.iter().for_each(|(_, conn)| own.add(conn));
        for (task, user, bytes) in self.payloads.charged() {
            assert!(
                self.core.is_loaded(task),
                "a payload is charged for a task that no longer exists"
            );
            own.users[user].inflight += 1;
            own.users[user].bytes += bytes;
        }
        own.reserved = self.payloads.reservations().map(|(_, bytes)| bytes).sum();
        for user in self.jobs.users_of_pushes() {
            own.users[user].pushes += 1;
        }
        for user in self.jobs.creators() {
            own.users[user].queues += 1;
        }
        assert_eq!(
            self.memory.counters(),
            own.counters(),
            "the memory counters differ from the actual use"
        );
        self.check_reservations();
        let shares = |user: &User| {
            let User {
                identity,
                connections,
                inflight,
                max_inflight: _,
                bytes,
                pushes,
                queues,
            } = user.clone();
            (identity, connections, inflight, bytes, pushes, queues)
        };
        let counted = self.memory.users.iter().map(shares);
        let there = own.users.iter().map(shares);
        for (counted, there) in counted.zip(there) {
            assert_eq!(
                counted, there,
                "the connections, calls, bytes, pushes and queues that are charged to a user"
            );
        }
    }

    /// Panics if a client's reservations differ from those of its calls. A call whose client has gone keeps its own until it
    /// ends.
    fn check_reservations(&self) {
        let of_client = |conn| match &self.peers.conns.get(conn)?.role {
            Role::Client(client) => Some(client.reserved),
            _ => None,
        };
        let by_calls = self.payloads.reservations();
        let by_calls = by_calls.filter(|(origin, _)| match origin {
            Origin::Call { conn, .. } => of_client(*conn).is_some(),
            _ => false,
        });
        let by_clients = self.peers.conns.iter();
        let by_clients = by_clients.filter_map(|(_, conn)| match &conn.role {
            Role::Client(client) => Some(client.reserved),
            _ => None,
        });
        assert_eq!(
            by_calls.map(|(_, bytes)| bytes).sum::<usize>(),
            by_clients.sum::<usize>(),
            "the memory reserved by calls differs from that reserved by clients"
        );
    }
}
