//! Names that do not exist in the document root.

use super::cache::FRESH_FOR;
use std::collections::HashSet;
use std::time::Instant;

/// The maximum number of names, and the maximum length of one in bytes.
const MAX_NAMES: usize = 1_000;
const MAX_LEN: usize = 100;

/// The first parts of paths that lead to nothing. Most requests for the pages of an application have one of a few first
/// parts, such as `users` in `/users/7`, so most of them need no lookup on the disk.
#[derive(Debug)]
pub(crate) struct Missing {
    names: HashSet<Box<[u8]>>,
    /// When the first of the names was added.
    since: Instant,
}

impl Missing {
    pub(crate) fn new(now: Instant) -> Self {
        Self {
            names: HashSet::new(),
            since: now,
        }
    }

    /// Whether the first part of a path has been missing a moment ago.
    pub(crate) fn contains(&mut self, path: &[u8], now: Instant) -> bool {
        if now.saturating_duration_since(self.since) >= FRESH_FOR {
            self.names.clear();
        }
        self.names.contains(first_part(path))
    }

    /// Whether the first part of a path could be remembered.
    pub(crate) fn has_room_for(&self, path: &[u8]) -> bool {
        self.names.len() < MAX_NAMES && first_part(path).len() <= MAX_LEN
    }

    /// Remembers that the first part of a path is missing now, if there is room for it.
    pub(crate) fn insert(&mut self, path: &[u8], now: Instant) {
        if !self.has_room_for(path) {
            return;
        }
        let name = first_part(path);
        if self.names.is_empty() {
            self.since = now;
        }
        self.names.insert(name.into());
    }
}

/// The part of a relative path before the first slash.
pub(crate) fn first_part(path: &[u8]) -> &[u8] {
    path.split(|byte| *byte == b'/').next().unwrap_or(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_remembered_for_a_second() {
        let now = Instant::now();
        let mut missing = Missing::new(now);
        assert!(!missing.contains(b"users/1", now));
        missing.insert(b"users/1", now + FRESH_FOR * 5);
        let now = now + FRESH_FOR * 5;
        assert!(missing.contains(b"users/2/edit", now) && missing.contains(b"users", now));
        assert!(!missing.contains(b"user", now) && !missing.contains(b"", now));
        missing.insert(b"other", now + FRESH_FOR / 2);
        assert!(missing.contains(b"users", now + FRESH_FOR / 2));
        assert!(!missing.contains(b"users", now + FRESH_FOR));
        assert!(!missing.contains(b"other", now + FRESH_FOR));
    }

    #[test]
    fn the_number_and_the_length_of_names_are_limited() {
        let now = Instant::now();
        let mut missing = Missing::new(now);
        for number in 0..2 * MAX_NAMES {
            missing.insert(number.to_string().as_bytes(), now);
        }
        missing.insert(&[b'x'; MAX_LEN + 1], now);
        assert_eq!(missing.names.len(), MAX_NAMES);
        assert!(missing.contains(b"7", now) && !missing.contains(b"1999", now));
    }
}
