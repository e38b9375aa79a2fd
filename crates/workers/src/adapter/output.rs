//! Writes a program's input and reads its outputs concurrently, so that the program and the adapter can't block each other.

use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{Pid, PidfdFlags, WaitId, WaitIdOptions, pidfd_open, waitid};
use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::process::{Child, ChildStderr, ChildStdin, ChildStdout};

/// How many bytes are kept of the end of a program's standard error, for the error message if the program fails.
const MAX_ERROR_TEXT: usize = 2 << 10;
const READ_SIZE: usize = 64 << 10;

#[derive(Debug, Default)]
pub(crate) struct Captured {
    /// The beginning of the program's standard output, up to the limit.
    pub(crate) result: Vec<u8>,
    /// Length of the whole standard output, in bytes.
    pub(crate) len: usize,
    /// The last [`MAX_ERROR_TEXT`] bytes of the program's standard error.
    error_text: Vec<u8>,
}

struct Pipes<'a> {
    input: Option<ChildStdin>,
    rest: &'a [u8],
    output: Option<ChildStdout>,
    errors: Option<ChildStderr>,
}

/// Writes a program's input and reads its outputs until the program has closed both outputs or has ended. Output beyond the
/// first `max` bytes is read and dropped.
pub(super) fn read_output(
    child: &mut Child,
    body: &[u8],
    max: usize,
    mut log: impl FnMut(&[u8]),
) -> io::Result<Captured> {
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
    let (mut captured, mut buffer) = (Captured::default(), vec![0; READ_SIZE]);
    loop {
        pipes.feed();
        // Checked before reading, so that everything the program wrote before its end is read.
        let has_ended = has_ended(pid)?;
        pipes.read(&mut captured, max, &mut buffer, &mut log)?;
        let are_closed = pipes.output.is_none() && pipes.errors.is_none();
        // Processes that the program started may still have its outputs open. The adapter does not wait for them.
        if has_ended || are_closed {
            return Ok(captured);
        }
        pipes.wait(&process)?;
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

    fn read(
        &mut self,
        captured: &mut Captured,
        max: usize,
        buffer: &mut [u8],
        log: &mut impl FnMut(&[u8]),
    ) -> io::Result<()> {
        let is_over = drain(self.output.as_mut(), buffer, |bytes| {
            captured.keep(bytes, max);
        })?;
        self.output.take_if(|_| is_over);
        let is_over = drain(self.errors.as_mut(), buffer, |bytes| {
            captured.note(bytes);
            log(bytes);
        })?;
        self.errors.take_if(|_| is_over);
        Ok(())
    }

    /// Waits until a pipe is ready or the process ends.
    fn wait(&self, process: &OwnedFd) -> io::Result<()> {
        let input = self.input.as_ref();
        let input = input.map(|fd| PollFd::new(fd, PollFlags::OUT));
        let output = self.output.as_ref();
        let output = output.map(|fd| PollFd::new(fd, PollFlags::IN));
        let errors = self.errors.as_ref();
        let errors = errors.map(|fd| PollFd::new(fd, PollFlags::IN));
        let end = Some(PollFd::new(process, PollFlags::IN));
        let all = [input, output, errors, end];
        let mut all: Vec<PollFd<'_>> = all.into_iter().flatten().collect();
        match poll(&mut all, None) {
            Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
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

impl Captured {
    /// `what`, followed by the last lines of the program's standard error, if it wrote any.
    pub(crate) fn with_error_text(&self, what: &str) -> String {
        let text = String::from_utf8_lossy(&self.error_text);
        match (what, text.trim()) {
            (what, "") => what.to_owned(),
            ("", text) => text.to_owned(),
            (what, text) => format!("{what}: {text}"),
        }
    }

    fn keep(&mut self, bytes: &[u8], max: usize) {
        self.len += bytes.len();
        let room = max - self.result.len();
        self.result
            .extend_from_slice(&bytes[..bytes.len().min(room)]);
    }

    fn note(&mut self, bytes: &[u8]) {
        self.error_text.extend_from_slice(bytes);
        let surplus = self.error_text.len().saturating_sub(MAX_ERROR_TEXT);
        self.error_text.drain(..surplus);
    }
}
