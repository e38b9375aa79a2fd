//! What one task leaves to the next one, as seen by a script that tries.

use crate::application::Application;
use crate::error::Error;
use crate::http::{Answer, Target};
use crate::interrupt::{Interrupt, PAUSE};
use crate::round::first;
use crate::server::{Server, Stop};
use crate::way::Way;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::io::{self, BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

/// What is examined, in the order of the report.
pub const ASPECTS: [&str; 8] = [
    "globals",
    "statics",
    "constants",
    "settings",
    "memory",
    "connections",
    "persistent connections",
    "crash",
];

/// How long is waited for a connection to be closed, which should be closed at the end of its task.
const PATIENCE: Duration = Duration::from_secs(2);
/// How long is waited for the connection of a script, which may have to be started first.
const PATIENCE_TO_CONNECT: Duration = Duration::from_secs(10);
/// How often a process is killed: with some servers it depends on chance which process that is.
const CRASHES: usize = 5;
/// Of the 8 MB that the script keeps, how much has to be in use still.
const KEPT: u64 = 4 << 20;

/// Whether a task is isolated from the previous one in some aspect; `None` if that is not known.
pub type Verdict = Option<bool>;

/// The verdict for each of the [`ASPECTS`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Isolation {
    pub verdicts: [Verdict; ASPECTS.len()],
    /// Whether the verdicts were measured. Otherwise they are those that the documentation promises.
    pub measured: bool,
}

/// What docs/guides/strategies.md promises.
pub(crate) fn documented(way: Way) -> Isolation {
    const YES: Verdict = Some(true);
    const NO: Verdict = Some(false);
    let verdicts = match way.name().as_str() {
        // Processes of these with ":auto" run several tasks under load.
        "loop" | "fork:auto" | "snapshot:auto" => [NO, NO, NO, NO, NO, NO, NO, YES],
        "spare" | "fork" | "snapshot" | "exec" | "cgi" => [YES; ASPECTS.len()],
        "sapi" | "fastcgi" | "lamp" => [YES, YES, YES, YES, YES, YES, NO, YES],
        _ => [None; ASPECTS.len()],
    };
    Isolation {
        verdicts,
        measured: false,
    }
}

/// Measures the verdicts with the probe of the hello application. Other applications get the documented ones, and so do ways
/// whose processes run several tasks only under load; of these, it makes sure that they answer.
pub(crate) fn probe(
    way: Way,
    application: &Application,
    folder: &Path,
    interrupt: &Interrupt,
) -> Result<Isolation, Stop> {
    if !application.has_probe || matches!(way, Way::Strategy { auto: true, .. }) {
        let server = Server::start(way, application, folder, 1, interrupt)?;
        first(&server, application.answer, interrupt)?;
        return Ok(documented(way));
    }
    let mut isolation = Isolation {
        verdicts: [None; ASPECTS.len()],
        measured: true,
    };
    // One worker, so that the second task gets the process of the first one if there is any.
    let server = Server::start(way, application, folder, 1, interrupt)?;
    let left =
        what_is_left(&server, interrupt).map_err(|error| explain(&server, &error, interrupt))?;
    isolation.verdicts[..left.len()].copy_from_slice(&left);
    drop(server);
    let server = Server::start(way, application, folder, 2, interrupt)?;
    let crash = crashes(&server, interrupt).map_err(|error| explain(&server, &error, interrupt))?;
    isolation.verdicts[ASPECTS.len() - 1] = crash;
    Ok(isolation)
}

fn explain(server: &Server, error: &io::Error, interrupt: &Interrupt) -> Stop {
    match interrupt.is_set() {
        true => Stop::All(Error::Interrupted),
        false => server.broken(format!("the probe of isolation failed: {error}")),
    }
}

/// Runs a task that leaves something of each kind, and one that looks for it.
fn what_is_left(
    server: &Server,
    interrupt: &Interrupt,
) -> io::Result<[Verdict; ASPECTS.len() - 1]> {
    let place = Place::new()?;
    let before = json(&ask(&server.target, "leave", &place.address, interrupt)?)?;
    let [mut plain, mut persistent] = [place.accept(interrupt)?, place.accept(interrupt)?];
    let mut first = [String::new(), String::new()];
    plain.read_line(&mut first[0])?;
    persistent.read_line(&mut first[1])?;
    if first[0].starts_with("persistent") {
        std::mem::swap(&mut plain, &mut persistent);
    }
    let left = json(&ask(&server.target, "look", &place.address, interrupt)?)?;
    let is_absent = |name: &str| left[name].as_bool().map(|is_left| !is_left);
    let bytes = |answer: &serde_json::Value| answer["memory"].as_u64();
    let memory = bytes(&before)
        .zip(bytes(&left))
        .map(|(before, after)| after < before + KEPT);
    Ok([
        is_absent("globals"),
        is_absent("statics"),
        is_absent("constants"),
        is_absent("settings"),
        memory,
        Some(is_closed(&mut plain)?),
        Some(!is_used_again(&mut persistent)?),
    ])
}

/// Whether the connection is closed soon.
fn is_closed(connection: &mut BufReader<TcpStream>) -> io::Result<bool> {
    match connection.read(&mut [0]) {
        Ok(0) => Ok(true),
        Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
            Ok(false)
        }
        Err(error) if error.kind() == ErrorKind::ConnectionReset => Ok(true),
        Ok(_) => Err(io::Error::other("the plain connection was used twice")),
        Err(error) => Err(error),
    }
}

/// Whether the second task has written into the connection of the first one.
fn is_used_again(connection: &mut BufReader<TcpStream>) -> io::Result<bool> {
    let mut line = String::new();
    match connection.read_line(&mut line) {
        Ok(count) => Ok(count > 0),
        Err(error)
            if matches!(
                error.kind(),
                ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::ConnectionReset
            ) =>
        {
            Ok(false)
        }
        Err(error) => Err(error),
    }
}

/// Kills processes of tasks, one after the other. Returns whether each time only the guilty task failed; `None` if a task can't
/// kill its process.
fn crashes(server: &Server, interrupt: &Interrupt) -> io::Result<Verdict> {
    for attempt in 0..CRASHES {
        let verdict = crash(server, attempt, interrupt)?;
        if verdict != Some(true) {
            return Ok(verdict);
        }
    }
    Ok(Some(true))
}

/// Kills the process of a task while another task runs. Returns whether the other one, and the one after it, are answered.
fn crash(server: &Server, attempt: usize, interrupt: &Interrupt) -> io::Result<Verdict> {
    let (target, place) = (&server.target, Place::new()?);
    // Stoker would reject a call that has killed several workers, so no two are equal.
    let attempt = attempt.to_string();
    let kill = target.request(&[("probe", "crash"), ("attempt", &attempt)]);
    thread::scope(|scope| {
        let other = scope.spawn(|| ask(target, "wait", &place.address, interrupt));
        let mut begun = place.accept(interrupt)?;
        begun.read_line(&mut String::new())?;
        let killed = target.connect(interrupt)?.exchange(&kill);
        begun.get_mut().write_all(b"\n").ok();
        drop(begun);
        let other = other
            .join()
            .map_err(|_| io::Error::other("a thread has failed"))?;
        let next = ask(target, "", &place.address, interrupt);
        let is_answered =
            |answer: io::Result<Answer>| answer.is_ok_and(|answer| answer.status == 200);
        let could_not = killed.is_ok_and(|answer| answer.status == 200);
        Ok((!could_not).then(|| is_answered(other) && is_answered(next)))
    })
}

fn ask(target: &Target, probe: &str, address: &str, interrupt: &Interrupt) -> io::Result<Answer> {
    let request = target.request(&[("probe", probe), ("address", address)]);
    target.connect(interrupt)?.exchange(&request)
}

fn json(answer: &Answer) -> io::Result<serde_json::Value> {
    serde_json::from_slice(&answer.body).map_err(|_| {
        let text = String::from_utf8_lossy(&answer.body);
        let text: String = text.chars().take(300).collect();
        io::Error::other(format!("status {}: {text}", answer.status))
    })
}

/// Where scripts connect to.
struct Place {
    listener: TcpListener,
    address: String,
}

impl Place {
    fn new() -> io::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?.to_string();
        Ok(Self { listener, address })
    }

    /// The next connection.
    fn accept(&self, interrupt: &Interrupt) -> io::Result<BufReader<TcpStream>> {
        let until = Instant::now() + PATIENCE_TO_CONNECT;
        let pause = Timespec {
            tv_sec: 0,
            tv_nsec: i64::from(PAUSE.subsec_nanos()),
        };
        let stream = loop {
            match self.listener.accept() {
                Ok((stream, _)) => break stream,
                Err(error) if error.kind() != ErrorKind::WouldBlock => return Err(error),
                Err(_) if interrupt.is_set() => return Err(ErrorKind::Interrupted.into()),
                Err(_) if Instant::now() > until => {
                    return Err(io::Error::other("the script did not connect"));
                }
                // A failed wait ends in the next attempt.
                Err(_) => poll(
                    &mut [PollFd::new(&self.listener, PollFlags::IN)],
                    Some(&pause),
                )
                .map_or((), |_| ()),
            }
        };
        stream.set_nonblocking(false)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        Ok(BufReader::new(stream))
    }
}
