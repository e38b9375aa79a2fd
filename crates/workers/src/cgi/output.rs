//! Handles a CGI program's output.

use crate::adapter::{Answer, Connection, ErrorText, Handle, Parts, Sink, Task};
use crate::message::{CgiAnswer, Invalid, Limit, Request};
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::time::Duration;

/// Passes on what a program writes while it runs.
pub(super) struct Output<'a> {
    task: &'a Task,
    connection: &'a Connection,
    parts: Parts<'a>,
    answer: CgiAnswer,
    /// Why the output is not a valid answer. What follows is dropped.
    invalid: Option<Invalid>,
    error_text: ErrorText,
}

impl<'a> Output<'a> {
    pub(super) fn new(
        task: &'a Task,
        request: &Request<'_>,
        handle: &'a Handle,
        connection: &'a Connection,
    ) -> Self {
        Self {
            task,
            connection,
            parts: Parts::new(task, handle, connection),
            answer: CgiAnswer::new(request.is_head(), Limit::Held(connection.max_answer())),
            invalid: None,
            error_text: ErrorText::default(),
        }
    }

    /// The answer of a program that has ended. An exit code other than 0 does not matter if the answer is complete: php-cgi
    /// ends with 255 after an error that it has answered with status 500.
    pub(super) fn answer(mut self, status: ExitStatus) -> Answer {
        let Some(code) = status.code() else {
            return Answer::crashed(status.signal(), self.error_text.append_to(""));
        };
        let message = match self.invalid {
            Some(invalid) => Err(invalid),
            None => self.answer.finish(),
        };
        match message {
            Ok(message) => self.parts.finish(message, Vec::new()),
            Err(invalid) => {
                let what =
                    format!("its program (exit code {code}) wrote no valid answer: {invalid}");
                Answer::exception(self.error_text.append_to(&what))
            }
        }
    }

    fn offer(&mut self) {
        if let Some(held) = self.answer.unsent_mut()
            && self.parts.offer(held).is_err()
        {
            // The task is cancelled, so its program has been killed.
            held.clear();
        }
    }
}

impl Sink for Output<'_> {
    fn on_output(&mut self, bytes: &[u8]) {
        if self.invalid.is_none() {
            self.invalid = self.answer.feed(bytes).err();
            self.offer();
        }
    }

    fn on_errors(&mut self, bytes: &[u8]) {
        self.error_text.note(bytes);
        self.connection.log(self.task.id, bytes);
    }

    fn quiet_timeout(&self) -> Option<Duration> {
        self.parts.hold_time_left()
    }

    fn on_quiet(&mut self) {
        self.offer();
    }
}
