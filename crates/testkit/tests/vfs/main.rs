//! The disk in memory: SQLite works on it, and it fails as a real one does.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod contract;
mod durability;
mod failing;
mod plain;
mod support;
mod wal;
