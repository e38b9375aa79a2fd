//! How a file is opened.

/// How a file is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    Read,
    Write,
    /// For writing. The file is created if it does not exist.
    Create,
    /// For writing. The file must not exist.
    CreateNew,
}
