//! A process of a server, and the lines that it writes to its standard error.

use crate::error::{Error, Result};
use crate::interrupt::{Interrupt, PAUSE};
use rustix::process::{
    Pid, Signal, WaitOptions, getpid, getppid, kill_process, set_child_subreaper,
    set_parent_process_death_signal, wait,
};
use std::collections::VecDeque;
use std::ffi::OsStr;
use std::io::{self, BufRead, BufReader, Read};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};
use stoker_os::{Fd, descendants, wait_for_exit, watch_process};

/// How long a server may take to end after TERM.
const GRACE: Duration = Duration::from_secs(10);
/// How often and how long is waited for processes that were killed.
const ATTEMPTS: usize = 100;
const ATTEMPT: Duration = Duration::from_millis(50);
const MAX_LINE: u64 = 64 << 10;
/// The number of lines that are kept.
const KEPT: usize = 200;
const WAITING: usize = 1000;

/// A process that this one has started, in a process group of its own, so that a terminal's Ctrl-C does not reach it.
#[derive(Debug)]
pub(super) struct Child {
    process: std::process::Child,
    pidfd: Option<Fd>,
    kept: Arc<Mutex<VecDeque<String>>>,
    /// Lines that have not been read yet; `None` once nobody waits for any.
    lines: Option<Receiver<String>>,
}

impl Child {
    #[expect(
        clippy::disallowed_methods,
        reason = "the lab is a tool that starts servers to measure them, as a user would"
    )]
    pub(super) fn start(
        program: impl AsRef<OsStr>,
        words: &[String],
        env: &[(&str, String)],
        folder: &Path,
    ) -> Result<Self> {
        // So descendants whose parents end become children of this process, and are found.
        set_child_subreaper(Some(getpid())).map_err(io::Error::from)?;
        let program = program.as_ref();
        let mut command = Command::new(program);
        command.args(words).current_dir(folder).process_group(0);
        command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped());
        let own =
            std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("STOKER_"));
        own.for_each(|(name, _)| {
            command.env_remove(name);
        });
        // Temporary files are removed with the folder.
        command.env("TMPDIR", folder);
        command.envs(env.iter().map(|(name, value)| (name, value)));
        end_with_this_thread(&mut command);
        let process = command.spawn();
        let mut process = process.map_err(|error| {
            Error::Failed(format!("cannot start {}: {error}", program.display()))
        })?;
        let (sender, lines) = sync_channel(WAITING);
        let kept = Arc::<Mutex<VecDeque<String>>>::default();
        if let Some(errors) = process.stderr.take() {
            let kept = kept.clone();
            thread::spawn(move || read_lines(errors, &kept, &sender));
        }
        Ok(Self {
            pidfd: watch_process(process.id() as i32),
            process,
            kept,
            lines: Some(lines),
        })
    }

    pub(super) fn pid(&self) -> i32 {
        self.process.id() as i32
    }

    /// The next line that it writes; `None` if it has ended, or closed its standard error.
    pub(super) fn next_line(
        &self,
        until: Instant,
        interrupt: &Interrupt,
    ) -> Result<Option<String>> {
        let Some(lines) = &self.lines else {
            return Ok(None);
        };
        loop {
            interrupt.check()?;
            match lines.recv_timeout(PAUSE) {
                Ok(line) => return Ok(Some(line)),
                Err(RecvTimeoutError::Disconnected) => return Ok(None),
                Err(RecvTimeoutError::Timeout) if Instant::now() > until => {
                    return Err(Error::Failed("it was not ready within 60 s".to_owned()));
                }
                Err(RecvTimeoutError::Timeout) => {}
            }
        }
    }

    /// From now on nobody waits for lines. They are still read, and the last ones kept.
    pub(super) fn stop_waiting(&mut self) {
        self.lines = None;
    }

    pub(super) fn last_lines(&self, count: usize) -> Vec<String> {
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let skipped = kept.len().saturating_sub(count);
        kept.iter().skip(skipped).cloned().collect()
    }

    /// Waits at most `time` for its end. Returns whether it has ended.
    pub(super) fn ends_within(&self, time: Duration) -> bool {
        self.pidfd
            .as_ref()
            .is_none_or(|process| wait_for_exit(process, time))
    }

    /// Asks it to end, and kills it if it does not.
    pub(super) fn stop(&mut self) {
        self.stop_waiting();
        signal(self.pid(), Signal::TERM);
        if !self.ends_within(GRACE) {
            let below = descendants(self.pid());
            self.process.kill().ok();
            below.into_iter().for_each(|pid| signal(pid, Signal::KILL));
        }
        // An error means that it has been waited for already.
        self.process.wait().ok();
    }
}

/// Has a program get TERM when the thread that starts it ends, also by a signal that this process can't handle. All servers are started
/// by the thread that measures them and stops them.
#[expect(
    unsafe_code,
    reason = "what runs between fork and exec can't be expressed otherwise"
)]
fn end_with_this_thread(command: &mut Command) {
    let lab = getpid();
    let prepare = move || {
        set_parent_process_death_signal(Some(Signal::TERM))?;
        match getppid() == Some(lab) {
            true => Ok(()),
            false => Err(io::ErrorKind::BrokenPipe.into()),
        }
    };
    // SAFETY: the closure only makes system calls and allocates nothing.
    unsafe { command.pre_exec(prepare) };
}

/// Kills what is left of the servers: descendants of this process.
pub(crate) fn end_all() {
    for _ in 0..ATTEMPTS {
        while let Ok(Some(_)) = wait(WaitOptions::NOHANG) {}
        let left = descendants(std::process::id() as i32);
        if left.is_empty() {
            return;
        }
        let watched = left.first().and_then(|pid| watch_process(*pid));
        left.into_iter().for_each(|pid| signal(pid, Signal::KILL));
        if let Some(process) = watched {
            wait_for_exit(&process, ATTEMPT);
        }
    }
}

fn signal(pid: i32, signal: Signal) {
    if let Some(pid) = Pid::from_raw(pid) {
        // An error means that it has ended.
        kill_process(pid, signal).ok();
    }
}

fn read_lines(from: impl Read, kept: &Mutex<VecDeque<String>>, sender: &SyncSender<String>) {
    let mut from = BufReader::new(from);
    let mut is_waited_for = true;
    loop {
        let mut line = Vec::new();
        match (&mut from).take(MAX_LINE).read_until(b'\n', &mut line) {
            Ok(0) | Err(_) => return,
            Ok(_) => {}
        }
        let line = String::from_utf8_lossy(&line).trim_end().to_owned();
        let shown = readable(&line);
        {
            let mut kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
            if kept.len() == KEPT {
                kept.pop_front();
            }
            kept.push_back(shown);
        }
        is_waited_for = is_waited_for && sender.send(line).is_ok();
    }
}

/// A line of Stoker's log as people read it: without what is only for programs.
fn readable(line: &str) -> String {
    let Ok(value) = serde_json::from_str::<serde_json::Value>(line) else {
        return line.to_owned();
    };
    let field = |name: &str| value[name].as_str();
    match (field("worker"), field("message")) {
        (Some(worker), Some(message)) => format!("{worker}: {message}"),
        (None, Some(message)) => message.to_owned(),
        _ => line.to_owned(),
    }
}
