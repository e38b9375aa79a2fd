//! Each rule of the core as one short scenario.

#[path = "../support/mod.rs"]
mod support;

mod boot;
mod cancel;
mod classes;
mod deadlines;
mod death;
mod fairness;
mod keys;
mod protocol;
mod recycle;
mod refusal;
mod reserve;
mod size;
mod slots;
mod suspects;
