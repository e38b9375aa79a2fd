//! A worker that executes a script, including any kind of misbehaviour.
//!
//! `bad-worker SCRIPT` runs steps separated by `;` over the socket of `STOKER_FD`, or connects to `STOKER_SOCKET`.
//! `serve` serves tasks whose bodies are scripts themselves. A body that is JSON, but not a JSON string, is echoed. The
//! steps are listed in `steps.rs`.

mod http;
mod link;
mod parts;
mod steps;

use link::Link;
use serde_json::Value;
use std::collections::VecDeque;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Instant;
use stoker_testkit::{Inbox, Received};
use stoker_wire::{Codec, Encode, Hello, Role, Status, Type};

/// The state of a script.
struct Worker {
    link: Option<Link>,
    /// The incoming frames. Only the thread that reads the socket has it.
    inbox: Option<Inbox>,
    hello: Hello,
    sent_hello: bool,
    /// The unanswered task, and when it began.
    task: Option<(Received, Instant)>,
    /// Whether SIGUSR1 has come.
    soft_signal: Arc<AtomicBool>,
    /// Whether the worker ignores GOAWAY.
    ignores_goaway: bool,
    /// Whether the worker reports one microsecond as the duration of every task.
    reports_one_microsecond: bool,
    allocated: Vec<Vec<u8>>,
    /// Frames that arrived while a task waited for another one.
    set_aside: VecDeque<Received>,
    /// The number of bytes of an answer in parts that may still be sent.
    credit: usize,
}

fn main() -> ExitCode {
    let script = std::env::args().nth(1).unwrap_or_default();
    let mut worker = Worker {
        link: None,
        inbox: None,
        hello: Hello {
            v: vec![1],
            role: Role::Worker,
            name: "bad-worker".to_owned(),
            calls: vec!["t.run".to_owned(), "t.again".to_owned()],
            idempotent: vec!["t.again".to_owned()],
            jobs: vec!["*".to_owned()],
            ..Hello::default()
        },
        sent_hello: false,
        task: None,
        soft_signal: Arc::default(),
        ignores_goaway: false,
        reports_one_microsecond: false,
        allocated: Vec::new(),
        set_aside: VecDeque::new(),
        credit: 0,
    };
    worker.run(&script);
    ExitCode::SUCCESS
}

impl Worker {
    /// Runs the steps of a script until one of them ends it.
    fn run(&mut self, script: &str) {
        for step in script.split(';').map(str::trim) {
            let (name, argument) = step.split_once(' ').unwrap_or((step, ""));
            if !self.step(name, argument) {
                return;
            }
        }
    }

    /// Serves tasks until GOAWAY.
    fn serve(&mut self) {
        if !self.sent_hello {
            self.send_hello();
        }
        while let Some(got) = self.read() {
            match got.kind {
                Type::Goaway if !self.ignores_goaway => return,
                Type::Req if self.hello.slots.unwrap_or(1) > 1 => self.run_in_thread(got),
                Type::Req => {
                    self.begin(got);
                    self.run_task();
                }
                _ => {}
            }
        }
        if self.ignores_goaway {
            self.step("silence", "");
        }
    }

    fn begin(&mut self, task: Received) {
        self.task = Some((task, Instant::now()));
    }

    /// Runs the current task's body as a script, and answers the task unless the script did.
    fn run_task(&mut self) {
        let Some((task, _)) = &self.task else { return };
        let text = task.text();
        if task.code == Codec::HTTP.0 {
            let script = http::script(&text).to_owned();
            self.run(&script);
            return self.answer_http("200", "done");
        }
        match serde_json::from_str::<Value>(&text) {
            Ok(Value::String(script)) => self.run(&script),
            Ok(_) => self.answer(Status::OK, Codec::JSON, text.as_bytes()),
            Err(_) => self.run(&text),
        }
        self.answer(Status::OK, Codec::RAW, b"done");
    }

    /// Runs a task in a thread of its own, for workers with several slots.
    fn run_in_thread(&mut self, task: Received) {
        let mut parallel = Self {
            link: self.link.clone(),
            inbox: None,
            hello: self.hello.clone(),
            sent_hello: true,
            task: None,
            soft_signal: self.soft_signal.clone(),
            ignores_goaway: false,
            reports_one_microsecond: self.reports_one_microsecond,
            allocated: Vec::new(),
            set_aside: VecDeque::new(),
            credit: 0,
        };
        self.send(Encode::new(Type::Started, task.id));
        parallel.begin(task);
        std::thread::spawn(move || parallel.run_task());
    }

    /// Answers the current task unless it has been answered.
    fn answer(&mut self, status: Status, codec: Codec, body: &[u8]) {
        let Some((task, began)) = self.task.take() else {
            return;
        };
        let worked = match self.reports_one_microsecond {
            true => 1,
            false => u32::try_from(began.elapsed().as_micros()).unwrap_or(u32::MAX),
        };
        self.send(Encode {
            code: status.0,
            prio: codec.0,
            ttl: worked.max(1),
            body,
            ..Encode::new(Type::Res, task.id)
        });
    }
}
