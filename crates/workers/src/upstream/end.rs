//! How the process of a server has ended.

use std::fmt;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;

/// How a process has ended.
pub(super) struct End {
    pub(super) program: String,
    pub(super) status: ExitStatus,
}

impl End {
    pub(super) fn signal(&self) -> Option<i32> {
        self.status.signal()
    }
}

impl fmt::Display for End {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let program = &self.program;
        match (self.status.code(), self.status.signal()) {
            (Some(code), _) => write!(f, "{program} exited with code {code}"),
            (None, Some(signal)) => write!(f, "{program} was killed by signal {signal}"),
            (None, None) => write!(f, "{program} ended"),
        }
    }
}
