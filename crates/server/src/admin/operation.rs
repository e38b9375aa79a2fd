//! The table of operations: method, name, role and handler of each.

use super::{Caller, Handle, Refused};
use crate::plane::Plane;
use stoker_api::{Map, Role};

/// An operation of one of the broker's own methods, with its type erased.
pub(super) struct Operation {
    pub(super) method: &'static str,
    /// The value of `op`.
    pub(super) op: &'static str,
    pub(super) role: Role,
    /// Its body may be as long as a frame.
    pub(super) carries_payloads: bool,
    /// Reads the request's fields, does what it asks for, and answers it, now or later.
    pub(super) run: fn(&mut Plane, Caller, Map) -> Result<(), Refused>,
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

fn run<R: Handle>(plane: &mut Plane, caller: Caller, fields: Map) -> Result<(), Refused> {
    let request: R = stoker_api::parse(fields)?;
    if let Some(answer) = request.handle(plane, caller)? {
        plane.answer_operation(caller, &answer);
    }
    Ok(())
}
