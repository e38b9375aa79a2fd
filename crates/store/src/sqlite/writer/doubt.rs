//! Commits in doubt: it is unknown whether they are in the file.

use super::bulk::Slice;
use super::{Batch, Writer};
use crate::{StoreEvent, StoreRequest, Trouble};
use std::time::Duration;
use stoker_os::steady;

/// The state of a transaction whose commit failed.
pub(super) enum Fate {
    Committed,
    Undone,
    /// The file can't be read at present, so it is unknown.
    Unknown,
}

/// A commit of which it is unknown whether it is in the file. Its pushes may be there, so they can't be
/// rejected yet, and their callers keep waiting.
pub(super) struct Doubt {
    pub(super) work: InDoubtWork,
    pub(super) batch: Batch,
    pub(super) serial: u64,
    trouble: Trouble,
    /// When the callers are informed; `None` once they have been.
    report_at: Option<Duration>,
}

/// How long a commit may be in doubt before its callers are informed. Usually the outcome is known at once.
const REPORT_DELAY: Duration = Duration::from_secs(2);

/// The work of a commit in doubt.
pub(super) enum InDoubtWork {
    Requests(Vec<StoreRequest>),
    Slice(Box<Slice>),
}

impl Writer {
    /// Records that a commit is in doubt.
    pub(super) fn record_doubt(
        &mut self,
        work: InDoubtWork,
        batch: Batch,
        serial: u64,
        trouble: Trouble,
    ) {
        self.doubt = Some(Doubt {
            work,
            batch,
            serial,
            trouble,
            report_at: Some(steady() + REPORT_DELAY),
        });
    }

    /// The time until callers are informed that the outcome is unknown.
    pub(super) fn time_to_report_doubt(&self) -> Option<Duration> {
        let report_at = self.doubt.as_ref()?.report_at?;
        Some(report_at.saturating_sub(steady()))
    }

    /// Informs the callers of a commit in doubt, so that they can decide what to do: a disk may stay broken
    /// for hours.
    pub(super) fn report_doubt(&mut self) {
        if self.time_to_report_doubt() != Some(Duration::ZERO) {
            return;
        }
        let Some(doubt) = &mut self.doubt else {
            return;
        };
        doubt.report_at = None;
        let in_doubt = |ticket| StoreEvent::InDoubt {
            ticket,
            trouble: doubt.trouble.clone(),
        };
        match &doubt.work {
            InDoubtWork::Requests(requests) => self.events.extend(
                requests
                    .iter()
                    .filter_map(StoreRequest::ticket)
                    .map(in_doubt),
            ),
            InDoubtWork::Slice(slice) => self.events.push(in_doubt(slice.bulk.ticket)),
        }
    }

    /// Resolves the commit in doubt, after the file has been opened again.
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
        let is_committed = self.serial >= serial;
        if is_committed {
            // The WAL was rewritten and synced when the file was opened again.
            self.durable = self.durable.max(serial);
        }
        match work {
            InDoubtWork::Requests(requests) if is_committed => self.settle(requests, batch),
            InDoubtWork::Slice(slice) if is_committed => self.settle_slice(*slice, batch),
            InDoubtWork::Requests(requests) => {
                // The pending writes were requested later.
                let later = std::mem::take(&mut self.pending_writes);
                self.postpone(requests, &trouble);
                self.pending_writes.extend(later);
            }
            InDoubtWork::Slice(slice) => self.abort_bulk_change(slice.bulk, trouble),
        }
    }
}
