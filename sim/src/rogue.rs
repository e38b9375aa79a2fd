//! Workers that break the protocol. After that they do nothing more, and wait for the server's reaction.

use crate::agenda::PlannedEvent;
use crate::dice::Dice;
use crate::ledger::Death;
use crate::world::World;
use std::time::Duration;
use stoker_os::steady;
use stoker_wire::{Encode, Status, Type};

/// How a worker breaks the protocol while it runs a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ProtocolFault {
    AnswersUnknown,
    AnswersAgain,
    AnswersWaiting,
    Requests,
    Welcomes,
    Garbage,
    TooLong,
    HalfFrame,
    GoesAway,
    Returns,
    HelloTwice,
    AsksForTasks,
    StartsUnknown,
    SendsPart,
    GrantsCredit,
    HangsUp,
}

const ALL: [ProtocolFault; 16] = [
    ProtocolFault::AnswersUnknown,
    ProtocolFault::AnswersAgain,
    ProtocolFault::AnswersWaiting,
    ProtocolFault::Requests,
    ProtocolFault::Welcomes,
    ProtocolFault::Garbage,
    ProtocolFault::TooLong,
    ProtocolFault::HalfFrame,
    ProtocolFault::GoesAway,
    ProtocolFault::Returns,
    ProtocolFault::HelloTwice,
    ProtocolFault::AsksForTasks,
    ProtocolFault::StartsUnknown,
    ProtocolFault::SendsPart,
    ProtocolFault::GrantsCredit,
    ProtocolFault::HangsUp,
];

/// After this time a worker that broke the protocol dies by itself, whatever the server does.
const MAX_LIFETIME: Duration = Duration::from_secs(200);
/// A task id that is never assigned.
const UNASSIGNED_ID: u32 = 4_000_000;

impl ProtocolFault {
    pub(crate) fn draw(dice: &mut Dice) -> Self {
        *dice.one_of(&ALL)
    }

    /// The bytes that the worker writes. It runs `task`, and may have another task waiting and have answered one
    /// before.
    fn bytes(self, task: u32, waiting: Option<u32>, answered: Option<u32>) -> Vec<u8> {
        let mut out = Vec::new();
        let mut put = |kind: Type, code: u8, id: u32, name: &str, body: &[u8]| {
            let frame = Encode {
                code,
                name,
                body,
                ..Encode::new(kind, id)
            };
            stoker_wire::encode(&mut out, frame);
        };
        let ok = Status::OK.0;
        match self {
            Self::AnswersUnknown => put(Type::Res, ok, UNASSIGNED_ID, "", b""),
            Self::AnswersAgain => put(Type::Res, ok, answered.unwrap_or(UNASSIGNED_ID), "", b""),
            Self::AnswersWaiting => put(Type::Res, ok, waiting.unwrap_or(UNASSIGNED_ID), "", b""),
            Self::Requests => put(Type::Req, 0, 1, "s0.ask", b"12345678"),
            Self::Welcomes => put(Type::Welcome, 0, 0, "", b"{}"),
            Self::GoesAway => (0..50).for_each(|_| put(Type::Goaway, 0, 0, "", b"")),
            Self::Returns => put(Type::Res, Status::RETURNED.0, task, "", b""),
            Self::HelloTwice => put(Type::Hello, 0, 0, "", br#"{"v":[1],"role":"worker"}"#),
            Self::AsksForTasks => put(Type::Ready, 0, 0, "", b""),
            Self::SendsPart => put(Type::Data, ok, UNASSIGNED_ID, "", b""),
            Self::GrantsCredit => put(Type::Credit, 0, task, "", b""),
            Self::StartsUnknown => put(Type::Started, 0, UNASSIGNED_ID, "", b""),
            Self::Garbage => out.extend_from_slice(b"\0\0\0\x05Fatal error: something on line 5"),
            Self::TooLong => out.extend_from_slice(&[0x7f; 60]),
            Self::HalfFrame | Self::HangsUp => out.extend_from_slice(&[0, 0, 1, 0, 2, 0]),
        }
        out
    }
}

impl World {
    pub(crate) fn breaks_protocol(&mut self, key: u64) {
        let fault = ProtocolFault::draw(self.dice("rogue"));
        self.trace(|| format!("  worker {key}: {fault:?}"));
        let Some(run) = self
            .workers
            .get(&key)
            .and_then(|worker| worker.run.as_ref())
        else {
            return;
        };
        let (id, task) = (run.task.id, run.task);
        let Some(worker) = self.workers.get_mut(&key) else {
            return;
        };
        let waiting = worker.model.next_waiting();
        let bytes = fault.bytes(id, waiting.map(|task| task.id), worker.last_answered);
        worker.connection.put_bytes(&bytes);
        if fault == ProtocolFault::HangsUp {
            worker.connection.hang_up();
        }
        worker.is_rogue = true;
        // Where no time limit bounds the task, the server does not end the worker.
        self.agenda
            .plan(steady() + MAX_LIFETIME, PlannedEvent::Dies(key, true));
        let all: Vec<u64> = worker.model.waiting_jobs().collect();
        // The worker may have been sent a job that is acknowledged on delivery, and does not read it.
        self.ledger.had_leaving_workers = true;
        self.ledger.had_rogue_workers = true;
        let name = worker.name.clone();
        let run = worker.run.take();
        self.record_task_left(&name, task);
        self.rogues.insert(name);
        // The server may assign the worker's tasks to another worker at once, or accept a wrong answer as a right one.
        let Some(task) = run.map(|run| run.task) else {
            return;
        };
        // The worker may have reported that it never began the task.
        match task.is_job {
            true => {
                self.ledger.died(task.no, Death::Unclear, &self.setup);
                self.ledger.jobs[task.no as usize].may_run_again = true;
            }
            false => self.ledger.calls.worker_broke_protocol(task.no),
        }
        if fault != ProtocolFault::AnswersAgain {
            all.into_iter()
                .for_each(|no| self.ledger.worker_broke_protocol(no));
        }
    }

    /// Checks that each worker that the server killed for breaking the protocol has broken it.
    pub(crate) fn check_protocol_faults(&self, log: &str) {
        // Log lines about the worker's tasks mention the fault too, and name no worker.
        let is_fault = |line: &&str| {
            let is_reported = line.contains(" broke the protocol");
            is_reported && (!line.contains(": it broke") || line.contains(" is killed: it broke"))
        };
        for line in log.lines().filter(is_fault) {
            let is_known = line.split(' ').any(|word| self.rogues.contains(word));
            assert!(
                is_known,
                "a worker was killed that did not break the protocol: {line}"
            );
        }
    }
}
