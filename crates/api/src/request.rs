//! Requests: each operation's method, name, role and answer.

use crate::{Fields, Invalid, Map};
use serde::Serialize;
use serde_json::Value;

/// The users who may send a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Every user who may connect to the socket. Data that the user is not permitted to see is left out of the answer.
    Anyone,
    /// Root and the user that the server runs as.
    Administrator,
}

/// An operation of one of the server's own methods.
pub trait Request: Fields + Serialize {
    /// The type of the answer.
    type Answer: crate::Answer;

    /// The name of the method on the wire, such as `stoker.job`.
    const METHOD: &'static str;
    /// The value of the field `op`.
    const OP: &'static str;
    const ROLE: Role;
    /// Whether the request carries payloads, so that its body may be as large as a frame.
    const CARRIES_PAYLOADS: bool;
    const DOC: &'static str;

    /// The request as JSON.
    fn json(&self) -> Value {
        // This can't fail: a request consists of strings, numbers and lists of them.
        let mut value = serde_json::to_value(self).unwrap_or_default();
        value["op"] = Self::OP.into();
        value
    }
}

/// Reads the fields of a request of this type.
///
/// # Errors
/// A field is unknown, missing or invalid.
pub fn parse<R: Request>(map: Map) -> Result<R, Invalid> {
    let place = format_args!("{} {}", R::METHOD, R::OP);
    R::read(map).map_err(|invalid| invalid.within(place))
}

/// Declares a request: its fields and its operation.
macro_rules! request {
    (
        $(#[doc = $doc:literal])*
        pub struct $name:ident: $method:literal $op:literal by $role:ident -> $answer:ty $(, $payloads:ident)? {
            $($fields:tt)*
        }
        $(check $check:path;)?
    ) => {
        fields! {
            $(#[doc = $doc])*
            pub struct $name { $($fields)* }
            $(check $check;)?
        }

        impl $crate::Request for $name {
            type Answer = $answer;
            const METHOD: &'static str = $method;
            const OP: &'static str = $op;
            const ROLE: $crate::Role = $crate::Role::$role;
            const CARRIES_PAYLOADS: bool = false $(|| stringify!($payloads).len() > 0)?;
            const DOC: &'static str = concat!($($doc),*);
        }
    };
}
