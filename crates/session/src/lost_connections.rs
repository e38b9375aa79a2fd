//! Simulates a worker that loses its connection repeatedly, at any byte. Every task must run once, in order, and the
//! server must get every answer once.

use crate::WorkerFilter;
use crate::{FrameFilter, Output};
use proptest::prelude::*;
use serde_json::Value;
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;
use stoker_wire::{Encode, MAX_FRAME, Splitter, Type, WireError, encode};

/// The number of tasks that the server assigns at once.
const MAX_ASSIGNED: usize = 5;

/// Tasks without time limits do not depend on the time.
const NOW: Duration = Duration::ZERO;

#[derive(Clone, Copy, Debug)]
enum Step {
    /// The server assigns a task with a body of this many bytes.
    Assign(usize),
    /// The gateway reads this many of the server's bytes.
    FromServer(usize),
    /// The worker reads this many bytes.
    ToWorker(usize),
    /// The worker runs its next task.
    Run,
    /// The gateway reads this many of the worker's bytes.
    FromWorker(usize),
    /// The connection and all bytes in transit are lost, and the worker reconnects.
    Cut,
}

struct Model {
    gateway: WorkerFilter,
    out: Output,
    /// Bytes in transit from the server, to the worker and from the worker.
    from_server: VecDeque<u8>,
    to_worker: VecDeque<u8>,
    from_worker: VecDeque<u8>,
    assigned: u32,
    answered: Vec<u32>,
    /// The tasks that the worker has read but not run, the tasks that it has run, and the answers that it keeps.
    waiting: VecDeque<u32>,
    ran: Vec<u32>,
    kept: BTreeMap<u32, Vec<u8>>,
    /// The worker has sent HELLO and writes nothing before WELCOME.
    is_greeting: bool,
    reader: Splitter,
    server: Splitter,
}

impl Model {
    fn new() -> Self {
        let mut model = Self {
            gateway: WorkerFilter::new("s".to_owned(), Duration::from_secs(1), 1),
            out: Output::default(),
            from_server: VecDeque::new(),
            to_worker: VecDeque::new(),
            from_worker: VecDeque::new(),
            assigned: 0,
            answered: Vec::new(),
            waiting: VecDeque::new(),
            ran: Vec::new(),
            kept: BTreeMap::new(),
            is_greeting: false,
            reader: Splitter::new(MAX_FRAME),
            server: Splitter::new(MAX_FRAME),
        };
        model.server_writes(Type::Welcome, 0, b"{\"worker\":\"p-1\"}");
        model
    }

    fn server_writes(&mut self, kind: Type, id: u32, body: &[u8]) {
        let mut bytes = Vec::new();
        let name = if kind == Type::Req { "mails" } else { "" };
        encode(
            &mut bytes,
            Encode {
                name,
                body,
                ..Encode::new(kind, id)
            },
        );
        self.from_server.extend(bytes);
    }

    fn step(&mut self, step: Step) {
        match step {
            Step::Assign(len) => {
                if (self.assigned as usize) < self.answered.len() + MAX_ASSIGNED {
                    self.assigned += 1;
                    self.server_writes(Type::Req, self.assigned, &vec![1; len]);
                }
            }
            Step::FromServer(count) => {
                let bytes = take(&mut self.from_server, count);
                let out = &mut self.out;
                self.gateway.on_server_bytes(&bytes, NOW, out).unwrap();
                self.to_worker.extend(self.out.to_peer.drain(..));
            }
            Step::ToWorker(count) => {
                let bytes = take(&mut self.to_worker, count);
                self.worker_reads(&bytes);
            }
            Step::Run => {
                if let Some(id) = self.waiting.pop_front() {
                    self.ran.push(id);
                    let mut answer = Vec::new();
                    encode(&mut answer, Encode::new(Type::Res, id));
                    if !self.is_greeting {
                        self.from_worker.extend(&answer);
                    }
                    self.kept.insert(id, answer);
                }
            }
            Step::FromWorker(count) => {
                let bytes = take(&mut self.from_worker, count);
                self.gateway
                    .on_peer_bytes(&bytes, NOW, &mut self.out)
                    .unwrap();
                self.server_reads();
            }
            Step::Cut => self.cut(),
        }
    }

    fn server_reads(&mut self) {
        let answered = &mut self.answered;
        let bytes = std::mem::take(&mut self.out.to_server);
        let fed = self.server.feed(&bytes, |frame| {
            assert_eq!(frame.kind, Type::Res);
            assert!(
                !answered.contains(&frame.id),
                "answered twice: {}",
                frame.id
            );
            answered.push(frame.id);
            Ok::<(), WireError>(())
        });
        fed.unwrap();
    }

    fn worker_reads(&mut self, bytes: &[u8]) {
        let (waiting, kept) = (&mut self.waiting, &mut self.kept);
        let (from_worker, is_greeting) = (&mut self.from_worker, &mut self.is_greeting);
        let fed = self.reader.feed(bytes, |frame| {
            match frame.kind {
                Type::Req => waiting.push_back(frame.id),
                Type::Welcome => {
                    let welcome: Value = serde_json::from_slice(frame.body).unwrap();
                    let open = welcome["open"].as_array().cloned().unwrap_or_default();
                    let is_open = |id: u32| open.iter().any(|open| *open == id);
                    waiting.retain(|id| is_open(*id));
                    kept.retain(|id, _| is_open(*id));
                    *is_greeting = false;
                    kept.values().for_each(|answer| from_worker.extend(answer));
                }
                other => panic!("unexpected {other:?}"),
            }
            Ok::<(), WireError>(())
        });
        fed.unwrap();
    }

    fn cut(&mut self) {
        self.from_worker.clear();
        self.to_worker.clear();
        self.reader = Splitter::new(MAX_FRAME);
        if !self.gateway.can_be_resumed() {
            // No task is open, so nothing was lost.
            return;
        }
        let held: Vec<u32> = self
            .waiting
            .iter()
            .chain(self.kept.keys())
            .copied()
            .collect();
        let first = self
            .gateway
            .resume(&held, NOW)
            .expect("tasks of this size are kept");
        self.to_worker.extend(first);
        self.is_greeting = true;
    }

    /// Delivers everything that is in transit, without further losses.
    fn finish(&mut self) {
        for _ in 0..1_000 {
            for step in [
                Step::FromServer(usize::MAX),
                Step::ToWorker(usize::MAX),
                Step::Run,
                Step::FromWorker(usize::MAX),
            ] {
                self.step(step);
            }
        }
    }
}

fn take(from: &mut VecDeque<u8>, count: usize) -> Vec<u8> {
    let count = count.min(from.len());
    from.drain(..count).collect()
}

fn any_step() -> impl Strategy<Value = Step> {
    prop_oneof![
        3 => (0usize..60).prop_map(Step::Assign),
        3 => (1usize..90).prop_map(Step::FromServer),
        3 => (1usize..90).prop_map(Step::ToWorker),
        3 => Just(Step::Run),
        3 => (1usize..40).prop_map(Step::FromWorker),
        1 => Just(Step::Cut),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn every_task_runs_once_and_is_answered_once(steps in prop::collection::vec(any_step(), 0..200)) {
        let mut model = Model::new();
        steps.into_iter().for_each(|step| model.step(step));
        model.finish();
        let all: Vec<u32> = (1..=model.assigned).collect();
        prop_assert_eq!(&model.ran, &all, "tasks run once, in order");
        let mut answered = model.answered.clone();
        answered.sort_unstable();
        prop_assert_eq!(answered, all);
    }
}
