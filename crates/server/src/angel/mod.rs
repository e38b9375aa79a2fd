//! The server's side of the channel to the angel.

mod heartbeat;
mod held;

pub(crate) use heartbeat::HeartbeatSender;

use crate::alarms::AlarmKey;
use crate::net::Source;
use crate::observe::{LogEvent, events};
use crate::plane::Plane;
use stoker_angel::{Channel, Level, SocketEvent, ToAngel, ToServer};
use stoker_os::Fd;

/// The connection to the angel.
pub(crate) struct AngelLink {
    pub(crate) channel: Channel,
    /// Data is waiting until the socket is writable.
    has_unsent: bool,
    /// Requests for workers that are not needed at once, and when they are sent at the latest.
    held: Vec<ToAngel>,
    held_alarm: Option<AlarmKey>,
    pub(crate) heartbeat: HeartbeatSender,
    /// The angel has ended.
    pub(crate) is_lost: bool,
}

impl AngelLink {
    pub(crate) fn new(channel: Channel, heartbeat: HeartbeatSender) -> Self {
        Self {
            channel,
            has_unsent: false,
            held: Vec::new(),
            held_alarm: None,
            heartbeat,
            is_lost: false,
        }
    }
}

impl Plane {
    /// Sends a message to the angel, at the end of the turn: what workers and clients wait for is written first, and several
    /// messages wake the angel once.
    pub(crate) fn send_to_angel(&mut self, message: &ToAngel) {
        self.release_held();
        self.queue_for_angel(message);
    }

    fn queue_for_angel(&mut self, message: &ToAngel) {
        if self.angel.channel.queue(message, Vec::new()).is_err() {
            self.angel.is_lost = true;
        }
    }

    /// Sends the messages that are queued for the angel. If that fails, the angel has ended.
    pub(crate) fn flush_angel(&mut self) {
        if self.angel.channel.flush().is_err() {
            self.angel.is_lost = true;
        }
        self.watch_angel();
    }

    /// Watches for the angel's socket to become writable while messages are pending.
    fn watch_angel(&mut self) {
        let is_blocked = self.angel.channel.is_blocked();
        if is_blocked != self.angel.has_unsent {
            self.angel.has_unsent = is_blocked;
            self.poller
                .set(&self.angel.channel, Source::Control, true, is_blocked);
        }
    }

    pub(crate) fn receive_from_angel(&mut self) {
        if self.angel.channel.flush().is_err() {
            self.angel.is_lost = true;
            return;
        }
        loop {
            match self.angel.channel.receive::<ToServer>() {
                Ok(Some((message, fds))) => self.on_angel_message(message, fds),
                Ok(None) => break,
                Err(_) => {
                    self.angel.is_lost = true;
                    return;
                }
            }
            self.settle();
        }
    }

    fn on_angel_message(&mut self, message: ToServer, fds: Vec<Fd>) {
        match message {
            ToServer::Spawned { worker, pid } => self.spawned(worker, pid, fds),
            ToServer::SpawnFailed { worker, error } => self.not_spawned(worker, &error),
            ToServer::Exited { worker, end } => self.reaped(worker, end),
            ToServer::ZygoteStarted { zygote, pid } => self.zygote_started(zygote, pid, fds),
            ToServer::ZygoteReady { zygote, findings } => self.zygote_ready(zygote, findings),
            ToServer::ZygoteEnded {
                zygote,
                end,
                is_expected,
                reason,
                waiting,
            } => self.zygote_ended(zygote, end, is_expected, reason, &waiting),
            ToServer::OrphanKilled {
                worker,
                pid,
                command,
            } => {
                let text = format!(
                    "{worker} left a process behind, which was killed: {command} (pid {pid})"
                );
                let entry = events::PROCESS_LEFT
                    .message(text)
                    .with("worker", worker.to_string());
                self.log
                    .put(entry.with("pid", pid).with("command", command));
            }
            ToServer::Drain => self.drain(),
            ToServer::Reload => {
                self.log.reopen();
                self.reload_all();
            }
            ToServer::ReopenLog => self.log.reopen(),
            ToServer::Listener(about) => {
                self.log_socket(&events::SOCKET, about);
                fds.into_iter().for_each(|fd| self.listen_on(fd));
            }
            ToServer::Log { level, about } => {
                let event = match level {
                    Level::Info => &events::SOCKET,
                    Level::Warn => &events::SOCKET_TROUBLE,
                    Level::Error => &events::SOCKET_LOST,
                };
                self.log_socket(event, about);
            }
            ToServer::Gateway(about) => self.gateway_changed(about),
            ToServer::Config { .. } => {}
        }
    }

    fn log_socket(&mut self, event: &'static LogEvent, about: SocketEvent) {
        let entry = event.message(about.text).with("path", about.path);
        self.log.put(entry.with("reason", about.reason));
    }
}
