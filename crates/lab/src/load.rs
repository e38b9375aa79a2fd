//! Load: one request at a time, or as many as possible.

use crate::error::{Error, Result};
use crate::http::{Connection, Target};
use crate::interrupt::Interrupt;
use std::io;
use std::sync::mpsc::sync_channel;
use std::thread;
use std::time::{Duration, Instant};

/// The number of connections at saturation.
pub const CONNECTIONS: usize = 16;
/// The number of requests one at a time that are made even if they take longer than planned, so that there is a 99th
/// percentile; but at most [`LONGER`] times as long.
const ENOUGH: usize = 100;
const LONGER: u32 = 4;
/// The time between the beginnings of two paced requests.
const PACE: Duration = Duration::from_millis(10);
/// A connection whose requests fail this often in a row is given up.
const HOPELESS: usize = 20;

/// Makes one request at a time, for `time`. Returns the times of the answered requests, in microseconds, and the number
/// of failed requests.
pub(crate) fn idle(
    target: &Target,
    time: Duration,
    interrupt: &Interrupt,
) -> Result<(Vec<f64>, u64)> {
    let start = Instant::now();
    let mut client = Client::new(target, interrupt);
    let (mut times, mut failed) = (Vec::new(), 0);
    while start.elapsed() < time || (times.len() < ENOUGH && start.elapsed() < time * LONGER) {
        interrupt.check()?;
        let begin = Instant::now();
        match client.request() {
            Ok(true) => times.push(begin.elapsed().as_nanos() as f64 / 1e3),
            _ => failed += 1,
        }
        if client.is_hopeless() {
            break;
        }
    }
    Ok((times, failed))
}

/// Makes a request every [`PACE`], or as soon as the previous one has been answered if that takes longer, for `time`, and at least
/// one. So a server has time to prepare for the next task. Returns the times of the answered requests, in microseconds.
pub(crate) fn paced(target: &Target, time: Duration, interrupt: &Interrupt) -> Result<Vec<f64>> {
    let start = Instant::now();
    let mut client = Client::new(target, interrupt);
    let mut times = Vec::new();
    // Nothing is ever sent: receiving is a wait.
    let (_sender, pause) = sync_channel::<()>(0);
    loop {
        interrupt.check()?;
        let begin = Instant::now();
        if let Ok(true) = client.request() {
            times.push(begin.elapsed().as_nanos() as f64 / 1e3);
        }
        if start.elapsed() >= time || client.is_hopeless() {
            return Ok(times);
        }
        pause
            .recv_timeout(PACE.saturating_sub(begin.elapsed()))
            .ok();
    }
}

/// What was answered under full load.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Load {
    pub(crate) answered: u64,
    pub(crate) failed: u64,
    pub(crate) seconds: f64,
}

/// Makes requests on [`CONNECTIONS`] connections for `time`, each as soon as the previous one of its connection has been
/// answered.
pub(crate) fn saturate(target: &Target, time: Duration, interrupt: &Interrupt) -> Result<Load> {
    let start = Instant::now();
    let until = start + time;
    let done = thread::scope(|scope| {
        let threads =
            [(); CONNECTIONS].map(|()| scope.spawn(|| until_then(target, until, interrupt)));
        threads.map(thread::ScopedJoinHandle::join)
    });
    interrupt.check()?;
    let mut load = Load {
        seconds: start.elapsed().as_secs_f64(),
        ..Load::default()
    };
    for counts in done {
        let (answered, failed) =
            counts.map_err(|_| Error::Failed("a thread of the load has failed".to_owned()))?;
        load.answered += answered;
        load.failed += failed;
    }
    Ok(load)
}

fn until_then(target: &Target, until: Instant, interrupt: &Interrupt) -> (u64, u64) {
    let mut client = Client::new(target, interrupt);
    let (mut answered, mut failed) = (0, 0);
    while Instant::now() < until && !interrupt.is_set() && !client.is_hopeless() {
        match client.request() {
            Ok(true) => answered += 1,
            _ => failed += 1,
        }
    }
    (answered, failed)
}

/// Sends the same request again and again, and connects again when the server has closed the connection.
struct Client<'a> {
    target: &'a Target,
    interrupt: &'a Interrupt,
    request: Vec<u8>,
    connection: Option<Connection>,
    failed_in_a_row: usize,
}

impl<'a> Client<'a> {
    fn new(target: &'a Target, interrupt: &'a Interrupt) -> Self {
        Self {
            target,
            interrupt,
            request: target.request(&[]),
            connection: None,
            failed_in_a_row: 0,
        }
    }

    /// Makes one request. Returns whether it was answered with status 200.
    fn request(&mut self) -> io::Result<bool> {
        let done = self.exchange();
        match done {
            Ok(true) => self.failed_in_a_row = 0,
            _ => self.failed_in_a_row += 1,
        }
        done
    }

    fn exchange(&mut self) -> io::Result<bool> {
        let mut connection = match self.connection.take() {
            Some(open) => open,
            None => self.target.connect(self.interrupt)?,
        };
        let answer = connection.exchange(&self.request)?;
        self.connection = connection.is_open().then_some(connection);
        Ok(answer.status == 200)
    }

    fn is_hopeless(&self) -> bool {
        self.failed_in_a_row >= HOPELESS
    }
}
