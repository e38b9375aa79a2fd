//! Answers in parts: the worker sends RES with MORE, then DATA, as far as its caller's credit reaches.

use super::fault::Fault;
use crate::net::{ConnId, Role};
use crate::plane::Plane;
use crate::sources::{Origin, Parts, Payload, TaskAnswer};
use stoker_core::{Event, Facts, TaskId, WorkerId};
use stoker_wire::{Encode, Flags, Frame, Key, Status, Type};

/// The maximum credit of a call at a time, in bytes. This much of its answer may wait here for its caller.
pub(crate) const MAX_CREDIT: u32 = 1 << 20;

impl Plane {
    /// Handles the first part of a worker's answer.
    pub(crate) fn first_part(&mut self, worker: WorkerId, frame: &Frame<'_>) -> Result<(), Fault> {
        let task = self.payloads.task(frame.id);
        let Some(credit) = self.credit_of(task) else {
            return Err(Fault::State(
                "an answer in parts to a request that grants no credit",
            ));
        };
        if frame.status() != Status::OK {
            return Err(Fault::State("an answer in parts has the status OK"));
        }
        if frame.body.len() > credit as usize {
            return Err(EXCEEDED);
        }
        let part = TaskAnswer::from(frame);
        self.step(Event::AnswerBegun { worker, task }, Some(&part));
        Ok(())
    }

    /// Sends the first part of an answer to its caller, who still waits.
    pub(crate) fn begin_answer(
        &mut self,
        task: TaskId,
        facts: Facts,
        part: Option<&TaskAnswer<'_>>,
    ) {
        let (Some(part), Some(worker)) = (part, facts.worker) else {
            return;
        };
        // The first part is within the credit.
        let credit = self.credit_of(task).unwrap_or_default() - part.body.len() as u32;
        self.payloads.begin_parts(task, Parts { worker, credit });
        if let Some((conn, id)) = self.caller_of(task) {
            self.forward_answer(conn, id, Flags::MORE, facts, part);
        }
    }

    /// Handles a part of an answer that is neither the first nor the last one.
    pub(crate) fn next_part(&mut self, worker: WorkerId, frame: &Frame<'_>) -> Result<(), Fault> {
        self.check_part(worker, frame)?;
        let task = self.payloads.task(frame.id);
        // The parts of an answer that nobody waits for any more are dropped.
        let Some((caller, id)) = self.caller_of(task) else {
            return Ok(());
        };
        self.step(Event::AnswerContinued { worker, task }, None);
        let part = Encode {
            flags: Flags::MORE,
            body: frame.body,
            ..Encode::new(Type::Data, id)
        };
        self.put_part(caller, part);
        Ok(())
    }

    /// Checks a frame that ends an answer: DATA if the answer is in parts, otherwise RES.
    pub(crate) fn check_last_part(
        &mut self,
        worker: WorkerId,
        frame: &Frame<'_>,
    ) -> Result<(), Fault> {
        if frame.kind == Type::Data {
            return self.check_part(worker, frame);
        }
        let payload = self.payloads.get(self.payloads.task(frame.id));
        match payload.is_some_and(Payload::has_begun_answer) {
            true => Err(Fault::State("RES ends an answer in parts; expected DATA")),
            false => Ok(()),
        }
    }

    /// Checks that a part belongs to an answer that the worker has begun, and deducts its bytes from the credit.
    fn check_part(&mut self, worker: WorkerId, frame: &Frame<'_>) -> Result<(), Fault> {
        let task = self.payloads.task(frame.id);
        if !self.core.has_begun_answer(worker, task) {
            return Err(Fault::State("DATA for an answer that has not begun"));
        }
        // Text about a failure needs no credit.
        if frame.status() != Status::OK || self.caller_of(task).is_none() {
            return Ok(());
        }
        if let Some(parts) = self.payloads.parts_mut(task) {
            let left = parts.credit.checked_sub(frame.body.len() as u32);
            parts.credit = left.ok_or(EXCEEDED)?;
        }
        Ok(())
    }

    /// Handles a caller's permission to send further bytes of its answer.
    pub(crate) fn credit(&mut self, id: ConnId, call: u32, bytes: u32) -> Result<(), Fault> {
        let client = self.client(id);
        let Some(task) = client.and_then(|client| client.inflight.get(&call).copied()) else {
            // The answer has ended in the meantime.
            return Ok(());
        };
        let number = self.payloads.number(task);
        let Some(parts) = self.payloads.parts_mut(task) else {
            return Err(Fault::State("CREDIT for an answer that has not begun"));
        };
        let credit = parts.credit.saturating_add(bytes);
        if credit > MAX_CREDIT {
            return Err(Fault::State(
                "a call has more than 1 MiB (1,048,576 bytes) of credit",
            ));
        }
        parts.credit = credit;
        let worker = parts.worker;
        let frame = Encode {
            ttl: bytes,
            ..Encode::new(Type::Credit, number)
        };
        self.put_to(worker, frame);
        Ok(())
    }

    /// Sends the last part of an answer to its caller.
    pub(super) fn send_last_part(&mut self, conn: ConnId, id: u32, part: &TaskAnswer<'_>) {
        let last = Encode {
            code: part.status.0,
            ttl: part.ran_us,
            meta: part.meta,
            body: part.body,
            ..Encode::new(Type::Data, id)
        };
        self.put_part(conn, last);
    }

    /// Ends an answer in parts whose rest will not come.
    pub(crate) fn cut_off(&mut self, conn: ConnId, id: u32, status: Status, text: &str) {
        let last = Encode {
            code: status.0,
            body: text.as_bytes(),
            ..Encode::new(Type::Data, id)
        };
        self.put_part(conn, last);
    }

    fn put_part(&mut self, conn: ConnId, part: Encode<'_>) {
        if let Some(conn) = self.peers.conns.get_mut(conn) {
            conn.put(part);
        }
        self.mark_dirty(conn);
    }

    /// The credit that a call's REQ grants.
    fn credit_of(&self, task: TaskId) -> Option<u32> {
        let credit = self.payloads.get(task)?.meta().uint(Key::CREDIT)?;
        u32::try_from(credit).ok()
    }

    /// The connection of a call's caller, and the call's id there, if its answer is still awaited.
    fn caller_of(&self, task: TaskId) -> Option<(ConnId, u32)> {
        let Origin::Call { conn, id, .. } = self.payloads.get(task)?.origin else {
            return None;
        };
        match &self.peers.conns.get(conn)?.role {
            Role::Client(client) => client.awaits_task(id, task).then_some((conn, id)),
            _ => None,
        }
    }
}

const EXCEEDED: Fault = Fault::State("more bytes of an answer than its caller's credit permits");
