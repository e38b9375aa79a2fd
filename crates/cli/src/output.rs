//! What goes to the terminal. Names, messages and payloads come from users: nothing of them reaches a terminal that
//! it would obey.

use crate::exit::Result;
use std::io::{self, ErrorKind, IsTerminal, Write};
use stoker_api::{printable_json, printable_lines};

/// Prints lines for people.
pub(crate) fn print(text: &str) -> Result {
    line(printable_lines(text).as_bytes())
}

/// Prints JSON. What a terminal would obey is escaped as JSON has it, so the value stays the same.
pub(crate) fn print_json(text: &str) -> Result {
    line(printable_json(text).as_bytes())
}

/// Prints a payload: to a pipe or a file as it is, to a terminal without what that would obey.
pub(crate) fn print_payload(bytes: &[u8]) -> Result {
    match io::stdout().is_terminal() {
        true => write(printable_lines(&String::from_utf8_lossy(bytes)).as_bytes()),
        false => write(bytes),
    }
}

/// Prints lines for people, or JSON for programs.
pub(crate) fn print_either(json: bool, value: &str, text: &str) -> Result {
    match json {
        true => print_json(value),
        false => print(text),
    }
}

/// `1 job`, `2 jobs`.
pub(crate) fn counted_jobs(count: u64) -> String {
    stoker_server::counted(count, "job")
}

fn line(bytes: &[u8]) -> Result {
    write(bytes)?;
    write(b"\n")
}

/// Writes to stdout. A reader that has gone away, as `head`, is no failure.
fn write(bytes: &[u8]) -> Result {
    let mut out = io::stdout().lock();
    match out.write_all(bytes).and_then(|()| out.flush()) {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        result => Ok(result?),
    }
}
