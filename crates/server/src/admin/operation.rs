//! The table of operations: method, name, role and handler of each.

use super::{Caller, Handle, Rejected};
use crate::plane::Plane;
use stoker_api::{Map, Role};

/// An operation of one of the server's own methods, with its request type erased.
pub(super) struct Operation {
    pub(super) method: &'static str,
    /// The value of `op`.
    pub(super) op: &'static str,
    pub(super) role: Role,
    /// The body may be as long as a frame allows.
    pub(super) carries_payloads: bool,
    /// Parses the request's fields, runs the operation, and answers now or later.
    pub(super) run: fn(&mut Plane, Caller, Map) -> Result<(), Rejected>,
}

macro_rules! table {
    ($($request:ty,)*) => { &[$(Operation::of::<$request>(),)*] };
}

impl Operation {
    pub(super) const ALL: &[Self] = stoker_api::every_request!(table);

    const fn of<R: Handle>() -> Self {
        Self {
            method: R::METHOD,
            op: R::OP,
            role: R::ROLE,
            carries_payloads: R::CARRIES_PAYLOADS,
            run: run::<R>,
        }
    }
}

fn run<R: Handle>(plane: &mut Plane, caller: Caller, fields: Map) -> Result<(), Rejected> {
    let request: R = stoker_api::parse(fields)?;
    if let Some(answer) = request.handle(plane, caller)? {
        plane.answer_operation(caller, &answer);
    }
    Ok(())
}
