//! Shared by the tests of the core: a world that makes scenarios read like prose, and books that record
//! every action. The books check, for example, that every task ends exactly once, so that tests do not
//! have to.
#![allow(
    dead_code,
    unused_imports,
    reason = "every test uses some of it, none all of it"
)]
#![allow(
    clippy::needless_pass_by_value,
    reason = "a task is made where it is submitted"
)]
#![allow(unreachable_pub, reason = "a module of a test is public to nobody")]

pub mod books;
pub mod builders;
pub mod world;

pub use books::{Books, End};
pub use builders::{Hello, TestTask, call, job};
pub use world::{World, ms, secs, workers};
