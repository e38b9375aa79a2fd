//! Opens the store of the configuration.

use crate::config::{Config, Launch};
use crate::observe::Log;
use crate::observe::events;
use std::io;
use std::path::{Path, PathBuf};
use stoker_os::{BorrowedFd, path_of};
use stoker_store::{Driver, MemoryStore, steady_clock, wall_clock};

/// Opens the store of the configuration.
pub(crate) fn open_store(
    config: &Config,
    launch: &Launch,
    listener: BorrowedFd<'_>,
    is_restart: bool,
    log: &mut Log,
) -> io::Result<Box<dyn Driver>> {
    match &config.store.path {
        Some(path) => {
            // Symbolic links may have changed since the start, but the jobs are still in the same file.
            let path = launch.store.as_ref().filter(|_| is_restart).unwrap_or(path);
            if !is_restart && let Some(warning) = config.release_warning(launch.unresolved_base()) {
                warn(log, warning);
            }
            let options = StoreOptions {
                sync: config.store.sync,
                socket: path_of(listener),
            };
            open_file(path, options, is_restart, log)
        }
        // Payloads of ended jobs may take half as much memory as those of waiting jobs.
        None => Ok(Box::new(MemoryStore::new(
            wall_clock(),
            steady_clock(),
            config.max_memory / 2,
        ))),
    }
}

fn warn(log: &mut Log, text: String) {
    let entry = events::STORE_WARNING.message(text.clone());
    log.put(entry.with("reason", text));
}

/// Options for opening a file.
struct StoreOptions {
    sync: bool,
    /// The path of the server's own socket.
    socket: Option<PathBuf>,
}

#[cfg(feature = "sqlite")]
fn open_file(
    path: &Path,
    options: StoreOptions,
    is_restart: bool,
    log: &mut Log,
) -> io::Result<Box<dyn Driver>> {
    use stoker_store::{LockOwner, SqliteOptions, SqliteStore, StoreError, tools};
    let options = SqliteOptions {
        sync: options.sync,
        socket: options.socket,
        ..SqliteOptions::default()
    };
    let open = || SqliteStore::open(path, options.clone());
    let opened = tools::is_lost(path).and_then(|was_lost| {
        let store = match open() {
            Err(StoreError::Locked {
                by: LockOwner { pid: Some(pid), .. },
                ..
            }) if await_exit(pid) => open(),
            other => other,
        };
        Ok((store?, was_lost))
    });
    match opened {
        Ok((store, was_lost)) => {
            if was_lost {
                let text = format!(
                    "created a new, empty job store {}: the file of the earlier one was missing or empty; if it \
                     contained jobs, restore it from a backup",
                    path.display()
                );
                warn(log, text);
            }
            Ok(Box::new(store))
        }
        // The store was open before this restart, and the disk may become available again.
        Err(error) if is_restart && error.is_temporary() => Err(match path.parent() {
            Some(directory) if matches!(directory.try_exists(), Ok(false)) => {
                io::Error::other(format!(
                    "the job store {} and its directory no longer exist: if it was in an old release, its jobs are \
                     lost; stop Stoker, and use a path that all releases share ([store] path)",
                    path.display()
                ))
            }
            _ => error.into(),
        }),
        // Starting again will not help: the operator must fix the problem that the message describes.
        Err(error) => Err(io::Error::new(io::ErrorKind::InvalidInput, error)),
    }
}

/// Whether a process ends within the time that a server may need to exit after its angel was killed.
#[cfg(feature = "sqlite")]
fn await_exit(pid: u32) -> bool {
    const EXIT_TIMEOUT: std::time::Duration = std::time::Duration::from_secs(3);
    let process = i32::try_from(pid).ok().and_then(stoker_os::watch_process);
    // Without a handle, the process has ended in the meantime.
    process.is_none_or(|process| stoker_os::wait_for_exit(&process, EXIT_TIMEOUT))
}

#[cfg(not(feature = "sqlite"))]
fn open_file(
    path: &Path,
    _options: StoreOptions,
    _is_restart: bool,
    _log: &mut Log,
) -> io::Result<Box<dyn Driver>> {
    Err(io::Error::other(format!(
        "this Stoker was built without SQLite and can't open {}; use [store] driver = \"memory\"",
        path.display()
    )))
}
