//! One round of one way: a server is started, measured while idle and at saturation, and stopped.

use crate::application::Application;
use crate::interrupt::{Interrupt, PAUSE};
use crate::load::{idle, paced, saturate};
use crate::processes::{Memory, cpu_seconds, memory};
use crate::server::{Server, Stop};
use crate::statistics::{Times, times as times_of};
use crate::way::Way;
use std::path::Path;
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

/// The share of the time of a row that each part takes: one request at a time, the same with pauses, and saturation after
/// warming up.
const IDLE: f64 = 0.25;
const PACED: f64 = 0.25;
const WARM_UP: f64 = 0.1;
const SATURATED: f64 = 0.4;
/// How often the memory of short-lived processes is measured while there is load.
const LOOKS: usize = 5;

/// What a round has measured. Times are in microseconds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Round {
    /// From the start of the first process to the first answer.
    pub(crate) boot: f64,
    /// The first request of a server that is ready.
    pub(crate) cold: f64,
    /// One request at a time, without a pause.
    pub(crate) idle: Times,
    /// The median with a pause before each request.
    pub(crate) paced: f64,
    /// Answered requests per second.
    pub(crate) rate: f64,
    /// CPU time of all processes of the server for each answered request.
    pub(crate) cpu: f64,
    /// All processes, while idle.
    pub(crate) total: Memory,
    /// The median of the processes that run tasks.
    pub(crate) worker: Option<Memory>,
    pub(crate) failed: u64,
    /// The number of requests, failed or not.
    pub(crate) requests: u64,
}

/// Measures a way once, for about `time` and the time that it takes to boot.
pub(crate) fn measure(
    way: Way,
    application: &Application,
    folder: &Path,
    (workers, time): (u32, Duration),
    interrupt: &Interrupt,
) -> Result<Round, Stop> {
    let server = Server::start(way, application, folder, workers, interrupt)?;
    let cold = first(&server, application.answer, interrupt)?;
    let boot = server.start.elapsed();
    let target = &server.target;
    let (all, failed) = idle(target, time.mul_f64(IDLE), interrupt)?;
    let answered = all.len() as u64;
    let idle = times_of(all).ok_or_else(|| server.broken("no request was answered"))?;
    let paced = times_of(paced(target, time.mul_f64(PACED), interrupt)?);
    let paced = paced
        .ok_or_else(|| server.broken("no request was answered"))?
        .p50;
    let roots = server.roots();
    let still = memory(&roots, way.has_parent());
    saturate(target, time.mul_f64(WARM_UP), interrupt)?;
    let before = cpu_seconds(&roots);
    // Processes that live only for a task are not there while the server is idle.
    let looks = still.worker.is_none();
    let (end, ended) = sync_channel::<()>(1);
    let (done, cpu, worker) = thread::scope(|scope| {
        let watched = &roots;
        let looking =
            scope.spawn(move || looks.then(|| look(watched, &ended, interrupt)).flatten());
        let done = saturate(target, time.mul_f64(SATURATED), interrupt);
        let cpu = cpu_seconds(&roots) - before;
        drop(end);
        (done, cpu, looking.join().unwrap_or_default())
    });
    let done = done?;
    if done.answered == 0 {
        return Err(server.broken("no request was answered at saturation"));
    }
    Ok(Round {
        boot: micros(boot),
        cold: micros(cold),
        idle,
        paced,
        rate: done.answered as f64 / done.seconds,
        cpu: cpu * 1e6 / done.answered as f64,
        total: still.total,
        worker: still.worker.or(worker),
        failed: failed + done.failed,
        requests: answered + failed + done.answered + done.failed,
    })
}

/// Makes the first request, and returns the time that it took. Fails if the answer is not the expected one.
pub(crate) fn first(
    server: &Server,
    expected: Option<&str>,
    interrupt: &Interrupt,
) -> Result<Duration, Stop> {
    let start = Instant::now();
    let answer = server.target.connect(interrupt);
    let answer = answer.and_then(|mut connection| connection.exchange(&server.target.request(&[])));
    interrupt.check()?;
    match answer {
        Ok(answer)
            if answer.status == 200
                && expected.is_none_or(|expected| answer.body == expected.as_bytes()) =>
        {
            Ok(start.elapsed())
        }
        Ok(answer) => {
            let text = String::from_utf8_lossy(&answer.body);
            let text: String = text.trim().chars().take(200).collect();
            let (status, path) = (answer.status, &server.target.path);
            Err(server.broken(format!("{path} was answered with status {status}: {text}")))
        }
        Err(error) => {
            Err(server.broken(format!("{} was not answered: {error}", server.target.path)))
        }
    }
}

/// The largest worker that is seen until `ended` is closed, in a few looks.
fn look(roots: &[i32], ended: &Receiver<()>, interrupt: &Interrupt) -> Option<Memory> {
    let mut largest: Option<Memory> = None;
    let mut seen = 0;
    while seen < LOOKS && !interrupt.is_set() {
        if let Err(RecvTimeoutError::Disconnected) = ended.recv_timeout(PAUSE / 5) {
            break;
        }
        if let Some(found) = memory(roots, false).worker {
            seen += 1;
            largest = Some(
                largest
                    .filter(|largest| largest.rss >= found.rss)
                    .unwrap_or(found),
            );
        }
    }
    largest
}

fn micros(time: Duration) -> f64 {
    time.as_nanos() as f64 / 1e3
}
