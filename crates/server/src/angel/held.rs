//! Requests for workers that can wait until a task has been answered.
//!
//! A worker that takes one task is replaced as soon as the task is assigned. To fork the next one takes about as long as a short
//! task, and the two would compete for the processors. So if another worker is idle, the request waits for the next answer.

use crate::plane::{Alarm, Plane};
use stoker_angel::ToAngel;
use stoker_core::Span;

/// The longest time that a request waits.
const MAX_HOLD: Span = Span::from_millis(3);

impl Plane {
    /// Sends a message after the next answer of a worker, and in any case before other messages.
    pub(crate) fn send_to_angel_later(&mut self, message: ToAngel) {
        self.angel.held.push(message);
        if self.angel.held_alarm.is_none() {
            let alarm = self.alarms.set(self.now + MAX_HOLD, Alarm::Held);
            self.angel.held_alarm = Some(alarm);
        }
    }

    /// Sends what was held, at the end of the turn.
    pub(crate) fn release_held(&mut self) {
        if let Some(alarm) = self.angel.held_alarm.take() {
            self.alarms.cancel(alarm);
        }
        for message in std::mem::take(&mut self.angel.held) {
            self.queue_for_angel(&message);
        }
    }
}
