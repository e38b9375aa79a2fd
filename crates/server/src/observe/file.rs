//! The log file, which is rotated when it has become too large.

use crate::config::{LogConfig, size_text};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// Opens a log file for appending; a new file is readable by its owner only. An error names the file.
pub fn open(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    let file = options.create(true).append(true).mode(0o600).open(path);
    file.map_err(|error| {
        let text = format!("cannot write the log {}: {error}", path.display());
        io::Error::new(error.kind(), text)
    })
}

pub(crate) struct LogFile {
    path: PathBuf,
    file: File,
    /// The size of the file: its size when it was opened, plus what this process has written.
    size: u64,
    max_size: u64,
    keep: u32,
}

impl LogFile {
    pub(crate) fn open(path: &Path, config: &LogConfig) -> io::Result<Self> {
        let file = open(path)?;
        let metadata = file.metadata()?;
        // A pipe or a device can't be rotated.
        let max_size = if metadata.is_file() {
            config.max_size
        } else {
            0
        };
        Ok(Self {
            path: path.to_owned(),
            size: metadata.len(),
            file,
            max_size,
            keep: config.keep_files,
        })
    }

    /// Opens the file that has the log's name now, and continues in it.
    pub(crate) fn reopen(&mut self) -> io::Result<()> {
        self.file = open(&self.path)?;
        self.size = self.file.metadata()?.len();
        Ok(())
    }

    /// Whether this many more bytes would make the file too large.
    pub(crate) fn is_full(&self, further: usize) -> bool {
        self.max_size > 0 && self.size > 0 && self.size + further as u64 > self.max_size
    }

    /// Starts a new file, and keeps the previous ones under numbered names. If they can't be renamed, the current
    /// file is emptied instead and an error is returned: a log without a limit would use up the disk space of the
    /// job store.
    pub(crate) fn rotate(&mut self) -> io::Result<()> {
        if !self.is_in_place() {
            // Another program has moved the file away.
            return self.reopen();
        }
        match self.shift().and_then(|()| self.reopen()) {
            Ok(()) => Ok(()),
            Err(error) => {
                let lost = size_text(self.size);
                self.file.set_len(0)?;
                self.size = 0;
                let text = format!(
                    "cannot rotate the log {}: {error}; the {lost} in it were deleted, because it had reached max_size. Allow Stoker's user to \
                     write to its directory, or have another program rotate it (max_size = \"none\")",
                    self.path.display()
                );
                Err(io::Error::new(error.kind(), text))
            }
        }
    }

    fn is_in_place(&self) -> bool {
        let identity = |metadata: fs::Metadata| (metadata.dev(), metadata.ino());
        let open = self.file.metadata().map(identity);
        let named = fs::metadata(&self.path).map(identity);
        matches!((open, named), (Ok(open), Ok(named)) if open == named)
    }

    fn shift(&self) -> io::Result<()> {
        // A symbolic link stays where it is; its target is renamed.
        let path = fs::canonicalize(&self.path)?;
        let numbered = |number: u32| {
            let mut name = path.clone().into_os_string();
            name.push(format!(".{number}"));
            PathBuf::from(name)
        };
        if self.keep == 0 {
            return fs::remove_file(&path);
        }
        for number in (1..self.keep).rev() {
            match fs::rename(numbered(number), numbered(number + 1)) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
        }
        fs::rename(&path, numbered(1))
    }
}

impl Write for LogFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let count = self.file.write(bytes)?;
        self.size += count as u64;
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    struct Folder(PathBuf);

    impl Folder {
        fn new(name: &str) -> Self {
            let folder = std::env::temp_dir().join(format!("stoker-{name}-{}", std::process::id()));
            fs::create_dir_all(&folder).unwrap();
            Self(folder)
        }

        fn log(&self, name: &str, keep_files: u32) -> LogFile {
            let config = LogConfig {
                max_size: 10,
                keep_files,
                ..LogConfig::default()
            };
            LogFile::open(&self.0.join(name), &config).unwrap()
        }

        fn names(&self) -> Vec<String> {
            let entries = fs::read_dir(&self.0).unwrap().flatten();
            let mut names: Vec<String> = entries
                .map(|entry| entry.file_name().to_string_lossy().into_owned())
                .collect();
            names.sort();
            names
        }

        fn read(&self, name: &str) -> String {
            fs::read_to_string(self.0.join(name)).unwrap()
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            fs::remove_dir_all(&self.0).ok();
        }
    }

    fn put(log: &mut LogFile, text: &str) {
        if log.is_full(text.len()) {
            log.rotate().unwrap();
        }
        log.write_all(text.as_bytes()).unwrap();
    }

    #[test]
    fn the_newest_files_are_kept_and_none_is_too_large() {
        let folder = Folder::new("rotate");
        let mut log = folder.log("log", 2);
        for n in 0..8 {
            put(&mut log, &format!("line {n}\n"));
        }
        assert_eq!(folder.names(), ["log", "log.1", "log.2"]);
        assert_eq!(folder.read("log"), "line 7\n");
        assert_eq!(folder.read("log.1"), "line 6\n");
        assert_eq!(folder.read("log.2"), "line 5\n");
    }

    #[test]
    fn the_size_at_the_start_counts() {
        let folder = Folder::new("start");
        fs::write(folder.0.join("log"), "123456789\n").unwrap();
        put(&mut folder.log("log", 1), "new\n");
        assert_eq!(folder.read("log"), "new\n");
        assert_eq!(folder.read("log.1"), "123456789\n");
    }

    #[test]
    fn no_rotated_file_is_kept_if_none_is_configured() {
        let folder = Folder::new("none");
        let mut log = folder.log("log", 0);
        put(&mut log, "old line\n");
        put(&mut log, "new line\n");
        assert_eq!(folder.names(), ["log"]);
        assert_eq!(folder.read("log"), "new line\n");
    }

    #[test]
    fn a_file_that_another_program_moved_away_is_not_moved_again() {
        let folder = Folder::new("moved");
        let mut log = folder.log("log", 2);
        put(&mut log, "old line\n");
        fs::rename(folder.0.join("log"), folder.0.join("log.old")).unwrap();
        put(&mut log, "new line\n");
        assert_eq!(folder.names(), ["log", "log.old"]);
    }

    #[test]
    fn a_symbolic_link_is_kept() {
        let folder = Folder::new("link");
        fs::create_dir(folder.0.join("there")).unwrap();
        symlink("there/log", folder.0.join("log")).unwrap();
        let mut log = folder.log("log", 1);
        put(&mut log, "old line\n");
        put(&mut log, "new line\n");
        assert!(folder.0.join("log").is_symlink());
        assert_eq!(folder.read("there/log.1"), "old line\n");
        assert_eq!(folder.read("log"), "new line\n");
    }

    #[test]
    fn a_file_that_cannot_be_renamed_is_emptied_with_an_error() {
        let folder = Folder::new("stuck");
        // A directory with the name of the rotated file makes the rename fail.
        fs::create_dir_all(folder.0.join("log.1/full")).unwrap();
        let mut log = folder.log("log", 1);
        put(&mut log, "old line\n");
        let error = log.rotate().unwrap_err().to_string();
        assert!(error.contains("the 9 B in it were deleted"), "{error}");
        put(&mut log, "new line\n");
        assert_eq!(folder.read("log"), "new line\n");
    }
}
