//! Connections in a table of numbered slots that are reused.

/// The id of a connection. The generation distinguishes it from an earlier connection in the same slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct ConnId {
    pub(crate) slot: u32,
    pub(crate) generation: u32,
}

impl ConnId {
    /// An id that no connection ever has: what is sent to it is dropped.
    pub(crate) const NONE: Self = Self {
        slot: u32::MAX,
        generation: u32::MAX,
    };
}

/// Values in numbered slots that are reused. An id from an earlier use of a slot finds nothing.
#[derive(Debug)]
pub(crate) struct Slots<T> {
    slots: Vec<(u32, Option<T>)>,
    free: Vec<u32>,
}

impl<T> Default for Slots<T> {
    fn default() -> Self {
        Self {
            slots: Vec::new(),
            free: Vec::new(),
        }
    }
}

impl<T> Slots<T> {
    pub(crate) fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    pub(crate) fn insert(&mut self, value: T) -> ConnId {
        let slot = self.free.pop().unwrap_or_else(|| {
            self.slots.push((0, None));
            self.slots.len() as u32 - 1
        });
        let (generation, place) = &mut self.slots[slot as usize];
        *generation = generation.wrapping_add(1) & 0x00ff_ffff;
        let id = ConnId {
            slot,
            generation: *generation,
        };
        *place = Some(value);
        id
    }

    pub(crate) fn remove(&mut self, id: ConnId) -> Option<T> {
        self.get(id)?;
        self.free.push(id.slot);
        self.slots[id.slot as usize].1.take()
    }

    pub(crate) fn get(&self, id: ConnId) -> Option<&T> {
        let (generation, value) = self.slots.get(id.slot as usize)?;
        value.as_ref().filter(|_| *generation == id.generation)
    }

    pub(crate) fn get_mut(&mut self, id: ConnId) -> Option<&mut T> {
        let (generation, value) = self.slots.get_mut(id.slot as usize)?;
        value.as_mut().filter(|_| *generation == id.generation)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (ConnId, &T)> {
        let slots = self.slots.iter().enumerate();
        slots.filter_map(|(slot, (generation, value))| {
            let id = ConnId {
                slot: slot as u32,
                generation: *generation,
            };
            Some((id, value.as_ref()?))
        })
    }

    pub(crate) fn ids(&self) -> Vec<ConnId> {
        self.iter().map(|(id, _)| id).collect()
    }
}
