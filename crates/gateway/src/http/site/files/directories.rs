//! The directories below which the files of a site are.

use super::directory::Directory;
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::{fs, io};

/// Several directories. Symbolic links may lead from the first one to any of them.
#[derive(Debug)]
pub(crate) struct Directories {
    all: Vec<Directory>,
}

impl Directories {
    /// Opens the directories; an error names the one that can't be opened.
    pub(crate) fn open<'a>(paths: impl IntoIterator<Item = &'a Path>) -> io::Result<Self> {
        let open = |path: &Path| {
            Directory::open(path).map_err(|error| {
                let text = format!("cannot open the directory {}: {error}", path.display());
                io::Error::new(error.kind(), text)
            })
        };
        let all = paths.into_iter().map(open);
        Ok(Self {
            all: all.collect::<io::Result<_>>()?,
        })
    }

    /// Opens what is at a path below the first directory. `None` if there is nothing, or nothing that may be opened.
    /// If the path contains a symbolic link, its target must be inside one of the directories, and `is_allowed` must accept
    /// the target's path relative to that directory.
    pub(crate) fn open_first(
        &self,
        path: &[u8],
        is_allowed: impl Fn(&[u8]) -> bool,
    ) -> io::Result<Option<OwnedFd>> {
        let Some(first) = self.all.first() else {
            return Ok(None);
        };
        match first.open_below(path) {
            Err(Errno::LOOP) => {
                let real = fs::canonicalize(first.path().join(OsStr::from_bytes(path)));
                match real {
                    Ok(real) => self.open_real(&real, is_allowed),
                    Err(error) => unless_missing(Err(error)),
                }
            }
            opened => unless_missing(opened.map_err(io::Error::from)),
        }
    }

    /// Whether the first directory has no entry with this name.
    pub(crate) fn is_missing(&self, name: &[u8]) -> bool {
        self.all.first().is_some_and(|first| first.is_missing(name))
    }

    /// Opens what is at an absolute path, if the path without its symbolic links is below one of the directories.
    pub(crate) fn open_absolute(&self, path: &Path) -> io::Result<Option<OwnedFd>> {
        match fs::canonicalize(path) {
            Ok(real) => self.open_real(&real, |_| true),
            Err(error) => unless_missing(Err(error)),
        }
    }

    /// If a part of the path has become a symbolic link in the meantime, the result is `None`.
    fn open_real(
        &self,
        real: &Path,
        is_allowed: impl Fn(&[u8]) -> bool,
    ) -> io::Result<Option<OwnedFd>> {
        let mut all = self.all.iter();
        let found = all.find_map(|directory| Some((directory, directory.relative(real)?)));
        match found {
            Some((directory, path)) if is_allowed(path) => {
                unless_missing(directory.open_below(path).map_err(io::Error::from))
            }
            _ => Ok(None),
        }
    }
}

/// Converts the errors that mean that nothing exists at the path to `None`. Others, such as too many open files, stay errors.
fn unless_missing(opened: io::Result<OwnedFd>) -> io::Result<Option<OwnedFd>> {
    let error = match opened {
        Ok(fd) => return Ok(Some(fd)),
        Err(error) => error,
    };
    match Errno::from_io_error(&error) {
        Some(
            Errno::NOENT | Errno::NOTDIR | Errno::ACCESS | Errno::PERM | Errno::LOOP | Errno::XDEV
            // Of sockets and of devices without a driver.
            | Errno::NXIO | Errno::NODEV
            | Errno::NAMETOOLONG | Errno::INVAL,
        ) => Ok(None),
        _ => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::site::test_dir::TestDir;
    use rustix::fs::{CWD, FileType, Mode};
    use std::io::Read;
    use std::os::unix::fs::symlink;
    use std::path::PathBuf;

    /// The same directories opened with `openat2` and without it: the root and those named in `linked`.
    fn with_and_without_openat2(dir: &TestDir, linked: &[&str]) -> [Directories; 2] {
        [true, false].map(|has_openat2| {
            let names = std::iter::once(&"root").chain(linked);
            let paths: Vec<PathBuf> = names.map(|name| dir.path().join(name)).collect();
            let mut all = Directories::open(paths.iter().map(PathBuf::as_path)).unwrap();
            for directory in &mut all.all {
                assert!(
                    has_openat2 <= directory.has_openat2,
                    "kernel without openat2"
                );
                directory.has_openat2 = has_openat2;
            }
            all
        })
    }

    fn read(all: &Directories, path: &str) -> Option<String> {
        let allowed = |path: &[u8]| !path.ends_with(b".php");
        let fd = all.open_first(path.as_bytes(), allowed).unwrap()?;
        let mut text = String::new();
        fs::File::from(fd).read_to_string(&mut text).ok()?;
        Some(text)
    }

    fn tree() -> TestDir {
        let dir = TestDir::new();
        dir.write("root/css/app.css", "css");
        dir.write("root/index.php", "php");
        dir.write("root2/secret", "secret");
        dir.write("shared/photo", "photo");
        let root = dir.path().join("root");
        for (link, to) in [
            ("relative", "css/app.css"),
            ("css/up", "../css/app.css"),
            ("styles", "css"),
            ("out", "../root2/secret"),
            ("outdir", "../root2"),
            ("back", "../root/css/app.css"),
            ("shared", "../shared"),
            ("source.txt", "index.php"),
            ("loop", "loop"),
            ("dangling", "nothing"),
            ("self", "."),
        ] {
            symlink(to, root.join(link)).unwrap();
        }
        symlink(root.join("css/app.css"), root.join("absolute")).unwrap();
        symlink("/etc/passwd", root.join("passwd")).unwrap();
        symlink("/", root.join("slash")).unwrap();
        dir
    }

    #[test]
    fn links_within_the_root_are_followed() {
        let dir = tree();
        for all in with_and_without_openat2(&dir, &[]) {
            for path in [
                "css/app.css",
                "relative",
                "css/up",
                "styles/app.css",
                "back",
                "absolute",
                "self/css/app.css",
                "self/self/relative",
            ] {
                assert_eq!(read(&all, path).as_deref(), Some("css"), "{path}");
            }
        }
    }

    #[test]
    fn nothing_outside_the_root_is_opened() {
        let dir = tree();
        for all in with_and_without_openat2(&dir, &[]) {
            for path in [
                "out",
                "outdir/secret",
                "passwd",
                "slash/etc/passwd",
                "shared/photo",
                "loop",
                "dangling",
                "source.txt",
                "../root2/secret",
                "css/../../root2/secret",
                "/etc/passwd",
                "missing",
                "css/app.css/x",
                "",
                ".",
                "..",
            ] {
                assert_eq!(read(&all, path), None, "{path}");
            }
            let long = "a/".repeat(3_000);
            assert_eq!(read(&all, &long), None);
            assert_eq!(read(&all, &"a".repeat(300)), None);
        }
    }

    #[test]
    fn links_may_lead_to_the_other_directories() {
        let dir = tree();
        for all in with_and_without_openat2(&dir, &["shared"]) {
            assert_eq!(read(&all, "shared/photo").as_deref(), Some("photo"));
            assert_eq!(read(&all, "outdir/secret"), None);
            let open = |name: &str| all.open_absolute(&dir.path().join(name)).unwrap();
            assert!(open("shared/photo").is_some() && open("root/relative").is_some());
            assert!(open("root/shared/../shared/photo").is_some());
            assert!(open("root2/secret").is_none() && open("root/out").is_none());
            assert!(open("shared").is_none() && open("missing").is_none());
        }
    }

    #[test]
    fn a_named_pipe_does_not_block() {
        let dir = tree();
        let path = dir.path().join("root/pipe");
        rustix::fs::mknodat(CWD, path, FileType::Fifo, Mode::from(0o600), 0).unwrap();
        for all in with_and_without_openat2(&dir, &[]) {
            assert!(all.open_first(b"pipe", |_| true).unwrap().is_some());
        }
    }

    #[test]
    fn a_directory_stays_the_same_when_another_gets_its_path() {
        let dir = tree();
        for all in with_and_without_openat2(&dir, &[]) {
            fs::rename(dir.path().join("root"), dir.path().join("old")).unwrap();
            fs::create_dir(dir.path().join("root")).unwrap();
            assert_eq!(read(&all, "css/app.css").as_deref(), Some("css"));
            fs::remove_dir(dir.path().join("root")).unwrap();
            fs::rename(dir.path().join("old"), dir.path().join("root")).unwrap();
        }
        let error = Directories::open([dir.path().join("none").as_path()]).unwrap_err();
        assert!(error.to_string().contains("/none: "), "{error}");
    }
}
