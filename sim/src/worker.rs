//! A worker process that uses an SDK: it follows the table `worker.json`, and runs the code of its tasks.

use crate::behaviour::Act;
use crate::connection::Connection;
use crate::gateway::{self, RemoteToken};
use crate::growth::Size;
use crate::guests::{is_guest, token};
use crate::ledger::{Answer, CLASS, Ledger, PLACE, checkpoint_body};
use crate::link::Replay;
use crate::model::{Model, Task, WorkerEffect};
use crate::nested::NestedRequests;
use crate::parts::AnswerInParts;
use crate::payload::number;
use crate::pulls::Pull;
use crate::push::PASSED;
use crate::setup::Setup;
use crate::slots::Slots;
use std::collections::{BTreeSet, VecDeque};
use std::time::Duration;
use stoker_os::{Fd, sim, steady};
use stoker_wire::{Encode, EventKind, Frame, Key, MetaBuf, Status, Type};

/// A run of a task.
pub(crate) struct Run {
    /// The number of the run.
    pub(crate) no: u64,
    pub(crate) task: Task,
    /// The remaining acts of the code, each with the delay after the previous one.
    pub(crate) acts: VecDeque<(Duration, Act)>,
    /// The next act is planned on the agenda.
    pub(crate) is_planned: bool,
}

pub(crate) struct Worker {
    pub(crate) key: u64,
    pub(crate) pid: i32,
    pub(crate) connection: Connection,
    /// The process's stdout and stderr, which are closed when it ends.
    pub(crate) outputs: [Fd; 2],
    pub(crate) model: Model,
    pub(crate) run: Option<Run>,
    pub(crate) is_ready: bool,
    pub(crate) ready_at: Duration,
    /// When the worker last read everything that it had been sent.
    pub(crate) read_at: Duration,
    /// The answer that the worker has begun to send in parts.
    pub(crate) answer: Option<AnswerInParts>,
    /// The id of the task that the worker last answered.
    pub(crate) last_answered: Option<u32>,
    /// The worker has broken the protocol, and does nothing any more.
    pub(crate) is_rogue: bool,
    /// The name of the worker in the log.
    pub(crate) name: String,
    /// The worker offers `soft_cancel`.
    pub(crate) has_soft_cancel: bool,
    /// Text that the task has printed and the SDK has not sent.
    pub(crate) printed: String,
    /// When the job is to run again, if its code sets that.
    pub(crate) retry_after: Option<Duration>,
    /// The state of a worker that takes tasks on request.
    pub(crate) pull: Option<Pull>,
    /// The tasks of a worker with several slots.
    pub(crate) slots: Option<Slots>,
    /// Runs that will have ended once their answers are written.
    pub(crate) ended: Vec<(Task, Answer)>,
    /// The number of the checkpoint that the job's code saved last.
    pub(crate) checkpoint_no: u32,
    /// The progress that the job which the worker runs reports next, in percent.
    pub(crate) progress: u32,
    /// The number of tasks that the worker has answered.
    pub(crate) answered: u64,
    /// Tasks that ended a short time ago, and when.
    pub(crate) just_ended: Vec<(Task, Duration)>,
    /// Jobs that the worker was sent and will not read, as far as they were noted.
    unread_jobs: Vec<u64>,
    /// The code of a task has killed the worker.
    pub(crate) has_crashed: bool,
    /// The server has requested the death of the worker.
    pub(crate) kill_requested: bool,
    /// The requests of the task's code.
    pub(crate) nested: NestedRequests,
    /// The ids of tasks that the worker was told to cancel.
    pub(crate) cancelled_ids: BTreeSet<u32>,
    /// A gateway relays the worker's connection.
    pub(crate) is_remote: bool,
    /// The memory that the process takes.
    pub(crate) size: Size,
}

/// A worker that has been ready for this long was ready when a call was made that is answered now.
const SETTLE_TIME: Duration = Duration::from_secs(5);

/// The signal that programs die of.
const SEGV: u32 = 11;
/// Results of up to this many bytes are also sent as metadata, which the server passes on.
const MAX_META_RESULT: usize = 64;

impl Worker {
    /// The jobs that wait to be read, except those that were noted before.
    pub(crate) fn new_unread_jobs(&mut self) -> Vec<u64> {
        let (mut unread, _) = self.connection.peek_jobs();
        unread.retain(|no| !self.unread_jobs.contains(no));
        self.unread_jobs.extend(&unread);
        unread
    }

    /// A worker that has not sent HELLO, and whose output is not read.
    pub(crate) fn new(key: u64, pid: i32, connection: Connection, model: Model) -> Self {
        let outputs = [sim::pipe().1, sim::pipe().1];
        Self {
            key,
            pid,
            connection,
            outputs,
            model,
            run: None,
            is_ready: false,
            ready_at: Duration::ZERO,
            read_at: steady(),
            last_answered: None,
            answer: None,
            is_rogue: false,
            name: String::new(),
            has_soft_cancel: false,
            printed: String::new(),
            retry_after: None,
            pull: None,
            slots: None,
            ended: Vec::new(),
            checkpoint_no: 0,
            progress: 0,
            answered: 0,
            just_ended: Vec::new(),
            unread_jobs: Vec::new(),
            has_crashed: false,
            kill_requested: false,
            nested: NestedRequests::default(),
            cancelled_ids: BTreeSet::new(),
            is_remote: false,
            size: Size::at_start(),
        }
    }

    /// Sends HELLO. It offers all services of the worker's pool, and all queues.
    pub(crate) fn hello(&mut self, setup: &Setup, pool: &str) {
        let calls = setup.calls_of(pool);
        // An adapter names no services: it serves whatever its pool does.
        let calls: Vec<String> = calls.filter(|_| !self.is_adapter()).collect();
        let mut hello = serde_json::json!({
            "v": [1], "role": "worker", "name": "sim", "pid": self.pid, "calls": calls, "jobs": ["*"],
            "soft_cancel": self.has_soft_cancel, "pull": self.pull.is_some(), "slots": self.slots.as_ref().map_or(1, |slots| slots.capacity),
        });
        if let Some(tasks) = self.model.tasks_left {
            hello["tasks"] = tasks.into();
        }
        if is_guest(self.key) {
            hello["pool"] = pool.into();
            hello["token"] = token(setup, pool).into();
        }
        if self.is_remote {
            gateway::relay(&mut hello, gateway::WORKERS, RemoteToken::default());
        }
        let body = hello.to_string();
        self.connection.put(Encode {
            body: body.as_bytes(),
            ..Encode::new(Type::Hello, 0)
        });
        (self.is_ready, self.ready_at) = (true, steady());
    }

    /// Whether the worker has been ready for a while and is not shutting down.
    pub(crate) fn is_settled(&self) -> bool {
        let is_new = steady() < self.ready_at + SETTLE_TIME;
        self.is_ready && !is_new && !self.is_rogue && !self.is_shutting_down()
    }

    /// Whether the worker is shutting down, on request or by itself.
    pub(crate) fn is_shutting_down(&self) -> bool {
        match &self.slots {
            Some(slots) => slots.is_shutting_down(),
            None => self.model.has("told"),
        }
    }

    /// Whether the worker's process ends by itself.
    pub(crate) fn leaves_by_itself(&self) -> bool {
        match &self.slots {
            Some(slots) => slots.is_ending,
            None => self.model.state == "gone",
        }
    }

    /// Whether the worker has a task.
    pub(crate) fn has_tasks(&self) -> bool {
        match &self.slots {
            Some(slots) => !slots.tasks.is_empty(),
            None => self.model.has_tasks(),
        }
    }

    /// Whether the worker has a task, or one may be on its way to it while it has no connection.
    pub(crate) fn may_have_tasks(&self) -> bool {
        self.has_tasks() || self.connection.is_cut()
    }

    /// Whether the worker could begin a task at once.
    pub(crate) fn is_free(&self) -> bool {
        let is_free = match &self.slots {
            Some(slots) => slots.is_free(),
            None => self.model.is_free(),
        };
        self.is_ready && !self.is_rogue && is_free
    }

    /// Whether the worker takes tasks on request. Its code answers them whole.
    pub(crate) fn pulls(&self) -> bool {
        self.pull.is_some()
    }

    /// Whether the worker is an adapter, which starts a program per task.
    pub(crate) fn is_adapter(&self) -> bool {
        self.slots.as_ref().is_some_and(|slots| slots.is_adapter)
    }

    /// The number of tasks that the worker runs at once.
    pub(crate) fn slot_count(&self) -> u64 {
        self.slots.as_ref().map_or(1, |slots| slots.capacity as u64)
    }

    /// The tasks that run.
    pub(crate) fn running(&self) -> Vec<Task> {
        let run = self.run.iter().map(|run| run.task);
        let slots = self.slots.iter().flat_map(|slots| &slots.tasks);
        let begun = slots
            .filter(|slot_task| slot_task.is_begun)
            .map(|slot_task| slot_task.task);
        run.chain(begun).collect()
    }

    /// The jobs that the worker has and has not begun.
    pub(crate) fn waiting_jobs(&self) -> Vec<u64> {
        let slots = self.slots.iter().flat_map(|slots| &slots.tasks);
        let waiting = slots.filter(|slot_task| !slot_task.is_begun && slot_task.task.is_job);
        let waiting = waiting.map(|slot_task| slot_task.task.no);
        self.model.waiting_jobs().chain(waiting).collect()
    }

    /// The calls that the worker has and has not begun.
    pub(crate) fn waiting_calls(&self) -> Vec<u64> {
        let slots = self.slots.iter().flat_map(|slots| &slots.tasks);
        let waiting = slots.filter(|slot_task| !slot_task.is_begun && !slot_task.task.is_job);
        let waiting = waiting.map(|slot_task| slot_task.task.no);
        self.model.waiting_calls().chain(waiting).collect()
    }

    /// Whether the worker reads its connection now.
    pub(crate) fn reads(&self) -> bool {
        let reads = match &self.slots {
            Some(slots) => slots.reads(),
            None => self.model.reads() || self.awaits_credit(),
        };
        self.is_ready && !self.is_rogue && reads
    }

    /// Reads all available frames at once. Returns whether the server has closed the connection.
    pub(crate) fn read(
        &mut self,
        all: &mut Vec<WorkerEffect>,
        ledger: &mut Ledger,
        setup: &Setup,
    ) -> bool {
        if let Some(link) = &mut self.connection.link {
            link.awaits_confirmation = self.model.state == "acks";
        }
        let (model, read_at) = (&mut self.model, self.read_at);
        let (name, answer) = (&mut self.name, &mut self.answer);
        let cancelled_ids = &mut self.cancelled_ids;
        let link = self.connection.link.as_ref();
        let replayed = link.map_or_else(Vec::new, |link| link.replayed().to_vec());
        let ended = self.connection.take(|frame| match frame.kind {
            Type::Req => {
                cancelled_ids.remove(&frame.id);
                let replay = Replay::of(frame.id, &replayed);
                model.add_task(task_of(&frame, read_at, replay, ledger, setup), all);
            }
            Type::Cancel => {
                cancelled_ids.insert(frame.id);
                model.cancel(frame.id, all);
            }
            Type::Event => model.acknowledge(frame.id, all),
            Type::Goaway => model.on("GOAWAY", all),
            Type::Ping => model.on("PING", all),
            Type::Ready => model.on("READY", all),
            Type::Welcome => *name = name_of(frame.body),
            Type::Credit => {
                // The answer may have ended in the meantime.
                if let Some(answer) = answer.as_mut().filter(|answer| answer.id == frame.id) {
                    answer.grant(frame.ttl);
                }
            }
            Type::Res => panic!("the server rejected a worker: {frame:?}"),
            _ => {}
        });
        // What was lost with the connection was not read.
        if !self.connection.is_cut() {
            self.read_at = steady();
        }
        model.on("read", all);
        let is_closed = ended.expect("the server writes valid frames");
        if is_closed && model.reads() {
            model.on("END", all);
        }
        is_closed
    }

    /// Writes a frame, named as in the table.
    pub(crate) fn send(&mut self, frame: &str, id: u32, result: &[u8]) {
        let text = std::mem::take(&mut self.printed);
        let checkpoint = checkpoint_body(self.checkpoint_no);
        let progress = format!(r#"{{"percent":{},"text":"on"}}"#, self.progress);
        let (kind, code, body): (Type, u8, &[u8]) = match frame {
            "STARTED" => (Type::Started, 0, b""),
            "GOAWAY" => (Type::Goaway, 0, b""),
            "PONG" => (Type::Pong, 0, b""),
            "READY 0" | "READY 1" => (Type::Ready, 0, b""),
            "LOG" => (Type::Event, EventKind::LOG.0, text.as_bytes()),
            "PROGRESS" => (Type::Event, EventKind::PROGRESS.0, progress.as_bytes()),
            "CHECKPOINT" => (Type::Event, EventKind::CHECKPOINT.0, &checkpoint),
            "ACK" => (Type::Event, EventKind::ACK.0, b""),
            "LAST_WORDS" => (Type::Event, EventKind::LAST_WORDS.0, br#"{"class":"exit"}"#),
            "OK" => (Type::Res, Status::OK.0, result),
            "ERROR" => (Type::Res, Status::EXCEPTION.0, b"Boom"),
            "RETRY" => (Type::Res, Status::RETRY.0, b""),
            "FAILED" => (Type::Res, Status::FAILED.0, b"never"),
            "CRASHED" => (Type::Res, Status::CRASHED.0, text.as_bytes()),
            "RETURNED" => (Type::Res, Status::RETURNED.0, b""),
            "CANCELLED" => (Type::Res, Status::CANCELLED.0, b"cancelled"),
            other => panic!("unknown frame {other}"),
        };
        let id = if matches!(kind, Type::Goaway | Type::Ready) {
            0
        } else {
            id
        };
        // The rest of an answer in parts, or the reason why there is none.
        let answer = self
            .answer
            .take_if(|answer| kind == Type::Res && answer.id == id);
        let (kind, body) = match (&answer, frame) {
            (Some(answer), "OK") => (Type::Data, answer.rest()),
            (Some(_), _) => (Type::Data, body),
            (None, _) => (kind, body),
        };
        let mut meta = MetaBuf::new();
        if frame == "RETRY"
            && let Some(after) = self.retry_after.take()
        {
            let ms = after.as_millis() as u32;
            meta.push(Key::RETRY_AFTER, &ms.to_be_bytes());
        }
        if frame == "CRASHED" {
            meta.push(Key::SIGNAL, &SEGV.to_be_bytes());
        }
        if frame == "ERROR" {
            meta.push(Key::ERROR_CLASS, CLASS.as_bytes());
            meta.push(Key::ERROR_PLACE, PLACE.as_bytes());
        }
        if frame == "OK" && result.len() <= MAX_META_RESULT {
            meta.push(PASSED, result);
        }
        if matches!(kind, Type::Res | Type::Data) {
            self.last_answered = Some(id);
        }
        // A worker that is about to leave does not wait for another connection.
        let is_leaving = self.is_shutting_down() || self.leaves_by_itself();
        if let Some(link) = self.connection.link.as_mut().filter(|_| is_leaving) {
            link.set_next_cut(None);
        }
        self.connection.put(Encode {
            code,
            meta: meta.as_meta(),
            prio: u8::from(frame == "LOG"),
            ttl: u32::from(frame == "READY 1"),
            body,
            ..Encode::new(kind, id)
        });
        if !matches!(frame, "LOG" | "CRASHED") {
            self.printed = text;
        }
    }
}

/// The name that the server gives a worker.
fn name_of(welcome: &[u8]) -> String {
    let welcome: serde_json::Value = serde_json::from_slice(welcome).expect("JSON");
    welcome["worker"].as_str().expect("a name").to_owned()
}

/// Reads a task from a frame, and records its delivery.
pub(crate) fn task_of(
    frame: &Frame<'_>,
    read_at: Duration,
    replay: Replay,
    ledger: &mut Ledger,
    setup: &Setup,
) -> Task {
    if frame.meta.get(Key::JOB_ID).is_none() {
        let no = ledger.calls.delivered(frame, read_at, replay);
        let mut task = Task::new(frame.id, no, false);
        task.credit = frame.meta.uint(Key::CREDIT).map(|credit| credit as u32);
        return task;
    }
    let no = number(frame.body).expect("a job carries its number");
    ledger.check_sent(no, read_at, setup);
    ledger.delivered(no, frame, replay, setup);
    Task::new(frame.id, no, true)
}
