//! Tests of the store over a disk whose read calls fail.

use super::TestStore;
use crate::storing::FILE;
use std::path::Path;
use stoker_os::sim::vfs::{Call, Errno, Fault, Kind};
use stoker_store::{SqliteOptions, SqliteStore, StoreError};

/// SQLite reports an unreadable file as damaged, and a damaged store would end Stoker for good.
#[test]
fn an_unreadable_store_is_not_reported_as_damaged() {
    let mut test_store = TestStore::new();
    let disk = test_store.disk.clone();
    let open = || SqliteStore::open(Path::new(FILE), SqliteOptions::default());
    // Makes the store read its log when it is opened.
    disk.kill();
    test_store.store = None;
    disk.reopen();
    let mut reads = 0;
    for first in 0..20 {
        disk.set_faults(move |call: &Call<'_>| {
            reads += u32::from(call.kind == Kind::Read);
            let fails = call.kind == Kind::Read && reads > first;
            fails.then_some(Fault::Error(Errno::IO))
        });
        let error = open().map(drop).expect_err("reading fails");
        let is_io = matches!(error, StoreError::Io { .. });
        assert!(is_io, "after {first} reads: {error}");
    }
    disk.clear_faults();
    assert!(open().is_ok(), "the store is intact");
}
