use std::fmt;
use std::io::{self, Write};
use std::process::ExitCode;

/// Why a command did not do what it was asked, and the exit code that says so to scripts.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The thing itself failed.
    Failed(String),
    /// The command line asks for something that can't be.
    Usage(String),
    /// There is no Stoker at the socket.
    Unreachable(String),
    /// The configuration is wrong.
    Config(String),
    /// All has been said; only the code is left.
    Code(u8),
}

impl Failure {
    /// 1, 2, and of `sysexits.h` 69 (EX_UNAVAILABLE) and 78 (EX_CONFIG).
    fn code(&self) -> u8 {
        match self {
            Self::Failed(_) => 1,
            Self::Usage(_) => 2,
            Self::Unreachable(_) => 69,
            Self::Config(_) => 78,
            Self::Code(code) => *code,
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Failed(text)
            | Self::Usage(text)
            | Self::Unreachable(text)
            | Self::Config(text) => f.write_str(text),
            Self::Code(_) => Ok(()),
        }
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Self::Failed(error.to_string())
    }
}

pub(crate) type Result<T = ()> = std::result::Result<T, Failure>;

/// Says on stderr what went wrong, and turns it into the exit code.
pub(crate) fn code(result: Result) -> ExitCode {
    let Err(failure) = result else {
        return ExitCode::SUCCESS;
    };
    let text = failure.to_string();
    if !text.is_empty() {
        // There is nothing to do about a stderr that can't be written.
        writeln!(io::stderr(), "stoker: {text}").ok();
    }
    ExitCode::from(failure.code())
}

/// Writes a result to stdout. A reader that has gone away, as `head`, is no failure.
pub(crate) fn print(text: &str) -> Result {
    let mut out = io::stdout().lock();
    match out
        .write_all(text.as_bytes())
        .and_then(|()| out.write_all(b"\n"))
        .and_then(|()| out.flush())
    {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        result => Ok(result?),
    }
}
