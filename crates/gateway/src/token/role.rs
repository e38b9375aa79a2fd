//! The roles of a token.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// A permission that a token grants.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// Push jobs to the token's queues, and see the jobs that were pushed with it.
    Push,
    /// Call the methods of the token's services.
    Call,
    /// Run tasks of the token's queues and services.
    Work,
    /// See all queues, workers and jobs, with their payloads.
    Read,
    /// Everything.
    Admin,
}

impl Role {
    pub const ALL: [Self; 5] = [Self::Push, Self::Call, Self::Work, Self::Read, Self::Admin];

    /// The names of all roles, separated by commas, for messages.
    #[must_use]
    pub fn names() -> String {
        Self::ALL.map(Self::name).join(", ")
    }

    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Push => "push",
            Self::Call => "call",
            Self::Work => "work",
            Self::Read => "read",
            Self::Admin => "admin",
        }
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Role {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut all = Self::ALL.into_iter();
        let found = all.find(|role| role.name() == text);
        found.ok_or_else(|| format!("unknown role \"{text}\": expected one of {}", Self::names()))
    }
}
