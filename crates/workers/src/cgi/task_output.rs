//! Handles the output of a CGI program that runs a call or job.

use crate::adapter::{Answer, Connection, ErrorText, Sink, Task};
use crate::message::{CgiAnswer, Invalid, KEPT, Posted, outcome};
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;

/// Keeps what a program writes, until it has ended.
pub(super) struct TaskOutput<'a> {
    task: &'a Task,
    connection: &'a Connection,
    answer: CgiAnswer,
    /// Why the output is not a valid answer. What follows is dropped.
    invalid: Option<Invalid>,
    error_text: ErrorText,
}

impl<'a> TaskOutput<'a> {
    pub(super) fn new(task: &'a Task, connection: &'a Connection) -> Self {
        Self {
            task,
            connection,
            answer: CgiAnswer::new(false, KEPT),
            invalid: None,
            error_text: ErrorText::default(),
        }
    }

    /// The answer of a program that has ended.
    pub(super) fn answer(self, status: ExitStatus) -> Answer {
        let Some(exit_code) = status.code() else {
            return Answer::crashed(status.signal(), self.error_text.append_to(""));
        };
        let dropped = self.answer.dropped();
        let message = match self.invalid {
            Some(invalid) => Err(invalid),
            None => self.answer.finish(),
        };
        match message {
            Ok(message) => {
                let posted = Posted {
                    message,
                    dropped,
                    exit_code,
                    error_text: self.error_text,
                };
                outcome(self.task.is_job, &posted)
            }
            Err(invalid) => {
                let what =
                    format!("its program (exit code {exit_code}) wrote no valid answer: {invalid}");
                Answer::exception(self.error_text.append_to(&what))
            }
        }
    }
}

impl Sink for TaskOutput<'_> {
    fn on_output(&mut self, bytes: &[u8]) {
        if self.invalid.is_none() {
            self.invalid = self.answer.feed(bytes).err();
        }
    }

    fn on_errors(&mut self, bytes: &[u8]) {
        self.error_text.note(bytes);
        self.connection.log(self.task.id, bytes);
    }
}
