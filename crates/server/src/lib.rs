//! Everything that does I/O, around the pure core.
pub mod config;
