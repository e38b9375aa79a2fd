//! An answer that a client receives in parts.

use crate::calls::CallSpec;
use stoker_wire::Frame;

/// The parts of an answer that a client has received.
#[derive(Debug)]
pub(crate) struct ReceivedParts {
    pub(crate) body: Vec<u8>,
    /// The number of bytes that may still come.
    credit: u32,
    /// The number of bytes that the client grants after each part.
    grant: u32,
}

impl ReceivedParts {
    pub(crate) fn of(spec: &CallSpec) -> Self {
        Self {
            body: Vec::new(),
            credit: spec.credit.expect("the call accepts parts"),
            grant: spec.grant,
        }
    }

    /// Adds a part. Returns the credit that the client then grants, with the id of the call, if it grants more.
    pub(crate) fn add(&mut self, part: &Frame<'_>, may_grant: bool) -> Option<(u32, u32)> {
        self.body.extend_from_slice(part.body);
        let left = self.credit.checked_sub(part.body.len() as u32);
        let left = left.unwrap_or_else(|| panic!("more bytes than the credit permits: {part:?}"));
        let grant = if may_grant { self.grant } else { 0 };
        self.credit = left + grant;
        (grant > 0).then_some((part.id, grant))
    }
}
