//! Watches a Stoker during an attack: the resources it uses, and how soon it answers an administrator.

use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketType, connect, socket};
use std::fs;
use std::io::Write;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use stoker_testkit::{App, Inbox, frame, pause, procs};
use stoker_wire::{Codec, Encode, Status, Type};

/// The time between two samples, and between two requests of the administrator.
const SAMPLE_INTERVAL: Duration = Duration::from_millis(50);
/// After this time a request is given up and repeated; all attempts together count as one wait.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);

/// The highest values so far.
#[derive(Clone, Default)]
pub(crate) struct Peaks {
    pub(crate) rss_mb: u64,
    pub(crate) processes: usize,
    pub(crate) descriptors: usize,
    pub(crate) log_mb: u64,
    waits: Vec<Duration>,
}

impl Peaks {
    pub(crate) fn admin_median_ms(&self) -> u64 {
        let mut waits = self.waits.clone();
        waits.sort_unstable();
        waits
            .get(waits.len() / 2)
            .map_or(0, |wait| wait.as_millis() as u64)
    }

    pub(crate) fn admin_longest_ms(&self) -> u64 {
        self.waits
            .iter()
            .max()
            .map_or(0, |wait| wait.as_millis() as u64)
    }

    pub(crate) fn text(&self) -> String {
        let (median, longest) = (self.admin_median_ms(), self.admin_longest_ms());
        format!(
            "rss {} MB, {} processes, {} descriptors, log {} MB, administrator {median}/{longest} ms",
            self.rss_mb, self.processes, self.descriptors, self.log_mb
        )
    }
}

/// The work that a thread of the watcher repeats.
type Work = Box<dyn Fn(&AtomicBool, &Mutex<Peaks>) + Send>;

pub(crate) struct Watch {
    stop: Arc<AtomicBool>,
    peaks: Arc<Mutex<Peaks>>,
    threads: Vec<JoinHandle<()>>,
}

impl Watch {
    pub(crate) fn of(app: &App, log_bytes: impl Fn() -> usize + Send + 'static) -> Self {
        let (stop, peaks) = (Arc::<AtomicBool>::default(), Arc::<Mutex<Peaks>>::default());
        let repeat = |work: Work| {
            let (stop, peaks) = (stop.clone(), peaks.clone());
            std::thread::spawn(move || {
                while !stop.load(Ordering::Relaxed) {
                    work(&stop, &peaks);
                    pause(SAMPLE_INTERVAL);
                }
            })
        };
        let (angel, folder, socket) = (app.angel(), app.dir.path().to_owned(), app.socket());
        let sampler = repeat(Box::new(move |_, peaks| {
            sample(angel, &folder, log_bytes(), peaks);
        }));
        let asker = repeat(Box::new(move |stop, peaks| {
            if let Some(wait) = ask(&socket, stop) {
                lock(peaks).waits.push(wait);
            }
        }));
        let threads = vec![sampler, asker];
        Self {
            stop,
            peaks,
            threads,
        }
    }

    pub(crate) fn end(self) -> Peaks {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads {
            thread.join().expect("the watcher does not panic");
        }
        lock(&self.peaks).clone()
    }
}

fn lock(peaks: &Mutex<Peaks>) -> std::sync::MutexGuard<'_, Peaks> {
    peaks.lock().unwrap_or_else(PoisonError::into_inner)
}

fn sample(angel: i32, folder: &Path, log_bytes: usize, peaks: &Mutex<Peaks>) {
    let tree = procs::tree(angel);
    let server = procs::server_of(angel);
    let log_mb = (log_bytes as u64 + log_files(folder)) >> 20;
    let mut peaks = lock(peaks);
    peaks.processes = peaks.processes.max(tree.len());
    peaks.log_mb = peaks.log_mb.max(log_mb);
    if let Some(server) = server {
        peaks.rss_mb = peaks.rss_mb.max(resident_mb(server));
        let descriptors = fs::read_dir(format!("/proc/{server}/fd")).map_or(0, Iterator::count);
        peaks.descriptors = peaks.descriptors.max(descriptors);
    }
}

/// The resident memory of a process.
pub(crate) fn resident_mb(pid: i32) -> u64 {
    let statm = fs::read_to_string(format!("/proc/{pid}/statm")).unwrap_or_default();
    let pages = statm
        .split(' ')
        .nth(1)
        .and_then(|pages| pages.parse::<u64>().ok());
    (pages.unwrap_or(0) * rustix::param::page_size() as u64) >> 20
}

/// The size of the log files, which are `*.log*` in the directory of the case.
fn log_files(folder: &Path) -> u64 {
    let files = fs::read_dir(folder).into_iter().flatten().flatten();
    let logs = files.filter(|file| file.file_name().to_string_lossy().contains(".log"));
    logs.filter_map(|file| file.metadata().ok())
        .map(|data| data.len())
        .sum()
}

/// Requests the list of queues on a new connection until there is an answer; returns how long that took.
fn ask(socket: &Path, stop: &AtomicBool) -> Option<Duration> {
    let began = Instant::now();
    loop {
        if try_ask(socket).is_some() {
            return Some(began.elapsed());
        }
        if stop.load(Ordering::Relaxed) {
            // A request that had waited for more than a second counts; one that was just sent does not.
            return Some(began.elapsed()).filter(|wait| *wait > Duration::from_secs(1));
        }
        pause(Duration::from_millis(5));
    }
}

fn try_ask(path: &Path) -> Option<()> {
    let mut stream = connected(path)?;
    let hello = frame(Encode {
        body: br#"{"v":[1],"role":"client","name":"administrator"}"#,
        ..Encode::new(Type::Hello, 0)
    });
    let list = frame(Encode {
        name: "stoker.queue",
        code: Codec::JSON.0,
        body: br#"{"op":"list"}"#,
        ..Encode::new(Type::Req, 1)
    });
    stream.write_all(&[hello, list].concat()).ok()?;
    let mut inbox = Inbox::of(stream);
    while let Some(got) = inbox.receive().ok()? {
        if got.kind == Type::Res && got.id == 1 {
            return (got.status() == Status::OK).then_some(());
        }
    }
    None
}

/// A connection on which every step ends within [`REQUEST_TIMEOUT`], including connecting to a listener whose backlog is full.
fn connected(path: &Path) -> Option<UnixStream> {
    let fd = socket(AddressFamily::UNIX, SocketType::STREAM, None).ok()?;
    for what in [Timeout::Send, Timeout::Recv] {
        set_socket_timeout(&fd, what, Some(REQUEST_TIMEOUT)).ok()?;
    }
    connect(&fd, &SocketAddrUnix::new(PathBuf::from(path)).ok()?).ok()?;
    Some(fd.into())
}
