//! A binary heap over dense ids whose entries can be moved and removed. Every deadline can thus be cancelled in
//! O(log n), so obsolete entries do not accumulate.

const ABSENT: u32 = u32::MAX;

#[derive(Clone, Debug)]
pub(crate) struct Heap<P> {
    entries: Vec<(P, u32)>,
    /// Position of each id in `entries`.
    places: Vec<u32>,
}

impl<P> Default for Heap<P> {
    fn default() -> Self {
        Self {
            entries: Vec::new(),
            places: Vec::new(),
        }
    }
}

impl<P: Ord + Copy> Heap<P> {
    /// The lowest priority and its id; among equal priorities the lowest id, so that the order does not depend on
    /// history.
    pub(crate) fn first(&self) -> Option<(P, u32)> {
        self.entries.first().copied()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    /// All ids, in no particular order.
    pub(crate) fn ids(&self) -> impl Iterator<Item = u32> + '_ {
        self.entries.iter().map(|(_, id)| *id)
    }

    /// The priority of an id, if the heap contains it.
    pub(crate) fn get(&self, id: u32) -> Option<P> {
        self.place(id).map(|at| self.entries[at].0)
    }

    /// Inserts an id or changes its priority.
    pub(crate) fn set(&mut self, id: u32, priority: P) {
        if self.change(id, priority) {
            return;
        }
        if self.places.len() <= id as usize {
            self.places.resize(id as usize + 1, ABSENT);
        }
        self.entries.push((priority, id));
        let last = self.entries.len() - 1;
        self.places[id as usize] = last as u32;
        self.sift_up(last);
    }

    /// Changes the priority of an id. Returns whether the heap contains the id.
    pub(crate) fn change(&mut self, id: u32, priority: P) -> bool {
        let Some(at) = self.place(id) else {
            return false;
        };
        self.entries[at].0 = priority;
        self.restore(at);
        true
    }

    pub(crate) fn remove(&mut self, id: u32) {
        let Some(at) = self.place(id) else { return };
        self.entries.swap_remove(at);
        self.places[id as usize] = ABSENT;
        if at < self.entries.len() {
            self.places[self.entries[at].1 as usize] = at as u32;
            self.restore(at);
        }
    }

    fn place(&self, id: u32) -> Option<usize> {
        self.places
            .get(id as usize)
            .filter(|at| **at != ABSENT)
            .map(|at| *at as usize)
    }

    fn restore(&mut self, at: usize) {
        let at = self.sift_up(at);
        self.sift_down(at);
    }

    fn sift_up(&mut self, mut at: usize) -> usize {
        while at > 0 {
            let parent = (at - 1) / 2;
            if self.entries[parent] <= self.entries[at] {
                break;
            }
            self.swap(at, parent);
            at = parent;
        }
        at
    }

    fn sift_down(&mut self, mut at: usize) {
        loop {
            let left = 2 * at + 1;
            let Some(smallest) =
                (left..(left + 2).min(self.entries.len())).min_by_key(|child| self.entries[*child])
            else {
                return;
            };
            if self.entries[at] <= self.entries[smallest] {
                return;
            }
            self.swap(at, smallest);
            at = smallest;
        }
    }

    fn swap(&mut self, a: usize, b: usize) {
        self.entries.swap(a, b);
        self.places[self.entries[a].1 as usize] = a as u32;
        self.places[self.entries[b].1 as usize] = b as u32;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    proptest! {
        /// The heap agrees with a sorted map after any sequence of moves and removals.
        #[test]
        fn agrees_with_a_sorted_map(ops in prop::collection::vec((0u32..24, prop::option::of(0u64..50)), 0..300)) {
            let mut heap = Heap::default();
            let mut model = BTreeMap::new();
            for (id, priority) in ops {
                match priority {
                    Some(priority) => { heap.set(id, priority); model.insert(id, priority); }
                    None => { heap.remove(id); model.remove(&id); }
                }
                let smallest = model.iter().map(|(id, p)| (*p, *id)).min();
                prop_assert_eq!(heap.first(), smallest);
                prop_assert_eq!(heap.get(id), model.get(&id).copied());
                prop_assert_eq!(heap.len(), model.len());
            }
        }
    }
}
