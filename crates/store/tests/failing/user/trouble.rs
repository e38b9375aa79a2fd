//! How to react when the store can't write.

use super::StoreUser;
use stoker_store::{Pushed, Ticket, Trouble};

impl StoreUser {
    /// Checks that a request was rejected because of the disk.
    pub(crate) fn check(&mut self, trouble: &Trouble) {
        match trouble {
            Trouble::Full(_) | Trouble::Io(_) => self.ledger.note(&trouble.to_string()),
            _ => self
                .ledger
                .fault(&format!("this trouble was told: {trouble:?}")),
        }
    }

    /// Prepares for repeating a rejected request: ends the trouble and, if the store has reported that it
    /// can't write, waits until it can.
    pub(crate) fn prepare_retry(&mut self) {
        match self.failing.is_some() && !self.is_in_trouble {
            true => self.recover_from_trouble(),
            false => self.end_trouble(),
        }
    }

    pub(crate) fn end_trouble(&mut self) {
        std::fs::write(&self.heal_file, "").unwrap();
    }

    /// Waits until the store reports that it can't write, without ending the trouble.
    pub(crate) fn stay_in_trouble(&mut self) {
        self.is_in_trouble = true;
        self.wait("trouble", |user| user.failing.clone());
    }

    /// Waits until the store reports that a request is in doubt.
    pub(crate) fn await_doubt(&mut self, ticket: Ticket) {
        self.wait("doubt", |user| user.in_doubt.get(&ticket.0).copied());
    }

    /// Checks that a store that can't write rejects a push at once, and that it recovers on its own when the
    /// trouble ends.
    pub(super) fn recover_from_trouble(&mut self) {
        self.is_in_trouble = true;
        self.probes += 1;
        let label = format!("probe{}", self.probes);
        let pushed = self.push_once(&label, |_| {});
        if !matches!(pushed, Pushed::Accepted { .. } | Pushed::Rejected(_)) {
            self.ledger.fault(&format!("{label}: {pushed:?}"));
        }
        self.end_trouble();
        self.wait("the end of the trouble", |user| {
            user.failing.is_none().then_some(())
        });
        self.is_in_trouble = false;
    }
}
