//! Commits of which nobody knows whether they are in the file.

use super::long::Slice;
use super::{Batch, Writer};
use crate::{Ask, Told, Trouble};
use std::time::Duration;
use stoker_os::steady;

/// What became of a transaction that failed.
pub(super) enum Fate {
    Committed,
    Undone,
    /// The file can't be read at present.
    Unknown,
}

/// A commit of which nobody knows yet whether it is in the file. To refuse a push that is there all the same
/// would be a lie, and so who waits for it waits on.
pub(super) struct Doubt {
    pub(super) work: Doubtful,
    pub(super) batch: Batch,
    pub(super) serial: u64,
    trouble: Trouble,
    /// When those who wait for it are told, if they are not yet.
    told_at: Option<Duration>,
}

/// How long those who wait for a commit in doubt are told nothing: mostly it is known at once.
const PATIENCE: Duration = Duration::from_secs(2);

/// What was done in it.
pub(super) enum Doubtful {
    Asks(Vec<Ask>),
    Slice(Box<Slice>),
}

impl Writer {
    /// Nobody knows what became of a commit.
    pub(super) fn doubt(&mut self, work: Doubtful, batch: Batch, serial: u64, trouble: Trouble) {
        self.doubt = Some(Doubt {
            work,
            batch,
            serial,
            trouble,
            told_at: Some(steady() + PATIENCE),
        });
    }

    /// How long until those who wait are told that nobody knows.
    pub(super) fn time_to_tell_doubt(&self) -> Option<Duration> {
        let told_at = self.doubt.as_ref()?.told_at?;
        Some(told_at.saturating_sub(steady()))
    }

    /// A disk may stay broken for hours. Who waits is told what there is to tell, and can decide.
    pub(super) fn tell_doubt(&mut self) {
        if self.time_to_tell_doubt() != Some(Duration::ZERO) {
            return;
        }
        let Some(doubt) = &mut self.doubt else {
            return;
        };
        doubt.told_at = None;
        let in_doubt = |ticket| Told::InDoubt {
            ticket,
            trouble: doubt.trouble.clone(),
        };
        match &doubt.work {
            Doubtful::Asks(asks) => self
                .told
                .extend(asks.iter().filter_map(Ask::ticket).map(in_doubt)),
            Doubtful::Slice(slice) => self.told.push(in_doubt(slice.long.ticket)),
        }
    }

    /// The file can be read again: what became of the commit that was under way when it could not.
    pub(super) fn resolve_doubt(&mut self) {
        let Some(Doubt {
            work,
            batch,
            serial,
            trouble,
            ..
        }) = self.doubt.take()
        else {
            return;
        };
        let is_there = self.serial >= serial;
        if is_there {
            // Its log was written anew, and that was synced.
            self.durable = self.durable.max(serial);
        }
        match work {
            Doubtful::Asks(asks) if is_there => self.settle(asks, batch),
            Doubtful::Slice(slice) if is_there => self.settle_slice(*slice, batch),
            Doubtful::Asks(asks) => {
                // What is owed was asked later.
                let later = std::mem::take(&mut self.owed);
                self.put_off(asks, &trouble);
                self.owed.extend(later);
            }
            Doubtful::Slice(slice) => self.cut_short(slice.long, trouble),
        }
    }
}
