//! What the tests of the core share: a world in which scenarios read as prose, and books that are kept of
//! every action, so that no test has to say again that a task ends exactly once.
#![allow(
    dead_code,
    unused_imports,
    reason = "every test uses some of it, none all of it"
)]
#![allow(
    clippy::needless_pass_by_value,
    reason = "a task is made where it is brought"
)]
#![allow(unreachable_pub, reason = "a module of a test is public to nobody")]

pub mod books;
pub mod bring;
pub mod world;

pub use books::{Books, End};
pub use bring::{Bring, Hello, call, job};
pub use world::{World, ms, secs, workers};
