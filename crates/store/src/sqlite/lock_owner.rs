//! Finds the process that has locked a store.

use super::path::beside;
use std::path::{Path, PathBuf};
use stoker_os::{File, Mode};

/// The process that uses a store.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LockOwner {
    pub pid: Option<u32>,
    /// The socket of that process.
    pub socket: Option<PathBuf>,
}

/// Attempts to find a lock in `/proc/locks`. While locks come and go, the kernel's list may omit one.
const LOCK_LIST_READS: usize = 5;
/// The maximum size of a lock file, which holds a process id and a path, bytes.
const MAX_LOCK_FILE_LEN: usize = 8_192;

impl LockOwner {
    /// Writes this process's id and socket to its lock file.
    pub(super) fn write(lock: &File, socket: Option<&Path>) -> std::io::Result<()> {
        let mut text = format!("{}\n", stoker_os::own_pid()).into_bytes();
        if let Some(socket) = socket {
            text.extend(socket.as_os_str().as_encoded_bytes());
            text.push(b'\n');
        }
        stoker_os::truncate(lock)?;
        stoker_os::write_all_at(lock, &text, 0)
    }

    /// Reads the owner from a lock file.
    pub(super) fn read(lock: &File) -> Self {
        let mut text = vec![0; MAX_LOCK_FILE_LEN];
        let len = stoker_os::read_at(lock, &mut text, 0).unwrap_or(0);
        text.truncate(len);
        let text = String::from_utf8(text).unwrap_or_default();
        let mut lines = text.lines();
        Self {
            pid: lines.next().and_then(|line| line.trim().parse().ok()),
            socket: lines.next().map(PathBuf::from),
        }
    }

    /// The process that has locked the store's file itself. The lock file may have been deleted, or may be
    /// beside another name of the file.
    pub(super) fn find(store: &Path, file: &File) -> Self {
        let inode = stoker_os::stat_file(file).map_or(0, |found| found.identity.1);
        let pid = (0..LOCK_LIST_READS).find_map(|_| flock_owner(inode));
        let beside = stoker_os::open_file(&beside(store, "-lock"), Mode::Read);
        let beside = beside.map(|lock| Self::read(&lock));
        match (beside, pid) {
            (Ok(owner), pid) if pid.is_none() || owner.pid == pid => owner,
            (_, Some(pid)) => Self {
                pid: Some(pid),
                socket: open_lock_of(pid, inode).and_then(|owner| owner.socket),
            },
            _ => Self::default(),
        }
    }
}

/// The process that holds a lock on the whole file (proc(5), `/proc/locks`). A process in another PID
/// namespace has no id there.
fn flock_owner(inode: u64) -> Option<u32> {
    let locks = std::fs::read_to_string("/proc/locks").ok()?;
    let pid = |line: &str| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let [_, "FLOCK", _, "WRITE", pid, place, ..] = fields[..] else {
            return None;
        };
        let is_this_file = place.rsplit(':').next()?.parse() == Ok(inode);
        pid.parse::<u32>()
            .ok()
            .filter(|pid| is_this_file && *pid > 0)
    };
    locks.lines().find_map(pid)
}

/// Reads the owner from the lock file that a process has open for a store, even if the file has been deleted.
/// The process may have another lock file open, left from an attempt to open the store by another name; that
/// file names no owner and is skipped.
fn open_lock_of(pid: u32, inode: u64) -> Option<LockOwner> {
    let fds = std::fs::read_dir(format!("/proc/{pid}/fd")).ok()?;
    let is_lock = |path: &PathBuf| {
        let target = std::fs::read_link(path).unwrap_or_default();
        let name = target.to_string_lossy().into_owned();
        let store = name.trim_end_matches(" (deleted)").strip_suffix("-lock");
        let store = store.and_then(|store| stoker_os::stat(Path::new(store)).ok());
        store.is_some_and(|store| store.identity.1 == inode)
    };
    let locks = fds.filter_map(|fd| Some(fd.ok()?.path())).filter(is_lock);
    let open = |lock: &Path| stoker_os::open_file(lock, Mode::Read).ok();
    let mut owners = locks.filter_map(|lock| Some(LockOwner::read(&open(&lock)?)));
    owners.find(|owner| owner.pid.is_some())
}
