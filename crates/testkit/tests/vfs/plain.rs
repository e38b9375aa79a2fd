//! Files as plain Rust code uses them.

use crate::support::{at, open};
use std::io;
use stoker_testkit::vfs::{Disk, Errno, Fault, File, Mode, Rng};

fn content(disk: &Disk, path: &str) -> String {
    let file = disk.open(path, Mode::Read).unwrap();
    let mut bytes = vec![0; file.metadata().unwrap().len as usize];
    assert_eq!(file.read_at(&mut bytes, 0).unwrap(), bytes.len());
    String::from_utf8(bytes).unwrap()
}

/// Creates a file whose content and name are durable.
fn durable(disk: &Disk, path: &str, text: &str) -> File {
    let file = disk.open(path, Mode::CreateNew).unwrap();
    file.write_all_at(text.as_bytes(), 0).unwrap();
    file.sync_all().unwrap();
    disk.sync_parent_dir(path).unwrap();
    file
}

/// The content that power cuts leave of a file, by seed.
fn after_cuts(prepare: impl Fn(&Disk)) -> Vec<Option<String>> {
    let cut = |seed| {
        let disk = Disk::new(seed);
        prepare(&disk);
        disk.power_cut(&mut Rng::new(seed));
        disk.reopen();
        disk.exists("/a/file").then(|| content(&disk, "/a/file"))
    };
    (0..200).map(cut).collect()
}

fn errno<T>(result: io::Result<T>) -> Option<i32> {
    result.err().and_then(|error| error.raw_os_error())
}

#[test]
fn a_failed_sync_may_lose_data_that_the_next_sync_does_not_write() {
    let disk = Disk::new(1);
    let file = durable(&disk, "/a/file", "....");
    file.write_all_at(b"1", 0).unwrap();
    file.write_all_at(b"2", 1).unwrap();
    disk.set_faults(at(disk.calls() + 1, Fault::Lost { kept: 1 }));
    assert_eq!(errno(file.sync_all()), Some(Errno::IO.raw_os_error()));
    file.sync_all().expect("nothing is dirty any more");
    assert_eq!(content(&disk, "/a/file"), "12..", "it is in the page cache");
    file.write_all_at(b"3", 2).unwrap();
    disk.evict();
    assert_eq!(content(&disk, "/a/file"), "1.3.", "what is dirty stays");
    file.write_all_at(b"2", 1).unwrap();
    file.sync_all().unwrap();
    disk.power_cut(&mut Rng::new(1));
    disk.reopen();
    assert_eq!(
        content(&disk, "/a/file"),
        "123.",
        "written once more, it lasts"
    );
}

#[test]
fn other_failed_syncs_leave_all_data_dirty() {
    let disk = Disk::new(1);
    let file = durable(&disk, "/a/file", "....");
    file.write_all_at(b"1", 0).unwrap();
    disk.set_faults(at(disk.calls() + 1, Fault::Error(Errno::IO)));
    assert!(file.sync_all().is_err());
    file.sync_all().unwrap();
    disk.power_cut(&mut Rng::new(1));
    disk.reopen();
    assert_eq!(content(&disk, "/a/file"), "1...");
}

#[test]
fn any_subset_of_the_unsynced_writes_may_survive() {
    let left = after_cuts(|disk| {
        let file = durable(disk, "/a/file", "...");
        for at in 0..3 {
            file.write_all_at(b"x", at).unwrap();
        }
    });
    let has = |text: &str| left.contains(&Some(text.to_owned()));
    assert!(
        has("...") && has("x..") && has("xxx") && has("..x"),
        "{left:?}"
    );
}

#[test]
fn writes_are_torn_only_at_sector_boundaries() {
    let sectors = |text: &str| {
        text.as_bytes()
            .chunks(512)
            .map(<[u8]>::to_vec)
            .collect::<Vec<_>>()
    };
    let left = after_cuts(|disk| {
        let file = durable(disk, "/a/file", &".".repeat(2_048));
        file.write_all_at("x".repeat(2_048).as_bytes(), 0).unwrap();
    });
    let mut torn = 0;
    for text in left {
        let sectors = sectors(&text.unwrap());
        let whole = |sector: &Vec<u8>| sector.iter().all(|byte| *byte == sector[0]);
        assert!(sectors.iter().all(whole));
        torn += usize::from(sectors.iter().any(|sector| *sector != sectors[0]));
    }
    assert!(torn > 3, "{torn}");
}

#[test]
fn writes_after_a_lost_truncation_are_lost() {
    let left = after_cuts(|disk| {
        let file = durable(disk, "/a/file", "......");
        file.set_len(3).unwrap();
        file.write_all_at(b"x", 3).unwrap();
    });
    for text in &left {
        let text = text.as_ref().unwrap();
        assert!(["......", "...", "...x"].contains(&&**text), "{text}");
    }
    assert!(left.contains(&Some("...x".to_owned())));
}

#[test]
fn a_new_file_survives_only_if_its_directory_was_synced() {
    let left = after_cuts(|disk| {
        let file = disk.open("/a/file", Mode::Create).unwrap();
        file.write_all_at(b"x", 0).unwrap();
        file.sync_all().unwrap();
        disk.sync_parent_dir("/b/file").unwrap();
    });
    assert!(left.contains(&None) && left.contains(&Some("x".to_owned())));
    let left = after_cuts(|disk| drop(durable(disk, "/a/file", "x")));
    assert_eq!(left, vec![Some("x".to_owned()); left.len()]);
}

#[test]
fn a_replaced_file_has_its_old_or_its_new_content() {
    let left = after_cuts(|disk| {
        durable(disk, "/a/file", "old");
        durable(disk, "/a/part", "new");
        disk.rename("/a/part", "/a/file").unwrap();
        assert!(!disk.exists("/a/part"));
        assert_eq!(content(disk, "/a/file"), "new");
    });
    for text in ["old", "new"] {
        assert!(left.contains(&Some(text.to_owned())), "{left:?}");
    }
    assert!(!left.contains(&None));
}

#[test]
fn a_removed_file_reappears_unless_its_directory_was_synced() {
    let left = after_cuts(|disk| {
        durable(disk, "/a/file", "x");
        disk.remove("/a/file").unwrap();
    });
    assert!(left.contains(&None) && left.contains(&Some("x".to_owned())));
    let left = after_cuts(|disk| {
        durable(disk, "/a/file", "x");
        disk.remove("/a/file").unwrap();
        disk.sync_parent_dir("/a/file").unwrap();
    });
    assert_eq!(left, vec![None; left.len()]);
}

#[test]
fn a_removed_file_can_be_read_while_it_is_open() {
    let disk = Disk::new(1);
    let file = durable(&disk, "/a/file", "x");
    let known = file.metadata().unwrap();
    disk.remove("/a/file").unwrap();
    assert_eq!(
        errno(disk.metadata("/a/file")),
        Some(Errno::NOENT.raw_os_error())
    );
    assert_eq!(disk.used(), 1);
    assert_eq!(file.read_at(&mut [0], 0).unwrap(), 1);
    let other = durable(&disk, "/a/file", "y");
    assert_ne!(other.metadata().unwrap().inode, known.inode);
    drop(file);
    assert_eq!(disk.used(), 1);
}

#[test]
fn a_kill_keeps_written_data_and_releases_locks() {
    let disk = Disk::new(1);
    let file = disk.open("/a/file", Mode::Create).unwrap();
    file.write_all_at(b"x", 0).unwrap();
    assert!(file.try_flock().unwrap());
    let other = disk.open("/a/file", Mode::Write).unwrap();
    assert!(!other.try_flock().unwrap());
    disk.kill();
    assert!(disk.open("/a/file", Mode::Read).is_err());
    disk.reopen();
    assert!(file.read_at(&mut [0], 0).is_err(), "it was the dead one's");
    let new = disk.open("/a/file", Mode::Write).unwrap();
    assert!(new.try_flock().unwrap());
    drop((file, other));
    assert_eq!(content(&disk, "/a/file"), "x");
    let third = disk.open("/a/file", Mode::Write).unwrap();
    assert!(
        !third.try_flock().unwrap(),
        "the dead one's files free nothing"
    );
}

#[test]
fn sqlite_and_plain_code_see_the_same_files() {
    let disk = Disk::new(1);
    let db = open(&disk).unwrap();
    db.execute_batch("CREATE TABLE t (x)").unwrap();
    let file = disk.open("/store/../store/./jobs.db", Mode::Read).unwrap();
    let mut header = [0; 15];
    file.read_at(&mut header, 0).unwrap();
    assert_eq!(&header, b"SQLite format 3");
    disk.rename("/store/jobs.db", "/store/moved.db").unwrap();
    let error = db.execute_batch("INSERT INTO t VALUES (1)").unwrap_err();
    let code = error.sqlite_error().map(|error| error.extended_code);
    assert_eq!(code, Some(rusqlite::ffi::SQLITE_READONLY_DBMOVED));
}

#[test]
fn the_kernel_may_write_back_dirty_data() {
    let mut early = 0;
    for seed in 0..20 {
        let disk = Disk::new(seed);
        let file = durable(&disk, "/a/file", ".");
        file.write_all_at(b"x", 0).unwrap();
        disk.write_back(&mut Rng::new(seed));
        disk.set_faults(at(disk.calls() + 1, Fault::Lost { kept: 0 }));
        assert!(file.sync_all().is_err());
        disk.evict();
        early += usize::from(content(&disk, "/a/file") == "x");
    }
    assert!((1..20).contains(&early), "{early}");
}

#[test]
fn closing_a_file_releases_its_lock() {
    let disk = Disk::new(1);
    let open = || disk.open("/a/file", Mode::Create).unwrap();
    let (one, other) = (open(), open());
    assert!(one.try_flock().unwrap() && !other.try_flock().unwrap());
    drop(one);
    assert!(other.try_flock().unwrap());
}

#[test]
fn torn_and_too_large_writes_are_partly_done() {
    let disk = Disk::new(1);
    let file = durable(&disk, "/a/file", "....");
    let (len, error) = (2, Errno::IO);
    disk.set_faults(at(disk.calls() + 1, Fault::Torn { len, error }));
    assert_eq!(
        errno(file.write_all_at(b"xxxx", 2)),
        Some(error.raw_os_error())
    );
    assert_eq!(content(&disk, "/a/file"), "..xx");
    disk.set_capacity(Some(6));
    let full = Some(Errno::NOSPC.raw_os_error());
    assert_eq!(errno(file.write_all_at(b"yyyy", 3)), full);
    assert_eq!(content(&disk, "/a/file"), "..xyyy");
    file.write_all_at(b"zzzzzz", 0)
        .expect("it takes no more room");
    assert_eq!(errno(file.write_all_at(b"y", 6)), full);
    disk.remove("/a/file").unwrap();
    drop(file);
    durable(&disk, "/a/file", "......");
}

#[test]
fn a_trace_distinguishes_calls() {
    let hash = |path: &str, at: u64, len: usize| {
        let disk = Disk::new(1);
        let file = disk.open(path, Mode::Create).unwrap();
        file.write_all_at(&vec![0; len], at).unwrap();
        disk.trace_hash()
    };
    let one = hash("/a", 0, 1);
    assert_eq!(one, hash("/a", 0, 1));
    for other in [hash("/b", 0, 1), hash("/a", 1, 1), hash("/a", 0, 2)] {
        assert_ne!(one, other);
    }
}
