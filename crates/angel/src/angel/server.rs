//! The server process: starting it, watching its progress, and reacting to its end.

use super::{Angel, Phase, STABLE_AFTER};
use crate::channel::Channel;
use crate::{Beat, End, Previous, ToServer, spawn};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, Signal, kill_process};
use std::io::{self, Write};
use std::time::{Duration, Instant};
use stoker_os::Fd;

/// The exit code of a server that had an unrecoverable error (EX_CONFIG in `sysexits.h`).
const EXIT_UNRECOVERABLE: i32 = 78;
/// The number of quick restarts after which a server that has never sent a message is not started again.
const MAX_FAILED_STARTS: usize = 2;
/// An end by SIGKILL. It comes from outside and says nothing about the server itself.
const SIGKILLED: End = End::Signal(9);

impl Angel {
    pub(super) fn start_server(&mut self) -> io::Result<()> {
        let (pid, socket) = spawn::server(self.listening.listener())?;
        let mut channel = Channel::new(socket);
        let config = ToServer::Config {
            text: self.config.clone(),
            restarts: self.restarts,
            previous: self.previous,
            gateway_token: Some(self.gateway_token.clone()),
        };
        self.heartbeat.beat(Beat::default())?;
        send_unless_dead(&mut channel, &config, vec![self.heartbeat.share()?])?;
        self.watchdog.server_started(Instant::now());
        if self.drain_requested.is_some() {
            send_unless_dead(&mut channel, &ToServer::Drain, Vec::new())?;
        }
        self.channel = Some(channel);
        self.server = Some((pid, Instant::now()));
        self.phase = Phase::Serving;
        Ok(())
    }

    /// Kills a server that makes no progress because it is stopped by a signal, in an endless loop, or blocked.
    pub(super) fn check_progress(&mut self) {
        let now = Instant::now();
        let Some((pid, _)) = self.server.filter(|_| self.phase == Phase::Serving) else {
            return;
        };
        if self.watchdog.due().is_none_or(|due| due > now) {
            return;
        }
        let Ok(beat) = self.heartbeat.read() else {
            return;
        };
        let Some(silent) = self.watchdog.check(beat, now) else {
            return;
        };
        self.stuck = Some(silent);
        if self.drain_requested.is_some() {
            // A process that is stuck in the kernel cannot even be killed, so the angel does not wait for its end.
            self.end(1);
            let seconds = silent.as_secs();
            // No later server will log this.
            print_error(&format!(
                "the server (pid {pid}) made no progress for {seconds} s during the shutdown and is killed"
            ));
        }
        if let Some(pid) = Pid::from_raw(pid) {
            kill_process(pid, Signal::KILL).ok();
        }
    }

    pub(super) fn server_ended(&mut self, end: End) {
        // The channel may still contain the server's last messages, above all `Done`.
        self.receive_messages();
        let lived = self
            .server
            .take()
            .map_or(Duration::ZERO, |(_, since)| since.elapsed());
        self.channel = None;
        let code = u8::from(end != End::Code(0));
        if self.done && self.phase == Phase::Serving && self.has_gateways() {
            let since = Instant::now();
            self.phase = Phase::Leaving { since, code };
            return;
        }
        if self.done || matches!(self.phase, Phase::Ending { .. }) {
            return self.end(code);
        }
        if end == End::Code(EXIT_UNRECOVERABLE) {
            return self.end(EXIT_UNRECOVERABLE as u8);
        }
        if lived > STABLE_AFTER {
            self.quick_exits = 0;
        }
        if !self.ever_served && self.quick_exits >= MAX_FAILED_STARTS && end != SIGKILLED {
            // The server has never worked and has logged the reason, so another attempt would fail in the same way. A
            // killed server is different: it may have served workers that connect by themselves, for which it sends no message to the
            // angel.
            return self.end(1);
        }
        self.restarts += 1;
        let stuck = self.stuck.take().map(Previous::Stuck);
        self.previous = Some(stuck.unwrap_or(Previous::Ended(end)));
        self.phase = Phase::Clearing {
            since: Instant::now(),
        };
    }
}

/// Escapes what a terminal would interpret: control characters, and marks that change the direction of text.
fn escape(text: &str) -> String {
    let mut line = String::with_capacity(text.len());
    for character in text.chars() {
        let turns = matches!(
            character,
            '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}'
        );
        match character.is_control() || turns {
            true => line.extend(character.escape_unicode()),
            false => line.push(character),
        }
    }
    line
}

/// Writes a line to stderr, unless it could block: the angel must never block.
fn print_error(text: &str) {
    let stderr = io::stderr();
    let mut fds = [PollFd::new(&stderr, PollFlags::OUT)];
    let has_room = matches!(poll(&mut fds, Some(&Timespec::default())), Ok(1));
    if has_room && fds[0].revents().contains(PollFlags::OUT) {
        // The text may contain command lines of other processes, so it is escaped. A pipe with room accepts a whole
        // line.
        writeln!(io::stderr(), "stoker: {}", escape(text)).ok();
    }
}

/// Sends a message to a server that was just started. A server that has already died is not an error here: it is reaped
/// next and started again.
fn send_unless_dead(channel: &mut Channel, message: &ToServer, fds: Vec<Fd>) -> io::Result<()> {
    match channel.send(message, fds) {
        Err(error) if is_disconnected(&error) => Ok(()),
        result => result,
    }
}

fn is_disconnected(error: &io::Error) -> bool {
    use io::ErrorKind::{BrokenPipe, ConnectionReset};
    matches!(error.kind(), BrokenPipe | ConnectionReset)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};

    /// Found by the campaign: a server was killed between its start and its first message, and the angel ended with it.
    #[test]
    fn a_server_that_dies_at_its_start_does_not_end_the_angel() {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let pair = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None);
        let (ours, theirs) = pair.expect("a pair of sockets");
        let mut channel = Channel::new(ours);
        send_unless_dead(&mut channel, &ToServer::Drain, Vec::new()).expect("it is received");
        drop(theirs);
        send_unless_dead(&mut channel, &ToServer::Drain, Vec::new()).expect("nobody receives it");
        let long = ToServer::Config {
            text: "x".repeat(crate::MAX_MESSAGE),
            restarts: 0,
            previous: None,
            gateway_token: None,
        };
        let refused = send_unless_dead(&mut channel, &long, Vec::new());
        assert!(refused.is_err(), "no server could ever get this");
    }
}
