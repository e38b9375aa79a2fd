//! The tasks that an adapter runs at the moment.

use super::connection::Connection;
use super::handle::Handle;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

#[derive(Debug, Default)]
pub(super) struct Running {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// The running tasks, by id.
    tasks: HashMap<u32, Arc<Handle>>,
    /// The server has sent GOAWAY.
    is_draining: bool,
}

impl State {
    fn is_over(&self) -> bool {
        self.is_draining && self.tasks.is_empty()
    }
}

impl Running {
    pub(super) fn add(&self, id: u32) -> Arc<Handle> {
        let handle = Arc::new(Handle::default());
        self.lock().tasks.insert(id, handle.clone());
        handle
    }

    /// Removes a task whose answer has been sent. If it was the last one of a draining adapter, the connection is closed, which
    /// ends the loop that reads frames.
    pub(super) fn remove(&self, id: u32, connection: &Connection) {
        let mut state = self.lock();
        state.tasks.remove(&id);
        if state.is_over() {
            connection.close();
        }
    }

    /// From now on the adapter ends after its last task.
    pub(super) fn drain(&self) {
        self.lock().is_draining = true;
    }

    pub(super) fn is_over(&self) -> bool {
        self.lock().is_over()
    }

    pub(super) fn cancel(&self, id: u32) {
        let handle = self.lock().tasks.get(&id).cloned();
        if let Some(handle) = handle {
            handle.cancel();
        }
    }

    /// Adds credit for the answer of a task. It may have ended in the meantime.
    pub(super) fn grant(&self, id: u32, bytes: u32) {
        if let Some(handle) = self.lock().tasks.get(&id) {
            handle.grant(bytes);
        }
    }

    pub(super) fn cancel_all(&self) {
        self.handles().iter().for_each(|handle| handle.cancel());
    }

    pub(super) fn handles(&self) -> Vec<Arc<Handle>> {
        self.lock().tasks.values().cloned().collect()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
