//! Why a request is rejected.

use std::fmt;

/// Why a request is rejected: which field, what was expected, and what was most likely meant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Invalid {
    text: String,
    /// Which of several parts of the request it is about, from 1.
    pub item: Option<u32>,
}

impl Invalid {
    pub fn new(text: impl Into<String>) -> Self {
        Self {
            text: text.into(),
            item: None,
        }
    }

    /// The same, about the part of this number, from 1.
    #[must_use]
    pub fn of_item(self, number: u32) -> Self {
        Self {
            item: Some(number),
            ..self
        }
    }

    /// The same, said to be in something. A part that has a number needs no other place.
    #[must_use]
    pub(crate) fn within(self, place: impl fmt::Display) -> Self {
        match self.item {
            Some(_) => self,
            None => Self::new(format!("{place}: {}", self.text)),
        }
    }

    /// The text without the number of the part.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }
}

impl fmt::Display for Invalid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.item {
            Some(number) => write!(f, "job {number}: {}", self.text),
            None => f.write_str(&self.text),
        }
    }
}

impl std::error::Error for Invalid {}
