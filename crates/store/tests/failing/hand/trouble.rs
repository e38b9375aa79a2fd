//! What to do when the store can't write.

use super::Hand;
use stoker_store::{Pushed, Ticket, Trouble};

impl Hand {
    /// What is refused must be so for the disk's sake.
    pub(crate) fn check(&mut self, trouble: &Trouble) {
        match trouble {
            Trouble::Full(_) | Trouble::Io(_) => self.ledger.note(&trouble.to_string()),
            _ => self
                .ledger
                .fault(&format!("this trouble was told: {trouble:?}")),
        }
    }

    /// What is refused is asked again when the store can write.
    pub(crate) fn before_again(&mut self) {
        match self.failing.is_some() && !self.is_in_trouble {
            true => self.get_over_trouble(),
            false => self.end_trouble(),
        }
    }

    pub(crate) fn end_trouble(&mut self) {
        std::fs::write(&self.heal, "").unwrap();
    }

    /// Waits until the store says that it can't write, and lets it be so.
    pub(crate) fn stay_in_trouble(&mut self) {
        self.is_in_trouble = true;
        self.wait("trouble", |hand| hand.failing.clone());
    }

    /// Waits until the store says that nobody knows what became of what was asked.
    pub(crate) fn await_doubt(&mut self, ticket: Ticket) {
        self.wait("doubt", |hand| hand.in_doubt.get(&ticket.0).copied());
    }

    /// While the store can't write it refuses at once, and it goes on by itself when it can.
    pub(super) fn get_over_trouble(&mut self) {
        self.is_in_trouble = true;
        self.probes += 1;
        let label = format!("probe{}", self.probes);
        let pushed = self.push_once(&label, |_| {});
        if !matches!(pushed, Pushed::Accepted { .. } | Pushed::Refused(_)) {
            self.ledger.fault(&format!("{label}: {pushed:?}"));
        }
        self.end_trouble();
        self.wait("the end of the trouble", |hand| {
            hand.failing.is_none().then_some(())
        });
        self.is_in_trouble = false;
    }
}
