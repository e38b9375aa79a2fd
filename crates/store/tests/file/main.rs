//! What holds for the file that a store on disk is.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod bad_page;
mod damage;
mod full;
mod given_up;
mod opening;
mod tooling;
mod under_load;
mod unreadable;
#[path = "../support/world.rs"]
mod world;
