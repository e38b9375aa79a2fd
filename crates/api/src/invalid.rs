//! The error of an invalid request.

use std::fmt;

/// Why a request is rejected: which field, what was expected, and what was most likely meant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Invalid {
    text: String,
    /// The position, from 1, of the item in the request that the error is about.
    pub item: Option<u32>,
}

impl Invalid {
    pub fn new(text: impl Into<String>) -> Self {
        Self {
            text: text.into(),
            item: None,
        }
    }

    /// Returns this error with the position, from 1, of the item that it is about.
    #[must_use]
    pub fn of_item(self, number: u32) -> Self {
        Self {
            item: Some(number),
            ..self
        }
    }

    /// Returns this error with a description of the place that it is about. An error with the position of an item needs
    /// no other place and is returned unchanged.
    #[must_use]
    pub(crate) fn within(self, place: impl fmt::Display) -> Self {
        match self.item {
            Some(_) => self,
            None => Self::new(format!("{place}: {}", self.text)),
        }
    }

    /// The text without the position of the item.
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
