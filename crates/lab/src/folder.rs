//! The temporary folder of a measurement.

use crate::error::{Error, Result};
use std::fs::{self, DirBuilder};
use std::io::ErrorKind;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

/// The longest path below the folder that is a socket.
const LONGEST_SOCKET: &str = "/00-snapshot-auto/fpm-app-1.sock";

/// A folder that only this user may enter. It is removed with everything in it when this is dropped.
#[derive(Debug)]
pub(crate) struct Folder(PathBuf);

impl Folder {
    pub(crate) fn new() -> Result<Self> {
        let within = std::env::temp_dir();
        // A lab that was killed may have had the same pid, and has left its folder.
        for number in 0..100 {
            let name = format!("stoker-lab-{}-{number}", std::process::id());
            let path = std::path::absolute(within.join(name))?;
            if path.as_os_str().len() + LONGEST_SOCKET.len() > stoker_os::MAX_SOCKET_PATH {
                return Err(Error::Failed(format!(
                    "the folder for temporary files, {}, has a path that is too long for sockets in it: set TMPDIR to a shorter one, such as /tmp",
                    within.display()
                )));
            }
            match DirBuilder::new().mode(0o700).create(&path) {
                Ok(()) => return Ok(Self(path)),
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
                Err(error) => {
                    return Err(Error::Failed(format!(
                        "cannot create the folder {} ({error}): set TMPDIR to a folder that can be written",
                        path.display()
                    )));
                }
            }
        }
        Err(Error::Failed(format!(
            "{} is full of folders of former measurements: remove stoker-lab-*",
            within.display()
        )))
    }

    #[cfg(test)]
    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    /// Creates an empty folder in this one.
    pub(crate) fn make(&self, name: &str) -> Result<PathBuf> {
        let path = self.0.join(name);
        fs::create_dir_all(&path)?;
        Ok(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // Nobody could do anything about an error.
        fs::remove_dir_all(&self.0).ok();
    }
}

/// Writes files, whose names are relative to `folder`.
pub(crate) fn write_all(folder: &Path, files: &[(&str, &str)]) -> Result {
    for (name, text) in files {
        let path = folder.join(name);
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent)?;
        }
        fs::write(path, text)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_is_removed_with_everything_in_it() {
        let folder = Folder::new().unwrap();
        let other = Folder::new().unwrap();
        assert_ne!(folder.path(), other.path());
        write_all(folder.path(), &[("a/b.txt", "text")]).unwrap();
        let path = folder.path().to_owned();
        assert_eq!(fs::read_to_string(path.join("a/b.txt")).unwrap(), "text");
        drop(folder);
        assert!(!path.exists());
    }
}
