//! A table of all operations without their types, for code that forwards requests without interpreting them.

use crate::{Answer, AnswerField, Field, Fields, Request, Role};

/// The description of an operation.
pub struct Operation {
    /// The name of the method on the wire, such as `stoker.job`.
    pub method: &'static str,
    /// The value of the field `op`.
    pub op: &'static str,
    pub role: Role,
    pub doc: &'static str,
    /// The operation changes nothing, so its request may be repeated.
    pub only_reads: bool,
    pub fields: fn() -> Vec<Field>,
    pub answer: &'static str,
    pub answer_doc: &'static str,
    pub answer_fields: &'static [AnswerField],
}

macro_rules! table {
    ($($request:ty,)*) => { &[$(Operation::of::<$request>(),)*] };
}

/// All operations.
pub const OPERATIONS: &[Operation] = crate::every_request!(table);

impl Operation {
    const fn of<R: Request>() -> Self {
        Self {
            method: R::METHOD,
            op: R::OP,
            role: R::ROLE,
            doc: R::DOC,
            only_reads: only_reads(R::OP),
            fields: <R as Fields>::fields,
            answer: <R::Answer as Answer>::NAME,
            answer_doc: <R::Answer as Answer>::DOC,
            answer_fields: <R::Answer as Answer>::FIELDS,
        }
    }
}

const fn only_reads(op: &str) -> bool {
    matches!(
        op.as_bytes(),
        b"list" | b"show" | b"count" | b"groups" | b"export" | b"find" | b"stats"
    )
}
