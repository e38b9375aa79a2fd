//! A setting that a reload may have changed.

/// The values that it may have now: one, unless a reload is under way.
#[derive(Clone, Debug)]
pub(crate) struct Setting<T>(Vec<T>);

impl<T: Copy + PartialEq> Setting<T> {
    pub(crate) fn new(value: T) -> Self {
        Self(vec![value])
    }

    /// It is on the way to another value.
    pub(crate) fn changes_to(&mut self, value: T) {
        if !self.0.contains(&value) {
            self.0.push(value);
        }
    }

    pub(crate) fn known(&self) -> Option<T> {
        (self.0.len() == 1).then(|| self.0[0])
    }

    pub(crate) fn all(&self) -> impl Iterator<Item = T> + '_ {
        self.0.iter().copied()
    }
}
