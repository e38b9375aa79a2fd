//! The content of a database after a power cut or a kill, at every call of a workload.

use crate::support::{FULL, Keeping, at, calls, keeping, work, wrong};
use stoker_testkit::vfs::{Disk, Fault};

/// Interrupts the workload at this call; another process then checks what is left.
fn cut(keeping: Keeping, number: u64, fault: Fault) -> Option<String> {
    let disk = Disk::new(number);
    disk.set_faults(at(number, fault));
    let committed = work(&disk, keeping);
    assert!(disk.is_down(), "call {number} came");
    disk.clear_faults();
    disk.reopen();
    let wrong = wrong(&disk, committed)?;
    Some(format!("{keeping:?}, call {number}, {fault:?}: {wrong}"))
}

/// The errors that were found after power cuts at every call.
fn power_cuts(keeping: Keeping, seeds: u64) -> Vec<String> {
    let cuts = (1..=calls(keeping)).flat_map(|number| (0..seeds).map(move |seed| (number, seed)));
    cuts.filter_map(|(number, seed)| cut(keeping, number, Fault::PowerCut(number * seeds + seed)))
        .collect()
}

#[test]
fn synced_commits_survive_a_power_cut_at_any_call() {
    for keeping in [
        FULL,
        keeping("delete", "extra"),
        keeping("truncate", "full"),
    ] {
        let wrong = power_cuts(keeping, 5);
        assert!(wrong.is_empty(), "{wrong:#?}");
    }
}

#[test]
fn a_power_cut_can_lose_unsynced_commits() {
    let wrong = power_cuts(keeping("wal", "off"), 2);
    let has = |what: &str| wrong.iter().any(|wrong| wrong.contains(what));
    assert!(has("transactions"), "transactions are lost: {wrong:#?}");
    assert!(
        has("malformed") || has("invalid page"),
        "pages are torn: {wrong:#?}"
    );
    // If commits are not synced, nothing is torn, but the last commits may be lost.
    let wrong = power_cuts(keeping("wal", "normal"), 2);
    assert!(!wrong.is_empty());
    for wrong in wrong {
        assert!(wrong.contains("transactions"), "{wrong}");
    }
}

#[test]
fn a_removed_file_reappears_after_a_power_cut_unless_its_directory_was_synced() {
    // A journal whose name comes back undoes a commit; that is the only difference between EXTRA and FULL.
    let wrong = power_cuts(keeping("delete", "full"), 3);
    assert!(!wrong.is_empty());
    for wrong in wrong {
        assert!(wrong.contains("transactions"), "{wrong}");
    }
}

#[test]
fn a_kill_at_any_call_loses_no_written_data() {
    for keeping in [FULL, keeping("wal", "off"), keeping("delete", "off")] {
        let wrong: Vec<_> = (1..=calls(keeping))
            .filter_map(|number| cut(keeping, number, Fault::Kill))
            .collect();
        assert!(wrong.is_empty(), "{wrong:#?}");
    }
}
