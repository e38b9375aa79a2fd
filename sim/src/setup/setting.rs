//! A setting that a reload may have changed.

/// The values that it may have now: one, unless a reload is under way. And all that it ever had.
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

    /// It is on the way to another value.
    pub(crate) fn changes_to(&mut self, value: T) {
        for all in [&mut self.now, &mut self.ever] {
            if !all.contains(&value) {
                all.push(value);
            }
        }
    }

    /// It is on the way to what another one is.
    pub(crate) fn changes_as(&mut self, other: &Self) {
        other.now.iter().for_each(|value| self.changes_to(*value));
    }

    /// It has become what another one is.
    pub(crate) fn is_as(&mut self, other: &Self) {
        self.now.clone_from(&other.now);
    }

    pub(crate) fn known(&self) -> Option<T> {
        (self.now.len() == 1).then(|| self.now[0])
    }

    pub(crate) fn all(&self) -> impl Iterator<Item = T> + '_ {
        self.now.iter().copied()
    }

    /// All that it ever was.
    pub(crate) fn ever(&self) -> impl Iterator<Item = T> + '_ {
        self.ever.iter().copied()
    }

    pub(crate) fn had(&self, value: T) -> bool {
        self.ever.contains(&value)
    }
}
