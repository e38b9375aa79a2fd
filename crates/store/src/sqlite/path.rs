//! The paths of a store's files.

use std::io;
use std::path::{Path, PathBuf};

/// The length of a file, or 0 if it does not exist. Any other error leaves open whether the file exists, and
/// is returned.
pub(super) fn len(path: &Path) -> io::Result<u64> {
    match stoker_os::stat(path) {
        Ok(file) => Ok(file.len),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(0),
        Err(error) => Err(error),
    }
}

/// The path of a file beside the database file, such as its WAL.
pub(super) fn beside(store: &Path, suffix: &str) -> PathBuf {
    let mut name = store.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}
