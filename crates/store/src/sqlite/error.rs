//! Why a store can't be opened.

use super::LockOwner;
use std::path::{Path, PathBuf};
use std::{fmt, io};

/// The reason why a store can't be opened. Its file is left unchanged.
#[derive(Debug)]
pub enum StoreError {
    /// Another process uses the store.
    Locked {
        path: PathBuf,
        by: LockOwner,
    },
    /// The store's path contains a symlink that another user could change.
    Symlink {
        link: PathBuf,
        /// The users who could change the symlink.
        who: String,
    },
    /// The path names a directory, a device or another special file.
    NotAFile {
        path: PathBuf,
        what: &'static str,
    },
    /// A newer version of Stoker created the store.
    Newer {
        path: PathBuf,
        version: i64,
        known: i64,
    },
    /// The file is a database, but not a job store.
    Foreign {
        path: PathBuf,
    },
    /// SQLite can't use a WAL for the store (https://sqlite.org/wal.html).
    NoLog {
        path: PathBuf,
        /// The `journal_mode` that SQLite uses instead.
        mode: String,
    },
    Damaged {
        path: PathBuf,
        text: String,
    },
    /// The store's file or its journal was deleted, replaced or truncated by another process while it was
    /// open.
    Replaced {
        path: PathBuf,
        text: String,
    },
    Full {
        path: PathBuf,
        text: String,
    },
    Io {
        path: PathBuf,
        text: String,
    },
}

/// Whether the error means that the disk is full. SQLite reports an I/O error if the shared-memory file
/// beside the store can't grow.
pub(super) fn is_full(error: &rusqlite::Error) -> bool {
    use rusqlite::ffi::{SQLITE_FULL, SQLITE_IOERR_SHMSIZE};
    let code = error.sqlite_error().map(|error| error.extended_code);
    matches!(code, Some(SQLITE_FULL | SQLITE_IOERR_SHMSIZE))
}

impl StoreError {
    pub(super) fn io(path: &Path, error: &io::Error) -> Self {
        let (path, text) = (path.to_owned(), error.to_string());
        match error.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Self::Full { path, text },
            _ => Self::Io { path, text },
        }
    }

    pub(super) fn sqlite(path: &Path, error: &rusqlite::Error) -> Self {
        use rusqlite::ErrorCode::{DatabaseCorrupt, NotADatabase};
        let (path, text) = (path.to_owned(), error.to_string());
        match error.sqlite_error_code() {
            Some(DatabaseCorrupt | NotADatabase) => Self::Damaged { path, text },
            _ if is_full(error) => Self::Full { path, text },
            _ => Self::Io { path, text },
        }
    }

    /// Whether opening may succeed later without a change to the file or the configuration.
    #[must_use]
    pub fn is_temporary(&self) -> bool {
        matches!(self, Self::Full { .. } | Self::Io { .. })
    }
}

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Locked { path, by } => {
                match by.pid {
                    Some(pid) => write!(f, "process {pid}")?,
                    None => f.write_str("another process")?,
                }
                if let Some(socket) = &by.socket {
                    write!(f, " (socket {})", socket.display())?;
                }
                write!(
                    f,
                    " uses the job store {}; stop it first, or give each Stoker a store of its own ([store] path)",
                    path.display()
                )
            }
            Self::Symlink { link, who } => write!(
                f,
                "the job store's path contains the symlink {}, and {who} can write to its directory and so choose the \
                 file; name the file itself ([store] path), or allow only its owner to write to that \
                 directory",
                link.display()
            ),
            Self::NotAFile { path, what } => write!(
                f,
                "the job store {} is {what}, not a file; name a file ([store] path)",
                path.display()
            ),
            Self::Newer {
                path,
                version,
                known,
            } => write!(
                f,
                "the job store {} has version {version}, but this Stoker supports versions up to {known}; \
                 use the Stoker that wrote it, or a newer one",
                path.display()
            ),
            Self::Foreign { path } => {
                write!(
                    f,
                    "{} is a database, but not a job store; name another file",
                    path.display()
                )
            }
            Self::NoLog { path, mode } => write!(
                f,
                "SQLite can't keep a write-ahead log for the job store {} (its journal_mode is \"{mode}\", not \"wal\"), \
                 and without one accepted jobs may be lost; put the store on a local file system ([store] path)",
                path.display()
            ),
            Self::Damaged { path, text } => write!(
                f,
                "the job store {} is damaged ({text}); the file was left unchanged. Run `stoker store check`, then \
                 restore a backup",
                path.display()
            ),
            Self::Replaced { path, text } => write!(
                f,
                "the job store {} was replaced while it was open: {text}",
                path.display()
            ),
            Self::Full { path, text } => {
                write!(
                    f,
                    "the job store {}: the disk is full: {text}",
                    path.display()
                )
            }
            Self::Io { path, text } => write!(f, "the job store {}: {text}", path.display()),
        }
    }
}

impl std::error::Error for StoreError {}

impl From<StoreError> for io::Error {
    fn from(error: StoreError) -> Self {
        Self::other(error)
    }
}
