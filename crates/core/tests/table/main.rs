//! Each rule of the core as one short scenario.

#[path = "../support/mod.rs"]
mod support;

mod cancel;
mod classes;
mod deadlines;
mod death;
mod fairness;
mod keys;
mod protocol;
mod refusal;
mod reserve;
mod slots;
mod suspects;
