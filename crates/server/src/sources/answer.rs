//! A worker's answer, whichever frame it came in.

use stoker_core::Span;
use stoker_wire::{Codec, Frame, Meta, Status};

/// The answer with which a worker ended a task.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TaskAnswer<'a> {
    pub(crate) status: Status,
    pub(crate) codec: Codec,
    /// How long the task ran, in microseconds by the worker's own clock. 0 if the worker did not measure it.
    pub(crate) ran_us: u32,
    pub(crate) meta: Meta<'a>,
    pub(crate) body: &'a [u8],
}

impl<'a> From<&Frame<'a>> for TaskAnswer<'a> {
    fn from(frame: &Frame<'a>) -> Self {
        Self {
            status: frame.status(),
            codec: Codec(frame.prio),
            ran_us: frame.ttl,
            meta: frame.meta,
            body: frame.body,
        }
    }
}

impl TaskAnswer<'_> {
    /// How long the task ran by the worker's own clock. Zero if the worker did not measure it.
    pub(crate) fn ran(&self) -> Span {
        Span(u64::from(self.ran_us))
    }
}
