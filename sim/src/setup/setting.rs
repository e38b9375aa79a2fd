//! A setting that a reload may have changed.

/// The values that a setting may have now, which is one unless a reload is under way, and all that it ever had.
#[derive(Clone, Debug)]
pub(crate) struct Setting<T> {
    now: Vec<T>,
    ever: Vec<T>,
}

impl<T: Copy + PartialEq> Setting<T> {
    pub(crate) fn new(value: T) -> Self {
        Self {
            now: vec![value],
            ever: vec![value],
        }
    }

    /// The setting may change to this value.
    pub(crate) fn changes_to(&mut self, value: T) {
        for all in [&mut self.now, &mut self.ever] {
            if !all.contains(&value) {
                all.push(value);
            }
        }
    }

    /// The setting may change to the values of another one.
    pub(crate) fn changes_as(&mut self, other: &Self) {
        other.now.iter().for_each(|value| self.changes_to(*value));
    }

    /// The setting has changed to the values of another one.
    pub(crate) fn is_as(&mut self, other: &Self) {
        self.now.clone_from(&other.now);
    }

    /// The value, if only one is possible.
    pub(crate) fn known(&self) -> Option<T> {
        (self.now.len() == 1).then(|| self.now[0])
    }

    /// The values that the setting may have now.
    pub(crate) fn all(&self) -> impl Iterator<Item = T> + '_ {
        self.now.iter().copied()
    }

    /// All values that the setting ever had.
    pub(crate) fn ever(&self) -> impl Iterator<Item = T> + '_ {
        self.ever.iter().copied()
    }

    pub(crate) fn had(&self, value: T) -> bool {
        self.ever.contains(&value)
    }
}
