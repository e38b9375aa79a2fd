//! Every operation with its type erased, for who passes requests on without understanding them.

use crate::{Answer, AnswerField, Field, Fields, Request, Role};

/// What there is to know of an operation.
pub struct Operation {
    /// `stoker.job`
    pub method: &'static str,
    /// The value of `op`.
    pub op: &'static str,
    pub role: Role,
    pub doc: &'static str,
    /// It changes nothing, so that it does no harm to ask twice.
    pub only_reads: bool,
    pub fields: fn() -> Vec<Field>,
    pub answer: &'static str,
    pub answer_doc: &'static str,
    pub answer_fields: &'static [AnswerField],
}

macro_rules! table {
    ($($request:ty,)*) => { &[$(Operation::of::<$request>(),)*] };
}

/// All operations that there are.
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
