//! Checks the directory for large bodies before it is used.

use rustix::fs::Access;
use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Says why a directory can't be used, or can't be created if it does not exist. It must belong to this process's user: in a
/// directory such as `/tmp`, somebody else may have created it first, and could read and replace what visitors send.
pub fn check(path: &Path) -> Result<(), String> {
    let found = match fs::symlink_metadata(path) {
        Ok(found) => found,
        Err(error) if error.kind() == ErrorKind::NotFound => return check_parent(path),
        Err(error) => return Err(format!("cannot open {}: {error}", path.display())),
    };
    let own = rustix::process::geteuid().as_raw();
    let shown = path.display();
    match found.is_dir() {
        false => Err(format!("{shown} is not a directory")),
        true if found.uid() != own => Err(format!(
            "{shown} belongs to user {}, who could read and replace the bodies of requests; expected a directory of user {own}",
            found.uid()
        )),
        true => Ok(()),
    }
}

/// Checks that a directory can be created in the nearest directory above it that exists.
fn check_parent(path: &Path) -> Result<(), String> {
    let parent = path.ancestors().skip(1).find(|parent| parent.exists());
    let Some(parent) = parent else {
        return Ok(());
    };
    let access = rustix::fs::access(parent, Access::WRITE_OK | Access::EXEC_OK);
    access.map_err(|error| {
        let (path, parent) = (path.display(), parent.display());
        format!("cannot create {path} in {parent}: {error}")
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::site::test_dir::TestDir;

    #[test]
    fn only_an_own_directory_is_used() {
        let dir = TestDir::new();
        let path = dir.path();
        assert_eq!(check(&path.join("a/b/c")), Ok(()));
        assert_eq!(check(path), Ok(()));
        fs::write(path.join("file"), "").unwrap();
        let error = check(&path.join("file")).unwrap_err();
        assert!(error.ends_with("is not a directory"), "{error}");
        // A link may lead to a directory of somebody else.
        std::os::unix::fs::symlink(path, path.join("link")).unwrap();
        let error = check(&path.join("link")).unwrap_err();
        assert!(error.ends_with("is not a directory"), "{error}");
        let error = check(&path.join("file/below")).unwrap_err();
        assert!(error.contains("Not a directory"), "{error}");
        let foreign = if rustix::process::geteuid().is_root() {
            1
        } else {
            0
        };
        let other = match foreign {
            0 => Path::new("/").to_owned(),
            uid => {
                let other = path.join("other");
                fs::create_dir(&other).unwrap();
                std::os::unix::fs::chown(&other, Some(uid), None).unwrap();
                other
            }
        };
        let error = check(&other).unwrap_err();
        assert!(
            error.contains(&format!("belongs to user {foreign}, who could")),
            "{error}"
        );
    }
}
