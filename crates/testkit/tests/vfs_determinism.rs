//! Equal seeds give equal runs. This test has a process to itself, because SQLite has one random generator per process.

use rusqlite::{Connection, OpenFlags};
use stoker_testkit::vfs::{Call, Disk, Errno, Fault, Kind, Rng, seed_sqlite};

/// Runs two connections with faults, kills and power cuts. Returns the calls that were made and the content that is
/// left.
fn run(seed: u64) -> (u64, u64, u64, Vec<String>) {
    seed_sqlite(seed as u32);
    let disk = Disk::new(seed);
    disk.record();
    let mut faults = Rng::new(seed);
    let mut steps = Rng::new(!seed);
    disk.set_faults(move |call: &Call<'_>| match faults.below(60) {
        0 => Some(Fault::Error(Errno::IO)),
        1 if call.kind == Kind::Sync => Some(Fault::Lost { kept: 1 }),
        2 => Some(Fault::Slow(faults.below(1_000))),
        3 if faults.below(4) == 0 => Some(Fault::PowerCut(faults.next_u64())),
        4 if faults.below(4) == 0 => Some(Fault::Kill),
        _ => None,
    });
    for _ in 0..10 {
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE;
        let open = || Connection::open_with_flags_and_vfs("/jobs.db", flags, disk.vfs());
        if let (Ok(one), Ok(other)) = (open(), open()) {
            one.execute_batch("PRAGMA journal_mode = wal; CREATE TABLE t (x)")
                .ok();
            while !disk.is_down() && steps.below(20) > 0 {
                let db = if steps.below(2) == 0 { &one } else { &other };
                let insert = "INSERT INTO t VALUES (hex(randomblob(300)) || datetime('now'))";
                db.execute_batch(insert).ok();
                db.execute_batch("PRAGMA wal_checkpoint").ok();
            }
        }
        disk.reopen();
    }
    (
        disk.calls(),
        disk.trace_hash(),
        disk.fingerprint(),
        disk.take_lines(),
    )
}

#[test]
fn the_same_seed_makes_the_same_calls_and_the_same_bytes() {
    let mut all = Vec::new();
    for seed in 1..30 {
        let (first, second) = (run(seed), run(seed));
        for (one, other) in first.3.iter().zip(&second.3) {
            assert_eq!(one, other, "seed {seed}");
        }
        assert_eq!(first.0, second.0, "seed {seed}: calls");
        assert_eq!(first.1, second.1, "seed {seed}: trace");
        assert_eq!(first.2, second.2, "seed {seed}: bytes");
        all.push(first.1);
    }
    all.sort_unstable();
    all.dedup();
    assert_eq!(all.len(), 29, "different seeds, different runs");
}
