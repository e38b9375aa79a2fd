//! The steps of a script. If a step takes a script as an argument, the steps of that script are separated by `,`.

use crate::Worker;
use rustix::process::{Signal, WaitOptions, getpid, kill_process, setsid, wait};
use serde_json::json;
use std::fs::{File, OpenOptions};
use std::io::{Read, Write, stderr, stdout};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use stoker_testkit::{Client, Request, Spawn, pause};
use stoker_wire::{Codec, Encode, EventKind, Key, Meta, MetaBuf, Status, Type};

impl Worker {
    /// Runs one step. Returns false to end the script.
    pub(crate) fn step(&mut self, name: &str, argument: &str) -> bool {
        let number = || argument.parse::<u64>().unwrap_or(0);
        let words = || {
            argument
                .split(',')
                .map(str::to_owned)
                .collect::<Vec<String>>()
        };
        match name {
            "" => {}
            // Fields of HELLO.
            "calls" => self.hello.calls = words(),
            "idempotent" => self.hello.idempotent = words(),
            "jobs" => self.hello.jobs = words(),
            "slots" => self.hello.slots = Some(number() as u16),
            // Without an argument, the worker's own pid.
            "pid" => self.hello.pid = argument.parse().ok().or(Some(std::process::id())),
            "pool" => self.hello.pool = Some(argument.to_owned()),
            "token" => self.hello.token = Some(argument.to_owned()),
            "soft-cancel" => {
                self.hello.soft_cancel = true;
                on_signal(signal_hook::consts::SIGUSR1, &self.soft_signal);
            }
            "quick" => self.reports_one_microsecond = true,
            // Normal operation.
            "hello" => self.send_hello(),
            "serve" => self.serve(),
            "read" => self.read_task(),
            "ok" => self.answer(Status::OK, Codec::RAW, argument.as_bytes()),
            "http" => {
                let (status, text) = argument.split_once(' ').unwrap_or((argument, ""));
                self.answer_http(status, text);
            }
            "http-echo" => self.echo_http(),
            "http-file" => self.describe_body(),
            // `|` stands for the end of a line.
            "http-raw" => {
                let message = argument.replace('|', "\r\n");
                self.answer(Status::OK, Codec::HTTP, message.as_bytes());
            }
            "http-big" => {
                let body = "x".repeat(number() as usize);
                self.answer_http("200", &body);
            }
            // Answers in parts.
            "first-part" => self.first_part(argument),
            "next-part" => self.next_part(argument.as_bytes()),
            "last-part" => self.last_part(argument),
            "stream" => self.stream(number() as usize),
            "json" => self.answer(Status::OK, Codec::JSON, argument.as_bytes()),
            "fail" => self.fail(argument),
            "retry" => self.retry(argument),
            "tell" => {
                let told = self.told();
                self.answer(Status::OK, Codec::JSON, told.as_bytes());
            }
            "note-told" => note(&self.told()),
            "big" => self.answer(Status::OK, Codec::RAW, &vec![b'b'; number() as usize]),
            "last-words" => self.event(EventKind::LAST_WORDS, 0, argument),
            "log" => self.event(EventKind::LOG, 1, &self.line(argument)),
            "metric" => self.event(EventKind::METRIC, 0, argument),
            "progress" => self.event(EventKind::PROGRESS, 0, argument),
            "checkpoint" => self.event(EventKind::CHECKPOINT, 0, argument),
            "ack" => self.acknowledge(),
            "ack-on" => self.event(EventKind::ACK, 0, ""),
            "goaway" => self.send(Encode::new(Type::Goaway, 0)),
            "call" => self.call(argument),
            "push" => self.push(argument),
            // Time, and synchronization with the test.
            "sleep" => pause(Duration::from_millis(number())),
            "spin" => loop {
                std::hint::spin_loop();
            },
            "silence" => loop {
                pause(Duration::from_secs(60));
            },
            "gate" => pass_gate(argument),
            "note" => note(self.line(argument).trim_end()),
            "if" => return self.run_if_file(argument),
            "once" => return File::create_new(argument).is_ok(),
            "await-cancel" => drop(self.wait_for(|got| got.kind == Type::Cancel)),
            "await-signal" => {
                while !self.soft_signal.swap(false, Ordering::Relaxed) {
                    pause(Duration::from_millis(1));
                }
            }
            // Output.
            "stdout" => print(&mut stdout(), self.line(argument).as_bytes()),
            "stderr" => print(&mut stderr(), self.line(argument).as_bytes()),
            "part" => print(&mut stdout(), argument.as_bytes()),
            "binary" => print(&mut stdout(), b"\x00\x1b[31m\xff\xfe tab\there\n"),
            "line" => print(
                &mut stdout(),
                &[vec![b'x'; number() as usize], vec![b'\n']].concat(),
            ),
            "flood-stdout" => flood(number()),
            "flood-log" => {
                for line in 0..number() {
                    self.event(EventKind::LOG, 1, &format!("{line:099}\n"));
                }
            }
            // Exits and deaths.
            "exit" => self.leave(number() as i32, ""),
            "kill" => die_of(Signal::KILL),
            "segv" => die_of(Signal::SEGV),
            "abort" => die_of(Signal::ABORT),
            // Protocol violations.
            "half-frame" => self.write(&[0, 0, 0, 40, 2, 0, 0, 0]),
            "raw" => self.write(&unhex(argument)),
            "garbage" => self.write(b"PHP Warning: this is no frame at all\n"),
            "wrong-id" => self.send(Encode::new(Type::Res, 77_777)),
            "reply-twice" => self.reply_twice(),
            "retry-and-reply" => self.retry_and_reply(),
            "wrong-type" => self.send(Encode {
                name: "a.b",
                ..Encode::new(Type::Req, 1)
            }),
            "hello-again" => self.send_hello(),
            "returned" => self.answer(Status::RETURNED, Codec::RAW, b""),
            "close-fd" => (self.link, self.inbox) = (None, None),
            "stubborn" => self.ignores_goaway = true,
            // Processes.
            "ignore-term" => on_signal(signal_hook::consts::SIGTERM, &Arc::default()),
            "ignore-int" => on_signal(signal_hook::consts::SIGINT, &Arc::default()),
            "setsid" => drop(setsid()),
            "child" => drop(spawn_child(argument, true)),
            "await-child" => drop(wait(WaitOptions::empty())),
            "child-without-env" => drop(spawn_child(argument, false)),
            "eat-memory" => self.allocated.push(vec![1; (number() as usize) << 20]),
            other => self.leave(64, &format!("there is no step '{other}'")),
        }
        true
    }

    /// `if FILE SCRIPT`: runs the script if the file exists.
    fn run_if_file(&mut self, argument: &str) -> bool {
        let (file, script) = argument.split_once(' ').unwrap_or((argument, ""));
        if Path::new(file).exists() {
            self.run(&script.replace(',', ";"));
        }
        true
    }

    /// A line to write. `{id}` becomes the task's number as in the log, without the count of deliveries, and `{ms}`
    /// becomes the time in milliseconds.
    fn line(&self, text: &str) -> String {
        let id = self.task.as_ref().map_or(0, |(task, _)| task.id);
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        let ms = now.map_or(0, |since| since.as_millis());
        let text = text.replace("{id}", &(id & 0x03ff_ffff).to_string());
        format!("{}\n", text.replace("{ms}", &ms.to_string()))
    }

    fn read_task(&mut self) {
        match self.read() {
            Some(got) if got.kind == Type::Req => self.begin(got),
            other => self.leave(0, &format!("no task but {:?}", other.map(|got| got.kind))),
        }
    }

    /// `fail CODE TEXT`
    fn fail(&mut self, argument: &str) {
        let (code, text) = argument.split_once(' ').unwrap_or((argument, ""));
        let status = Status(code.parse().unwrap_or(64));
        self.answer(status, Codec::RAW, text.as_bytes());
    }

    /// `retry MS`, or `retry` for the queue's own backoff
    fn retry(&mut self, argument: &str) {
        let Some((task, _)) = self.task.take() else {
            return;
        };
        let mut meta = MetaBuf::new();
        if let Ok(ms) = argument.parse::<u32>() {
            meta.push(Key::RETRY_AFTER, &ms.to_be_bytes());
        }
        self.send(Encode {
            code: Status::RETRY.0,
            meta: meta.as_meta(),
            body: b"not now",
            ..Encode::new(Type::Res, task.id)
        });
    }

    /// The data that the server sent with the task, as JSON.
    fn told(&self) -> String {
        let Some((task, _)) = &self.task else {
            return "null".to_owned();
        };
        let meta = Meta::parse(&task.meta).unwrap_or_default();
        let told = json!({
            "name": task.name, "ttl": task.ttl, "prio": task.prio, "attempt": task.attempt,
            "codec": task.code, "flags": task.flags.0, "crashes": meta.uint(Key::CRASHES),
            "tries": meta.uint(Key::TRIES), "timeout": meta.uint(Key::TIMEOUT),
            "key": meta.text(Key::FAIRNESS), "created": meta.uint(Key::CREATED_AT),
            "job": meta.get(Key::JOB_ID).map(<[u8]>::len), "own": meta.text(Key(0x80)),
            "worker": std::env::var("STOKER_WORKER").ok(),
            "checkpoint": meta.text(Key::CHECKPOINT),
            "traceparent": meta.text(Key::TRACEPARENT), "baggage": meta.text(Key::BAGGAGE),
            "idempotency": meta.text(Key::IDEMPOTENCY),
        });
        told.to_string()
    }

    fn event(&mut self, kind: EventKind, stream: u8, body: &str) {
        let id = self.task.as_ref().map_or(0, |(task, _)| task.id);
        self.send(Encode {
            code: kind.0,
            prio: stream,
            body: body.as_bytes(),
            ..Encode::new(Type::Event, id)
        });
    }

    /// `call NAME SCRIPT`: makes a call from inside the task, and answers with its result.
    fn call(&mut self, argument: &str) {
        let (name, script) = argument.split_once(' ').unwrap_or((argument, ""));
        let variable = |name| std::env::var(name).unwrap_or_default();
        let hello = json!({"v": [1], "role": "client", "worker": variable("STOKER_WORKER")});
        let mut client = Client::connect_as(Path::new(&variable("STOKER_SOCKET")), &hello);
        let inner = client.request(&Request::call(name, script.replace(',', ";")).ttl(5_000));
        let text = format!("{} {}", inner.status().name(), inner.text());
        self.answer(Status::OK, Codec::RAW, text.as_bytes());
    }

    /// Pushes a job from inside the task, and answers with its id.
    fn push(&mut self, argument: &str) {
        let (queue, script) = argument.split_once(' ').unwrap_or((argument, ""));
        let variable = |name| std::env::var(name).unwrap_or_default();
        let hello = json!({"v": [1], "role": "client", "worker": variable("STOKER_WORKER")});
        let mut client = Client::connect_as(Path::new(&variable("STOKER_SOCKET")), &hello);
        let id = client.push(&Request::push(queue, script.replace(',', ";")));
        self.answer(Status::OK, Codec::RAW, id.as_bytes());
    }

    /// Acknowledges the task, and waits for the confirmation.
    fn acknowledge(&mut self) {
        self.event(EventKind::ACK, 0, "");
        if !self.wait_for(|got| got.kind == Type::Event && got.code == EventKind::ACK.0) {
            // The confirmation can't come any more.
            std::process::exit(0);
        }
    }

    /// Requests a retry, waits for the next run, and answers the first run again instead of that one.
    fn retry_and_reply(&mut self) {
        let Some((first, _)) = &self.task else { return };
        let id = first.id;
        self.retry("");
        if self.read().is_some() {
            self.send(Encode::new(Type::Res, id));
        }
    }

    fn reply_twice(&mut self) {
        let again = self.task.clone();
        self.answer(Status::OK, Codec::RAW, b"once");
        self.task = again;
        self.answer(Status::OK, Codec::RAW, b"twice");
    }
}

/// Decodes pairs of hexadecimal digits.
fn unhex(digits: &str) -> Vec<u8> {
    let pairs = digits.as_bytes().chunks(2);
    let bytes = pairs.map(|pair| u8::from_str_radix(&String::from_utf8_lossy(pair), 16));
    bytes
        .map(|byte| byte.expect("pairs of hexadecimal digits"))
        .collect()
}

/// Sets a flag when a signal comes, instead of the signal's default action.
fn on_signal(signal: i32, flag: &Arc<AtomicBool>) {
    let registered = signal_hook::flag::register(signal, flag.clone());
    registered.expect("the signal can be handled");
}

fn die_of(signal: Signal) -> ! {
    // Repeated, because the first SEGV only ends Rust's own handler of stack overflows.
    loop {
        kill_process(getpid(), signal).expect("a process may signal itself");
    }
}

/// Waits at a FIFO until the test has opened and closed it (see `Dir::gate`).
fn pass_gate(name: &str) {
    let gate = File::open(name);
    let mut rest = Vec::new();
    gate.and_then(|mut gate| gate.read_to_end(&mut rest))
        .unwrap_or_else(|error| panic!("gate {name}: {error}"));
}

/// Appends a line to the file `notes` in one write, so that lines of several workers do not mix.
fn note(text: &str) {
    let file = OpenOptions::new().create(true).append(true).open("notes");
    file.and_then(|mut file| file.write_all(format!("{text}\n").as_bytes()))
        .expect("notes can be written where the worker runs");
}

fn print(to: &mut impl Write, bytes: &[u8]) {
    to.write_all(bytes)
        .and_then(|()| to.flush())
        .expect("output is read");
}

/// Writes numbered lines of 100 bytes.
fn flood(lines: u64) {
    let text: String = (0..lines).map(|line| format!("{line:099}\n")).collect();
    print(&mut stdout(), text.as_bytes());
}

fn spawn_child(script: &str, with_environment: bool) -> std::process::Child {
    let this = std::env::current_exe().expect("a program knows its own path");
    let script = script.replace(',', ";");
    let spawn = Spawn::new(this).args(&[&script]);
    // `Spawn` removes Stoker's variables, but a real program's child inherits them.
    let cookie = std::env::var("STOKER_COOKIE").unwrap_or_default();
    let worker = std::env::var("STOKER_WORKER").unwrap_or_default();
    match with_environment {
        true => spawn
            .env("STOKER_COOKIE", cookie)
            .env("STOKER_WORKER", worker)
            .start(),
        false => spawn.start(),
    }
}
