//! Read calls fail.

use super::Alone;
use crate::storing::FILE;
use std::path::Path;
use stoker_os::sim::vfs::{Call, Errno, Fault, Kind};
use stoker_store::{SqliteOptions, SqliteStore, StoreError};

/// SQLite reports an unreadable file as damaged, and a damaged store would end Stoker for good.
#[test]
fn a_store_that_can_not_be_read_is_not_called_damaged() {
    let mut alone = Alone::new();
    let disk = alone.disk.clone();
    let open = || SqliteStore::open(Path::new(FILE), SqliteOptions::default());
    // Makes the store read its log when it is opened.
    disk.kill();
    alone.store = None;
    disk.reopen();
    let mut reads = 0;
    for first in 0..20 {
        disk.set_faults(move |call: &Call<'_>| {
            reads += u32::from(call.kind == Kind::Read);
            let fails = call.kind == Kind::Read && reads > first;
            fails.then_some(Fault::Error(Errno::IO))
        });
        let error = open().map(drop).expect_err("it can't be read");
        let is_io = matches!(error, StoreError::Io { .. });
        assert!(is_io, "after {first} reads: {error}");
    }
    disk.clear_faults();
    assert!(open().is_ok(), "it is as it was");
}
