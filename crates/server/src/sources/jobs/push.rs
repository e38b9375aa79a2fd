//! `stoker.push`: validates a job, passes it to the store, and answers once it is durable.

use super::waiter::Waiter;
use crate::clock::wall_ms;
use crate::counted;
use crate::net::ConnId;
use crate::plane::Plane;
use crate::sources::RETRY_MS;
use crate::users::UserId;
use std::sync::Arc;
use stoker_api::job::MAX_META;
use stoker_core::{Kind, QueueId};
use stoker_store::{
    Holder, JobId, NewJob, Options, Owner, Pushed, StoreRequest, Trouble, Unique, lossless_text,
};
use stoker_wire::{Codec, Flags, Frame, Key, Meta, MetaBuf, Status};
use uuid::Uuid;

impl Plane {
    /// Handles `stoker.push`: accepts the job or rejects it with a reason. The answer is sent once the job is
    /// durable.
    pub(crate) fn push(&mut self, conn: ConnId, frame: &Frame<'_>) {
        match self.accept_push(conn, frame) {
            Ok(()) => {}
            Err((status, text)) => {
                let retry_ms = matches!(status, Status::RESOURCE_EXHAUSTED | Status::UNAVAILABLE);
                self.reject(conn, frame, status, &text, retry_ms.then_some(RETRY_MS));
            }
        }
    }

    fn accept_push(&mut self, conn: ConnId, frame: &Frame<'_>) -> Result<(), (Status, String)> {
        let Some(queue_name) = frame.meta.text(Key::QUEUE) else {
            let text = "a push must name its queue in metadata key 24".to_owned();
            return Err((Status::INVALID_ARGUMENT, text));
        };
        if frame.meta.bytes().len() > MAX_META {
            let text = format!("a push may have at most {MAX_META} bytes of metadata");
            return Err((Status::INVALID_ARGUMENT, text));
        }
        if self.core.is_draining() {
            return Err((
                Status::UNAVAILABLE,
                "the server is shutting down".to_owned(),
            ));
        }
        let user = self.peers.conns.get(conn).and_then(|conn| conn.user);
        let name = self.queue_for_push(queue_name, user)?;
        let queue = self.find_or_open_queue(name);
        if let Some(text) = self.too_large_for(queue, frame.body.len()) {
            return Err((Status::INVALID_ARGUMENT, text));
        }
        if let Some(trouble) = &self.jobs.failing {
            return Err(rejection_of(trouble));
        }
        let rejection = user
            .and_then(|user| self.too_many_pushes(user))
            .or_else(|| self.no_room_for_job(queue, frame.body.len()));
        if let Some(text) = rejection {
            return Err((Status::RESOURCE_EXHAUSTED, text));
        }
        let parent = frame.meta.uint(Key::PARENT);
        let owner = self.owner_of_push(conn, parent);
        let job = Box::new(self.new_job(queue, frame, owner.clone()));
        // If memory is short, a job that is on disk is not kept in memory as well.
        let room =
            (self.jobs.inline || self.has_memory_to_load()) && self.has_room_for(queue, &job);
        let to = (!frame.flags.has(Flags::ONEWAY)).then_some((conn, frame.id));
        if let Some(user) = user {
            self.memory.users[user].pushes += 1;
        }
        let ticket = self.jobs.create_ticket(Waiter::Push {
            queue,
            to,
            user,
            owner,
        });
        if let Some(of_queue) = self.jobs.queue_mut(queue) {
            of_queue.pending += 1;
        }
        self.jobs.send(StoreRequest::Push { ticket, room, job });
        Ok(())
    }

    /// Whether the core has room for a job now. An overdue job may be placed among the loaded ones.
    fn has_room_for(&self, queue: QueueId, job: &NewJob) -> bool {
        let (class, key) = (job.class, &job.key);
        let is_overdue = job.due_ms > 0 && job.is_overdue(wall_ms());
        self.core.has_room(queue, class, key)
            || (is_overdue && self.core.has_room_among(queue, class, key))
    }

    /// Handles the store's answer to a push.
    pub(crate) fn pushed(
        &mut self,
        queue: QueueId,
        to: Option<(ConnId, u32)>,
        owner: Option<&Owner>,
        pushed: Pushed,
    ) {
        if let Some((conn, id)) = to {
            self.answer_push(conn, id, owner, &pushed);
        }
        // An inline store reports its counts only at the end of the turn; any other store reports them together
        // with this event.
        let counted = matches!(pushed, Pushed::Accepted { .. });
        let uncounted = self.jobs.inline && counted;
        if let Some(of_queue) = self.jobs.queue_mut(queue) {
            of_queue.pending -= 1;
            of_queue.counts.ready += u64::from(uncounted);
        }
        if let Pushed::Accepted { job: Some(job), .. } = pushed {
            self.load_job(*job);
        }
    }

    /// The reason why a user can't push another job now, if there is one.
    fn too_many_pushes(&self, user: UserId) -> Option<String> {
        let of_user = &self.memory.users[user];
        (of_user.pushes >= self.config.user_pushes).then(|| {
            let (user, pushes) = (&of_user.identity, of_user.pushes);
            format!("{user} has {pushes} pushes under way (stoker.user_pushes)")
        })
    }

    fn answer_push(&mut self, conn: ConnId, id: u32, owner: Option<&Owner>, pushed: &Pushed) {
        match pushed {
            Pushed::Accepted { id: job, .. } => self.answer_job_id(conn, id, *job),
            Pushed::Repeated { holder, same_body } => {
                match (self.may_see_holder(conn, owner, holder), same_body) {
                    (true, true) => self.answer_job_id(conn, id, holder.job),
                    (is_visible, _) => self.reject_repeated(conn, id, holder, is_visible),
                }
            }
            Pushed::Taken(holder) => {
                let is_visible = self.may_see_holder(conn, owner, holder);
                self.reject_taken(conn, id, holder, is_visible);
            }
            Pushed::Rejected(trouble) => {
                let (status, text) = rejection_of(trouble);
                self.send_status(conn, id, status, &text, Some(RETRY_MS), true);
            }
        }
    }

    fn answer_job_id(&mut self, conn: ConnId, id: u32, job: JobId) {
        let mut text = Uuid::encode_buffer();
        let text = self.jobs.uuid(job).hyphenated().encode_lower(&mut text);
        self.answer_body(conn, id, Codec::RAW, text.as_bytes());
    }

    /// Whether a producer may see the job that has the key of its push.
    fn may_see_holder(&mut self, conn: ConnId, owner: Option<&Owner>, holder: &Holder) -> bool {
        let is_own = owner.is_some() && owner == holder.owner.as_ref();
        is_own || self.may_see(conn, holder.owner.as_ref(), Some(holder.job))
    }

    /// Rejects a push whose unique key is taken. A producer that may see the job with that key gets its id, also
    /// in the metadata.
    fn reject_taken(&mut self, conn: ConnId, id: u32, holder: &Holder, is_visible: bool) {
        let mut meta = MetaBuf::new();
        let mut text = "a job of another user has this unique key".to_owned();
        if is_visible {
            let uuid = self.jobs.uuid(holder.job);
            meta.push(Key::JOB_ID, uuid.as_bytes());
            text = uuid.to_string();
        }
        self.send_rejection(conn, id, Status::ALREADY_EXISTS, &text, &meta, true);
    }

    /// Rejects a push whose idempotency key was used for a different push.
    fn reject_repeated(&mut self, conn: ConnId, id: u32, holder: &Holder, is_visible: bool) {
        if !is_visible {
            let text = "a push of another user has this idempotency key";
            let (status, meta) = (Status::ALREADY_EXISTS, MetaBuf::new());
            return self.send_rejection(conn, id, status, text, &meta, true);
        }
        let text = format!(
            "the idempotency key belongs to job {}, which was pushed with a different body: use another key for a new \
             job",
            self.jobs.uuid(holder.job)
        );
        self.send_status(conn, id, Status::INVALID_ARGUMENT, &text, None, true);
    }

    /// The reason why a queue rejects a body of this size, if it does.
    fn too_large_for(&self, queue: QueueId, len: usize) -> Option<String> {
        let max = self.jobs.queue(queue)?.config.max_body;
        (max > 0 && len > max).then(|| {
            let name = self.core.queue(queue).name;
            format!(
                "the body has {len} bytes, but queue {name} accepts at most {max} (queue.{name}.max_body)"
            )
        })
    }

    /// The reason why another job can't be accepted now, if there is one.
    fn no_room_for_job(&mut self, queue: QueueId, len: usize) -> Option<String> {
        let of_queue = self.jobs.queue(queue)?;
        let counts = of_queue.counts;
        let waiting = counts.ready + counts.delayed + counts.suspended + of_queue.pending;
        let max = u64::from(self.core.queue(queue).config.max_waiting);
        if waiting >= max {
            return Some(format!(
                "{} in this queue are waiting already (max_waiting)",
                counted(max, "job")
            ));
        }
        if !self.has_memory_for(len) {
            return Some("the server's memory for payloads is full (stoker.max_memory)".to_owned());
        }
        None
    }

    fn new_job(&self, queue: QueueId, frame: &Frame<'_>, owner: Option<Owner>) -> NewJob {
        let meta = frame.meta;
        let of_queue = self.jobs.queue(queue);
        let due_at = meta.uint(Key::DUE_AT);
        let delay = meta.uint(Key::DELAY).filter(|_| due_at.is_none());
        let (meta_len, bytes) = bytes_of(meta, frame.body);
        // An ordered queue is ordered by age only, so priorities do not apply.
        let ordered = self.core.queue(queue).config.ordered;
        NewJob {
            queue: of_queue.map(|queue| queue.no).unwrap_or_default(),
            class: if ordered { 3 } else { frame.priority() },
            key: meta.get(Key::FAIRNESS).unwrap_or_default().into(),
            codec: frame.code,
            bytes,
            meta_len,
            options: options_of(meta).map(Box::new),
            idempotency: meta.get(Key::IDEMPOTENCY).map(Box::from),
            due_ms: due_at.unwrap_or(0),
            delay_ms: delay.unwrap_or(0),
            suspended: false,
            order: None,
            owner,
        }
    }

    /// A message that a queue or service is unknown, with a suggestion of a similar name.
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
}

/// The status and text with which a producer is informed of a store's error.
pub(crate) fn rejection_of(trouble: &Trouble) -> (Status, String) {
    let status = match trouble {
        Trouble::State(_) => Status::FAILED_PRECONDITION,
        Trouble::NotFound => Status::NOT_FOUND,
        Trouble::Taken(_) => Status::ALREADY_EXISTS,
        Trouble::Full(_) | Trouble::Busy(_) => Status::RESOURCE_EXHAUSTED,
        Trouble::Io(_) | Trouble::Replaced(_) => Status::UNAVAILABLE,
    };
    (status, trouble.to_string())
}

/// The bytes for the worker: the producer's metadata without the options of the push, then the body. There is
/// usually no such metadata, and then the body is copied once.
fn bytes_of(meta: Meta<'_>, body: &[u8]) -> (usize, Arc<[u8]>) {
    let mut forwarded = MetaBuf::new();
    for (key, value) in meta.iter().filter(|(key, _)| !key.is_for_server()) {
        forwarded.push(key, value);
    }
    let forwarded = forwarded.as_meta();
    match forwarded.is_empty() {
        true => (0, body.into()),
        false => (
            forwarded.bytes().len(),
            [forwarded.bytes(), body].concat().into(),
        ),
    }
}

/// The options of a push, or `None` if it has none.
fn options_of(meta: Meta<'_>) -> Option<Options> {
    let short = |key: Key| meta.uint(key).map(|value| value as u16);
    let unique = meta.get(Key::UNIQUE).map(|key| Unique {
        key: lossless_text(key),
        until_start: meta.get(Key::UNIQUE_UNTIL_START).is_some(),
        for_ms: meta.uint(Key::UNIQUE_FOR).filter(|ms| *ms > 0),
    });
    let options = Options {
        tries: short(Key::TRIES),
        backoff_ms: meta.get(Key::BACKOFF).map(backoff_of).unwrap_or_default(),
        timeout_ms: meta
            .uint(Key::TIMEOUT)
            .filter(|ms| *ms > 0)
            .map(|ms| ms as u32),
        fail_on_timeout: meta.get(Key::FAIL_ON_TIMEOUT).is_some(),
        retry_until_ms: meta.uint(Key::RETRY_UNTIL),
        max_exceptions: short(Key::MAX_EXCEPTIONS).filter(|max| *max > 0),
        unique,
        kind: meta.text(Key::JOB_TYPE).map(str::to_owned),
        keep_result_ms: meta.uint(Key::KEEP_RESULT),
    };
    (options != Options::default()).then_some(options)
}

fn backoff_of(list: &[u8]) -> Vec<u32> {
    let delays = list.as_chunks::<4>().0.iter();
    delays.map(|ms| u32::from_be_bytes(*ms)).collect()
}
