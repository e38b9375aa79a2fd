//! The server's own methods, `stoker.*`: a type for every request and every answer.
//!
//! Requests are strict: a field that is unknown, missing, `null`, given twice or of a wrong type is rejected with an
//! error that names it ([`Invalid`]), because a filter that is ignored would select every job of a queue. Later
//! versions may add fields to answers, so readers ignore unknown ones.
//!
//! Every operation is listed once, in [`every_request!`]; the server, the reference page and the tests are derived
//! from that list.
#![forbid(unsafe_code)]

#[macro_use]
mod field;
#[macro_use]
mod request;
#[macro_use]
mod answer;

mod body;
mod every;
mod invalid;
mod nearest;
pub mod openapi;
mod operations;
mod printable;
pub mod reference;
mod scalar;

pub mod job;
pub mod pool;
pub mod quarantine;
pub mod queue;
pub mod server;
pub mod worker;

pub use answer::{Answer, AnswerField};
pub use body::{Body, MAX_BODY, Map, read_map};
pub use every::accepted_by;
pub use field::{Field, Fields};
pub use invalid::Invalid;
pub use nearest::{nearest, suggest};
pub use operations::{OPERATIONS, Operation};
pub use printable::{printable, printable_json, printable_lines};
pub use request::{Request, Role, parse};
pub use scalar::{Limit, Millis, Number, QueueName, ReadError, Scalar, Text};

/// Calls a macro with the types of all requests. This is the only list of the operations.
#[macro_export]
macro_rules! every_request {
    ($table:ident) => {
        $table! {
            $crate::job::Show,
            $crate::job::List,
            $crate::job::Count,
            $crate::job::Groups,
            $crate::job::Export,
            $crate::job::Import,
            $crate::job::Retry,
            $crate::job::Cancel,
            $crate::job::Discard,
            $crate::job::Suspend,
            $crate::job::Release,
            $crate::job::Move,
            $crate::job::Edit,
            $crate::queue::List,
            $crate::queue::Find,
            $crate::queue::Pause,
            $crate::queue::Resume,
            $crate::queue::Remove,
            $crate::queue::Set,
            $crate::worker::List,
            $crate::server::Stats,
            $crate::pool::Scale,
            $crate::pool::Reload,
            $crate::quarantine::List,
            $crate::quarantine::Show,
            $crate::quarantine::Clear,
        }
    };
}

/// Calls a macro with the types of the objects that answers contain.
#[macro_export]
macro_rules! answer_objects {
    ($table:ident) => {
        $table! {
            $crate::job::Job,
            $crate::job::Details,
            $crate::job::Failure,
            $crate::job::Progress,
            $crate::job::HistoryLine,
            $crate::job::Group,
            $crate::queue::Queue,
            $crate::queue::Percentiles,
            $crate::worker::Worker,
            $crate::worker::Task,
            $crate::pool::Pool,
            $crate::pool::PoolReload,
            $crate::quarantine::Entry,
            $crate::server::GatewayMetric,
        }
    };
}
