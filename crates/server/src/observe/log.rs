//! The log thread formats and writes lines, so that a slow sink never blocks the data plane.
//!
//! The output of each worker that has been read and not yet written is bounded. Above the bound that worker's
//! pipes are not read, so that the worker blocks on its own write, and all other workers continue.

use super::events::{self, Entry};
use super::file::LogFile;
use super::limit::Dropped;
use super::lines::{Line, Lines, Stream};
use crate::clock::{rfc3339, wall_ms};
use crate::config::{LogConfig, size_text};
use crate::counted;
use std::collections::HashMap;
use std::convert::Infallible;
use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::time::Duration;
use stoker_api::printable_json;
use stoker_os::Wake;

/// The maximum number of messages in the channel to the thread.
const CHANNEL_CAPACITY: usize = stoker_os::limit(4_096, 16);
/// Bytes of one worker's pending output above which its pipes are not read.
const MAX_WORKER_PENDING: usize = stoker_os::limit(256 << 10, 400);
/// Bytes of one worker's pending output above which its socket is not read either. Before an answer is handled, the
/// output of its task is read in any case, or it would be attributed to the next task.
const MAX_WORKER_PENDING_AT_ANSWER: usize = 4 * MAX_WORKER_PENDING;
/// The maximum number of Stoker's own lines that are kept while the sink accepts nothing.
const MAX_HELD_LINES: usize = 10_000;
/// How long the shutdown waits for a sink that accepts nothing.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(3);

/// A worker's identity in its log lines.
#[derive(Debug)]
pub(crate) struct Origin {
    pub(crate) pool: String,
    pub(crate) name: String,
    pub(crate) pid: i32,
}

/// A worker's handle for the log: its identity, and how much of its output is pending.
#[derive(Clone, Debug)]
pub(crate) struct WorkerLog {
    origin: Arc<Origin>,
    waiting: Arc<AtomicUsize>,
    /// The worker has written something, so there may be an unfinished last line.
    has_written: bool,
}

impl WorkerLog {
    pub(crate) fn new(pool: &str, name: &str, pid: i32) -> Self {
        let origin = Origin {
            pool: pool.to_owned(),
            name: name.to_owned(),
            pid,
        };
        Self {
            origin: Arc::new(origin),
            waiting: Arc::default(),
            has_written: false,
        }
    }

    /// Records that the worker has written something.
    pub(crate) fn record_output(&mut self) {
        self.has_written = true;
    }

    /// Whether the worker's pipes should be paused until the sink has caught up.
    pub(crate) fn is_full(&self) -> bool {
        self.waiting.load(Ordering::Relaxed) >= MAX_WORKER_PENDING
    }

    /// Whether the worker's answers should not be read until the sink has caught up.
    pub(crate) fn is_overfull(&self) -> bool {
        self.waiting.load(Ordering::Relaxed) >= MAX_WORKER_PENDING_AT_ANSWER
    }
}

enum Message {
    Line(Entry),
    Output {
        worker: WorkerLog,
        stream: Stream,
        tag: String,
        bytes: Vec<u8>,
    },
    /// Output of a worker is dropped from here on, including the line that it has begun.
    Cut {
        worker: WorkerLog,
        stream: Stream,
    },
    Dropped {
        worker: WorkerLog,
        dropped: Dropped,
    },
    /// A worker has ended: its unfinished lines are emitted.
    Closed {
        worker: WorkerLog,
    },
    /// The file may have been renamed: continue in the file that has the log's name now, or create it.
    Reopen,
    End,
}

/// The data plane's end of the log.
pub(crate) struct Log {
    sender: SyncSender<Message>,
    /// Closed when the thread has written everything.
    written: Receiver<Infallible>,
    /// Readable when paused pipes may be read again.
    pub(crate) wake: Arc<Wake>,
    /// Messages that found the channel full. They are kept, in order, until there is room.
    held: Vec<Message>,
    /// The number of Stoker's own lines that were dropped for lack of room.
    lost: u64,
    /// The simulation runs the writer step by step, without a thread.
    #[cfg(feature = "sim")]
    writer: (Writer, Receiver<Message>),
}

impl Log {
    pub(crate) fn start(config: &LogConfig) -> io::Result<Self> {
        let sink = Sink::open(config)?;
        let (sender, receiver) = sync_channel(CHANNEL_CAPACITY);
        let (writing, written) = sync_channel(0);
        let wake = Arc::new(Wake::new()?);
        let writer = Writer {
            sink,
            json: config.json,
            lines: HashMap::new(),
            wake: wake.clone(),
            _writing: writing,
        };
        #[cfg(not(feature = "sim"))]
        std::thread::Builder::new()
            .name("log".to_owned())
            .stack_size(128 << 10)
            .spawn(move || writer.run(&receiver))?;
        Ok(Self {
            sender,
            written,
            wake,
            held: Vec::new(),
            lost: 0,
            #[cfg(feature = "sim")]
            writer: (writer, receiver),
        })
    }

    /// Writes the messages in the channel, and returns the text.
    #[cfg(feature = "sim")]
    pub(crate) fn write(&mut self) -> Vec<u8> {
        let (writer, receiver) = &mut self.writer;
        let mut text = Vec::new();
        while let Ok(message) = receiver.try_recv() {
            writer.gather(message, receiver, &mut text);
        }
        match &mut writer.sink {
            Sink::Memory(bytes) => std::mem::take(bytes),
            Sink::Stderr | Sink::File(_) => Vec::new(),
        }
    }

    /// Writes everything that is pending, and returns the text.
    #[cfg(feature = "sim")]
    pub(crate) fn finish(&mut self) -> Vec<u8> {
        let mut text = self.write();
        while self.is_behind() {
            self.catch_up();
            text.extend(self.write());
        }
        text
    }

    /// Logs a line of Stoker's own.
    pub(crate) fn put(&mut self, entry: Entry) {
        self.send(Message::Line(entry));
    }

    /// Logs what a worker wrote while it ran the task `tag`.
    pub(crate) fn put_output(
        &mut self,
        worker: &WorkerLog,
        stream: Stream,
        tag: String,
        bytes: Vec<u8>,
    ) {
        worker.waiting.fetch_add(bytes.len(), Ordering::Relaxed);
        self.send(Message::Output {
            worker: worker.clone(),
            stream,
            tag,
            bytes,
        });
    }

    /// Announces that output of a worker is dropped from here on, for a while.
    pub(crate) fn cut(&mut self, worker: &WorkerLog, stream: Stream) {
        let worker = worker.clone();
        self.send(Message::Cut { worker, stream });
    }

    /// Logs how much of a worker's output was dropped.
    pub(crate) fn put_dropped(&mut self, worker: &WorkerLog, dropped: Dropped) {
        self.send(Message::Dropped {
            worker: worker.clone(),
            dropped,
        });
    }

    pub(crate) fn closed(&mut self, worker: &WorkerLog) {
        if worker.has_written {
            self.send(Message::Closed {
                worker: worker.clone(),
            });
        }
    }

    /// Reopens the log file for everything that follows, because another program may have renamed the open one.
    /// Does nothing if the log is not a file.
    pub(crate) fn reopen(&mut self) {
        self.send(Message::Reopen);
    }

    /// Whether the thread is behind, so that no pipe should be read.
    pub(crate) fn is_behind(&self) -> bool {
        !self.held.is_empty()
    }

    fn send(&mut self, message: Message) {
        if self.held.len() >= MAX_HELD_LINES && matches!(message, Message::Line(_)) {
            self.lost += 1;
            return;
        }
        if self.held.is_empty() {
            match self.sender.try_send(message) {
                Ok(()) | Err(TrySendError::Disconnected(_)) => {}
                Err(TrySendError::Full(message)) => self.held.push(message),
            }
        } else {
            self.held.push(message);
        }
    }

    /// Sends the messages that were held back. Call it when [`Self::wake`] is readable.
    pub(crate) fn catch_up(&mut self) {
        self.wake.clear();
        let mut held = std::mem::take(&mut self.held).into_iter();
        for message in held.by_ref() {
            if let Err(TrySendError::Full(message)) = self.sender.try_send(message) {
                self.held.push(message);
                break;
            }
        }
        self.held.extend(held);
        if self.held.is_empty() && self.lost > 0 {
            let lost = std::mem::take(&mut self.lost);
            let shown = counted(lost, "line");
            let text = format!(
                "{shown} of Stoker's own were dropped: the log could not be written for too long"
            );
            self.put(events::LINES_LOST.message(text).with("lines", lost));
        }
    }

    /// Writes everything that is pending, unless the sink accepts nothing.
    #[cfg(not(feature = "sim"))]
    pub(crate) fn finish(self) {
        let (sender, held) = (self.sender, self.held);
        let last = held.into_iter().chain([Message::End]);
        // If the channel is full, this thread blocks, and ends with the process. If the thread can't be started,
        // the messages that were held back are lost, and the closed channel ends the log thread.
        std::thread::Builder::new()
            .name("last".to_owned())
            .stack_size(64 << 10)
            .spawn(move || last.for_each(|message| drop(sender.send(message))))
            .ok();
        // The result is an error in both cases: the log thread has closed the channel, or the wait has timed out.
        self.written.recv_timeout(SHUTDOWN_TIMEOUT).ok();
    }
}

/// Where lines are written.
enum Sink {
    Stderr,
    File(LogFile),
    /// A buffer that the simulation reads.
    #[cfg(feature = "sim")]
    Memory(Vec<u8>),
}

impl Sink {
    #[cfg(not(feature = "sim"))]
    fn open(config: &LogConfig) -> io::Result<Self> {
        Ok(match &config.file {
            Some(path) => Self::File(LogFile::open(path, config)?),
            None => Self::Stderr,
        })
    }

    #[cfg(feature = "sim")]
    fn open(_config: &LogConfig) -> io::Result<Self> {
        Ok(Self::Memory(Vec::new()))
    }

    fn write(&mut self, text: &[u8]) -> io::Result<()> {
        match self {
            Self::Stderr => io::stderr().write_all(text),
            Self::File(file) => file.write_all(text),
            #[cfg(feature = "sim")]
            Self::Memory(bytes) => bytes.write_all(text),
        }
    }
}

struct Writer {
    sink: Sink,
    json: bool,
    lines: HashMap<(String, i32, Stream), Lines>,
    wake: Arc<Wake>,
    /// Dropped when everything has been written.
    _writing: SyncSender<Infallible>,
}

impl Writer {
    #[cfg(not(feature = "sim"))]
    fn run(mut self, receiver: &Receiver<Message>) {
        let mut text = Vec::with_capacity(4 << 10);
        while let Ok(message) = receiver.recv()
            && !self.gather(message, receiver, &mut text)
        {}
    }

    /// Formats the pending messages and writes them together, but limits the size so that readers of the log do
    /// not wait long. Returns true after the last message.
    fn gather(&mut self, first: Message, receiver: &Receiver<Message>, text: &mut Vec<u8>) -> bool {
        let mut next = Some(first);
        while let Some(message) = next {
            match message {
                Message::End => {
                    self.put(text);
                    return true;
                }
                Message::Reopen => self.reopen(text),
                message => self.format(message, text),
            }
            next = if text.len() < 64 << 10 {
                receiver.try_recv().ok()
            } else {
                None
            };
        }
        self.put(text);
        self.wake.wake();
        false
    }

    /// Writes the pending text to the old file and opens the new one. If that fails, the old file stays in use.
    fn reopen(&mut self, text: &mut Vec<u8>) {
        self.put(text);
        let Sink::File(file) = &mut self.sink else {
            return;
        };
        if let Err(error) = file.reopen() {
            own_line(self.json, &write_error_entry(&error), text);
        }
    }

    fn put(&mut self, text: &mut Vec<u8>) {
        if let Sink::File(file) = &mut self.sink
            && file.is_full(text.len())
            && let Err(error) = file.rotate()
        {
            own_line(self.json, &write_error_entry(&error), text);
        }
        // If the log itself can't be written, there is nowhere to report it.
        self.sink.write(text).ok();
        text.clear();
        if text.capacity() > 1 << 20 {
            *text = Vec::with_capacity(4 << 10);
        }
    }

    fn format(&mut self, message: Message, text: &mut Vec<u8>) {
        match message {
            Message::Line(entry) => own_line(self.json, &entry, text),
            Message::Output {
                worker,
                stream,
                tag,
                bytes,
            } => {
                let key = (worker.origin.name.clone(), worker.origin.pid, stream);
                let json = self.json;
                let lines = self.lines.entry(key).or_default();
                lines.feed(&tag, &bytes, |line| {
                    worker_line(json, &worker.origin, stream, &line, text);
                });
                worker.waiting.fetch_sub(bytes.len(), Ordering::Relaxed);
            }
            Message::Cut { worker, stream } => {
                let key = (worker.origin.name.clone(), worker.origin.pid, stream);
                self.lines.remove(&key);
            }
            Message::Closed { worker } => {
                for stream in [Stream::Stdout, Stream::Stderr] {
                    let key = (worker.origin.name.clone(), worker.origin.pid, stream);
                    if let Some(mut lines) = self.lines.remove(&key) {
                        let json = self.json;
                        lines.finish(|line| worker_line(json, &worker.origin, stream, &line, text));
                    }
                }
            }
            Message::Dropped { worker, dropped } => {
                dropped_line(self.json, &worker.origin, dropped, text);
            }
            Message::Reopen | Message::End => {}
        }
    }
}

fn write_error_entry(error: &io::Error) -> Entry {
    let text = error.to_string();
    events::LOG_TROUBLE
        .message(text.clone())
        .with("reason", text)
}

fn own_line(json: bool, entry: &Entry, out: &mut Vec<u8>) {
    let at = rfc3339(wall_ms());
    let level = entry.level.name();
    let text = if json {
        let mut object = serde_json::json!({
            "at": at, "level": level, "event": entry.name, "message": entry.text,
        });
        if let Some(object) = object.as_object_mut() {
            let fields = entry.fields.iter();
            object.extend(fields.map(|(field, value)| (field.clone(), value.clone())));
        }
        printable_json(&object.to_string()).into_owned()
    } else {
        format!("{at} {level} {}", printable(entry.text.as_bytes()))
    };
    out.extend_from_slice(text.as_bytes());
    out.push(b'\n');
}

fn dropped_line(json: bool, origin: &Origin, dropped: Dropped, out: &mut Vec<u8>) {
    let Dropped { lines, bytes } = dropped;
    let (shown, size) = (counted(lines, "line"), size_text(bytes));
    let text = format!(
        "{}[{}] wrote more than [log] rate_limit allows; dropped output: {shown}, {size}",
        origin.name, origin.pid
    );
    let entry = events::OUTPUT_DROPPED
        .message(text)
        .with("pool", origin.pool.as_str())
        .with("worker", origin.name.as_str())
        .with("pid", origin.pid)
        .with("lines", lines)
        .with("bytes", bytes);
    own_line(json, &entry, out);
}

fn worker_line(json: bool, origin: &Origin, stream: Stream, line: &Line<'_>, out: &mut Vec<u8>) {
    let at = rfc3339(wall_ms());
    let stream = if stream == Stream::Stdout {
        "stdout"
    } else {
        "stderr"
    };
    let text = printable(line.bytes);
    let line = if json {
        let mut object = serde_json::json!({
            "at": at, "level": "info", "pool": origin.pool, "worker": origin.name,
            "pid": origin.pid, "stream": stream, "message": text,
        });
        if !line.tag.is_empty() {
            object["task"] = line.tag.into();
        }
        if line.part > 0 {
            object["part"] = line.part.into();
        }
        printable_json(&object.to_string()).into_owned()
    } else {
        let task = if line.tag.is_empty() {
            String::new()
        } else {
            format!(" {}", line.tag)
        };
        let part = if line.part == 0 {
            String::new()
        } else {
            format!(" part {}", line.part)
        };
        format!(
            "{at} {}[{}] {stream}{task}{part}: {text}",
            origin.name, origin.pid
        )
    };
    out.extend_from_slice(line.as_bytes());
    out.push(b'\n');
}

/// The text of a line with invalid UTF-8 and control characters as escapes, because logs are read on terminals.
fn printable(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        text.push_str(&stoker_api::printable(chunk.valid()));
        chunk
            .invalid()
            .iter()
            .for_each(|byte| text.push_str(&format!("\\x{byte:02x}")));
    }
    text
}
