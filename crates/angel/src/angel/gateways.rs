//! The gateways' processes: started, restarted, and waited for at the end. They run beside the server, so that the
//! death of one does not end the other.

use super::{Angel, KILL_TIMEOUT, Phase, RESTART_AFTER_MS, STABLE_AFTER};
use crate::watchdog::{Timeouts, Watchdog};
use crate::{End, Gateway, GatewayEvent, Heartbeat, ToServer, spawn};
use rustix::process::{Pid, Signal, kill_process};
use std::io;
use std::time::{Duration, Instant};

/// A gateway and its process.
pub(super) struct Running {
    gateway: Gateway,
    pid: Option<i32>,
    started: Instant,
    /// When to start the process, if none is running.
    due: Instant,
    quick_exits: usize,
    restarts: u32,
    heartbeat: Heartbeat,
    watchdog: Watchdog,
    /// Set while a stuck process is being killed: the time for which it had made no progress.
    stuck: Option<Duration>,
}

impl Running {
    pub(super) fn new(gateway: Gateway) -> io::Result<Self> {
        let now = Instant::now();
        Ok(Self {
            gateway,
            pid: None,
            started: now,
            due: now,
            quick_exits: 0,
            restarts: 0,
            heartbeat: Heartbeat::new()?,
            watchdog: Watchdog::new(),
            stuck: None,
        })
    }

    fn start(&mut self, socket_path: &str, token: &str, now: Instant) -> io::Result<i32> {
        // Each process gets its own memory, so that a predecessor that is still being killed cannot report progress
        // for it.
        self.heartbeat = Heartbeat::new()?;
        let memory = self.heartbeat.share()?;
        let pid = spawn::gateway(&self.gateway, socket_path, token, self.restarts, &memory)?;
        (self.pid, self.started, self.stuck) = (Some(pid), now, None);
        self.watchdog.server_started(now);
        Ok(pid)
    }

    /// The delay before the next start.
    fn backoff(&self) -> Duration {
        let last = RESTART_AFTER_MS.len() - 1;
        Duration::from_millis(RESTART_AFTER_MS[self.quick_exits.min(last)])
    }
}

impl Angel {
    /// Starts every gateway that has no process and is due.
    pub(super) fn start_gateways(&mut self) {
        let is_ending = matches!(self.phase, Phase::Leaving { .. } | Phase::Ending { .. });
        if is_ending || self.drain_requested.is_some() {
            return;
        }
        let now = Instant::now();
        let (path, token) = (self.listening.path(), self.gateway_token.clone());
        let mut changes = Vec::new();
        for running in &mut self.gateways {
            if running.pid.is_some() || running.due > now {
                continue;
            }
            match running.start(&path, &token, now) {
                Ok(pid) => changes.push(gateway_event(running, pid, None)),
                // The system has no process or memory to spare. This may be temporary, so the start is retried.
                Err(_) => running.due = now + KILL_TIMEOUT,
            }
        }
        changes
            .iter()
            .for_each(|message| self.send(message, Vec::new()));
    }

    /// Handles the exit of a gateway. Returns false if the process was not a gateway.
    pub(super) fn gateway_ended(&mut self, pid: i32, end: End) -> bool {
        let mut gateways = self.gateways.iter_mut();
        let Some(running) = gateways.find(|running| running.pid == Some(pid)) else {
            return false;
        };
        running.pid = None;
        if running.started.elapsed() > STABLE_AFTER {
            running.quick_exits = 0;
        }
        let is_stopping = self.drain_requested.is_some() || self.done;
        let restart = (!is_stopping).then(|| running.backoff());
        running.due = Instant::now() + restart.unwrap_or_default();
        running.quick_exits += 1;
        running.restarts += 1;
        let message = gateway_event(running, pid, Some((end, restart)));
        if !is_stopping {
            self.send(&message, Vec::new());
        }
        true
    }

    pub(super) fn is_gateway(&self, pid: i32) -> bool {
        self.gateways.iter().any(|running| running.pid == Some(pid))
    }

    pub(super) fn has_gateways(&self) -> bool {
        self.gateways.iter().any(|running| running.pid.is_some())
    }

    /// Applies the server's timeouts to the gateways as well.
    pub(super) fn set_gateway_timeouts(&mut self, timeouts: Timeouts, now: Instant) {
        for running in &mut self.gateways {
            running.watchdog.set_timeouts(timeouts, now);
        }
    }

    /// Kills gateways that make no progress.
    pub(super) fn check_gateways(&mut self) {
        let now = Instant::now();
        for running in &mut self.gateways {
            let Some(pid) = running.pid.and_then(Pid::from_raw) else {
                continue;
            };
            if running.watchdog.due().is_none_or(|due| due > now) {
                continue;
            }
            let beat = running.heartbeat.read().unwrap_or_default();
            if let Some(silent) = running.watchdog.check(beat, now) {
                running.stuck = Some(silent);
                kill_process(pid, Signal::KILL).ok();
            }
        }
    }

    /// When to check the progress of the gateways next.
    pub(super) fn gateway_check(&self) -> Option<Instant> {
        let running = self.gateways.iter().filter(|running| running.pid.is_some());
        running.filter_map(|running| running.watchdog.due()).min()
    }

    /// The time until the next gateway is due to start.
    pub(super) fn time_until_gateway_start(&self) -> Option<Duration> {
        if self.drain_requested.is_some() {
            return None;
        }
        let waiting = self.gateways.iter().filter(|running| running.pid.is_none());
        let due = waiting.map(|running| running.due).min()?;
        Some(due.saturating_duration_since(Instant::now()))
    }
}

fn gateway_event(running: &Running, pid: i32, end: Option<(End, Option<Duration>)>) -> ToServer {
    ToServer::Gateway(GatewayEvent {
        name: running.gateway.name.clone(),
        pid,
        end,
        stuck: running.stuck,
    })
}
