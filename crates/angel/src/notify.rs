//! Notices when the socket's file is removed, moved or replaced, without looking again and again.

use crate::socket::{Found, Socket};
use rustix::fd::OwnedFd;
use rustix::fs::inotify::{CreateFlags, WatchFlags, add_watch, init};
use rustix::io::Errno;
use std::path::Path;

/// The socket's own file. An unlink changes its count of links; the file itself lives as long as the socket.
const FILE: WatchFlags = WatchFlags::ATTRIB
    .union(WatchFlags::MOVE_SELF)
    .union(WatchFlags::DELETE_SELF);
/// Its directory, as a whole: files that come and go in it wake nobody.
const DIRECTORY: WatchFlags = WatchFlags::MOVE_SELF
    .union(WatchFlags::DELETE_SELF)
    .union(WatchFlags::ONLYDIR);
/// A link on the way to it, which a deployment leads to another release.
const LINK: WatchFlags = FILE.union(WatchFlags::DONT_FOLLOW);
/// The directory while there is no file of ours: it may get room, or come back itself.
const ENTRIES: WatchFlags = DIRECTORY
    .union(WatchFlags::CREATE)
    .union(WatchFlags::DELETE)
    .union(WatchFlags::MOVED_FROM)
    .union(WatchFlags::MOVED_TO)
    .union(WatchFlags::ATTRIB);

/// Arms a new watch for what can change at the socket's path. It is readable as soon as something has.
///
/// Look at the path again afterwards: what happened before the watch was armed is not reported.
pub(crate) fn watch(socket: &Socket, found: Found) -> Result<OwnedFd, Errno> {
    let inotify = init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK)?;
    let directories = socket.path().ancestors().skip(1);
    if found == Found::Ours {
        add_watch(&inotify, socket.path(), FILE)?;
        for directory in directories.filter(|path| *path != Path::new("/")) {
            // Whoever renames a directory further up, or leads a link elsewhere, takes the path away as well. What
            // this user can't read is left out.
            add_watch(&inotify, directory, DIRECTORY).ok();
            if directory.is_symlink() {
                add_watch(&inotify, directory, LINK).ok();
            }
        }
        return Ok(inotify);
    }
    let mut last = Errno::NOENT;
    for directory in directories {
        match add_watch(&inotify, directory, ENTRIES) {
            Ok(_) => return Ok(inotify),
            Err(error) => last = error,
        }
    }
    Err(last)
}
