//! How a file is opened.

/// How a file is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    Read,
    Write,
    /// For writing. It is created if there is none.
    Create,
    /// For writing. There must be none.
    CreateNew,
}
