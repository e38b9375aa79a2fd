//! A disk as a VFS of SQLite.

mod code;
#[cfg(test)]
mod contract;
mod control;
mod file_methods;
mod open;
mod registration;
mod slot;
mod vfs_methods;

pub(super) use registration::Registration;
pub use registration::seed_sqlite;
