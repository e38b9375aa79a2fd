//! Limits connections that have not identified themselves yet, per client address, so that silent peers at one address
//! can't take up all places.

use super::auth_failures::network;
use std::cell::RefCell;
use std::collections::HashMap;
use std::net::IpAddr;
use std::rc::Rc;

/// One address may have one of this many equal shares of all places, and at least `MIN_PLACES` places.
const SHARES: usize = 8;
const MIN_PLACES: usize = 16;

/// The number of connections per address that have not identified themselves.
pub(super) struct PendingPeers {
    limit: usize,
    counts: RefCell<HashMap<IpAddr, usize>>,
}

/// A place of a connection that has not identified itself. Dropping it releases the place.
pub(super) struct PendingPlace {
    peers: Rc<PendingPeers>,
    network: IpAddr,
}

impl PendingPeers {
    pub(super) fn new(max_connections: usize) -> Rc<Self> {
        Rc::new(Self {
            limit: (max_connections / SHARES).max(MIN_PLACES),
            counts: RefCell::default(),
        })
    }

    /// `None` if too many connections of this address have not identified themselves.
    pub(super) fn place(self: &Rc<Self>, address: IpAddr) -> Option<PendingPlace> {
        let network = network(address);
        let mut counts = self.counts.borrow_mut();
        let count = counts.entry(network).or_default();
        if *count >= self.limit {
            return None;
        }
        *count += 1;
        let peers = self.clone();
        Some(PendingPlace { peers, network })
    }
}

impl Drop for PendingPlace {
    fn drop(&mut self) {
        let mut counts = self.peers.counts.borrow_mut();
        if let Some(count) = counts.get_mut(&self.network) {
            *count -= 1;
            if *count == 0 {
                counts.remove(&self.network);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_has_a_share_of_the_places() {
        let peers = PendingPeers::new(1_000);
        let (one, other) = ("10.0.0.1".parse().unwrap(), "10.0.0.2".parse().unwrap());
        let mut places: Vec<PendingPlace> = (0..125).map(|_| peers.place(one).unwrap()).collect();
        assert!(peers.place(one).is_none());
        assert!(peers.place(other).is_some());
        places.pop();
        assert!(peers.place(one).is_some());
        drop(places);
        assert!(peers.counts.borrow().is_empty());
    }
}
