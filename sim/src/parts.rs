//! Answers in parts: a worker sends as many bytes as its caller's credit permits, and then waits for more credit.

use crate::behaviour::Act;
use crate::calls::Calls;
use crate::push::PASSED;
use crate::worker::Worker;
use crate::world::World;
use std::collections::VecDeque;
use std::time::Duration;
use stoker_wire::{Encode, Flags, MetaBuf, Type};

/// An answer that a worker has begun to send.
pub(crate) struct AnswerInParts {
    /// The id of the call.
    pub(crate) id: u32,
    /// The complete answer.
    body: Vec<u8>,
    /// The number of bytes that have been sent.
    sent: usize,
    /// The number of bytes that may be sent now.
    credit: u32,
    /// Nothing else happens until there is more credit, or nobody waits for the answer any more.
    pub(crate) awaits_credit: bool,
}

impl AnswerInParts {
    /// Sends the first byte of an answer.
    pub(crate) fn begin(worker: &mut Worker, id: u32, credit: u32, body: &[u8]) {
        let mut meta = MetaBuf::new();
        meta.push(PASSED, body);
        worker.connection.put(Encode {
            flags: Flags::MORE,
            meta: meta.as_meta(),
            body: &body[..1],
            ..Encode::new(Type::Res, id)
        });
        worker.answer = Some(Self {
            id,
            body: body.to_vec(),
            sent: 1,
            credit: credit - 1,
            awaits_credit: false,
        });
    }

    pub(crate) fn grant(&mut self, bytes: u32) {
        self.credit += bytes;
    }

    /// The bytes that have not been sent.
    pub(crate) fn rest(&self) -> &[u8] {
        &self.body[self.sent..]
    }

    fn lacks_credit(&self) -> bool {
        self.rest().len() > self.credit as usize
    }

    /// Takes the next part, of at most `max` bytes.
    fn next_part(&mut self, max: usize) -> &[u8] {
        let from = self.sent;
        let size = max.min(self.credit as usize).min(self.rest().len());
        self.sent += size;
        self.credit -= size as u32;
        &self.body[from..self.sent]
    }
}

impl Worker {
    /// Sends parts of the answer within its caller's credit, except the last one. Returns whether the credit permits that
    /// one too; otherwise the worker waits.
    fn send_parts(&mut self, calls: &mut Calls) -> bool {
        let Some(answer) = &mut self.answer else {
            return true;
        };
        let id = answer.id;
        answer.awaits_credit = answer.lacks_credit();
        let max = if answer.awaits_credit { usize::MAX } else { 1 };
        let is_complete = !answer.awaits_credit;
        let part = answer.next_part(max);
        if !part.is_empty() {
            if let Some(run) = &self.run {
                calls.part_sent(run.task.no);
            }
            self.connection.put(Encode {
                flags: Flags::MORE,
                body: part,
                ..Encode::new(Type::Data, id)
            });
        }
        is_complete
    }

    pub(crate) fn awaits_credit(&self) -> bool {
        let answer = self.answer.as_ref();
        answer.is_some_and(|answer| answer.awaits_credit)
    }

    /// Whether the worker need not wait for credit any more.
    fn has_enough_credit(&self) -> bool {
        let answer = self.answer.as_ref();
        answer.is_none_or(|answer| answer.awaits_credit && !answer.lacks_credit())
    }
}

impl World {
    /// Like `Worker::send_parts`, for the worker with this key.
    pub(crate) fn send_parts(&mut self, key: u64) -> bool {
        let worker = self.workers.get_mut(&key);
        worker.is_none_or(|worker| worker.send_parts(&mut self.ledger.calls))
    }

    /// A worker that waits for credit has read: it continues if it has enough, and gives up if nobody waits for the answer
    /// or the server has closed the connection.
    pub(crate) fn continue_answer(&mut self, key: u64, is_closed: bool) {
        let Some(worker) = self.workers.get_mut(&key) else {
            return;
        };
        let Some(run) = worker.run.as_mut() else {
            return;
        };
        if worker.model.has("struck") || is_closed {
            run.acts = VecDeque::from([(Duration::ZERO, Act::Does("throws"))]);
        } else if !worker.has_enough_credit() {
            worker.send_parts(&mut self.ledger.calls);
            self.flush(key);
            return;
        }
        if let Some(answer) = &mut worker.answer {
            answer.awaits_credit = false;
        }
        self.plan_run(key);
    }
}
