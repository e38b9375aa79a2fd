//! A reader without a thread, for the simulation, which runs it step by step.

use super::{Message, Reader};
use std::collections::VecDeque;
use std::sync::mpsc::SendError;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The writer's channel to the reader.
#[derive(Clone)]
pub(in crate::sqlite) struct ToReader(Arc<Mutex<Stepped>>);

pub(in crate::sqlite) struct Stepped {
    pub(in crate::sqlite) reader: Reader,
    pub(in crate::sqlite) messages: VecDeque<Message>,
}

impl ToReader {
    pub(in crate::sqlite) fn new(reader: Reader) -> Self {
        Self(Arc::new(Mutex::new(Stepped {
            reader,
            messages: VecDeque::new(),
        })))
    }

    pub(in crate::sqlite) fn send(&self, message: Message) -> Result<(), SendError<Message>> {
        let mut stepped = self.stepped();
        // The writer waits until the reader has closed the file.
        let is_awaited = matches!(message, Message::Close(_));
        stepped.messages.push_back(message);
        while is_awaited && stepped.step() {}
        Ok(())
    }

    pub(in crate::sqlite) fn stepped(&self) -> MutexGuard<'_, Stepped> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Stepped {
    /// Handles one message. Returns whether there was one.
    pub(in crate::sqlite) fn step(&mut self) -> bool {
        match self.messages.pop_front() {
            Some(message) => {
                self.reader.handle(message);
                true
            }
            None => false,
        }
    }
}
