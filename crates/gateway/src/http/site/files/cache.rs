//! The files that were sent recently, by their paths.
//!
//! Entries are in two generations. New entries, and old ones that are used, are in the young generation. When that one is
//! half as large as the cache may be, it becomes the old one, and what was old is removed.

use std::collections::HashMap;
use std::rc::Rc;
use std::time::{Duration, Instant};

/// How long an entry is used before the file's path is checked again.
pub(super) const FRESH_FOR: Duration = Duration::from_secs(1);

/// The memory and descriptors that an entry uses, or that all entries may use.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Weight {
    /// Open files.
    pub(crate) files: usize,
    /// Bytes of content in memory.
    pub(crate) bytes: usize,
}

impl Weight {
    fn plus(self, other: Self) -> Self {
        Self {
            files: self.files + other.files,
            bytes: self.bytes + other.bytes,
        }
    }

    fn is_more_than_half_of(self, limit: Self) -> bool {
        self.files > limit.files / 2 || self.bytes > limit.bytes / 2
    }
}

#[derive(Debug)]
struct Entry<T> {
    value: Rc<T>,
    weight: Weight,
    checked: Instant,
}

#[derive(Debug)]
pub(crate) struct Cache<T> {
    young: HashMap<Box<[u8]>, Entry<T>>,
    old: HashMap<Box<[u8]>, Entry<T>>,
    /// The weight of the young generation.
    weight: Weight,
    limit: Weight,
}

/// A cached result of looking up a path.
pub(crate) enum Known<T> {
    Fresh(Rc<T>),
    /// The value has not been compared with the file for too long.
    Stale(Rc<T>),
    Nothing,
}

impl<T> Cache<T> {
    pub(crate) fn new(limit: Weight) -> Self {
        Self {
            young: HashMap::new(),
            old: HashMap::new(),
            weight: Weight::default(),
            limit,
        }
    }

    pub(crate) fn get(&mut self, path: &[u8], now: Instant) -> Known<T> {
        if let Some(entry) = self.young.get(path) {
            return known_state(entry, now);
        }
        let Some((path, entry)) = self.old.remove_entry(path) else {
            return Known::Nothing;
        };
        let result = known_state(&entry, now);
        self.put(path, entry);
        result
    }

    /// Adds or replaces an entry that has just been compared with its file. One that is too heavy is not kept.
    pub(crate) fn insert(&mut self, path: &[u8], value: Rc<T>, weight: Weight, now: Instant) {
        self.remove(path);
        let checked = now;
        let bytes = weight.bytes + path.len();
        let weight = Weight { bytes, ..weight };
        let entry = Entry {
            value,
            weight,
            checked,
        };
        self.put(path.into(), entry);
    }

    pub(crate) fn remove(&mut self, path: &[u8]) {
        if let Some(entry) = self.young.remove(path) {
            self.weight.files -= entry.weight.files;
            self.weight.bytes -= entry.weight.bytes;
        }
        self.old.remove(path);
    }

    pub(crate) fn clear(&mut self) {
        *self = Self::new(self.limit);
    }

    fn put(&mut self, path: Box<[u8]>, entry: Entry<T>) {
        let weight = entry.weight;
        if weight.is_more_than_half_of(self.limit) {
            return;
        }
        if self.weight.plus(weight).is_more_than_half_of(self.limit) {
            self.old = std::mem::take(&mut self.young);
            self.weight = Weight::default();
        }
        self.weight = self.weight.plus(weight);
        self.young.insert(path, entry);
    }
}

fn known_state<T>(entry: &Entry<T>, now: Instant) -> Known<T> {
    let value = entry.value.clone();
    match now.saturating_duration_since(entry.checked) < FRESH_FOR {
        true => Known::Fresh(value),
        false => Known::Stale(value),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const LIMIT: Weight = Weight {
        files: 8,
        bytes: 100,
    };

    fn weight(files: usize, bytes: usize) -> Weight {
        Weight { files, bytes }
    }

    fn get(cache: &mut Cache<u32>, path: &str, now: Instant) -> Option<u32> {
        match cache.get(path.as_bytes(), now) {
            Known::Fresh(value) => Some(*value),
            Known::Stale(_) | Known::Nothing => None,
        }
    }

    #[test]
    fn entries_are_fresh_for_a_second() {
        let (mut cache, now) = (Cache::new(LIMIT), Instant::now());
        cache.insert(b"a", Rc::new(1), weight(1, 10), now);
        assert_eq!(get(&mut cache, "a", now + FRESH_FOR / 2), Some(1));
        let stale = cache.get(b"a", now + FRESH_FOR);
        assert!(matches!(stale, Known::Stale(value) if *value == 1));
        cache.insert(b"a", Rc::new(2), weight(1, 10), now + FRESH_FOR);
        assert_eq!(get(&mut cache, "a", now + FRESH_FOR), Some(2));
        cache.remove(b"a");
        assert!(matches!(cache.get(b"a", now), Known::Nothing));
    }

    #[test]
    fn entries_that_are_used_stay() {
        let (mut cache, now) = (Cache::new(LIMIT), Instant::now());
        cache.insert(b"used", Rc::new(0), weight(1, 1), now);
        for number in 1..100 {
            let path = format!("{number}");
            cache.insert(path.as_bytes(), Rc::new(number), weight(1, 1), now);
            assert_eq!(get(&mut cache, "used", now), Some(0));
        }
        assert_eq!(get(&mut cache, "50", now), None);
        assert_eq!(get(&mut cache, "99", now), Some(99));
    }

    #[test]
    fn heavy_entries_are_not_kept() {
        let (mut cache, now) = (Cache::new(LIMIT), Instant::now());
        cache.insert(b"files", Rc::new(1), weight(5, 0), now);
        cache.insert(b"bytes", Rc::new(2), weight(1, 60), now);
        assert_eq!(get(&mut cache, "files", now), None);
        assert_eq!(get(&mut cache, "bytes", now), None);
        let mut none = Cache::new(Weight::default());
        none.insert(b"a", Rc::new(1), weight(1, 0), now);
        assert_eq!(get(&mut none, "a", now), None);
    }

    proptest! {
        #[test]
        fn the_cache_never_exceeds_its_limit(
            steps in proptest::collection::vec((0u8..20, 0usize..6, 0usize..60, 0u8..3), 0..200),
        ) {
            let (mut cache, now) = (Cache::new(LIMIT), Instant::now());
            for (path, files, bytes, step) in steps {
                let path = [path];
                match step {
                    0 => cache.insert(&path, Rc::new(0), weight(files, bytes), now),
                    1 => drop(cache.get(&path, now)),
                    _ => cache.remove(&path),
                }
                let sum = |all: &HashMap<_, Entry<_>>| {
                    all.values().fold(Weight::default(), |sum, entry| sum.plus(entry.weight))
                };
                let (young, old) = (sum(&cache.young), sum(&cache.old));
                prop_assert_eq!((young.files, young.bytes), (cache.weight.files, cache.weight.bytes));
                let all = young.plus(old);
                prop_assert!(all.files <= LIMIT.files && all.bytes <= LIMIT.bytes);
            }
        }
    }
}
