//! Output to stdout. Names, messages and payloads come from users, so control characters in them are escaped before
//! they reach a terminal.

use crate::exit::Result;
use std::io::{self, ErrorKind, IsTerminal, Write};
use stoker_api::{printable_json, printable_lines};

/// Prints lines of text.
pub(crate) fn print(text: &str) -> Result {
    line(printable_lines(text).as_bytes())
}

/// Prints JSON. Control characters are replaced by JSON escapes, so the value stays the same.
pub(crate) fn print_json(text: &str) -> Result {
    line(printable_json(text).as_bytes())
}

/// Prints a payload: unchanged to a pipe or a file, with escaped control characters to a terminal.
pub(crate) fn print_payload(bytes: &[u8]) -> Result {
    match io::stdout().is_terminal() {
        true => write(printable_lines(&String::from_utf8_lossy(bytes)).as_bytes()),
        false => write(bytes),
    }
}

/// Prints `value`, which is JSON, if `json` is set; otherwise `text`.
pub(crate) fn print_either(json: bool, value: &str, text: &str) -> Result {
    match json {
        true => print_json(value),
        false => print(text),
    }
}

/// A number of jobs as text, such as `1 job` or `2 jobs`.
pub(crate) fn counted_jobs(count: u64) -> String {
    stoker_server::counted(count, "job")
}

fn line(bytes: &[u8]) -> Result {
    write(bytes)?;
    write(b"\n")
}

/// Writes to stdout. It is not an error if the reader has closed the pipe, as `head` does.
fn write(bytes: &[u8]) -> Result {
    let mut out = io::stdout().lock();
    match out.write_all(bytes).and_then(|()| out.flush()) {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        result => Ok(result?),
    }
}
