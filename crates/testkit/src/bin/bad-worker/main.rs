//! A worker that does what its script says, however wrong.
//!
//! `bad-worker SCRIPT` runs steps separated by `;` over the socket of `STOKER_FD`, or dials
//! `STOKER_SOCKET`. `serve` serves tasks whose bodies are scripts themselves. A body that is JSON, but no
//! JSON text, is echoed. The steps are listed in `steps.rs`.

mod link;
mod steps;

use link::Link;
use serde_json::Value;
use std::collections::VecDeque;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Instant;
use stoker_testkit::{Got, Inbox};
use stoker_wire::{Codec, Encode, Hello, Role, Status, Type};

/// What a script works on.
struct Worker {
    link: Option<Link>,
    /// What comes. Only the thread that reads the socket has it.
    inbox: Option<Inbox>,
    hello: Hello,
    said_hello: bool,
    /// The task that is unanswered, and since when.
    task: Option<(Got, Instant)>,
    /// SIGUSR1 has come.
    soft_signal: Arc<AtomicBool>,
    /// It goes on when it is told to go.
    stubborn: bool,
    /// It says of every task that it took a microsecond.
    quick: bool,
    eaten: Vec<Vec<u8>>,
    /// Frames that came while a task waited for another one.
    aside: VecDeque<Got>,
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
        said_hello: false,
        task: None,
        soft_signal: Arc::default(),
        stubborn: false,
        quick: false,
        eaten: Vec::new(),
        aside: VecDeque::new(),
    };
    worker.run(&script);
    ExitCode::SUCCESS
}

impl Worker {
    /// Runs the steps of a script, up to one that ends it.
    fn run(&mut self, script: &str) {
        for step in script.split(';').map(str::trim) {
            let (name, argument) = step.split_once(' ').unwrap_or((step, ""));
            if !self.step(name, argument) {
                return;
            }
        }
    }

    /// Serves tasks until it is told to go.
    fn serve(&mut self) {
        if !self.said_hello {
            self.say_hello();
        }
        while let Some(got) = self.read() {
            match got.kind {
                Type::Goaway if !self.stubborn => return,
                Type::Req if self.hello.slots.unwrap_or(1) > 1 => self.run_beside(got),
                Type::Req => {
                    self.begin(got);
                    self.run_task();
                }
                _ => {}
            }
        }
        if self.stubborn {
            self.step("silence", "");
        }
    }

    fn begin(&mut self, task: Got) {
        self.task = Some((task, Instant::now()));
    }

    /// Runs the task at hand as its body says, and answers it where the script did not.
    fn run_task(&mut self) {
        let Some((task, _)) = &self.task else { return };
        let text = task.text();
        match serde_json::from_str::<Value>(&text) {
            Ok(Value::String(script)) => self.run(&script),
            Ok(_) => self.answer(Status::OK, Codec::JSON, text.as_bytes()),
            Err(_) => self.run(&text),
        }
        self.answer(Status::OK, Codec::RAW, b"done");
    }

    /// With several slots each task has a thread.
    fn run_beside(&mut self, task: Got) {
        let mut beside = Self {
            link: self.link.clone(),
            inbox: None,
            hello: self.hello.clone(),
            said_hello: true,
            task: None,
            soft_signal: self.soft_signal.clone(),
            stubborn: false,
            quick: self.quick,
            eaten: Vec::new(),
            aside: VecDeque::new(),
        };
        self.send(Encode::new(Type::Started, task.id));
        beside.begin(task);
        std::thread::spawn(move || beside.run_task());
    }

    /// Answers the task at hand, if it is not answered yet.
    fn answer(&mut self, status: Status, codec: Codec, body: &[u8]) {
        let Some((task, began)) = self.task.take() else {
            return;
        };
        let worked = match self.quick {
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
