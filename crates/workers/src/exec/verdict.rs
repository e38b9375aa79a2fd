//! Converts the outcome of a program into an answer.

use super::connection::Connection;
use super::output::{Captured, MAX_RESULT};
use super::task::Task;
use rustix::process::Signal;
use std::io;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use stoker_wire::{Encode, Key, MetaBuf, Status, Type};

/// `EX_TEMPFAIL` of sysexits.h: a temporary failure. The job is retried later.
const EX_TEMPFAIL: i32 = 75;
/// Maximum size of a job's result, in bytes. A longer result is dropped.
const MAX_KEPT_RESULT: usize = 64 << 10;

#[derive(Debug)]
pub(super) struct Verdict {
    status: Status,
    signal: Option<i32>,
    body: Vec<u8>,
}

impl Verdict {
    fn new(status: Status, text: impl Into<Vec<u8>>) -> Self {
        Self {
            status,
            signal: None,
            body: text.into(),
        }
    }

    pub(super) fn cancelled() -> Self {
        Self::new(Status::CANCELLED, "its program was killed")
    }

    /// The program was killed because it exceeded the memory limit.
    pub(super) fn too_large() -> Self {
        Self {
            signal: Some(Signal::KILL.as_raw()),
            ..Self::new(
                Status::CRASHED,
                "it used more memory than memory_limit allows",
            )
        }
    }

    pub(super) fn not_started(error: &io::Error) -> Self {
        Self::new(
            Status::EXCEPTION,
            format!("its program can't be started: {error}"),
        )
    }

    pub(super) fn output_failed(error: &io::Error) -> Self {
        Self::new(
            Status::EXCEPTION,
            format!("the output of its program can't be read: {error}"),
        )
    }

    pub(super) fn of(status: ExitStatus, captured: &Captured, is_job: bool) -> Self {
        let words = String::from_utf8_lossy(&captured.error_text)
            .trim()
            .to_owned();
        let with_words = |what: String| match words.as_str() {
            "" => what,
            words => format!("{what}: {words}"),
        };
        match (status.code(), status.signal()) {
            (Some(0), _) => Self::done(captured, is_job),
            // Only jobs can be retried: for a call, this exit code is an error.
            (Some(EX_TEMPFAIL), _) if is_job => {
                Self::new(Status::RETRY, with_words("exit code 75".to_owned()))
            }
            (Some(code), _) => {
                Self::new(Status::EXCEPTION, with_words(format!("exit code {code}")))
            }
            (None, signal) => Self {
                signal,
                ..Self::new(Status::CRASHED, words)
            },
        }
    }

    fn done(captured: &Captured, is_job: bool) -> Self {
        if !is_job && captured.len > MAX_RESULT {
            let text = format!(
                "its output has {} bytes, but at most {MAX_RESULT} are allowed",
                captured.len
            );
            return Self::new(Status::EXCEPTION, text);
        }
        // A job whose result is too long still counts as done, because failing it would repeat the work.
        let is_kept = !is_job || captured.len <= MAX_KEPT_RESULT;
        Self::new(Status::OK, if is_kept { &captured.result[..] } else { &[] })
    }

    pub(super) fn answer(&self, task: &Task, worked: u32, connection: &Connection) {
        let mut meta = MetaBuf::new();
        if let Some(signal) = self.signal.and_then(|signal| u32::try_from(signal).ok()) {
            meta.push(Key::SIGNAL, &signal.to_be_bytes());
        }
        connection.send(Encode {
            code: self.status.0,
            ttl: worked,
            meta: meta.as_meta(),
            body: &self.body,
            ..Encode::new(Type::Res, task.id)
        });
    }
}
