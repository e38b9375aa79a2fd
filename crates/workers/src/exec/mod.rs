//! `strategy = "exec"`: a program per task. One adapter with several slots serves a pool and starts the pool's command for
//! each task. The program gets the payload on stdin and writes the result to stdout; its exit status decides the outcome.

mod fill;
mod verdict;

use crate::adapter::{
    self, Answer, Captured, Connection, Ended, Handle, Input, MAX_RESULT, Program, Runner,
    Settings, Task, attributes,
};
use std::io;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use stoker_wire::Hello;

/// Runs tasks until the server ends the adapter. A program is killed if it and its descendants use more than one and a half
/// times the memory limit.
pub fn serve(socket: UnixStream, settings: Settings) -> io::Result<()> {
    assert!(
        !settings.command.is_empty(),
        "a pool with this strategy has a command"
    );
    let hello = Hello {
        // The worker serves all queues of its pool.
        jobs: vec!["*".to_owned()],
        ..settings.hello("exec")
    };
    let exec = Arc::new(Exec(settings.command.clone()));
    adapter::serve(socket, hello, &settings, settings.memory_limit, exec)
}

/// The words of the pool's command.
struct Exec(Vec<String>);

impl Runner for Exec {
    fn run(&self, task: &Task, handle: &Handle, connection: &Connection) -> Answer {
        let words = self.0.iter().map(|word| fill::fill(task, word));
        let mut program = Program::new(words);
        let command = program.command();
        for attribute in attributes(task) {
            command.env(attribute.variable(), &attribute.value);
        }
        let input = Input::Bytes(&task.body);
        let log = |lines: &[u8]| connection.log(task.id, lines);
        let mut captured = Captured::new(MAX_RESULT, log);
        match program.run(input, handle, &mut captured) {
            Ended::NotStarted(error) => Answer::not_started(&error),
            Ended::OutputFailed(error) => Answer::output_failed(&error),
            Ended::Exited(..) if handle.is_cancelled() => {
                Answer::cancelled("its program was killed")
            }
            Ended::Exited(..) if handle.is_too_large() => Answer::too_large(),
            Ended::Exited(status) => verdict::of(status, &captured, task.is_job),
        }
    }
}
