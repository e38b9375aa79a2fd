//! A setting that a reload may have changed.

/// The values that a setting may have now, which is one unless a reload is under way, and all that it ever had.
#[derive(Clone, Debug)]
pub(crate) struct Setting<T> {
    current: Vec<T>,
    past: Vec<T>,
}

impl<T: Copy + PartialEq> Setting<T> {
    pub(crate) fn new(value: T) -> Self {
        Self {
            current: vec![value],
            past: vec![value],
        }
    }

    /// The setting may change to this value.
    pub(crate) fn may_change_to(&mut self, value: T) {
        for all in [&mut self.current, &mut self.past] {
            if !all.contains(&value) {
                all.push(value);
            }
        }
    }

    /// The setting may change to the values of another one.
    pub(crate) fn may_change_to_values_of(&mut self, other: &Self) {
        other
            .current
            .iter()
            .for_each(|value| self.may_change_to(*value));
    }

    /// The setting has changed to the values of another one.
    pub(crate) fn set_to(&mut self, other: &Self) {
        self.current.clone_from(&other.current);
    }

    /// The value, if only one is possible.
    pub(crate) fn known(&self) -> Option<T> {
        (self.current.len() == 1).then(|| self.current[0])
    }

    /// The values that the setting may have now.
    pub(crate) fn all(&self) -> impl Iterator<Item = T> + '_ {
        self.current.iter().copied()
    }

    /// All values that the setting ever had.
    pub(crate) fn past_values(&self) -> impl Iterator<Item = T> + '_ {
        self.past.iter().copied()
    }

    pub(crate) fn ever_had(&self, value: T) -> bool {
        self.past.contains(&value)
    }
}
