//! Boots a zygote outside of a server, to see whether and in what state it becomes ready.

use super::{Address, Report, Zygote, inspect_zygote};
use crate::recipe::Recipe;
use crate::{Spec, SpecText, kill_tree, spawn};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::OwnedFd;
use rustix::process::{Pid, PidfdFlags, WaitOptions, pidfd_open, waitpid};
use std::io;
use std::time::{Duration, Instant};

/// The maximum number of bytes that are kept of the end of its output.
const MAX_OUTPUT: usize = 4 << 10;

/// What a zygote showed at its boot.
#[derive(Debug)]
pub struct Checked {
    /// The problems that forking would cause.
    pub findings: Vec<String>,
    /// The end of what it printed.
    pub output: String,
}

/// Boots the zygote of a pool, inspects it and kills it. The error says why it did not become ready within `timeout`.
/// Must be called by the only thread of the process.
pub fn check_zygote(name: &str, spec: &Spec, timeout: Duration) -> io::Result<Checked> {
    // The zygote must not inherit what this process has inherited.
    spawn::close_inherited_on_exec();
    let parent = spawn::Parent::new()?;
    let (recipe, address) = (Recipe::new(spec)?, Address::open()?);
    let cookie = format!("{}-check", parent.pid.as_raw_nonzero());
    let started = spawn::zygote(&recipe, name, "", &cookie, &address.name, &parent)?;
    let zygote = Zygote::new(0, started.pid, cookie, address, SpecText::new(spec)?);
    let pid = Pid::from_raw(started.pid).ok_or(io::ErrorKind::NotFound)?;
    let mut boot = Boot {
        process: pidfd_open(pid, PidfdFlags::empty())?,
        zygote,
        pipes: started.fds,
        output: Vec::new(),
    };
    let until = Instant::now() + timeout;
    let ready = boot.wait_until_ready(until);
    let findings = ready.as_ref().map(|()| inspect_zygote(started.pid));
    kill_tree(started.pid);
    let findings = findings.unwrap_or_default();
    let end = waitpid(Some(pid), WaitOptions::empty())?;
    boot.read_output();
    let output = String::from_utf8_lossy(&boot.output).trim().to_owned();
    let Err(error) = ready else {
        return Ok(Checked { findings, output });
    };
    let how = match error.kind() {
        io::ErrorKind::UnexpectedEof => {
            let code = end.and_then(|(_, status)| status.exit_status());
            code.map_or("it died".to_owned(), |code| {
                format!("it exited with code {code}")
            })
        }
        _ => error.to_string(),
    };
    let words = if output.is_empty() {
        String::new()
    } else {
        format!(": {output}")
    };
    Err(io::Error::other(format!(
        "the zygote did not become ready: {how}{words}"
    )))
}

struct Boot {
    zygote: Zygote,
    /// The zygote's process, watched for its end: it may close its output earlier.
    process: OwnedFd,
    /// Its stdout and stderr.
    pipes: Vec<OwnedFd>,
    output: Vec<u8>,
}

impl Boot {
    fn wait_until_ready(&mut self, until: Instant) -> io::Result<()> {
        loop {
            if let Some(Report::Ready { .. }) = self.zygote.receive()? {
                return Ok(());
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(io::Error::other("it was not ready within boot_timeout"));
            }
            if self.has_ended() {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            self.wait(left)?;
            self.read_output();
        }
    }

    fn wait(&self, left: Duration) -> io::Result<()> {
        let fds = self.zygote.fd().into_iter();
        let fds = fds.map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN));
        let pipes = self
            .pipes
            .iter()
            .map(|pipe| PollFd::new(pipe, PollFlags::IN));
        let end = std::iter::once(PollFd::new(&self.process, PollFlags::IN));
        let mut fds: Vec<PollFd<'_>> = fds.chain(pipes).chain(end).collect();
        let time = Timespec {
            tv_sec: left.as_secs() as i64,
            tv_nsec: i64::from(left.subsec_nanos()),
        };
        match poll(&mut fds, Some(&time)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    fn has_ended(&self) -> bool {
        crate::procfs::is_dead(self.zygote.pid)
    }

    /// Reads what is in the pipes, and drops those whose writers have ended.
    fn read_output(&mut self) {
        let output = &mut self.output;
        self.pipes.retain(|pipe| {
            let mut buffer = [0; 4096];
            loop {
                match stoker_os::read(pipe, &mut buffer) {
                    Ok(count @ 1..) => output.extend_from_slice(&buffer[..count]),
                    Ok(_) => return false,
                    Err(error) => return error == stoker_os::Errno::AGAIN,
                }
            }
        });
        let excess = output.len().saturating_sub(MAX_OUTPUT);
        output.drain(..excess);
    }
}
