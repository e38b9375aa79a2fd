//! Sends an answer in parts while it arrives (protocol page, section 12), if the caller accepts that.

use super::{Answer, Connection, Handle, Task};
use std::time::{Duration, Instant};

/// The maximum size of a part, in bytes.
const MAX_PART: usize = 64 << 10;
/// The maximum size of the first part, in bytes. Every head fits into it. A caller that grants less gets whole answers.
const MAX_FIRST: usize = 72 << 10;
/// How long the beginning of an answer waits for its end. A whole answer costs less, and its request may be repeated if the
/// program dies meanwhile.
const HOLD_FIRST: Duration = Duration::from_millis(10);
/// How long later bytes wait for more, so that a program that writes little at a time does not cause many frames.
const HOLD: Duration = Duration::from_millis(2);

/// The way of an answer to the server.
#[derive(Debug)]
pub(crate) struct Parts<'a> {
    id: u32,
    handle: &'a Handle,
    connection: &'a Connection,
    is_accepted: bool,
    /// Since when bytes wait for more.
    held_since: Option<Instant>,
}

/// The caller is no longer waiting for the answer.
#[derive(Debug)]
pub(crate) struct CallerGone;

impl<'a> Parts<'a> {
    pub(crate) fn new(task: &Task, handle: &'a Handle, connection: &'a Connection) -> Self {
        let credit = task.credit.unwrap_or(0);
        handle.grant(credit);
        Self {
            id: task.id,
            handle,
            connection,
            is_accepted: credit as usize >= MAX_FIRST,
            held_since: None,
        }
    }

    /// How long the bytes that were offered last wait for more; `None` if there are none, or no parts may be sent.
    pub(crate) fn hold_time_left(&self) -> Option<Duration> {
        let since = self.held_since?;
        Some(self.hold().saturating_sub(since.elapsed()))
    }

    /// Offers what has arrived of a message, from its beginning or from where the last part ended. If these are many bytes, or
    /// they have waited long enough, they are sent and removed; this waits for the caller's credit.
    pub(crate) fn offer(&mut self, held: &mut Vec<u8>) -> Result<(), CallerGone> {
        if !self.is_accepted || held.is_empty() {
            return Ok(());
        }
        let since = *self.held_since.get_or_insert_with(Instant::now);
        if held.len() < MAX_PART && since.elapsed() < self.hold() {
            return Ok(());
        }
        self.held_since = None;
        let mut sent = 0;
        while sent < held.len() {
            sent += self.send(&held[sent..])?;
        }
        held.clear();
        Ok(())
    }

    /// Makes the answer of the rest of a message, which is complete, and the fields after its body. If parts were sent, this
    /// waits for the caller's credit. Only an answer in parts can have trailers.
    pub(crate) fn finish(&mut self, mut rest: Vec<u8>, trailers: Vec<u8>) -> Answer {
        let mut sent = 0;
        if !self.handle.has_begun_answer() {
            if trailers.is_empty() || !self.is_accepted || rest.is_empty() {
                return Answer::http(rest);
            }
            match self.send(&rest) {
                Ok(size) => sent = size,
                Err(CallerGone) => return Answer::cancelled("its answer was dropped"),
            }
        }
        loop {
            let left = rest.len() - sent;
            let Some(size) = self.handle.take_credit(left.min(MAX_PART)) else {
                return Answer::cancelled("the rest of its answer was dropped");
            };
            if size == left {
                rest.drain(..sent);
                return Answer {
                    trailers,
                    ..Answer::http(rest)
                };
            }
            self.connection
                .send_part(self.id, false, &rest[sent..sent + size]);
            sent += size;
        }
    }

    fn hold(&self) -> Duration {
        match self.handle.has_begun_answer() {
            true => HOLD,
            false => HOLD_FIRST,
        }
    }

    /// Sends the next part, and returns its size.
    fn send(&self, bytes: &[u8]) -> Result<usize, CallerGone> {
        let is_first = !self.handle.has_begun_answer();
        let max = if is_first { MAX_FIRST } else { MAX_PART };
        let size = self.handle.take_credit(bytes.len().min(max));
        let size = size.ok_or(CallerGone)?;
        self.connection.send_part(self.id, is_first, &bytes[..size]);
        self.handle.begin_answer();
        Ok(size)
    }
}
