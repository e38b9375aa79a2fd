//! A server that the adapter starts, watches, starts again when it ends, and stops when the adapter ends.

use super::connect::connect;
use crate::adapter::{Program, kill_group, wait_for_exit};
use crate::{ADDRESS, ADDRESS_IN_COMMAND, Address};
use rustix::process::{Pid, Signal, kill_process_group};
use std::fmt;
use std::io::{self, Write};
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, ExitStatus, Stdio};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// The delay before the first new start. It doubles with each, up to the longest.
const FIRST_DELAY: Duration = Duration::from_millis(100);
const LONGEST_DELAY: Duration = Duration::from_secs(10);
/// A process that has lived this long is started again after the first delay.
const GOOD_LIFE: Duration = Duration::from_secs(10);
/// How often the adapter checks whether another program still has the server's address.
const WATCH_INTERVAL: Duration = Duration::from_millis(100);
/// How long the process may take to end after TERM, before it is killed.
const STOP_TIME: Duration = Duration::from_secs(3);

/// The process of a server.
pub(super) struct Process {
    shared: Arc<Shared>,
    /// The thread that watches the process, until [`Self::stop`] has waited for its end.
    supervisor: Mutex<Option<JoinHandle<()>>>,
}

struct Shared {
    words: Vec<String>,
    address: Address,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    /// The process group; 0 while there is none.
    group: i32,
    /// How many processes have ended, and how the last one did.
    deaths: u64,
    last: Option<ExitStatus>,
    is_stopping: bool,
    /// Another program accepts connections at the address. The process is started when it no longer does.
    is_waiting: bool,
}

/// How a process has ended.
pub(super) struct End {
    program: String,
    status: ExitStatus,
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
            (None, Some(signal)) => write!(f, "{program} died of signal {signal}"),
            (None, None) => write!(f, "{program} ended"),
        }
    }
}

impl Process {
    /// Starts the process with this command, in which the placeholder for the address is replaced. Fails if the program can't
    /// be executed. If another program has the address, as that of the pool's old worker has during a reload, the process is
    /// started when that program has ended.
    pub(super) fn start(command: &[String], address: &Address) -> io::Result<Self> {
        let text = address.to_string();
        let words = command
            .iter()
            .map(|word| word.replace(ADDRESS_IN_COMMAND, &text));
        let is_waiting = is_taken(address);
        let shared = Arc::new(Shared {
            words: words.collect(),
            address: address.clone(),
            state: Mutex::new(State {
                is_waiting,
                ..State::default()
            }),
            changed: Condvar::new(),
        });
        let child = match is_waiting {
            true => None,
            false => Some(shared.first()?),
        };
        let supervised = shared.clone();
        let supervise = move || supervised.supervise(child);
        let supervisor = std::thread::Builder::new().spawn(supervise)?;
        let supervisor = Mutex::new(Some(supervisor));
        Ok(Self { shared, supervisor })
    }

    /// Whether the process has not been started yet, because another program has its address.
    pub(super) fn is_waiting(&self) -> bool {
        self.shared.lock().is_waiting
    }

    /// How many processes have ended so far.
    pub(super) fn deaths(&self) -> u64 {
        self.shared.lock().deaths
    }

    /// How the last process ended, if more than `deaths` have.
    pub(super) fn end_after(&self, deaths: u64) -> Option<End> {
        self.shared.end(&self.shared.lock(), deaths)
    }

    /// Like [`Self::end_after`], but waits up to `time` for it: the end of a connection is seen before that of the process.
    pub(super) fn wait_for_end(&self, deaths: u64, time: Duration) -> Option<End> {
        let is_missing = |state: &mut State| state.deaths <= deaths;
        let state = self
            .shared
            .changed
            .wait_timeout_while(self.shared.lock(), time, is_missing);
        self.shared
            .end(&state.unwrap_or_else(PoisonError::into_inner).0, deaths)
    }

    /// Ends the process and everything in its process group.
    pub(super) fn stop(&self) {
        let mut state = self.shared.lock();
        state.is_stopping = true;
        self.shared.changed.notify_all();
        if let Some(group) = Pid::from_raw(state.group) {
            kill_process_group(group, Signal::TERM).ok();
        }
        let lives = |state: &mut State| state.group != 0;
        let waited = self
            .shared
            .changed
            .wait_timeout_while(state, STOP_TIME, lives);
        let state = waited.unwrap_or_else(PoisonError::into_inner).0;
        // The number is still that of this group: it is set to 0 before the process is reaped.
        kill_group(state.group);
        drop(state);
        // The thread ends when the process has been reaped. It can't panic.
        let mut supervisor = self
            .supervisor
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        supervisor.take().map(JoinHandle::join);
    }
}

impl Shared {
    /// Starts the process in a group of its own. Its output is that of the adapter.
    fn spawn(&self) -> io::Result<Child> {
        let mut state = self.lock();
        if state.is_stopping {
            return Err(io::Error::other("the adapter ends"));
        }
        let mut program = Program::new(self.words.iter().cloned());
        let command = program.command().stdin(Stdio::null());
        let child = command.env(ADDRESS, self.address.to_string()).spawn()?;
        state.group = i32::try_from(child.id()).unwrap_or_default();
        Ok(child)
    }

    /// The first start, whose failure is that of the adapter.
    fn first(&self) -> io::Result<Child> {
        self.spawn().map_err(|error| {
            let text = format!("{} can't be started: {error}", self.program());
            io::Error::new(error.kind(), text)
        })
    }

    /// Waits for the end of each process and starts the next one, until the adapter ends.
    fn supervise(&self, first: Option<Child>) {
        let mut delay = FIRST_DELAY;
        if first.is_none() && !self.wait_for_address() {
            return;
        }
        let mut child = first.or_else(|| self.start_again(&mut Duration::default()));
        while let Some(mut running) = child {
            let began = Instant::now();
            self.wait(&mut running);
            if began.elapsed() >= GOOD_LIFE {
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

    fn end(&self, state: &State, deaths: u64) -> Option<End> {
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

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether a program accepts connections at this address, or will when it has time.
fn is_taken(address: &Address) -> bool {
    match connect(address) {
        Ok(_) => true,
        Err(error) => error.kind() == io::ErrorKind::WouldBlock,
    }
}

/// Writes a line to the adapter's standard error, which becomes a line of Stoker's log.
fn report(line: &str) {
    writeln!(io::stderr(), "{line}").ok();
}
