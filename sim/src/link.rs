//! The network and the gateway between a worker on another machine and the server. The gateway's part is the code of the
//! real one (`stoker_session`). The network loses the connection, at any byte of what the worker is sent or of an answer
//! that it writes: what was in transit is lost, and the worker reconnects and resumes its session.

use crate::ledger::MAX_LATENESS;
use serde_json::Value;
use std::collections::VecDeque;
use std::ops::RangeInclusive;
use std::time::Duration;
use stoker_os::steady;
use stoker_session::{FrameFilter, Output, Part, Scanner, WorkerFilter};
use stoker_wire::{Encode, MAX_FRAME, Status, Type, WireError, encode, parse};

/// The number of answers that a worker keeps in case its connection is lost.
const MAX_KEPT: usize = 64;

/// The time limit of a task that is sent again after its time has passed.
const MIN_LIMIT: Duration = Duration::from_millis(1);

/// When the network loses the connection, and at which byte.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cut {
    /// The number of reads and answers until then.
    pub(crate) after: u64,
    /// The share of the bytes of the last one that still arrive, in per cent.
    pub(crate) arrive: u64,
}

/// What a worker knows when its session could not be resumed.
#[derive(Clone, Debug)]
pub(crate) struct LostSession {
    pub(crate) id: String,
    /// The tasks that it had, and those to which it kept answers.
    pub(crate) held: Vec<u32>,
    /// How many of them the server has no answer to.
    pub(crate) unanswered: usize,
}

/// A task that was sent again after a loss.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Replay {
    id: u32,
    /// The time since the gateway first read it.
    pub(crate) waited: Duration,
    /// The time since it began to run, as far as the server knows: it is the first of the worker's tasks.
    pub(crate) ran: Duration,
}

impl Replay {
    /// A task that was not sent again.
    pub(crate) const NONE: Self = Self {
        id: 0,
        waited: Duration::ZERO,
        ran: Duration::ZERO,
    };

    /// What may be left of a time limit. The time of a run may have begun before the loss; the gateway counts whole
    /// milliseconds, and leaves at least one.
    pub(crate) fn may_be_left_of_run(&self, limit: Duration) -> RangeInclusive<Duration> {
        if self.id == 0 {
            return limit..=limit;
        }
        let min = limit.saturating_sub(self.waited).max(MIN_LIMIT);
        min..=self.max_left(limit, self.ran)
    }

    /// The most that may be left of a task's ttl.
    pub(crate) fn max_left_of_ttl(&self, ttl: Duration) -> Duration {
        self.max_left(ttl, self.waited)
    }

    fn max_left(&self, limit: Duration, passed: Duration) -> Duration {
        let left = limit.saturating_sub(passed);
        left.saturating_add(MIN_LIMIT).min(limit.max(MIN_LIMIT))
    }

    /// The replay of the task with this id; `NONE` if it was not sent again.
    pub(crate) fn of(id: u32, replayed: &[Self]) -> Self {
        let found = replayed.iter().find(|replay| replay.id == id);
        found.copied().unwrap_or(Self::NONE)
    }
}

pub(crate) struct Link {
    filter: WorkerFilter,
    from_server: Scanner,
    /// When the gateway read each task from the server.
    read_at: Vec<(u32, Duration)>,
    /// The tasks that were sent again after the last loss.
    replayed: Vec<Replay>,
    /// Bytes that the gateway has forwarded to the worker and the worker has not read. While there is no connection:
    /// what the gateway will send to the worker first.
    pub(crate) to_worker: Vec<u8>,
    next_cut: Option<Cut>,
    /// The worker has received the answer to HELLO, without which there is no session.
    pub(crate) is_welcomed: bool,
    /// The worker waits for the confirmation of an acknowledgement. If that were lost, the SDK would throw an exception in
    /// the code of the task, which the table does not have.
    pub(crate) awaits_confirmation: bool,
    pub(crate) is_cut: bool,
    /// The worker knows of the loss. What it wrote before has arrived.
    is_down: bool,
    /// When the connection was last lost, and when it came back.
    outage: Option<(Duration, Duration)>,
    /// When a task that was lost with the connection may have been sent for the first time.
    sent_since: Duration,
    /// The tasks that the worker has received and not answered.
    tasks: Vec<u32>,
    /// Answers, the latest last: the server may not have them.
    kept: VecDeque<(u32, Vec<u8>)>,
    /// The tasks whose answers were lost with the connection.
    lost: Vec<u32>,
}

impl Link {
    pub(crate) fn new(session: String, resume_timeout: Duration) -> Self {
        Self {
            filter: WorkerFilter::new(session, resume_timeout, 1),
            from_server: Scanner::default(),
            read_at: Vec::new(),
            replayed: Vec::new(),
            to_worker: Vec::new(),
            next_cut: None,
            is_welcomed: false,
            awaits_confirmation: false,
            is_cut: false,
            is_down: false,
            outage: None,
            sent_since: Duration::MAX,
            tasks: Vec::new(),
            kept: VecDeque::new(),
            lost: Vec::new(),
        }
    }

    pub(crate) fn set_next_cut(&mut self, cut: Option<Cut>) {
        self.next_cut = cut;
    }

    /// Counts a read or an answer. If the connection is lost in it, returns how many of its bytes arrive.
    fn arriving(&mut self, len: usize) -> Option<usize> {
        let may_be_lost = self.is_welcomed && !self.awaits_confirmation;
        let cut = self.next_cut.as_mut().filter(|_| may_be_lost)?;
        if cut.after > 0 {
            cut.after -= 1;
            return None;
        }
        let arriving = len * cut.arrive as usize / 100;
        self.next_cut = None;
        Some(arriving)
    }

    /// The gateway has read these bytes from the server, and forwards them to the worker.
    pub(crate) fn receive(&mut self, bytes: &[u8]) {
        let mut out = Output::default();
        let forwarded = self.filter.on_server_bytes(bytes, steady(), &mut out);
        forwarded.expect("the server writes valid frames");
        assert!(out.to_server.is_empty());
        for id in tasks_in(bytes, &mut self.from_server) {
            self.read_at.retain(|(other, _)| *other != id);
            self.read_at.push((id, steady()));
        }
        self.to_worker.append(&mut out.to_peer);
        if !bytes.is_empty()
            && let Some(arriving) = self.arriving(self.to_worker.len())
        {
            self.to_worker.truncate(arriving);
            self.is_cut = true;
        }
    }

    /// The worker has read these tasks.
    pub(crate) fn received(&mut self, tasks: Vec<u32>) {
        self.tasks.extend(tasks);
    }

    /// The worker writes a frame. Returns the bytes that the gateway forwards to the server.
    pub(crate) fn send(&mut self, frame: Encode<'_>) -> Vec<u8> {
        let mut bytes = Vec::new();
        encode(&mut bytes, frame);
        if frame.kind != Type::Res {
            assert!(
                !self.is_down,
                "a worker without a connection writes {frame:?}"
            );
            return self.forward(&bytes);
        }
        self.tasks.retain(|id| *id != frame.id);
        self.replayed.retain(|replay| replay.id != frame.id);
        self.kept.push_back((frame.id, bytes.clone()));
        if self.kept.len() > MAX_KEPT {
            self.kept.pop_front();
        }
        if self.is_down {
            self.lost.push(frame.id);
            return Vec::new();
        }
        // The model of the worker ends a run when its answer is written. It can wait for that only with a usual answer
        // that is the last.
        let is_usual = matches!(
            Status(frame.code),
            Status::OK | Status::EXCEPTION | Status::RETRY | Status::FAILED
        );
        if is_usual
            && self.tasks.is_empty()
            && let Some(arriving) = self.arriving(bytes.len())
        {
            if arriving < bytes.len() {
                self.lost.push(frame.id);
                bytes.truncate(arriving);
            }
            self.is_cut = true;
        }
        self.forward(&bytes)
    }

    fn forward(&mut self, bytes: &[u8]) -> Vec<u8> {
        let mut out = Output::default();
        let forwarded = self.filter.on_peer_bytes(bytes, steady(), &mut out);
        forwarded.expect("workers write valid frames");
        out.to_server
    }

    /// The worker notices that it has lost its connection.
    pub(crate) fn go_down(&mut self) {
        self.is_down = true;
        // A task that was sent during the outage before may be lost once more.
        let since = self.sent_at(steady());
        self.outage = Some((steady(), Duration::MAX));
        self.sent_since = since;
        self.to_worker = self.resumption();
    }

    /// When a task that began at this time may have been sent: it may have been lost with the connection, and sent again.
    pub(crate) fn sent_at(&self, began: Duration) -> Duration {
        let outage = self
            .outage
            .filter(|(_, back_at)| began <= back_at.saturating_add(MAX_LATENESS));
        outage.map_or(began, |(lost_at, _)| {
            lost_at.min(self.sent_since).min(began)
        })
    }

    /// Whether an answer was lost that the worker will write again.
    pub(crate) fn has_lost_answer(&self) -> bool {
        !self.lost.is_empty()
    }

    pub(crate) fn can_be_resumed(&self) -> bool {
        self.filter.can_be_resumed()
    }

    /// Whether the worker had no task, as far as the gateway knows.
    pub(crate) fn is_idle(&self) -> bool {
        self.filter.is_idle()
    }

    /// The tasks to which the server still awaits answers, as far as the gateway knows.
    pub(crate) fn open(&self) -> Vec<u32> {
        self.filter.state().open_ids()
    }

    /// What the worker knows of its session.
    pub(crate) fn session(&self) -> LostSession {
        LostSession {
            id: self.filter.id().to_owned(),
            held: self.held(),
            unanswered: self.tasks.len() + self.lost.len(),
        }
    }

    fn held(&self) -> Vec<u32> {
        let kept = self.kept.iter().map(|(id, _)| id);
        self.tasks.iter().chain(kept).copied().collect()
    }

    /// What the gateway sends first when the worker reconnects.
    fn resumption(&mut self) -> Vec<u8> {
        let held = self.held();
        let first = self.filter.resume(&held, steady());
        first.expect("the tasks are kept, and the worker names only tasks that it has received")
    }

    /// The tasks that were sent again after the last loss.
    pub(crate) fn replayed(&self) -> &[Replay] {
        &self.replayed
    }

    /// Records which tasks the gateway sends again.
    fn record_replays(&mut self) {
        let first = self.open().first().copied();
        let again = tasks_in(&self.to_worker, &mut Scanner::default());
        let outage = self
            .outage
            .map_or(Duration::ZERO, |(lost_at, back_at)| back_at - lost_at);
        self.replayed = again
            .into_iter()
            .map(|id| {
                let read_at = self.read_at.iter().find(|(other, _)| *other == id);
                Replay {
                    id,
                    waited: read_at.map_or(Duration::ZERO, |(_, at)| steady() - *at),
                    ran: if first == Some(id) {
                        outage
                    } else {
                        Duration::ZERO
                    },
                }
            })
            .collect();
    }

    /// The worker reconnects and resumes its session. Returns the bytes that the gateway forwards to the server: the
    /// answers that were lost.
    pub(crate) fn resume(&mut self) -> Vec<u8> {
        self.to_worker = self.resumption();
        (self.is_cut, self.is_down) = (false, false);
        self.outage = self.outage.map(|(lost_at, _)| (lost_at, steady()));
        self.record_replays();
        let first = parse(&self.to_worker, MAX_FRAME).expect("a valid frame");
        let (frame, _) = first.expect("a complete frame");
        assert_eq!(frame.kind, Type::Welcome);
        let welcome: Value = serde_json::from_slice(frame.body).expect("JSON");
        assert_eq!(welcome["resumed"], true);
        let open = welcome["open"].as_array().expect("a list");
        let is_open = |id: u32| open.iter().any(|open| *open == id);
        assert!(
            self.tasks.iter().all(|id| is_open(*id)),
            "the worker has tasks {:?}, but {open:?} are open",
            self.tasks
        );
        self.kept.retain(|(id, _)| is_open(*id));
        let again: Vec<u32> = self.kept.iter().map(|(id, _)| *id).collect();
        assert_eq!(again, self.lost, "only answers that were lost are awaited");
        self.lost.clear();
        let answers: Vec<&[u8]> = self
            .kept
            .iter()
            .map(|(_, bytes)| bytes.as_slice())
            .collect();
        let answers = answers.concat();
        self.forward(&answers)
    }
}

/// The ids of the tasks whose heads are in these bytes of a stream.
fn tasks_in(bytes: &[u8], scanner: &mut Scanner) -> Vec<u32> {
    let mut ids = Vec::new();
    let scanned = scanner.scan(bytes, |part| {
        if let Part::Head { frame, .. } = part
            && frame.kind == Type::Req
        {
            ids.push(frame.id);
        }
        Ok::<(), WireError>(())
    });
    scanned.expect("valid frames");
    ids
}
