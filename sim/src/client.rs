//! A client: some requests, and perhaps an early end.

use crate::ledger::Ledger;
use crate::peer::Peer;
use crate::setup::Setup;
use std::collections::HashMap;
use stoker_wire::{Encode, Key, MetaBuf, Status, Type};

/// What a request was about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum About {
    Job(u64),
    Call,
    Own,
    /// What an operator wants.
    Operation,
    /// The same, and it is wrong.
    WrongOperation,
    /// Whether there is a job left.
    Rest,
}

pub(crate) struct Client {
    pub(crate) peer: Peer,
    next_id: u32,
    pub(crate) open: HashMap<u32, About>,
}

impl Client {
    pub(crate) fn new(mut peer: Peer, pid: i32) -> Self {
        let hello = serde_json::json!({"v": [1], "role": "client", "name": "sim", "pid": pid});
        let body = hello.to_string();
        peer.put(Encode {
            body: body.as_bytes(),
            ..Encode::new(Type::Hello, 0)
        });
        Self {
            peer,
            next_id: 0,
            open: HashMap::new(),
        }
    }

    fn ask(&mut self, about: About, name: &str, meta: &MetaBuf, body: &[u8]) {
        self.next_id += 1;
        self.open.insert(self.next_id, about);
        self.peer.put(Encode {
            name,
            meta: meta.as_meta(),
            body,
            prio: 3,
            ..Encode::new(Type::Req, self.next_id)
        });
    }

    pub(crate) fn push(&mut self, no: u64, queue: &str, key: u64, more: &[(Key, Vec<u8>)]) {
        let mut meta = MetaBuf::new();
        meta.push(Key::QUEUE, queue.as_bytes());
        if key > 0 {
            meta.push(Key::FAIRNESS, format!("k{key}").as_bytes());
        }
        for (key, value) in more {
            meta.push(*key, value);
        }
        self.ask(About::Job(no), "stoker.push", &meta, &no.to_be_bytes());
    }

    pub(crate) fn call(&mut self, no: u64, service: &str) {
        let name = format!("{service}.ask");
        self.ask(About::Call, &name, &MetaBuf::new(), &no.to_be_bytes());
    }

    pub(crate) fn list_queues(&mut self, about: About) {
        let body = br#"{"op":"list"}"#;
        self.ask(about, "stoker.queue", &MetaBuf::new(), body);
    }

    pub(crate) fn operate(&mut self, about: About, method: &str, request: &serde_json::Value) {
        let body = request.to_string();
        self.ask(about, method, &MetaBuf::new(), body.as_bytes());
    }

    /// Reads answers. Returns whether the server has closed the connection.
    pub(crate) fn read(&mut self, ledger: &mut Ledger) -> bool {
        self.peer.flush();
        let open = &mut self.open;
        let ended = self.peer.take(|frame| {
            if frame.kind != Type::Res {
                return;
            }
            let about = open.remove(&frame.id);
            let about = about.unwrap_or_else(|| panic!("an answer to nothing: {frame:?}"));
            match about {
                About::Job(no) => ledger.pushed(no, Status(frame.code), frame.body),
                About::Own => assert!(
                    matches!(Status(frame.code), Status::OK | Status::RESOURCE_EXHAUSTED),
                    "{frame:?}"
                ),
                About::Call => {}
                About::WrongOperation => {
                    let status = Status(frame.code);
                    assert!(
                        matches!(
                            status,
                            Status::INVALID_ARGUMENT | Status::RESOURCE_EXHAUSTED
                        ),
                        "a request that is wrong was answered {status:?}"
                    );
                }
                About::Operation => {
                    let status = Status(frame.code);
                    let text = String::from_utf8_lossy(frame.body);
                    assert!(
                        matches!(status, Status::OK | Status::RESOURCE_EXHAUSTED)
                            || ledger.may_fail(status),
                        "an operator's request was answered {status:?}: {text}"
                    );
                }
                About::Rest => ledger.unfinished = Some(unfinished(frame.body)),
            }
        });
        ended.expect("the server writes frames")
    }
}

/// How many jobs have not ended, by a list of queues.
fn unfinished(body: &[u8]) -> u64 {
    let list: serde_json::Value = serde_json::from_slice(body).expect("JSON");
    let queues = list["queues"].as_array().expect("a list");
    let count = |queue: &serde_json::Value| {
        let of = |field: &str| queue[field].as_u64().unwrap_or_else(|| panic!("{queue}"));
        of("ready") + of("running") + of("delayed")
    };
    queues.iter().map(count).sum()
}

impl Setup {
    /// The services of a pool, which its workers must offer.
    pub(crate) fn services_of<'a>(&'a self, pool: &'a str) -> impl Iterator<Item = &'a str> {
        let all = self
            .services
            .iter()
            .filter(move |service| service.pool == pool);
        all.map(|service| service.name.as_str())
    }
}
