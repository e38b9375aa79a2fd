//! The log of a Stoker under test.

use crate::limit;
use std::io::Read;
use std::process::ChildStderr;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Instant;

/// The server's log so far, read as it is written.
pub(crate) struct Log {
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    bytes: Vec<u8>,
    ended: bool,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Log {
    pub(crate) fn of(mut source: ChildStderr) -> Self {
        let shared = Arc::<Shared>::default();
        let writer = shared.clone();
        thread::spawn(move || {
            let mut buffer = vec![0; 256 << 10];
            loop {
                let count = source.read(&mut buffer).unwrap_or(0);
                let mut state = writer.lock();
                state.bytes.extend_from_slice(&buffer[..count]);
                state.ended |= count == 0;
                writer.changed.notify_all();
                if count == 0 {
                    return;
                }
            }
        });
        Self { shared }
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.shared.lock().bytes).into_owned()
    }

    /// Returns a function that counts the bytes, and that may outlive the log.
    pub(crate) fn counter(&self) -> impl Fn() -> usize + Send + 'static {
        let shared = self.shared.clone();
        move || shared.lock().bytes.len()
    }

    /// Waits until `found` returns a value for the text from `from` on.
    pub(crate) fn wait<T>(&self, from: usize, found: impl Fn(&str) -> Option<T>) -> Option<T> {
        let end = Instant::now() + limit(10.0);
        let mut state = self.shared.lock();
        loop {
            let text = String::from_utf8_lossy(state.bytes.get(from..).unwrap_or_default());
            if let Some(found) = found(&text) {
                return Some(found);
            }
            let left = end.saturating_duration_since(Instant::now());
            if state.ended || left.is_zero() {
                return None;
            }
            let waited = self.shared.changed.wait_timeout(state, left);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Waits for the end of the log, which comes when every process that could write to it has gone.
    pub(crate) fn wait_for_end(&self) {
        self.wait::<()>(0, |_| None);
    }
}

/// Whether a line contains the parts of a pattern in their order; `*` separates the parts.
pub fn matches(line: &str, pattern: &str) -> bool {
    let mut rest = line;
    pattern.split('*').all(|part| {
        let found = rest.split_once(part);
        rest = found.map_or("", |(_, after)| after);
        found.is_some()
    })
}
