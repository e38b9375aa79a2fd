//! Answers to callers.

use crate::net::{Client, ConnId, LARGE_BODY, Role};
use crate::plane::Plane;
use crate::sources::Origin;
use crate::sources::end::{ABANDONED, CrashedProcess, exit_text, ran};
use crate::sources::{RETRY_MS, TaskAnswer};
use stoker_core::{Facts, Outcome, Span, TaskId};
use stoker_wire::{Codec, Encode, Flags, Frame, Key, Meta, MetaBuf, Status, Type};

impl Plane {
    pub(crate) fn client(&mut self, id: ConnId) -> Option<&mut Client> {
        match &mut self.peers.conns.get_mut(id)?.role {
            Role::Client(client) => Some(client),
            _ => None,
        }
    }

    /// Answers a caller whose call has ended, if it still waits.
    pub(crate) fn reply(
        &mut self,
        task: TaskId,
        outcome: Outcome,
        facts: Facts,
        answer: Option<&TaskAnswer<'_>>,
    ) {
        self.count_call(task, outcome, facts, answer);
        let Origin::Call { conn, id, oneway } = self.payloads[task].origin else {
            return;
        };
        if oneway {
            return;
        }
        let has_begun = self.payloads[task].has_begun_answer();
        let client = self.client(conn);
        if client.is_none_or(|client| !client.record_answered(id)) {
            return;
        }
        match answer.filter(|_| outcome == Outcome::Answered) {
            Some(answer) if has_begun => self.send_last_part(conn, id, answer),
            Some(answer) => self.forward_answer(conn, id, Flags::NONE, facts, answer),
            None => self.send_outcome(conn, id, outcome, facts, answer, has_begun),
        }
    }

    fn count_call(
        &mut self,
        task: TaskId,
        outcome: Outcome,
        facts: Facts,
        answer: Option<&TaskAnswer<'_>>,
    ) {
        let now = self.now;
        let name = self.payloads[task].name;
        if let Some(answer) = answer {
            self.memory.answer_sizes.record(name, answer.body.len());
        }
        let queue = self.core.queue_of_name(name);
        let stats = self.queue_stats_mut(queue);
        let succeeded = outcome == Outcome::Answered
            && answer.is_some_and(|answer| answer.status == Status::OK);
        match succeeded {
            true => stats.done += 1,
            false => stats.failed += 1,
        }
        stats.waited.record(now, facts.waited);
        let ran = ran(facts, answer);
        if ran > Span::ZERO {
            stats.ran.record(now, ran);
        }
        if !succeeded {
            return self.log_failed_call(task, outcome, facts, answer);
        }
        let body = self.payloads[task].body();
        self.admin
            .quarantine
            .record_success(self.core.name(name), body);
    }

    /// Forwards a worker's answer, or with MORE the first part of one, with metadata that the server adds.
    pub(super) fn forward_answer(
        &mut self,
        conn: ConnId,
        id: u32,
        flags: Flags,
        facts: Facts,
        answer: &TaskAnswer<'_>,
    ) {
        let mut meta = std::mem::take(&mut self.scratch.meta);
        meta.clear();
        let waited = u32::try_from(facts.waited.0).unwrap_or(u32::MAX);
        meta.push(Key::QUEUE_TIME, &waited.to_be_bytes());
        if let Some(handle) = facts.worker.and_then(|worker| self.worker_handle(worker)) {
            meta.push(Key::WORKER, handle.name.as_bytes());
        }
        add_forwarded(&mut meta, answer.meta);
        if let Some(conn) = self.peers.conns.get_mut(conn) {
            conn.put(Encode {
                flags,
                code: answer.status.0,
                prio: answer.codec.0,
                ttl: answer.ran_us,
                meta: meta.as_meta(),
                body: answer.body,
                ..Encode::new(Type::Res, id)
            });
        }
        self.scratch.meta = meta;
        self.mark_dirty(conn);
    }

    fn send_outcome(
        &mut self,
        conn: ConnId,
        id: u32,
        outcome: Outcome,
        facts: Facts,
        answer: Option<&TaskAnswer<'_>>,
        has_begun: bool,
    ) {
        let (status, mut text, retry_after) = explain(outcome, CrashedProcess::of(answer));
        if status == Status::WORKER_DIED || status == Status::QUARANTINED {
            let words = facts
                .worker
                .and_then(|worker| self.worker_handle(worker)?.death_reason());
            text.extend(words.into_iter().flat_map(|words| ["\n".to_owned(), words]));
        }
        if has_begun {
            return self.cut_off(conn, id, status, &text);
        }
        let not_processed = !facts.has_run && facts.worker.is_none();
        self.send_status(conn, id, status, &text, retry_after, not_processed);
    }

    /// Rejects a request before it becomes a task.
    pub(crate) fn reject(
        &mut self,
        conn: ConnId,
        frame: &Frame<'_>,
        status: Status,
        text: &str,
        retry_ms: Option<u32>,
    ) {
        if !frame.flags.has(Flags::ONEWAY) {
            self.send_status(conn, frame.id, status, text, retry_ms, true);
        }
    }

    /// Sends a RES with a human-readable message.
    pub(crate) fn status(
        &mut self,
        conn: ConnId,
        id: u32,
        status: Status,
        text: &str,
        retry_ms: Option<u32>,
    ) {
        self.send_status(conn, id, status, text, retry_ms, false);
    }

    pub(crate) fn send_status(
        &mut self,
        conn: ConnId,
        id: u32,
        status: Status,
        text: &str,
        retry_ms: Option<u32>,
        not_processed: bool,
    ) {
        let mut meta = MetaBuf::new();
        if let Some(ms) = retry_ms {
            meta.push(Key::RETRY_AFTER, &ms.to_be_bytes());
        }
        self.send_rejection(conn, id, status, text, &meta, not_processed);
    }

    /// Sends a RES with a human-readable message and metadata for programs.
    pub(crate) fn send_rejection(
        &mut self,
        conn: ConnId,
        id: u32,
        status: Status,
        text: &str,
        meta: &MetaBuf,
        not_processed: bool,
    ) {
        let flags = if not_processed {
            Flags::NOT_PROCESSED
        } else {
            Flags::NONE
        };
        self.record_own_answer(conn, id);
        if let Some(conn) = self.peers.conns.get_mut(conn) {
            conn.put(Encode {
                flags,
                code: status.0,
                prio: Codec::RAW.0,
                meta: meta.as_meta(),
                body: text.as_bytes(),
                ..Encode::new(Type::Res, id)
            });
        }
        self.mark_dirty(conn);
    }

    /// Answers one of the server's own methods.
    pub(crate) fn answer_json<T: serde::Serialize>(&mut self, conn: ConnId, id: u32, value: &T) {
        let mut body = Bounded(Vec::new());
        // The only possible error is the size limit.
        match serde_json::to_writer(&mut body, value) {
            Ok(()) => self.answer_bytes(conn, id, Codec::JSON, body.0),
            Err(_) => self.answer_is_too_large(conn, id),
        }
    }

    fn answer_is_too_large(&mut self, conn: ConnId, id: u32) {
        let text = "the answer is larger than a frame allows";
        self.status(conn, id, Status::FAILED_PRECONDITION, text, None);
    }

    /// Answers with a small body.
    pub(crate) fn answer_body(&mut self, conn: ConnId, id: u32, codec: Codec, body: &[u8]) {
        self.record_own_answer(conn, id);
        if let Some(conn) = self.peers.conns.get_mut(conn) {
            conn.put(Encode {
                prio: codec.0,
                body,
                ..Encode::new(Type::Res, id)
            });
        }
        self.mark_dirty(conn);
    }

    fn answer_bytes(&mut self, conn: ConnId, id: u32, codec: Codec, body: Vec<u8>) {
        if body.len() > MAX_ANSWER_BODY {
            return self.answer_is_too_large(conn, id);
        }
        if body.len() >= LARGE_BODY && !self.has_memory_for_answer(conn, body.len()) {
            let text = "there is no memory for the answer: earlier answers have not been read, or the server's memory \
            for payloads is full (stoker.max_memory)";
            let status = Status::RESOURCE_EXHAUSTED;
            return self.status(conn, id, status, text, Some(RETRY_MS));
        }
        self.record_own_answer(conn, id);
        if let Some(conn) = self.peers.conns.get_mut(conn) {
            let head = Encode {
                prio: codec.0,
                ..Encode::new(Type::Res, id)
            };
            conn.put_with(head, body);
        }
        self.mark_dirty(conn);
    }

    /// Records that a request to the server's own methods has been answered, so its id can be reused.
    fn record_own_answer(&mut self, conn: ConnId, id: u32) {
        if let Some(client) = self
            .client(conn)
            .filter(|client| !client.own_requests.is_empty())
        {
            client.own_requests.remove(&id);
        }
    }

    pub(crate) fn send_pong(&mut self, id: ConnId, ping: u32) {
        if let Some(conn) = self.peers.conns.get_mut(id) {
            conn.put(Encode::new(Type::Pong, ping));
        }
        self.mark_dirty(id);
    }

    /// Informs clients that no new requests are accepted.
    pub(crate) fn goaway_clients(&mut self) {
        for id in self.peers.conns.ids() {
            self.goaway_client(id);
        }
    }

    pub(crate) fn goaway_client(&mut self, id: ConnId) {
        if let Some(conn) = self.peers.conns.get_mut(id)
            && matches!(conn.role, Role::Client(_))
        {
            conn.put(Encode::new(Type::Goaway, 0));
            self.mark_dirty(id);
        }
    }
}

/// The maximum size of the body of an answer by the server itself.
const MAX_ANSWER_BODY: usize = stoker_wire::MAX_FRAME - 1024;

/// Collects output up to the size of a frame. Writing stops there, because the whole output may be many times as
/// large.
struct Bounded(Vec<u8>);

impl std::io::Write for Bounded {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        if self.0.len() + bytes.len() > MAX_ANSWER_BODY {
            return Err(std::io::ErrorKind::FileTooLarge.into());
        }
        self.0.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

fn add_forwarded(meta: &mut MetaBuf, forwarded: Meta<'_>) {
    for (key, value) in forwarded.iter() {
        if key != Key::QUEUE_TIME && key != Key::WORKER {
            meta.push(key, value);
        }
    }
}

/// The status and text with which a caller is informed of an outcome other than a worker's own answer.
pub(super) fn explain(
    outcome: Outcome,
    crashed_process: CrashedProcess,
) -> (Status, String, Option<u32>) {
    let ms = |span: Span| u32::try_from(span.as_millis().max(1)).unwrap_or(u32::MAX);
    match outcome {
        Outcome::Answered | Outcome::Failed => {
            (Status::UNKNOWN, "the answer was lost".into(), None)
        }
        Outcome::Cancelled => (Status::CANCELLED, "cancelled".into(), None),
        Outcome::Deadline { ran: false } => (
            Status::DEADLINE_EXCEEDED,
            "its deadline passed, or would have passed, before a worker received it".into(),
            None,
        ),
        Outcome::Deadline { ran: true } => (
            Status::DEADLINE_EXCEEDED,
            "its deadline passed while a worker ran it".into(),
            None,
        ),
        Outcome::TimedOut => (
            Status::DEADLINE_EXCEEDED,
            "it exceeded task_timeout, and its worker was killed".into(),
            None,
        ),
        Outcome::NoWorker => (Status::NO_WORKER, "no worker serves this name".into(), None),
        Outcome::WorkerDied(exit) => (
            Status::WORKER_DIED,
            format!(
                "{} ({}) during the run",
                crashed_process.crash_text(),
                exit_text(exit)
            ),
            None,
        ),
        Outcome::Abandoned => (Status::UNAVAILABLE, ABANDONED.into(), None),
        Outcome::Quarantined { crashes, exit } => {
            let text = crashed_process.last_crash_text(crashes, exit);
            (Status::QUARANTINED, text, None)
        }
        Outcome::Exhausted { retry_after } => (
            Status::RESOURCE_EXHAUSTED,
            "too many calls wait for this service".into(),
            Some(ms(retry_after)),
        ),
        Outcome::Shed { retry_after } => (
            Status::SHED,
            "it would have waited longer than its deadline or max_wait allows".into(),
            Some(ms(retry_after)),
        ),
        Outcome::Unavailable { retry_after } => (
            Status::UNAVAILABLE,
            "the server is shutting down, or its workers can't start".into(),
            Some(ms(retry_after)),
        ),
        Outcome::WouldDeadlock => {
            let text = "every worker that could serve this call is itself waiting for such a call";
            (Status::RESOURCE_EXHAUSTED, text.into(), None)
        }
    }
}
