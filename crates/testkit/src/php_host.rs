//! The PHP host program, which Cargo does not build.

use crate::{Spawn, repository, run};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// The path of `stoker-php`. It is built beside `stoker`, once in each process of tests; the lock keeps processes apart.
#[track_caller]
pub fn php_host() -> PathBuf {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    FOLDER.get_or_init(build).join("stoker-php")
}

#[track_caller]
fn build() -> PathBuf {
    let tests = std::env::current_exe().expect("a test knows its own path");
    let folder = tests.ancestors().nth(2).map(Path::to_path_buf);
    let folder = folder.expect("tests are in target/PROFILE/deps");
    let lock = folder.join("stoker-php.lock").display().to_string();
    let makefile = repository().join("crates/php").display().to_string();
    let out = format!("OUT={}", folder.display());
    let built = run(Spawn::new("flock").args(&[&lock, "make", "-s", "-C", &makefile, &out]));
    assert_eq!(
        built.code, 0,
        "stoker-php can't be built (scripts/setup installs what it needs): {}{}",
        built.stdout, built.stderr
    );
    folder
}
