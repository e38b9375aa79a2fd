//! Describes how runs of calls and jobs end, as text and as numbers.

use crate::clock::wall_ms;
use crate::counted;
use crate::sources::TaskAnswer;
use stoker_core::{Exit, Facts, Span};
use stoker_store::JobError;
use stoker_wire::{Key, Status};

/// The maximum number of bytes of an error text that are kept for a job.
const MAX_ERROR_TEXT: usize = 16 << 10;

/// The error text of a task that workers have returned too often.
pub(crate) const ABANDONED: &str =
    "its workers returned it four times without an answer, so it counts as a failed run";

/// How long a task ran. The worker's own measurement is preferred, because answers that are read together seem to
/// the server as if all but the first had taken no time.
pub(crate) fn ran(facts: Facts, answer: Option<&TaskAnswer<'_>>) -> Span {
    let own = answer.map_or(Span::ZERO, TaskAnswer::ran);
    if own > Span::ZERO { own } else { facts.ran }
}

/// Describes how a process ended.
pub(crate) fn exit_text(exit: Exit) -> String {
    match exit {
        Exit::Code(code) => format!("exit code {code}"),
        Exit::Signal(signal) => format!("signal {signal}{}", signal_name(signal)),
        Exit::ConnectionLost => "a closed connection".to_owned(),
        Exit::NotStarted => "a failed start".to_owned(),
    }
}

fn signal_name(signal: i32) -> &'static str {
    match signal {
        1 => " (HUP)",
        2 => " (INT)",
        4 => " (ILL)",
        6 => " (ABRT)",
        7 => " (BUS)",
        8 => " (FPE)",
        9 => " (KILL)",
        11 => " (SEGV)",
        13 => " (PIPE)",
        15 => " (TERM)",
        _ => "",
    }
}

/// The process that crashed: a worker, or only the program that an adapter ran.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CrashedProcess {
    Worker,
    Program,
}

impl CrashedProcess {
    /// Determined by the answer that ended the task, if there was one: an adapter reports the end of its program.
    pub(crate) fn of(answer: Option<&TaskAnswer<'_>>) -> Self {
        match answer.is_some_and(|answer| answer.status == Status::CRASHED) {
            true => Self::Program,
            false => Self::Worker,
        }
    }

    pub(crate) fn crash_text(self) -> &'static str {
        match self {
            Self::Worker => "its worker died",
            Self::Program => "its program crashed",
        }
    }

    /// Describes the crashes of a quarantined task.
    pub(crate) fn quarantine_text(self, crashes: u8) -> String {
        match self {
            Self::Worker => format!("it killed {}", counted(crashes, "worker")),
            Self::Program => format!("its program crashed {}", counted(crashes, "time")),
        }
    }

    pub(crate) fn last_crash_text(self, crashes: u8, exit: Exit) -> String {
        let last = match self {
            Self::Worker => "the last one",
            Self::Program => "the last time",
        };
        format!(
            "{}, {last} with {}",
            self.quarantine_text(crashes),
            exit_text(exit)
        )
    }
}

/// The error that an answer describes.
pub(crate) fn error_in_answer(answer: Option<&TaskAnswer<'_>>) -> JobError {
    let at_ms = wall_ms();
    let Some(answer) = answer else {
        return JobError {
            class: "Unknown".into(),
            message: String::new(),
            place: None,
            at_ms,
        };
    };
    let class = answer.meta.text(Key::ERROR_CLASS).map(str::to_owned);
    let message = String::from_utf8_lossy(&answer.body[..answer.body.len().min(MAX_ERROR_TEXT)]);
    JobError {
        class: class.unwrap_or_else(|| answer.status.name().to_owned()),
        message: message.into_owned(),
        place: answer.meta.text(Key::ERROR_PLACE).map(str::to_owned),
        at_ms,
    }
}

/// Whether another run may succeed: an error of the code may go away, but an invalid request stays invalid.
pub(crate) fn is_error(status: Status) -> bool {
    matches!(
        status,
        Status(64..)
            | Status::INTERNAL
            | Status::UNAVAILABLE
            | Status::RESOURCE_EXHAUSTED
            | Status::DEADLINE_EXCEEDED
            | Status::UNKNOWN
    )
}
