//! Tests of the SQLite engine's files.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod bad_page;
mod checksums;
mod damage;
mod full;
mod given_up;
mod locking;
mod opening;
mod replaced;
mod tooling;
mod under_load;
mod unreadable;
#[path = "../support/world.rs"]
mod world;
