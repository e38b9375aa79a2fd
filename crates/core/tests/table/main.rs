//! Each rule of the core as one short scenario.

#[path = "../support/mod.rs"]
mod support;

mod classes;
mod deadlines;
mod fairness;
mod keys;
mod refusal;
mod reserve;
