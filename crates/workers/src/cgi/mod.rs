//! `strategy = "cgi"`: the pool's command is started for each HTTP request, as a CGI program (RFC 3875).

mod output;

use crate::adapter::{
    self, Answer, Connection, Ended, Handle, Input, Program, Runner, Settings, Task,
};
use crate::message::{Body, Variables, rejected, request_of, variables};
use output::Output;
use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::UnixStream;
use std::sync::Arc;

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

/// Answers requests until the server ends the adapter. A program is killed if it and its descendants use more than one and a
/// half times the memory limit.
pub fn serve(socket: UnixStream, settings: Settings) -> io::Result<()> {
    assert!(
        !settings.command.is_empty(),
        "a pool with this strategy has a command"
    );
    let hello = settings.hello_of_sites("cgi");
    let cgi = Arc::new(Cgi(settings.command.clone()));
    adapter::serve(socket, hello, &settings, settings.memory_limit, cgi)
}

/// The words of the pool's command.
struct Cgi(Vec<String>);

impl Runner for Cgi {
    fn run(&self, task: &Task, handle: &Handle, connection: &Connection) -> Answer {
        match self.answer(task, handle, connection) {
            Ok(answer) | Err(answer) => answer,
        }
    }
}

impl Cgi {
    fn answer(
        &self,
        task: &Task,
        handle: &Handle,
        connection: &Connection,
    ) -> Result<Answer, Answer> {
        let request = request_of(task, "cgi")?;
        let body = Body::of(task, &request).map_err(|invalid| rejected(&invalid))?;
        let variables = variables(task, &request, body.len());
        let variables = variables.map_err(|invalid| rejected(&invalid))?;
        let input = match body {
            Body::Bytes(bytes) => Input::Bytes(bytes),
            Body::File { file, .. } => Input::File(file),
        };
        let mut output = Output::new(task, &request, handle, connection);
        let ended = self.program(variables).run(input, handle, &mut output);
        Ok(match ended {
            Ended::NotStarted(error) => Answer::not_started(&error),
            Ended::OutputFailed(error) => Answer::output_failed(&error),
            Ended::Exited(..) if handle.is_cancelled() => {
                Answer::cancelled("its program was killed")
            }
            Ended::Exited(..) if handle.is_too_large() => Answer::too_large(),
            Ended::Exited(status) => output.answer(status),
        })
    }

    fn program(&self, variables: Variables) -> Program {
        let mut program = Program::new(self.0.iter().cloned());
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
