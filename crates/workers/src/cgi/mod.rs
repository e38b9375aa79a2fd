//! `strategy = "cgi"`: the pool's command is started for each HTTP request, call or job, as a CGI program (RFC 3875).

mod output;
mod task_output;

use crate::adapter::{
    self, Answer, Connection, Ended, Handle, Input, Program, Runner, Settings, Task,
};
use crate::message::{Body, Places, TaskScript, Variables, rejection, request_of, variables};
use output::Output;
use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::UnixStream;
use std::process::ExitStatus;
use std::sync::Arc;
use task_output::TaskOutput;

/// Variables that are not set for every request. A variable of the adapter's own environment must not be mistaken for one
/// of them.
const SOMETIMES_SET: [&str; 9] = [
    "AUTH_TYPE",
    "CONTENT_LENGTH",
    "CONTENT_TYPE",
    "HTTPS",
    "PATH_INFO",
    "PATH_TRANSLATED",
    "REMOTE_ADDR",
    "REMOTE_PORT",
    "REMOTE_USER",
];

/// Answers requests, and runs calls and jobs, until the server ends the adapter. A program is killed if it and its descendants use
/// more than one and a half times the memory limit.
pub fn serve(socket: UnixStream, settings: Settings) -> io::Result<()> {
    assert!(
        !settings.command.is_empty(),
        "a pool with this strategy has a command"
    );
    let script = TaskScript::of(&settings, true)?;
    let hello = settings.hello_of_sites("cgi", script.is_some());
    let words = settings.command.clone();
    let cgi = Arc::new(Cgi { words, script });
    adapter::serve(socket, hello, &settings, settings.memory_limit, cgi)
}

struct Cgi {
    /// The words of the pool's command.
    words: Vec<String>,
    script: Option<TaskScript>,
}

impl Runner for Cgi {
    fn run(&self, task: &Task, handle: &Handle, connection: &Connection) -> Answer {
        let answer = match task.is_request() {
            true => self.answer(task, handle, connection),
            false => TaskScript::answer(self.script.as_ref(), task, |script| {
                self.run_task(script, task, handle, connection)
            }),
        };
        answer.unwrap_or_else(|answer| answer)
    }
}

impl Cgi {
    /// Answers the request of a site.
    fn answer(
        &self,
        task: &Task,
        handle: &Handle,
        connection: &Connection,
    ) -> Result<Answer, Answer> {
        let request = request_of(task)?;
        let body = Body::of(task, &request).map_err(|invalid| rejection(&invalid))?;
        let places = Places::of(task).map_err(|invalid| rejection(&invalid))?;
        let variables = variables(places, &request, body.len());
        let input = match body {
            Body::Bytes(bytes) => Input::Bytes(bytes),
            Body::File { file, .. } => Input::File(file),
        };
        let mut output = Output::new(task, &request, handle, connection);
        let ended = self.program(&variables).run(input, handle, &mut output);
        Ok(output.answer(exit_status(ended, handle)?))
    }

    fn run_task(
        &self,
        script: &TaskScript,
        task: &Task,
        handle: &Handle,
        connection: &Connection,
    ) -> Result<Answer, Answer> {
        let mut output = TaskOutput::new(task, connection);
        let input = Input::Bytes(&task.body);
        let program = self.program(&script.variables(task));
        let ended = program.run(input, handle, &mut output);
        Ok(output.answer(exit_status(ended, handle)?))
    }

    fn program(&self, variables: &Variables) -> Program {
        let mut program = Program::new(self.words.iter().cloned());
        let command = program.command();
        let inherited = std::env::vars_os().map(|(name, _)| name);
        for name in inherited.filter(|name| name.as_bytes().starts_with(b"HTTP_")) {
            command.env_remove(name);
        }
        for name in SOMETIMES_SET {
            command.env_remove(name);
        }
        command.envs(
            variables
                .iter()
                .map(|(name, value)| (name, OsStr::from_bytes(value))),
        );
        program
    }
}

/// The exit status of a program that was not stopped.
fn exit_status(ended: Ended, handle: &Handle) -> Result<ExitStatus, Answer> {
    match ended {
        Ended::NotStarted(error) => Err(Answer::not_started(&error)),
        Ended::OutputFailed(error) => Err(Answer::output_failed(&error)),
        Ended::Exited(..) if handle.is_cancelled() => {
            Err(Answer::cancelled("its program was killed"))
        }
        Ended::Exited(..) if handle.is_too_large() => Err(Answer::too_large()),
        Ended::Exited(status) => Ok(status),
    }
}
