use crate::clock::wall_ms;
use crate::config::JobsConfig;
use crate::net::ConnId;
use crate::plane::Plane;
use crate::sources::rpc::RETRY_MS;
use crate::store::NewJob;
use stoker_core::{Backoff, Event, Kind, QueueId, Span};
use stoker_wire::{Codec, Frame, Key, Meta, MetaBuf, Status};
use uuid::{ContextV7, Timestamp, Uuid};

/// Makes ids whose order is that of their making, also within a millisecond (UUIDv7, RFC 9562).
#[derive(Default)]
pub(crate) struct Ids {
    context: ContextV7,
}

impl Ids {
    fn next(&self) -> Uuid {
        Uuid::new_v7(Timestamp::now(&self.context))
    }
}

/// Metadata of a push: what a frame can carry, less what the broker adds for the worker.
const MAX_META: usize = 60 << 10;

/// Keys of a push that tell the broker how to treat the job; all others pass through to the worker.
const OWN_KEYS: [Key; 14] = [
    Key::JOB_ID,
    Key::CRASHES,
    Key::CREATED_AT,
    Key::FAIRNESS,
    Key::IDEMPOTENCY,
    Key::PARENT,
    Key::DELAY,
    Key::UNIQUE,
    Key::TRIES,
    Key::BACKOFF,
    Key::COST,
    Key::TIMEOUT,
    Key::DUE_AT,
    Key::QUEUE,
];

impl Plane {
    /// `stoker.push`: accepts a job, or says why not.
    pub(crate) fn push(&mut self, conn: ConnId, frame: &Frame<'_>) {
        let Some(queue_name) = frame.meta.text(Key::QUEUE) else {
            let text = "a push names its queue in the metadata key 24";
            return self.refuse(conn, frame, Status::INVALID_ARGUMENT, text, None);
        };
        if frame.meta.bytes().len() > MAX_META {
            let text = format!("a push has at most {MAX_META} bytes of metadata");
            return self.refuse(conn, frame, Status::INVALID_ARGUMENT, &text, None);
        }
        let Ok(name) = self.core.resolve_job(queue_name) else {
            let text = self.unknown_queue(Kind::Jobs, queue_name);
            return self.refuse(conn, frame, Status::NOT_FOUND, &text, None);
        };
        let queue = self.core.queue_of_name(name);
        if let Some(text) = self.no_room_for_job(queue, frame.body.len()) {
            return self.refuse(
                conn,
                frame,
                Status::RESOURCE_EXHAUSTED,
                &text,
                Some(RETRY_MS),
            );
        }
        let new = self.new_job(queue, name, frame);
        if let Some((id, repeated)) = self.store.existing(&new) {
            let id = id.to_string();
            return match repeated {
                true => self.answer_push(conn, frame, &id),
                false => self.refuse(conn, frame, Status::ALREADY_EXISTS, &id, None),
            };
        }
        let (id, delayed) = (self.ids.next(), new.due_ms > new.created_ms);
        let job = self.store.insert(id, new);
        let mut text = Uuid::encode_buffer();
        self.answer_push(conn, frame, id.hyphenated().encode_lower(&mut text));
        if !delayed {
            self.offer_job(job);
        }
    }

    fn answer_push(&mut self, conn: ConnId, frame: &Frame<'_>, id: &str) {
        if !frame.flags.has(stoker_wire::Flags::ONEWAY) {
            self.answer_body(conn, frame.id, Codec::RAW, id.as_bytes());
        }
    }

    /// Why another job can't be taken now, if so.
    fn no_room_for_job(&self, queue: QueueId, len: usize) -> Option<String> {
        let counts = self.store.counts(queue);
        let max = u64::from(self.core.queue(queue).config.max_waiting);
        if self.core.is_draining() {
            return Some("the server drains".to_owned());
        }
        if counts.ready + counts.delayed >= max {
            return Some(format!(
                "{max} jobs wait in this queue already (max_waiting)"
            ));
        }
        if self.bytes_held() + len > self.config.max_memory {
            return Some(
                "the broker holds as many bytes of bodies as it may (stoker.max_memory)".to_owned(),
            );
        }
        None
    }

    fn new_job(&mut self, queue: QueueId, name: stoker_core::NameId, frame: &Frame<'_>) -> NewJob {
        let meta = frame.meta;
        let JobsConfig { tries, .. } = *self.store.config(queue);
        let created_ms = wall_ms();
        let delay = meta.uint(Key::DELAY).unwrap_or(0);
        let due_ms = meta
            .uint(Key::DUE_AT)
            .unwrap_or(created_ms.saturating_add(delay));
        let passed = passed_on(meta);
        let mut bytes = Vec::with_capacity(passed.len() + frame.body.len());
        bytes.extend_from_slice(&passed);
        bytes.extend_from_slice(frame.body);
        NewJob {
            queue,
            name,
            class: frame.priority(),
            key: meta.get(Key::FAIRNESS).unwrap_or_default().into(),
            codec: frame.code,
            meta_len: passed.len(),
            bytes,
            tries: meta.uint(Key::TRIES).map_or(tries, |tries| tries as u16),
            backoff: meta.get(Key::BACKOFF).map(|list| Box::new(backoff(list))),
            limit: meta
                .uint(Key::TIMEOUT)
                .filter(|ms| *ms > 0)
                .map(Span::from_millis),
            unique: meta.get(Key::UNIQUE).map(Box::from),
            idempotency: meta.get(Key::IDEMPOTENCY).map(Box::from),
            created_ms,
            due_ms: due_ms.max(created_ms),
        }
    }

    /// Says that a queue or service is not known, and what was most likely meant.
    pub(crate) fn unknown_queue(&self, kind: Kind, name: &str) -> String {
        let queues = self.core.queues().filter(|queue| queue.kind == kind);
        let names: Vec<&str> = queues.map(|queue| queue.name).collect();
        let what = if kind == Kind::Jobs {
            "queue"
        } else {
            "service"
        };
        let hint = crate::config::suggest(name, names.iter().copied());
        format!("there is no {what} '{name}'; {hint}")
    }

    /// Lets every job whose time has come become ready.
    pub(crate) fn wake_due(&mut self) {
        let now_ms = wall_ms();
        while let Some(job) = self.store.take_due(now_ms) {
            self.offer_job(job);
            self.settle();
        }
    }
}

/// Metadata that the worker gets as the producer wrote it.
fn passed_on(meta: Meta<'_>) -> Vec<u8> {
    let mut passed = MetaBuf::new();
    for (key, value) in meta.iter().filter(|(key, _)| !OWN_KEYS.contains(key)) {
        passed.push(key, value);
    }
    passed.as_meta().bytes().to_vec()
}

fn backoff(list: &[u8]) -> Backoff {
    let delays = list.as_chunks::<4>().0.iter();
    Backoff::List(
        delays
            .map(|ms| Span::from_millis(u64::from(u32::from_be_bytes(*ms))))
            .collect(),
    )
}

/// Keeps the event that a push leads to in one place with the offer of a retried job.
pub(crate) fn backlog_event(queue: QueueId, class: u8, key: &[u8]) -> Event<'_> {
    Event::Backlog { queue, class, key }
}
