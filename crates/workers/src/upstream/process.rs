//! A server that the adapter starts, watches, starts again when it ends, and stops when the adapter ends.

use super::connect::is_taken;
use super::end::End;
use super::supervisor::{Shared, State};
use crate::adapter::kill_group;
use crate::{ADDRESS_IN_COMMAND, Address};
use rustix::process::{Pid, Signal, kill_process_group};
use std::io;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

/// How long the process may take to end after TERM, before it is killed.
const STOP_TIME: Duration = Duration::from_secs(3);

/// The process of a server.
pub(super) struct Process {
    shared: Arc<Shared>,
    /// The thread that watches the process, until [`Self::stop`] has waited for its end.
    supervisor: Mutex<Option<JoinHandle<()>>>,
}

impl Process {
    /// Starts the process with this command, in which the placeholder for the address is replaced. Fails if the program can't
    /// be executed. If another program still uses the address (during a reload, the old worker's), the process starts when that
    /// program has ended.
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

    /// Like [`Self::end_after`], but waits up to `time` for it: a connection is seen to end before its process does.
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
