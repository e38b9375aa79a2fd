//! Builds the command line and environment for one task from the pool's command.

use super::task::Task;
use crate::{MEMORY_LIMIT, SLOTS};
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

/// Environment variables for the adapter, which its programs do not inherit. They do inherit `STOKER_COOKIE`, with which the
/// angel finds the processes that its workers have started.
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
    /// The program gets a process group of its own, so that the processes it starts are killed when it ends.
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
