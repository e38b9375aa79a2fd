//! Detects when the socket's file is removed, moved or replaced, without polling.

use crate::socket::{PathState, Socket};
use rustix::fd::OwnedFd;
use rustix::fs::inotify::{CreateFlags, WatchFlags, add_watch, init};
use rustix::io::Errno;
use std::path::Path;

/// Events of the socket's own file. Unlinking it changes its link count, and the inode lives as long as the
/// socket.
const FILE_EVENTS: WatchFlags = WatchFlags::ATTRIB
    .union(WatchFlags::MOVE_SELF)
    .union(WatchFlags::DELETE_SELF);
/// Events of a directory itself. Files that are created and removed in it cause no wake-ups.
const DIRECTORY_EVENTS: WatchFlags = WatchFlags::MOVE_SELF
    .union(WatchFlags::DELETE_SELF)
    .union(WatchFlags::ONLYDIR);
/// Events of a symlink in the path, which a deployment may point at another release.
const LINK_EVENTS: WatchFlags = FILE_EVENTS.union(WatchFlags::DONT_FOLLOW);
/// Events of a directory while our file is not there: the path may become free, or the file may come back.
const ENTRY_EVENTS: WatchFlags = DIRECTORY_EVENTS
    .union(WatchFlags::CREATE)
    .union(WatchFlags::DELETE)
    .union(WatchFlags::MOVED_FROM)
    .union(WatchFlags::MOVED_TO)
    .union(WatchFlags::ATTRIB);

/// Arms a new watch for everything that can change the file at the socket's path. The descriptor becomes readable
/// at the first change.
///
/// The caller must check the path again afterwards, because changes before the watch was armed are not reported.
pub(crate) fn watch(socket: &Socket, path_state: PathState) -> Result<OwnedFd, Errno> {
    let inotify = init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK)?;
    let directories = socket.path().ancestors().skip(1);
    if path_state == PathState::Ours {
        add_watch(&inotify, socket.path(), FILE_EVENTS)?;
        for directory in directories.filter(|path| *path != Path::new("/")) {
            // Renaming a parent directory or changing a symlink also changes what the path refers to. Directories
            // that this user cannot read are left out.
            add_watch(&inotify, directory, DIRECTORY_EVENTS).ok();
            if directory.is_symlink() {
                add_watch(&inotify, directory, LINK_EVENTS).ok();
            }
        }
        return Ok(inotify);
    }
    let mut last = Errno::NOENT;
    for directory in directories {
        match add_watch(&inotify, directory, ENTRY_EVENTS) {
            Ok(_) => return Ok(inotify),
            Err(error) => last = error,
        }
    }
    Err(last)
}
