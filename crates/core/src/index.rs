//! A hash table with open addressing that finds ids by names which are stored elsewhere. Unlike a map that owns
//! its keys, it needs no allocation for each name.

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;

const EMPTY: u32 = u32::MAX;

#[derive(Clone, Debug, Default)]
pub(crate) struct Index {
    /// Slots of the table. Their number is a power of two, and at most half of them are taken.
    places: Vec<u32>,
    len: usize,
    /// Seeded separately for each index, so that clients can't choose names that collide.
    hasher: RandomState,
}

impl Index {
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn find<'a>(&self, name: &[u8], name_of: impl Fn(u32) -> &'a [u8]) -> Option<u32> {
        let place = self.place_of(name, name_of)?;
        Some(self.places[place])
    }

    /// Adds an id whose name is not in the index yet.
    pub(crate) fn insert<'a>(&mut self, id: u32, name_of: impl Fn(u32) -> &'a [u8]) {
        if self.places.len() <= 2 * self.len {
            let size = (4 * self.len).next_power_of_two().max(8);
            let ids = std::mem::replace(&mut self.places, vec![EMPTY; size]);
            for id in ids.into_iter().filter(|id| *id != EMPTY) {
                self.put(id, name_of(id));
            }
        }
        self.put(id, name_of(id));
        self.len += 1;
    }

    pub(crate) fn remove<'a>(&mut self, name: &[u8], name_of: impl Fn(u32) -> &'a [u8]) {
        let Some(mut gap) = self.place_of(name, &name_of) else {
            return;
        };
        // Entries behind the gap that had been displaced past it move up, so that no search ends too early.
        let mut at = self.after(gap);
        while self.places[at] != EMPTY {
            let home = self.home(name_of(self.places[at]));
            if self.distance(home, at) >= self.distance(gap, at) {
                self.places[gap] = self.places[at];
                gap = at;
            }
            at = self.after(at);
        }
        self.places[gap] = EMPTY;
        self.len -= 1;
    }

    fn place_of<'a>(&self, name: &[u8], name_of: impl Fn(u32) -> &'a [u8]) -> Option<usize> {
        if self.places.is_empty() {
            return None;
        }
        let mut at = self.home(name);
        while self.places[at] != EMPTY {
            if name_of(self.places[at]) == name {
                return Some(at);
            }
            at = self.after(at);
        }
        None
    }

    fn put(&mut self, id: u32, name: &[u8]) {
        let mut at = self.home(name);
        while self.places[at] != EMPTY {
            at = self.after(at);
        }
        self.places[at] = id;
    }

    fn home(&self, name: &[u8]) -> usize {
        self.hasher.hash_one(name) as usize & (self.places.len() - 1)
    }

    fn after(&self, at: usize) -> usize {
        (at + 1) & (self.places.len() - 1)
    }

    fn distance(&self, from: usize, to: usize) -> usize {
        to.wrapping_sub(from) & (self.places.len() - 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    proptest! {
        /// The index agrees with a map after any sequence of additions and removals.
        #[test]
        fn agrees_with_a_map(ops in prop::collection::vec((0u32..200, any::<bool>()), 0..600)) {
            let names: Vec<Vec<u8>> = (0..200).map(|n: u32| n.to_string().into_bytes()).collect();
            let name_of = |id: u32| names[id as usize].as_slice();
            let (mut index, mut model) = (Index::default(), BTreeMap::new());
            for (id, add) in ops {
                if add && !model.contains_key(&id) {
                    index.insert(id, name_of);
                    model.insert(id, ());
                } else if !add {
                    index.remove(name_of(id), name_of);
                    model.remove(&id);
                }
                prop_assert_eq!(index.len(), model.len());
            }
            for id in 0..200 {
                prop_assert_eq!(index.find(name_of(id), name_of), model.get(&id).map(|()| id));
            }
        }
    }
}
