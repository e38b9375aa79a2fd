//! Operators who wait for jobs to be cancelled.

use crate::net::ConnId;
use stoker_store::Trouble;

/// An operator's request to cancel jobs, which has not been answered yet.
#[derive(Debug)]
pub(crate) struct Cancelling {
    pub(super) conn: ConnId,
    pub(super) id: u32,
    /// The number of jobs that are cancelled in the store, and of jobs that were not reached.
    pub(super) count: u64,
    pub(super) left: u64,
    /// The request names a single job.
    pub(super) is_one: bool,
    /// The number of parts that are not complete.
    pub(super) open: u64,
    pub(super) trouble: Option<Trouble>,
}

/// The pending requests, by numbers that are never reused.
#[derive(Debug, Default)]
pub(crate) struct Cancellings {
    last: u64,
    open: Vec<(u64, Cancelling)>,
}

impl Cancellings {
    pub(super) fn begin(&mut self, cancelling: Cancelling) -> u64 {
        self.last += 1;
        self.open.push((self.last, cancelling));
        self.last
    }

    /// Ends all requests without a result. Returns the waiting operators.
    pub(super) fn end(&mut self) -> Vec<(ConnId, u32)> {
        let open = self.open.drain(..);
        open.map(|(_, waits)| (waits.conn, waits.id)).collect()
    }

    pub(super) fn position(&self, no: u64) -> Option<usize> {
        self.open.iter().position(|(other, _)| *other == no)
    }

    /// Whether the request names a single job.
    pub(super) fn is_one(&self, no: u64) -> bool {
        self.position(no).is_some_and(|at| self.open[at].1.is_one)
    }

    /// Records that another part of the request has started.
    pub(super) fn start_part(&mut self, no: u64) {
        if let Some(at) = self.position(no) {
            self.open[at].1.open += 1;
        }
    }

    pub(super) fn take(&mut self, no: u64) -> Option<Cancelling> {
        self.position(no).map(|at| self.open.swap_remove(at).1)
    }

    /// Records the result of a part. Returns the request if it was the last part.
    pub(super) fn finish_part(
        &mut self,
        no: u64,
        result: Result<(u64, u64), Trouble>,
    ) -> Option<Cancelling> {
        let at = self.position(no)?;
        let cancelling = &mut self.open[at].1;
        cancelling.open -= 1;
        match result {
            Ok((count, left)) => {
                cancelling.count += count;
                cancelling.left += left;
            }
            Err(trouble) => cancelling.trouble = Some(trouble),
        }
        (cancelling.open == 0).then(|| self.open.swap_remove(at).1)
    }
}
