//! Operators who wait for jobs to be cancelled.

use crate::net::ConnId;
use stoker_store::Trouble;

/// An operator who waits for jobs to be cancelled.
#[derive(Debug)]
pub(crate) struct Cancelling {
    pub(super) conn: ConnId,
    pub(super) id: u32,
    /// Jobs that are cancelled in the store, and jobs that were not reached.
    pub(super) count: u64,
    pub(super) left: u64,
    /// A single job was named.
    pub(super) is_one: bool,
    /// Parts of it that are under way.
    pub(super) open: u64,
    pub(super) trouble: Option<Trouble>,
}

/// Those who wait, by numbers that are never given twice.
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

    /// Ends all of them without a result. Returns who waits.
    pub(super) fn end(&mut self) -> Vec<(ConnId, u32)> {
        let open = self.open.drain(..);
        open.map(|(_, waits)| (waits.conn, waits.id)).collect()
    }

    pub(super) fn position(&self, no: u64) -> Option<usize> {
        self.open.iter().position(|(of, _)| *of == no)
    }

    /// Whether a single job was named.
    pub(super) fn is_one(&self, no: u64) -> bool {
        self.position(no).is_some_and(|at| self.open[at].1.is_one)
    }

    /// One more part of it is under way.
    pub(super) fn opened(&mut self, no: u64) {
        if let Some(at) = self.position(no) {
            self.open[at].1.open += 1;
        }
    }

    pub(super) fn take(&mut self, no: u64) -> Option<Cancelling> {
        self.position(no).map(|at| self.open.swap_remove(at).1)
    }

    /// Returns it with its last part.
    pub(super) fn settle(
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
