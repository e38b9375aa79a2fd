//! The command of a pool, made for one task.

use super::task::Task;
use crate::{MEMORY_LIMIT, SLOTS};
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

/// Variables that are the adapter's own. `STOKER_COOKIE` stays: by it the angel finds what its workers have started.
const ADAPTER_VARIABLES: [&str; 3] = ["STOKER_FD", SLOTS, MEMORY_LIMIT];

#[derive(Debug)]
pub(super) struct Program {
    words: Vec<String>,
}

impl Program {
    pub(super) fn new(words: Vec<String>) -> Self {
        assert!(!words.is_empty(), "a pool with this strategy has a command");
        Self { words }
    }

    #[expect(
        clippy::disallowed_methods,
        reason = "an adapter starts the programs of its tasks"
    )]
    /// In a process group of its own, so that all that it starts ends with it.
    pub(super) fn command(&self, task: &Task) -> Command {
        let mut words = self.words.iter().map(|word| task.fill(word));
        let mut command = Command::new(words.next().unwrap_or_default());
        command.args(words).process_group(0);
        for name in ADAPTER_VARIABLES {
            command.env_remove(name);
        }
        command
            .env("STOKER_NAME", &task.name)
            .env("STOKER_ID", &task.label)
            .env("STOKER_ATTEMPT", task.attempt.to_string())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }
}
