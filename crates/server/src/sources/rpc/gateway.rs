//! Gateways: clients that send requests on behalf of users.

use super::fault::Fault;
use crate::net::{ConnId, Role};
use crate::observe::events;
use crate::plane::Plane;
use crate::sources::end::exit_text;
use stoker_angel::{End, GatewayEvent};
use stoker_core::Exit;
use stoker_wire::{EventKind, Frame, Hello, Status};

/// The value of `prio` in a log event that marks a warning.
const WARNING_PRIO: u8 = 2;
/// The maximum length of a gateway's log line, in bytes. Longer lines are truncated.
const MAX_LINE: usize = 4 << 10;

impl Plane {
    /// Makes the connection one of the user on whose behalf the gateway sends requests. The token is known only
    /// to the angel and to the gateways that it has started.
    pub(super) fn greet_gateway(&mut self, id: ConnId, hello: &Hello) -> Result<(), Fault> {
        let Some(conn) = self.peers.conns.get_mut(id) else {
            return Ok(());
        };
        let is_known =
            self.peers.gateway_token.is_some() && self.peers.gateway_token == hello.token;
        if !is_known {
            let text = "only a gateway that this server's angel has started may send requests on behalf of users";
            return Err(Fault::Refused(Status::UNAUTHENTICATED, text.to_owned()));
        }
        let Some(uid) = hello.uid else {
            let text = "a gateway must name the user (uid) of each request";
            return Err(Fault::Refused(Status::INVALID_ARGUMENT, text.to_owned()));
        };
        let user = self.memory.users.of(uid);
        if let Some(before) = conn.user.replace(user) {
            self.memory.users[before].connections -= 1;
        }
        self.memory.users[user].connections += 1;
        // The process that uses the gateway is not known, so the connection does not belong to a worker.
        (conn.peer.uid, conn.peer.pid) = (uid, 0);
        self.greet_client(id, hello);
        if let Some(Role::Client(client)) = self.peers.conns.get_mut(id).map(|conn| &mut conn.role)
        {
            client.worker = None;
            client.gateway = Some(hello.name.as_str().into());
        }
        Ok(())
    }

    /// Handles an event of a gateway: the only kind that a gateway sends is a line for the log.
    pub(super) fn gateway_event(&mut self, id: ConnId, frame: &Frame<'_>) -> Result<(), Fault> {
        let name = self.client(id).and_then(|client| client.gateway.clone());
        let Some(name) = name.filter(|_| EventKind(frame.code) == EventKind::LOG) else {
            return Err(Fault::State(
                "a client may send only REQ, CANCEL, PING and PONG",
            ));
        };
        let body = &frame.body[..frame.body.len().min(MAX_LINE)];
        let text = String::from_utf8_lossy(body);
        let event = match frame.prio {
            WARNING_PRIO => &events::GATEWAY_WARNING,
            _ => &events::GATEWAY,
        };
        let entry = event.message(format!("gateway {name}: {text}"));
        self.log.put(entry.with("gateway", name.into_string()));
        Ok(())
    }

    /// Logs the start or end of a gateway's process, as reported by the angel.
    pub(crate) fn gateway_changed(&mut self, about: GatewayEvent) {
        let GatewayEvent {
            name,
            pid,
            end,
            stuck,
        } = about;
        let Some((end, restart)) = end else {
            let entry =
                events::GATEWAY_STARTED.message(format!("gateway {name} started (pid {pid})"));
            self.log.put(entry.with("gateway", name).with("pid", pid));
            return;
        };
        let why = stuck.map_or(String::new(), |stuck| {
            format!(
                ": it made no progress for {} s and was killed",
                stuck.as_secs()
            )
        });
        let exit = exit_text(match end {
            End::Code(code) => Exit::Code(code),
            End::Signal(signal) => Exit::Signal(signal),
        });
        let again = restart.map_or(String::new(), |after| match after.as_millis() {
            0 => "; it is restarted".to_owned(),
            ms => format!("; it is restarted in {ms} ms"),
        });
        let text = format!("gateway {name} (pid {pid}) ended with {exit}{why}{again}");
        let entry = events::GATEWAY_DIED.message(text).with("gateway", name);
        self.log.put(entry.with("pid", pid).with("exit", exit));
    }
}
