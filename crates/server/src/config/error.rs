//! Mistakes in a configuration file.

use std::fmt;

/// One mistake in a configuration file: where it is, what it is, and how to correct it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mistake {
    /// The line, counted from 1; 0 if the mistake has no single place.
    pub line: usize,
    /// The dotted key, for example `pool.app.workers`.
    pub key: String,
    pub what: String,
    pub hint: Option<String>,
}

/// All mistakes of one file, in the order of their lines.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigError {
    pub file: String,
    pub mistakes: Vec<Mistake>,
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, mistake) in self.mistakes.iter().enumerate() {
            if at > 0 {
                writeln!(f)?;
            }
            write!(f, "{}", self.file)?;
            if mistake.line > 0 {
                write!(f, ":{}", mistake.line)?;
            }
            if !mistake.key.is_empty() {
                write!(f, ": {}", mistake.key)?;
            }
            write!(f, ": {}", mistake.what)?;
            if let Some(hint) = &mistake.hint {
                write!(f, "\n    {hint}")?;
            }
        }
        Ok(())
    }
}

impl std::error::Error for ConfigError {}
