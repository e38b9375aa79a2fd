//! The thread that waits for the end of a server's process, and starts the next one.

use super::connect::is_taken;
use super::end::End;
use crate::adapter::{Program, kill_group, wait_for_exit};
use crate::{ADDRESS, Address};
use std::io::{self, Write};
use std::process::{Child, ExitStatus, Stdio};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// The delay before the first new start. It doubles with each, up to the longest.
const FIRST_DELAY: Duration = Duration::from_millis(100);
const LONGEST_DELAY: Duration = Duration::from_secs(10);
/// A process that has lived this long is started again after the first delay.
const STABLE_AFTER: Duration = Duration::from_secs(10);
/// How often the adapter checks whether another program still has the server's address.
const WATCH_INTERVAL: Duration = Duration::from_millis(100);

/// What the thread shares with the owner of the process.
pub(super) struct Shared {
    pub(super) words: Vec<String>,
    pub(super) address: Address,
    pub(super) state: Mutex<State>,
    pub(super) changed: Condvar,
}

#[derive(Default)]
pub(super) struct State {
    /// The process group; 0 while there is none.
    pub(super) group: i32,
    /// How many processes have ended, and how the last one did.
    pub(super) deaths: u64,
    pub(super) last: Option<ExitStatus>,
    pub(super) is_stopping: bool,
    /// Another program accepts connections at the address. The process is started when it no longer does.
    pub(super) is_waiting: bool,
}

impl Shared {
    /// Starts the process in a group of its own. Its output goes where the adapter's goes.
    fn spawn(&self) -> io::Result<Child> {
        let mut state = self.lock();
        if state.is_stopping {
            return Err(io::Error::other("the adapter is ending"));
        }
        let mut program = Program::new(self.words.iter().cloned());
        let command = program.command().stdin(Stdio::null());
        let child = command.env(ADDRESS, self.address.to_string()).spawn()?;
        state.group = i32::try_from(child.id()).unwrap_or_default();
        Ok(child)
    }

    /// The first start. If it fails, the adapter fails.
    pub(super) fn first(&self) -> io::Result<Child> {
        self.spawn().map_err(|error| {
            let text = format!("{} can't be started: {error}", self.program());
            io::Error::new(error.kind(), text)
        })
    }

    /// Waits for the end of each process and starts the next one, until the adapter ends.
    pub(super) fn supervise(&self, first: Option<Child>) {
        let mut delay = FIRST_DELAY;
        if first.is_none() && !self.wait_for_address() {
            return;
        }
        let mut child = first.or_else(|| self.start_again(&mut Duration::default()));
        while let Some(mut running) = child {
            let began = Instant::now();
            self.wait(&mut running);
            if began.elapsed() >= STABLE_AFTER {
                delay = FIRST_DELAY;
            }
            child = self.start_again(&mut delay);
        }
    }

    /// Waits until no other program accepts connections at the address. Returns false if the adapter ends before that.
    fn wait_for_address(&self) -> bool {
        let address = &self.address;
        self.report(&format!(
            "is started when the program that accepts connections at {address} has ended"
        ));
        while is_taken(address) {
            if !self.pause(WATCH_INTERVAL) {
                return false;
            }
        }
        self.lock().is_waiting = false;
        true
    }

    /// Starts the process after a delay, which grows with each attempt. Returns `None` if the adapter ends before that.
    fn start_again(&self, delay: &mut Duration) -> Option<Child> {
        loop {
            if !self.pause(*delay) {
                return None;
            }
            *delay = (2 * *delay).clamp(FIRST_DELAY, LONGEST_DELAY);
            match self.spawn() {
                Ok(child) => return Some(child),
                Err(error) => self.report(&format!("can't be started: {error}")),
            }
        }
    }

    /// Waits for the end of the process, and kills what it leaves behind in its group.
    fn wait(&self, child: &mut Child) {
        let pid = i32::try_from(child.id()).unwrap_or_default();
        wait_for_exit(pid).ok();
        let mut state = self.lock();
        kill_group(state.group);
        state.group = 0;
        state.last = child.wait().ok();
        state.deaths += 1;
        if !state.is_stopping
            && let Some(end) = self.end(&state, 0)
        {
            report(&format!("{end}; it is started again"));
        }
        self.changed.notify_all();
    }

    /// Waits before the next start. Returns false if there is to be none.
    fn pause(&self, delay: Duration) -> bool {
        let goes_on = |state: &mut State| !state.is_stopping;
        let waited = self.changed.wait_timeout_while(self.lock(), delay, goes_on);
        !waited.unwrap_or_else(PoisonError::into_inner).0.is_stopping
    }

    pub(super) fn end(&self, state: &State, deaths: u64) -> Option<End> {
        let status = state.last.filter(|_| state.deaths > deaths)?;
        let program = self.program().to_owned();
        Some(End { program, status })
    }

    fn program(&self) -> &str {
        self.words.first().map_or("", String::as_str)
    }

    fn report(&self, what: &str) {
        report(&format!("{} {what}", self.program()));
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Writes a line to the adapter's standard error, which becomes a line of Stoker's log.
fn report(line: &str) {
    writeln!(io::stderr(), "{line}").ok();
}
