//! Starts a program from a pool's command, and runs it to its end.

use super::attributes::VARIABLES;
use super::handle::{Handle, Target, kill_group};
use super::output::{Sink, read_output};
use crate::{ADDRESS, MEMORY_LIMIT, SITES, SLOTS, TASK_PATH, TASK_SCRIPT};
use rustix::process::{Pid, WaitId, WaitIdOptions, waitid};
use std::fs::File;
use std::io;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus, Stdio};

/// Environment variables for the adapter, which its programs do not inherit. They do inherit `STOKER_COOKIE`, with which the
/// angel finds the processes that its workers have started.
const ADAPTER_VARIABLES: [&str; 7] = [
    "STOKER_FD",
    SLOTS,
    MEMORY_LIMIT,
    ADDRESS,
    SITES,
    TASK_PATH,
    TASK_SCRIPT,
];

/// What a program reads from its standard input.
#[derive(Debug)]
pub(crate) enum Input<'a> {
    Bytes(&'a [u8]),
    File(File),
}

/// A program for one task.
#[derive(Debug)]
pub(crate) struct Program(Command);

/// How a program ended.
#[derive(Debug)]
pub(crate) enum Ended {
    NotStarted(io::Error),
    OutputFailed(io::Error),
    Exited(ExitStatus),
}

impl Program {
    /// The program with these words as its command. It gets a process group of its own, so that the processes it starts are
    /// killed when it ends.
    #[expect(
        clippy::disallowed_methods,
        reason = "an adapter starts the programs of its tasks"
    )]
    pub(crate) fn new(words: impl IntoIterator<Item = String>) -> Self {
        let mut words = words.into_iter();
        let mut command = Command::new(words.next().unwrap_or_default());
        command.args(words).process_group(0);
        for name in ADAPTER_VARIABLES.iter().chain(&VARIABLES) {
            command.env_remove(name);
        }
        Self(command)
    }

    pub(crate) fn command(&mut self) -> &mut Command {
        &mut self.0
    }

    /// Runs the program until it has ended, passes on what it writes, and kills the processes that it has left behind in its
    /// group.
    pub(crate) fn run(mut self, input: Input<'_>, handle: &Handle, sink: &mut impl Sink) -> Ended {
        let (stdin, bytes) = match input {
            Input::Bytes(bytes) => (Stdio::piped(), bytes),
            Input::File(file) => (Stdio::from(file), &[][..]),
        };
        self.0
            .stdin(stdin)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut child = match self.0.spawn() {
            Ok(child) => child,
            Err(error) => return Ended::NotStarted(error),
        };
        let group = i32::try_from(child.id()).unwrap_or_default();
        handle.set(Target::Group(group));
        let read = read_output(&mut child, bytes, sink);
        let ended = wait_and_kill_group(&mut child, handle, group);
        match (read, ended) {
            (Ok(()), Ok(status)) => Ended::Exited(status),
            (Err(error), _) | (_, Err(error)) => Ended::OutputFailed(error),
        }
    }
}

/// Waits for the program to exit and kills the rest of its process group. The program is reaped last: until then its process
/// number, which is also the group's number, can't be reused.
fn wait_and_kill_group(child: &mut Child, handle: &Handle, group: i32) -> io::Result<ExitStatus> {
    let ended = wait_for_exit(group);
    handle.set(Target::Nothing);
    kill_group(group);
    let status = child.wait();
    ended.and(status)
}

/// Waits until a child has ended, without reaping it.
pub(crate) fn wait_for_exit(pid: i32) -> io::Result<()> {
    let Some(pid) = Pid::from_raw(pid) else {
        return Ok(());
    };
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
    rustix::io::retry_on_intr(|| waitid(WaitId::Pid(pid), options))?;
    Ok(())
}
