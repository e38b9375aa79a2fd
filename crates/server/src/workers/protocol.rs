//! The protocol between server and workers, in both directions.

use crate::net::{ConnId, Shared};
use crate::observe::Stream;
use crate::plane::{Plane, Todo};
use crate::sources::end::is_error;
use crate::sources::rpc::{Fault, offer};
use crate::sources::{Origin, Payload, TaskAnswer};
use stoker_angel::ToAngel;
use stoker_core::{Answer, Event, Exit, Span, TaskId, WorkerId};
use stoker_os::{Signal, signal_process};
use stoker_store::Job;
use stoker_wire::{Encode, EventKind, Flags, Frame, Hello, Key, Meta, MetaBuf, Role, Status, Type};
use uuid::Uuid;

/// The size from which a job's body is sent from the loaded job, without another copy.
const MIN_SHARED_BODY: usize = 4 << 10;

impl Plane {
    /// Handles one frame of a worker. `first` is set if the frame starts at the beginning of the received bytes:
    /// then everything that the worker wrote to its pipes before the frame has been read already.
    pub(crate) fn worker_frame(
        &mut self,
        worker: WorkerId,
        frame: &Frame<'_>,
        first: bool,
    ) -> Result<(), Fault> {
        match frame.kind {
            Type::Res if frame.flags.has(Flags::MORE) => self.first_part(worker, frame)?,
            Type::Data if frame.flags.has(Flags::MORE) => self.next_part(worker, frame)?,
            Type::Res | Type::Data => {
                self.check_last_part(worker, frame)?;
                self.read_output_before_answer(worker, first);
                self.answered(worker, frame);
            }
            Type::Hello => self.worker_hello(worker, frame)?,
            Type::Event => {
                // The output until an acknowledgement is kept with it.
                if EventKind(frame.code) == EventKind::ACK {
                    self.read_output_before_answer(worker, first);
                }
                self.worker_event(worker, frame);
            }
            Type::Started => self.step(
                Event::Started {
                    worker,
                    task: self.payloads.task(frame.id),
                },
                None,
            ),
            Type::Ready => self.worker_ready(worker, frame.ttl == 1)?,
            Type::Goaway => self.worker_left(worker, first),
            _ => {
                return Err(Fault::State(
                    "a worker may send only HELLO, RES, DATA, READY, EVENT, STARTED, GOAWAY, PING and PONG",
                ));
            }
        }
        Ok(())
    }

    /// Reads what a worker may have written before an answer or an acknowledgement, so that it is kept with that, and is
    /// not attributed to the next task. While several tasks remain, this is skipped to save time: later output has a
    /// label that names all of them, and is kept for none. A paused pipe is not read later in the same turn, so it is
    /// always read here.
    fn read_output_before_answer(&mut self, worker: WorkerId, first: bool) {
        let is_needed = self.worker_handle(worker).is_some_and(|handle| {
            let remain = || self.core.assigned_to(worker).nth(2).is_some();
            handle.may_have_output(first) && (handle.has_paused_pipe() || !remain())
        });
        if is_needed {
            self.read_all_output(worker);
        }
    }

    /// A worker leaves: the tasks that it has not begun are returned, so the one that it runs may remain as the only one.
    fn worker_left(&mut self, worker: WorkerId, first: bool) {
        if self
            .worker_handle(worker)
            .is_some_and(|handle| handle.may_have_output(first))
        {
            self.read_all_output(worker);
        }
        self.step(Event::Left { worker }, None);
    }

    /// Handles a worker's request for one task, or its withdrawal. A withdrawal is confirmed after every task
    /// that was assigned before it, so that the worker knows when no task is on its way any more.
    fn worker_ready(&mut self, worker: WorkerId, wanted: bool) -> Result<(), Fault> {
        if !self.core.takes_on_request(worker) {
            return Err(Fault::State(
                "READY from a worker whose HELLO did not set pull",
            ));
        }
        self.step(Event::Ready { worker, wanted }, None);
        if !wanted {
            self.put_to(worker, Encode::new(Type::Ready, 0));
        }
        Ok(())
    }

    fn worker_hello(&mut self, worker: WorkerId, frame: &Frame<'_>) -> Result<(), Fault> {
        let hello = Hello::parse(frame.body)?;
        if hello.role != Role::Worker {
            return Err(Fault::State(
                "a HELLO on STOKER_FD must have the role worker",
            ));
        }
        let Some(handle) = self.worker_handle(worker) else {
            return Ok(());
        };
        let (name, conn) = (handle.name.clone(), handle.conn);
        let known = self.core.worker(worker);
        if let (Some((pool, _, version)), Some(conn)) = (known, conn) {
            let pool = self.core.pool(pool).0.to_owned();
            self.welcome_worker(conn, name, pool, version);
        }
        self.step(
            Event::Hello {
                worker,
                offer: offer(&hello),
            },
            None,
        );
        Ok(())
    }

    fn answered(&mut self, worker: WorkerId, frame: &Frame<'_>) {
        // The output so far belongs to the answered task, and not to the death of the worker.
        if let Some(handle) = self.worker_handle_mut(worker) {
            handle.last_stderr.clear();
            handle.last_words = None;
        }
        let answer = answer_of(frame);
        if let (Answer::Crashed(_), Some(handle)) = (answer, self.worker_handle_mut(worker)) {
            let words = &frame.body[..frame.body.len().min(4 << 10)];
            handle.last_words = Some(last_words(words)).filter(|words| !words.is_empty());
        }
        let whole = TaskAnswer::from(frame);
        self.step(
            Event::Answered {
                worker,
                task: self.payloads.task(frame.id),
                answer,
                worked: whole.ran(),
            },
            Some(&whole),
        );
        // The last words of a program apply to its own task only.
        if let (Answer::Crashed(_), Some(handle)) = (answer, self.worker_handle_mut(worker)) {
            handle.last_words = None;
        }
        let conn = self.worker_handle(worker).and_then(|handle| handle.conn);
        if let Some(conn) =
            conn.filter(|conn| self.peers.conns.get(*conn).is_some_and(|conn| conn.leaving))
        {
            self.mark_dirty(conn);
        }
        self.note_last_answer(worker);
        self.release_held();
    }

    fn worker_event(&mut self, worker: WorkerId, frame: &Frame<'_>) {
        match EventKind(frame.code) {
            EventKind::LOG => {
                let task = self.payloads.task(frame.id);
                let loaded = self
                    .core
                    .assigned_to(worker)
                    .any(|assigned| assigned == task);
                let tag = if loaded {
                    self.task_label(task)
                } else {
                    String::new()
                };
                let stream = if frame.prio == 2 {
                    Stream::Stderr
                } else {
                    Stream::Stdout
                };
                if loaded {
                    self.jobs.loaded.write(task, frame.body);
                }
                self.log_output(worker, stream, tag, frame.body);
            }
            EventKind::METRIC => {
                if let Some((pool, _, _)) = self.core.worker(worker) {
                    let pool = self.core.pool(pool).0;
                    self.stats.metrics.report(pool, frame.body);
                }
            }
            EventKind::LAST_WORDS => {
                if let Some(handle) = self.worker_handle_mut(worker) {
                    let words = &frame.body[..frame.body.len().min(4 << 10)];
                    handle.last_words = Some(last_words(words));
                }
            }
            _ => self.job_event(worker, self.payloads.task(frame.id), frame),
        }
    }

    /// Sends a task to a worker.
    pub(crate) fn deliver(
        &mut self,
        worker: WorkerId,
        task: TaskId,
        time_left: Option<Span>,
        attempt: u16,
        crashes: u8,
    ) {
        if !self.may_assign(task) {
            return self.todo.push_back(Todo::Defer { worker, task });
        }
        self.record_delivery(task);
        let Some(handle) = self.worker_handle_mut(worker) else {
            return;
        };
        // Last words belong to the current task only.
        handle.last_stderr.clear();
        handle.last_words = None;
        let is_remote = handle.is_remote();
        let (pool, Some(conn_id)) = (handle.pool, handle.conn) else {
            return;
        };
        let mut scratch = std::mem::take(&mut self.scratch.meta);
        let number = self.payloads.renumber(task);
        let payload = &self.payloads[task];
        let (meta, body) = match payload.origin {
            Origin::Job(id) => {
                let Some(loaded) = self.jobs.loaded.get(task) else {
                    return;
                };
                scratch.clear();
                let limit = self.core.pool(pool).1.task_timeout;
                let uuid = self.jobs.uuid(id);
                let tries = self.jobs.tries_of(&loaded.job);
                let crashes = crashes.saturating_add(loaded.uncounted_crashes);
                job_meta(&mut scratch, &loaded.job, uuid, tries, crashes, limit);
                (scratch.as_meta(), loaded.job.body())
            }
            // The session of a worker on another machine keeps whole answers only.
            _ if is_remote && payload.meta().get(Key::CREDIT).is_some() => {
                scratch.clear();
                let meta = payload.meta();
                let kept = meta.iter().filter(|(key, _)| *key != Key::CREDIT);
                kept.for_each(|(key, value)| {
                    scratch.push(key, value);
                });
                (scratch.as_meta(), payload.body())
            }
            _ => (payload.meta(), payload.body()),
        };
        let name = self.core.name(payload.name);
        let frame = request(name, payload, number, time_left, attempt, meta, body);
        let shared = match self.jobs.loaded.get(task) {
            Some(loaded) if body.len() >= MIN_SHARED_BODY => Some(Shared {
                bytes: loaded.job.bytes.clone(),
                from: loaded.job.meta_len,
            }),
            _ => payload.large(),
        };
        if let Some(conn) = self.peers.conns.get_mut(conn_id) {
            match shared {
                Some(body) => conn.put_shared(&frame, body),
                None => conn.put(frame),
            }
        }
        self.scratch.meta = scratch;
        self.mark_dirty(conn_id);
    }

    /// Informs a worker that the answer of a task is no longer wanted.
    pub(crate) fn cancel_on(&mut self, worker: WorkerId, task: TaskId) {
        // Flush at once: a worker may rely on the frame being in the socket before the soft signal arrives.
        if let Some(conn) = self.put_to(
            worker,
            Encode::new(Type::Cancel, self.payloads.number(task)),
        ) {
            self.flush_conn(conn);
        }
    }

    /// Orders a worker to finish its tasks and exit.
    pub(crate) fn goaway(&mut self, worker: WorkerId) {
        if self
            .worker_handle(worker)
            .is_some_and(|handle| handle.conn.is_none())
        {
            return self.signal(worker, Signal::TERM);
        }
        if let Some(conn) = self.put_to(worker, Encode::new(Type::Goaway, 0)) {
            if let Some(conn) = self.peers.conns.get_mut(conn) {
                conn.leaving = true;
            }
            self.flush_conn(conn);
        }
    }

    pub(crate) fn put_to(&mut self, worker: WorkerId, frame: Encode<'_>) -> Option<ConnId> {
        let conn = self.worker_handle(worker)?.conn?;
        self.peers.conns.get_mut(conn)?.put(frame);
        self.mark_dirty(conn);
        Some(conn)
    }

    /// Sends a worker a signal: the soft cancel, or SIGTERM.
    pub(crate) fn signal(&mut self, worker: WorkerId, signal: Signal) {
        let Some(handle) = self.worker_handle(worker) else {
            return;
        };
        if handle.spawned {
            let signal = signal.as_raw();
            return self.send_to_angel(&ToAngel::Signal {
                worker: crate::workers::WorkerHandle::key(worker),
                signal,
            });
        }
        if let Some(pidfd) = &handle.pidfd {
            // Signalling a process of another user may fail. Such a worker is disconnected at the end of its
            // grace period.
            signal_process(pidfd, signal);
        }
    }
}

/// The meaning of a worker's RES for the core.
fn answer_of(frame: &Frame<'_>) -> Answer {
    match frame.status() {
        Status::OK => Answer::Done,
        Status::CANCELLED => Answer::Cancelled,
        Status::RETRY => {
            let after = frame.meta.uint(Key::RETRY_AFTER).map(Span::from_millis);
            Answer::Retry(after)
        }
        Status::RETURNED => Answer::Returned,
        Status::CRASHED => {
            let signal = frame.meta.uint(Key::SIGNAL);
            let signal = signal.and_then(|signal| i32::try_from(signal).ok());
            Answer::Crashed(signal.map_or(Exit::ConnectionLost, Exit::Signal))
        }
        status if is_error(status) => Answer::Error,
        _ => Answer::Failed,
    }
}

fn request<'a>(
    name: &'a str,
    payload: &Payload,
    number: u32,
    time_left: Option<Span>,
    attempt: u16,
    meta: Meta<'a>,
    body: &'a [u8],
) -> Encode<'a> {
    let ttl = time_left.map_or(0, |left| {
        u32::try_from(left.as_millis().max(1)).unwrap_or(u32::MAX)
    });
    Encode {
        flags: Flags(payload.flags),
        code: payload.codec,
        prio: payload.prio,
        ttl,
        attempt: u8::try_from(attempt).unwrap_or(u8::MAX),
        name,
        meta,
        body,
        ..Encode::new(Type::Req, number)
    }
}

/// The metadata of a job for its worker: its identity, and what its producer passed along.
fn job_meta(meta: &mut MetaBuf, job: &Job, uuid: Uuid, tries: u16, crashes: u8, limit: Span) {
    meta.push(Key::JOB_ID, uuid.as_bytes());
    meta.push(Key::TRIES, &tries.to_be_bytes());
    meta.push(Key::CREATED_AT, &job.id.created_ms().to_be_bytes());
    if crashes > 0 {
        meta.push(Key::CRASHES, &[crashes]);
    }
    let options = job.options.as_deref();
    let own = options.and_then(|options| options.timeout_ms);
    let limit = own.map_or(limit.as_millis(), u64::from);
    if let Ok(ms) = u32::try_from(limit) {
        meta.push(Key::TIMEOUT, &ms.to_be_bytes());
    }
    if !job.key.is_empty() {
        meta.push(Key::FAIRNESS, &job.key);
    }
    if let Some(saved) = &job.checkpoint {
        meta.push(Key::CHECKPOINT, saved);
    }
    for (key, value) in Meta::parse(job.meta()).unwrap_or_default().iter() {
        meta.push(key, value);
    }
}

/// Last words as a line of text, from the JSON that an SDK sends or from plain text.
fn last_words(bytes: &[u8]) -> String {
    let parsed: Option<serde_json::Value> = serde_json::from_slice(bytes).ok();
    let text =
        |value: &serde_json::Value, key: &str| value[key].as_str().unwrap_or_default().to_owned();
    match parsed {
        Some(value) if value.is_object() => {
            let place = match value["file"].as_str() {
                Some(file) if !file.is_empty() => format!(" at {file}:{}", value["line"]),
                _ => String::new(),
            };
            format!(
                "{}: {}{place}",
                text(&value, "class"),
                text(&value, "message")
            )
        }
        _ => String::from_utf8_lossy(bytes).into_owned(),
    }
}
