//! What goes into a program and what comes out of it, all at once, so that neither side waits for the other for ever.

use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{Pid, PidfdFlags, WaitId, WaitIdOptions, pidfd_open, waitid};
use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::process::{Child, ChildStderr, ChildStdin, ChildStdout};

/// What a result may be at the most; what is beyond is read and dropped.
pub(super) const MAX_RESULT: usize = 8 << 20;
/// The end of its standard error, which says why it failed.
const MAX_ERROR_TEXT: usize = 2 << 10;
const READ_SIZE: usize = 64 << 10;

#[derive(Debug, Default)]
pub(super) struct Captured {
    /// Its standard output, up to [`MAX_RESULT`].
    pub(super) result: Vec<u8>,
    /// All of its standard output.
    pub(super) len: usize,
    /// The end of its standard error.
    pub(super) error_text: Vec<u8>,
}

struct Pipes<'a> {
    input: Option<ChildStdin>,
    rest: &'a [u8],
    output: Option<ChildStdout>,
    errors: Option<ChildStderr>,
}

/// Writes a program's input and reads its output until it has closed both outputs, or ended.
pub(super) fn read_output(
    child: &mut Child,
    body: &[u8],
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
        // Looked at first: what it wrote before its end is read then.
        let has_ended = has_ended(pid)?;
        pipes.read(&mut captured, &mut buffer, &mut log)?;
        let are_closed = pipes.output.is_none() && pipes.errors.is_none();
        // What it started may still hold its outputs: nobody waits for those.
        if has_ended || are_closed {
            return Ok(captured);
        }
        pipes.wait(&process)?;
    }
}

impl Pipes<'_> {
    /// Writes what it takes. One that reads nothing has no need of it.
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
        buffer: &mut [u8],
        log: &mut impl FnMut(&[u8]),
    ) -> io::Result<()> {
        let is_over = drain(self.output.as_mut(), buffer, |bytes| captured.keep(bytes))?;
        self.output.take_if(|_| is_over);
        let is_over = drain(self.errors.as_mut(), buffer, |bytes| {
            captured.note(bytes);
            log(bytes);
        })?;
        self.errors.take_if(|_| is_over);
        Ok(())
    }

    /// Waits until there is something to do, or the process ends.
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

/// Whether the process is a zombie: it is waited for later, when nobody can mean its number any more.
fn has_ended(pid: Pid) -> io::Result<bool> {
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    Ok(waitid(WaitId::Pid(pid), options)?.is_some())
}

/// Reads what is there. True at its end.
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
    fn keep(&mut self, bytes: &[u8]) {
        self.len += bytes.len();
        let room = MAX_RESULT - self.result.len();
        self.result
            .extend_from_slice(&bytes[..bytes.len().min(room)]);
    }

    fn note(&mut self, bytes: &[u8]) {
        self.error_text.extend_from_slice(bytes);
        let surplus = self.error_text.len().saturating_sub(MAX_ERROR_TEXT);
        self.error_text.drain(..surplus);
    }
}
