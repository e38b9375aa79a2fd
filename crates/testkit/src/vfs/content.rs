//! The bytes of one file: in the page cache, on the disk, and in between.

/// A change that was not synced.
#[derive(Clone, Debug)]
pub(super) enum Change {
    Write { at: u64, bytes: Vec<u8> },
    Length(u64),
}

#[derive(Debug, Default)]
pub(super) struct Content {
    /// The content that every reader sees.
    cache: Vec<u8>,
    /// The content that a power cut leaves at least.
    disk: Vec<u8>,
    /// The changes that lead from `disk` to `cache`, in order, except those that a failed sync lost.
    queue: Vec<Change>,
}

impl Content {
    pub(super) fn len(&self) -> u64 {
        self.cache.len() as u64
    }

    /// Returns how many bytes were there.
    pub(super) fn read(&self, at: u64, buffer: &mut [u8]) -> usize {
        let from = self.cache.len().min(at as usize);
        let count = buffer.len().min(self.cache.len() - from);
        buffer[..count].copy_from_slice(&self.cache[from..from + count]);
        count
    }

    pub(super) fn write(&mut self, at: u64, bytes: &[u8]) {
        if bytes.is_empty() {
            return;
        }
        overwrite(&mut self.cache, at, bytes);
        self.queue.push(Change::Write {
            at,
            bytes: bytes.to_vec(),
        });
    }

    pub(super) fn set_len(&mut self, len: u64) {
        self.cache.resize(len as usize, 0);
        self.queue.push(Change::Length(len));
    }

    pub(super) fn sync(&mut self) {
        for change in std::mem::take(&mut self.queue) {
            apply(&mut self.disk, &change);
        }
    }

    /// A sync that fails as on Linux: `kept` writes reach the disk, and the others count as written. A length is
    /// metadata: it is in the file system's journal, which does not fail with the data.
    pub(super) fn lose_dirty(&mut self, kept: usize) {
        let mut writes = 0;
        for change in std::mem::take(&mut self.queue) {
            if let Change::Write { .. } = change {
                writes += 1;
                if writes > kept {
                    continue;
                }
            }
            apply(&mut self.disk, &change);
        }
    }

    /// The page cache drops clean pages and reads them again when they are needed. An open file keeps its length.
    pub(super) fn evict(&mut self) {
        let len = self.cache.len();
        self.cache.clone_from(&self.disk);
        for change in &self.queue {
            apply(&mut self.cache, change);
        }
        self.cache.resize(len, 0);
    }

    pub(super) fn unsynced(&self) -> &[Change] {
        &self.queue
    }

    /// The kernel writes the first changes on its own.
    pub(super) fn write_back(&mut self, count: usize) {
        for change in self.queue.drain(..count) {
            apply(&mut self.disk, &change);
        }
    }

    /// The power was cut, and of the unsynced changes only these reached the disk.
    pub(super) fn survive(&mut self, changes: &[Change]) {
        for change in changes {
            apply(&mut self.disk, change);
        }
        self.queue.clear();
        self.cache.clone_from(&self.disk);
    }

    /// The content that is read, and the content that is durable.
    pub(super) fn cache_and_disk(&self) -> [&[u8]; 2] {
        [&self.cache, &self.disk]
    }
}

fn apply(bytes: &mut Vec<u8>, change: &Change) {
    match change {
        Change::Write { at, bytes: new } => overwrite(bytes, *at, new),
        Change::Length(len) => bytes.resize(*len as usize, 0),
    }
}

fn overwrite(bytes: &mut Vec<u8>, at: u64, new: &[u8]) {
    let (from, to) = (at as usize, at as usize + new.len());
    if from == bytes.len() {
        bytes.extend_from_slice(new);
        return;
    }
    if bytes.len() < to {
        bytes.resize(to, 0);
    }
    bytes[from..to].copy_from_slice(new);
}
