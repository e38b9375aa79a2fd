//! Each rule of the core as one short scenario.
#![allow(
    clippy::needless_pass_by_value,
    reason = "a configuration is made where it is used"
)]

#[path = "../support/mod.rs"]
mod support;

mod announce;
mod boot;
mod cancel;
mod chance;
mod claims;
mod classes;
mod deadlines;
mod death;
mod drain;
mod fairness;
mod keys;
mod memory;
mod names;
mod order;
mod protocol;
mod pull;
mod reconfigure;
mod recycle;
mod refill;
mod rejection;
mod reload;
mod reserve;
mod returns;
mod silent;
mod size;
mod slots;
mod suspects;
mod tasks;
mod windows;
