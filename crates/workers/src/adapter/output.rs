//! Writes a program's input and reads its outputs concurrently, so that the program and the adapter can't block each other.

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, WaitId, WaitIdOptions, pidfd_open, waitid};
use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::process::{Child, ChildStderr, ChildStdin, ChildStdout};
use std::time::Duration;

/// How many bytes are kept of the end of a program's standard error, for the error message if the program fails.
const MAX_ERROR_TEXT: usize = 2 << 10;
const READ_SIZE: usize = 64 << 10;

/// Takes what a program writes.
pub(crate) trait Sink {
    /// Takes a piece of the standard output.
    fn on_output(&mut self, bytes: &[u8]);

    /// Takes a piece of the standard error.
    fn on_errors(&mut self, bytes: &[u8]);

    /// The time without output after which [`Self::on_quiet`] is called; `None` for never.
    fn quiet_timeout(&self) -> Option<Duration> {
        None
    }

    fn on_quiet(&mut self) {}
}

/// Keeps what a program writes.
#[derive(Debug)]
pub(crate) struct Captured<L> {
    /// The beginning of the program's standard output, up to the limit.
    pub(crate) result: Vec<u8>,
    /// Length of the whole standard output, in bytes.
    pub(crate) len: usize,
    pub(crate) error_text: ErrorText,
    max: usize,
    log: L,
}

/// The last [`MAX_ERROR_TEXT`] bytes of a program's standard error.
#[derive(Clone, Debug, Default)]
pub(crate) struct ErrorText(Vec<u8>);

struct Pipes<'a> {
    input: Option<ChildStdin>,
    rest: &'a [u8],
    output: Option<ChildStdout>,
    errors: Option<ChildStderr>,
}

/// Writes a program's input and reads its outputs until the program has closed both outputs or has ended.
pub(super) fn read_output(child: &mut Child, body: &[u8], sink: &mut impl Sink) -> io::Result<()> {
    let mut pipes = Pipes {
        input: child.stdin.take(),
        rest: body,
        output: child.stdout.take(),
        errors: child.stderr.take(),
    };
    for fd in [
        pipes.input.as_ref().map(AsFd::as_fd),
        pipes.output.as_ref().map(AsFd::as_fd),
        pipes.errors.as_ref().map(AsFd::as_fd),
    ] {
        fd.map_or(Ok(()), |fd| rustix::io::ioctl_fionbio(fd, true))?;
    }
    let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    let pid = pid.ok_or(ErrorKind::NotFound)?;
    let process = pidfd_open(pid, PidfdFlags::empty())?;
    let mut buffer = vec![0; READ_SIZE];
    loop {
        pipes.feed();
        // This is checked before reading, so that everything the program wrote before its end is read.
        let has_ended = has_ended(pid)?;
        pipes.read(&mut buffer, sink)?;
        let are_closed = pipes.output.is_none() && pipes.errors.is_none();
        // Processes that the program started may still have its outputs open. The adapter does not wait for them.
        if has_ended || are_closed {
            return Ok(());
        }
        if !pipes.wait(&process, sink.quiet_timeout())? {
            sink.on_quiet();
        }
    }
}

impl Pipes<'_> {
    /// Writes as much of the input as the pipe accepts, and closes the pipe at the end. If the program has closed its stdin,
    /// the rest of the input is dropped.
    fn feed(&mut self) {
        let Some(input) = &mut self.input else { return };
        while !self.rest.is_empty() {
            match input.write(self.rest) {
                Ok(count) => self.rest = &self.rest[count..],
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => break,
            }
        }
        self.input = None;
    }

    fn read(&mut self, buffer: &mut [u8], sink: &mut impl Sink) -> io::Result<()> {
        let is_over = drain(self.output.as_mut(), buffer, |bytes| sink.on_output(bytes))?;
        self.output.take_if(|_| is_over);
        let is_over = drain(self.errors.as_mut(), buffer, |bytes| sink.on_errors(bytes))?;
        self.errors.take_if(|_| is_over);
        Ok(())
    }

    /// Waits until a pipe is ready or the process ends. Returns false if the time is over.
    fn wait(&self, process: &OwnedFd, timeout: Option<Duration>) -> io::Result<bool> {
        let input = self.input.as_ref();
        let input = input.map(|fd| PollFd::new(fd, PollFlags::OUT));
        let output = self.output.as_ref();
        let output = output.map(|fd| PollFd::new(fd, PollFlags::IN));
        let errors = self.errors.as_ref();
        let errors = errors.map(|fd| PollFd::new(fd, PollFlags::IN));
        let end = Some(PollFd::new(process, PollFlags::IN));
        let all = [input, output, errors, end];
        let mut all: Vec<PollFd<'_>> = all.into_iter().flatten().collect();
        let timeout = timeout.and_then(|timeout| Timespec::try_from(timeout).ok());
        match poll(&mut all, timeout.as_ref()) {
            Ok(ready) => Ok(ready > 0),
            Err(rustix::io::Errno::INTR) => Ok(true),
            Err(error) => Err(error.into()),
        }
    }
}

/// Whether the process has ended. It is reaped later, once its process group can no longer be signalled.
fn has_ended(pid: Pid) -> io::Result<bool> {
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    Ok(waitid(WaitId::Pid(pid), options)?.is_some())
}

/// Reads everything that is available. Returns true at the end of the file.
fn drain(
    from: Option<&mut impl Read>,
    buffer: &mut [u8],
    mut each: impl FnMut(&[u8]),
) -> io::Result<bool> {
    let Some(from) = from else { return Ok(false) };
    loop {
        match from.read(buffer) {
            Ok(0) => return Ok(true),
            Ok(count) => each(&buffer[..count]),
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(false),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

impl<L: FnMut(&[u8])> Captured<L> {
    /// Keeps the first `max` bytes of the standard output, drops the rest, and logs the standard error.
    pub(crate) fn new(max: usize, log: L) -> Self {
        Self {
            result: Vec::new(),
            len: 0,
            error_text: ErrorText::default(),
            max,
            log,
        }
    }
}

impl<L: FnMut(&[u8])> Sink for Captured<L> {
    fn on_output(&mut self, bytes: &[u8]) {
        self.len += bytes.len();
        let room = self.max - self.result.len();
        self.result
            .extend_from_slice(&bytes[..bytes.len().min(room)]);
    }

    fn on_errors(&mut self, bytes: &[u8]) {
        self.error_text.note(bytes);
        (self.log)(bytes);
    }
}

impl ErrorText {
    pub(crate) fn note(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(bytes);
        let surplus = self.0.len().saturating_sub(MAX_ERROR_TEXT);
        self.0.drain(..surplus);
    }

    /// `what`, followed by the last lines of the program's standard error, if it wrote any.
    pub(crate) fn append_to(&self, what: &str) -> String {
        let text = String::from_utf8_lossy(&self.0);
        match (what, text.trim()) {
            (what, "") => what.to_owned(),
            ("", text) => text.to_owned(),
            (what, text) => format!("{what}: {text}"),
        }
    }
}
