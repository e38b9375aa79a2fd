//! The disk in memory: SQLite works on it, and it fails like a real disk.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod contract;
mod durability;
mod failing;
mod plain;
mod support;
mod wal;
