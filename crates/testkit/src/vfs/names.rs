//! Names of files: those that are visible, and those that a power cut leaves.

use super::cut;
use rustix::io::Errno;
use std::collections::{BTreeMap, BTreeSet};
use stoker_core::Rng;

#[derive(Clone, Debug)]
enum Change {
    Link {
        name: String,
        inode: u64,
    },
    Unlink {
        name: String,
    },
    Rename {
        from: String,
        to: String,
        inode: u64,
    },
}

impl Change {
    /// The folder whose sync makes the change durable.
    fn folder(&self) -> &str {
        match self {
            Self::Link { name, .. } | Self::Unlink { name } | Self::Rename { to: name, .. } => {
                folder(name)
            }
        }
    }

    fn apply(&self, names: &mut BTreeMap<String, u64>) {
        match self {
            Self::Link { name, inode } => {
                names.insert(name.clone(), *inode);
            }
            Self::Unlink { name } => {
                names.remove(name);
            }
            Self::Rename { from, to, inode } => {
                names.remove(from);
                names.insert(to.clone(), *inode);
            }
        }
    }
}

#[derive(Debug, Default)]
pub(super) struct Names {
    cache: BTreeMap<String, u64>,
    disk: BTreeMap<String, u64>,
    queue: Vec<Change>,
}

impl Names {
    pub(super) fn find(&self, name: &str) -> Result<u64, Errno> {
        self.cache.get(name).copied().ok_or(Errno::NOENT)
    }

    pub(super) fn link(&mut self, name: &str, inode: u64) {
        self.change(Change::Link {
            name: name.to_owned(),
            inode,
        });
    }

    pub(super) fn unlink(&mut self, name: &str) -> Result<(), Errno> {
        self.find(name)?;
        self.change(Change::Unlink {
            name: name.to_owned(),
        });
        Ok(())
    }

    pub(super) fn rename(&mut self, from: &str, to: &str) -> Result<(), Errno> {
        let inode = self.find(from)?;
        self.change(Change::Rename {
            from: from.to_owned(),
            to: to.to_owned(),
            inode,
        });
        Ok(())
    }

    fn change(&mut self, change: Change) {
        change.apply(&mut self.cache);
        self.queue.push(change);
    }

    pub(super) fn sync(&mut self, folder: &str) {
        let disk = &mut self.disk;
        self.queue.retain(|change| {
            let is_meant = change.folder() == folder;
            if is_meant {
                change.apply(disk);
            }
            !is_meant
        });
    }

    pub(super) fn power_cut(&mut self, rng: &mut Rng) {
        for change in cut::names(&self.queue, rng) {
            change.apply(&mut self.disk);
        }
        self.queue.clear();
        self.cache.clone_from(&self.disk);
    }

    pub(super) fn all(&self) -> &BTreeMap<String, u64> {
        &self.cache
    }

    /// Files that have a visible name.
    pub(super) fn visible(&self) -> BTreeSet<u64> {
        self.cache.values().copied().collect()
    }

    /// Files that have a name, or may have one after a power cut.
    pub(super) fn reachable(&self) -> BTreeSet<u64> {
        let queued = self.queue.iter().filter_map(|change| match change {
            Change::Link { inode, .. } | Change::Rename { inode, .. } => Some(*inode),
            Change::Unlink { .. } => None,
        });
        let named = self.cache.values().chain(self.disk.values()).copied();
        named.chain(queued).collect()
    }
}

/// The folder of a path.
pub(super) fn folder(path: &str) -> &str {
    match path.rfind('/') {
        None | Some(0) => "/",
        Some(at) => &path[..at],
    }
}

/// The absolute form of a path, without `.` and `..`. There are no symlinks, and every folder exists.
pub(super) fn absolute(path: &str) -> String {
    let mut parts = Vec::new();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop();
            }
            part => parts.push(part),
        }
    }
    format!("/{}", parts.join("/"))
}
