//! A running adapter and the server's end of its connection, which the test plays.

use crate::message::{Reply, Request};
use crate::php::{Kind, scripts};
use serde_json::json;
use std::collections::{HashMap, VecDeque};
use std::io::{self, Read};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread::JoinHandle;
use stoker_testkit::{Dir, Inbox, Outbox, Received, procs, until};
use stoker_wire::{Codec, Encode, EventKind, Flags, Hello, Key, Type};
use stoker_workers::Settings;

/// An adapter.
pub(crate) type Serve = fn(UnixStream, Settings) -> io::Result<()>;

/// An adapter that has sent HELLO. When this is dropped, the adapter is stopped, and a process that it has left is reported.
pub(crate) struct Site {
    pub(crate) kind: Kind,
    pub(crate) dir: Dir,
    pub(crate) hello: Hello,
    adapter: Option<JoinHandle<io::Result<()>>>,
    outbox: Outbox,
    inbox: Inbox,
    last_id: u32,
    logs: HashMap<u32, Vec<u8>>,
    answers: HashMap<u32, VecDeque<Received>>,
    /// A variable in the environment of all processes of this adapter.
    mark: Option<String>,
}

/// An adapter that has not said HELLO yet.
pub(crate) struct Starting {
    dir: Dir,
    adapter: JoinHandle<io::Result<()>>,
    socket: UnixStream,
}

impl Starting {
    /// Waits for HELLO, and answers it.
    #[track_caller]
    pub(crate) fn hello(self) -> Site {
        let outbox = Outbox::of(self.socket.try_clone().expect("a socket can be cloned"));
        let mut inbox = Inbox::of(self.socket).with_deadline();
        let Ok(Some(hello)) = inbox.receive() else {
            panic!("no HELLO: {:?}", self.adapter.join());
        };
        assert_eq!(hello.kind, Type::Hello);
        let hello = Hello::parse(&hello.body).expect("its HELLO is valid");
        let welcome = json!({"v": 1, "max_frame": 16_646_143, "max_inflight": 1000}).to_string();
        let welcome = Encode {
            body: welcome.as_bytes(),
            ..Encode::new(Type::Welcome, 0)
        };
        outbox.frame(welcome).expect("the adapter reads");
        Site {
            kind: Kind::Http,
            dir: self.dir,
            hello,
            adapter: Some(self.adapter),
            outbox,
            inbox,
            last_id: 0,
            logs: HashMap::new(),
            answers: HashMap::new(),
            mark: None,
        }
    }

    /// Whether nothing has come from the adapter so far.
    pub(crate) fn says_nothing(&self) -> bool {
        self.socket
            .set_nonblocking(true)
            .expect("a socket can be set");
        let read = (&self.socket).read(&mut [0; 1]);
        self.socket
            .set_nonblocking(false)
            .expect("a socket can be set");
        matches!(read, Err(error) if error.kind() == io::ErrorKind::WouldBlock)
    }

    /// Closes the connection, and returns how the adapter ends.
    pub(crate) fn close(self) -> io::Result<()> {
        self.socket
            .shutdown(Shutdown::Both)
            .expect("a socket can be shut down");
        self.ended()
    }

    /// Waits for the end of the adapter.
    pub(crate) fn ended(self) -> io::Result<()> {
        let mut rest = Inbox::of(self.socket).with_deadline();
        assert_eq!(rest.receive().expect("the adapter ends in time"), None);
        self.adapter.join().expect("the adapter does not panic")
    }
}

impl Site {
    /// Starts PHP with a strategy.
    #[track_caller]
    pub(crate) fn start(kind: Kind) -> Self {
        Self::start_with(kind, |_| {})
    }

    /// Starts PHP with a strategy, and with a script for calls and jobs.
    #[track_caller]
    pub(crate) fn start_for_tasks(kind: Kind) -> Self {
        Self::start_with(kind, |settings| {
            settings.task_path = "/task.php".to_owned();
            settings.task_script = Some(scripts().join("task.php"));
        })
    }

    #[track_caller]
    fn start_with(kind: Kind, change: impl FnOnce(&mut Settings)) -> Self {
        let (dir, mark) = (Dir::new(), mark());
        let (serve, mut settings) = kind.adapter(&dir, &mark);
        change(&mut settings);
        let mut site = Self::starting(dir, serve, settings).hello();
        assert_eq!(site.hello.slots, Some(kind.slots()));
        site.kind = kind;
        site.mark = Some(mark);
        site
    }

    /// Starts an adapter with settings of its own.
    #[track_caller]
    pub(crate) fn with(dir: Dir, serve: Serve, settings: Settings) -> Self {
        Self::starting(dir, serve, settings).hello()
    }

    /// Starts an adapter, which may need some time.
    pub(crate) fn starting(dir: Dir, serve: Serve, settings: Settings) -> Starting {
        let (socket, theirs) = UnixStream::pair().expect("a pair of sockets can be made");
        let adapter = std::thread::spawn(move || serve(theirs, settings));
        Starting {
            dir,
            adapter,
            socket,
        }
    }

    /// Sends a request and waits for its answer.
    #[track_caller]
    pub(crate) fn ask(&mut self, request: &Request) -> Reply {
        let id = self.send(request);
        self.answer(id)
    }

    pub(crate) fn send(&mut self, request: &Request) -> u32 {
        let flags = match request.is_idempotent() {
            true => Flags::IDEMPOTENT,
            false => Flags::NONE,
        };
        let (meta, body) = (request.metadata(), request.message());
        self.frame(Encode {
            flags,
            code: Codec::HTTP.0,
            name: "http:shop.request",
            meta: meta.as_meta(),
            body: &body,
            ..Encode::new(Type::Req, self.last_id + 1)
        })
    }

    /// Sends a frame with the next id.
    pub(crate) fn frame(&mut self, frame: Encode<'_>) -> u32 {
        self.last_id += 1;
        let id = self.last_id;
        self.outbox
            .frame(Encode { id, ..frame })
            .expect("the adapter reads");
        id
    }

    pub(crate) fn cancel(&self, id: u32) {
        self.outbox
            .frame(Encode::new(Type::Cancel, id))
            .expect("the adapter reads");
    }

    /// Permits the adapter to send more bytes of an answer.
    pub(crate) fn grant(&self, id: u32, bytes: u32) {
        let credit = Encode {
            ttl: bytes,
            ..Encode::new(Type::Credit, id)
        };
        self.outbox.frame(credit).expect("the adapter reads");
    }

    /// Waits for the answer to a task, or for the next part of it.
    #[track_caller]
    pub(crate) fn part(&mut self, id: u32) -> Received {
        loop {
            if let Some(part) = self.received_part(id) {
                return part;
            }
            let frame = self.inbox.receive().expect("an answer comes in time");
            let frame = frame.expect("the adapter lives");
            match frame.kind {
                Type::Res | Type::Data => {
                    self.answers.entry(frame.id).or_default().push_back(frame);
                }
                Type::Event if frame.code == EventKind::LOG.0 => {
                    self.logs.entry(frame.id).or_default().extend(frame.body);
                }
                Type::Started => {}
                other => panic!("unexpected {other:?}"),
            }
        }
    }

    /// The next part of an answer that was received already, while the test waited for something else.
    pub(crate) fn received_part(&mut self, id: u32) -> Option<Received> {
        self.answers.get_mut(&id)?.pop_front()
    }

    /// Waits for the whole answer to a task.
    #[track_caller]
    pub(crate) fn answer(&mut self, id: u32) -> Reply {
        let answer = self.part(id);
        assert_eq!(
            (answer.kind, answer.flags.has(Flags::MORE)),
            (Type::Res, false)
        );
        if answer.code == 0 {
            assert_eq!(answer.prio, Codec::HTTP.0, "{}", answer.text());
        }
        self.reply(answer)
    }

    /// The end of an answer.
    pub(crate) fn reply(&mut self, answer: Received) -> Reply {
        let id = answer.id;
        let log = self.logs.remove(&id).unwrap_or_default();
        Reply {
            status: answer.status(),
            signal: answer.uint(Key::SIGNAL),
            bytes: answer.body,
            log: String::from_utf8_lossy(&log).into_owned(),
        }
    }

    /// All live processes that the adapter has started.
    pub(crate) fn processes(&self) -> Vec<i32> {
        self.mark.as_deref().map(procs::marked).unwrap_or_default()
    }
}

/// A variable for the environment of one adapter's processes.
fn mark() -> String {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    format!("SITES_TEST={}-{number}", std::process::id())
}

impl Drop for Site {
    fn drop(&mut self) {
        self.outbox.frame(Encode::new(Type::Goaway, 0)).ok();
        if std::thread::panicking() {
            // The end of the connection ends the adapter, even in the middle of a task.
            return;
        }
        let rest = self.inbox.receive().expect("the adapter ends in time");
        assert_eq!(rest, None, "an answer was not expected");
        let ended = self.adapter.take().map(JoinHandle::join);
        assert!(matches!(ended, Some(Ok(Ok(())))), "{ended:?}");
        until("all its processes have ended", || {
            self.processes().is_empty().then_some(())
        });
    }
}
