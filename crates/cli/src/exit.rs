//! Failures of commands, and their exit codes.

use serde_json::{Value, json};
use std::fmt;
use std::io::{self, Write};
use std::process::ExitCode;
use stoker_wire::Status;

/// Why a command failed, and its exit code.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The server rejected the request, or the requested task failed.
    Rejected {
        status: Status,
        /// The class of the error, if the application threw one.
        class: Option<String>,
        text: String,
        /// The position, from 1, of the item in the request that the error is about.
        item: Option<u64>,
    },
    /// The command failed for another reason, such as an I/O error.
    Failed(String),
    /// The command line is invalid.
    Usage(String),
    /// No server can be reached at the socket.
    Unreachable(String),
    /// The configuration is invalid.
    Config(String),
    /// An exit code without a message, because the output already contains everything.
    Code(u8),
}

impl Failure {
    /// The exit code: 1, 2, or one from `sysexits.h`: 69 (EX_UNAVAILABLE), 75 (EX_TEMPFAIL), 77 (EX_NOPERM) or
    /// 78 (EX_CONFIG).
    fn code(&self) -> u8 {
        match self {
            Self::Rejected { status, .. } => match *status {
                Status::RESOURCE_EXHAUSTED | Status::UNAVAILABLE | Status::UNKNOWN => 75,
                Status::PERMISSION_DENIED | Status::UNAUTHENTICATED => 77,
                _ => 1,
            },
            Self::Failed(_) => 1,
            Self::Usage(_) => 2,
            Self::Unreachable(_) => 69,
            Self::Config(_) => 78,
            Self::Code(code) => *code,
        }
    }

    /// The kind of failure in JSON output: the server's status, or a name that only the command line uses.
    fn status(&self) -> &'static str {
        match self {
            Self::Rejected { status, .. } => status.name(),
            Self::Failed(_) | Self::Code(_) => "FAILED",
            Self::Usage(_) => "USAGE",
            Self::Unreachable(_) => "NO_SERVER",
            Self::Config(_) => "CONFIG",
        }
    }

    /// The message without the status. Empty for [`Failure::Code`].
    fn message(&self) -> &str {
        match self {
            Self::Rejected { text, .. }
            | Self::Failed(text)
            | Self::Usage(text)
            | Self::Unreachable(text)
            | Self::Config(text) => text,
            Self::Code(_) => "",
        }
    }

    fn as_json(&self) -> Value {
        let mut error = json!({"status": self.status(), "message": self.message()});
        if let Self::Rejected {
            class: Some(class), ..
        } = self
        {
            error["class"] = class.as_str().into();
        }
        json!({"error": error})
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Rejected {
                status,
                class,
                text,
                ..
            } => {
                let class = class.iter().map(|class| format!(" {class}"));
                let class = class.collect::<String>();
                write!(f, "{}{class}: {text}", status.name())
            }
            other => f.write_str(other.message()),
        }
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Self::Failed(error.to_string())
    }
}

pub(crate) type Result<T = ()> = std::result::Result<T, Failure>;

/// Prints a failure to stderr, with `--json` as one line of JSON, and returns the exit code.
pub(crate) fn report(result: Result, json: bool) -> ExitCode {
    let Err(failure) = result else {
        return ExitCode::SUCCESS;
    };
    if !failure.message().is_empty() {
        let line = match json {
            true => stoker_api::printable_json(&failure.as_json().to_string()).into_owned(),
            false => stoker_api::printable_lines(&format!("stoker: {failure}")).into_owned(),
        };
        // An error while writing to stderr can't be reported anywhere.
        writeln!(io::stderr(), "{line}").ok();
    }
    ExitCode::from(failure.code())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exit_codes_depend_on_the_status() {
        let code = |status| {
            let (class, text, item) = (None, String::new(), None);
            Failure::Rejected {
                status,
                class,
                text,
                item,
            }
            .code()
        };
        let passing = [
            Status::RESOURCE_EXHAUSTED,
            Status::UNAVAILABLE,
            Status::UNKNOWN,
        ];
        assert_eq!(passing.map(code), [75; 3]);
        assert_eq!(code(Status::PERMISSION_DENIED), 77);
        let lasting = [
            Status::NOT_FOUND,
            Status::INVALID_ARGUMENT,
            Status::EXCEPTION,
        ];
        assert_eq!(lasting.map(code), [1; 3]);
    }

    #[test]
    fn the_error_class_follows_the_status() {
        let failure = Failure::Rejected {
            status: Status::EXCEPTION,
            class: Some("LogicException".to_owned()),
            text: "no".to_owned(),
            item: None,
        };
        assert_eq!(failure.to_string(), "EXCEPTION LogicException: no");
        let json = json!({"status": "EXCEPTION", "message": "no", "class": "LogicException"});
        assert_eq!(failure.as_json(), json!({"error": json}));
    }
}
