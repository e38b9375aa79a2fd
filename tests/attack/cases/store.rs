//! The store's file: shared by two Stokers, on a full disk, replaced while it is in use, damaged, or not a regular
//! file.

mod damage;
mod full_disk;
mod replaced;
mod shared;

use crate::case::Group;
use std::path::Path;
use stoker_testkit::{Spawn, pool_of, procs};

pub(crate) fn groups(seed: u64) -> Vec<Group> {
    let mut groups = shared::groups();
    groups.extend(full_disk::groups());
    groups.extend(replaced::groups());
    groups.extend(damage::groups(seed));
    groups
}

/// A configuration with a store at this path. The queue `q` exists from the start.
fn config(path: &Path) -> String {
    pool_of(
        "serve",
        format!("workers = 1\n[queue.q]\n[store]\npath = {path:?}"),
    )
}

/// The exit code and output of `stoker serve` in this directory; `None` if it runs.
fn refused(binary: &Path, dir: &Path) -> Option<(i32, String)> {
    let log = dir.join("serve.log");
    let file = std::fs::File::create(&log).expect("the directory takes a file");
    let mut child = Spawn::new(binary)
        .args(&["serve"])
        .within(dir)
        .stderr(file)
        .start();
    let ended = procs::wait_for_exit(child.id() as i32, 6.0);
    if !ended {
        procs::signal(child.id() as i32, rustix::process::Signal::TERM);
    }
    let status = child.wait().expect("it is ours");
    let said = std::fs::read_to_string(log).unwrap_or_default();
    ended.then(|| (status.code().unwrap_or(-1), said))
}
