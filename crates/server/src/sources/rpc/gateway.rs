//! Gateways: clients that send requests on behalf of users.

use super::accept::CLIENT_FRAMES;
use super::fault::Fault;
use crate::net::{ConnId, Role};
use crate::observe::events;
use crate::plane::Plane;
use crate::sources::end::exit_text;
use crate::users::{Identity, UserId};
use stoker_angel::{End, GatewayEvent};
use stoker_core::Exit;
use stoker_wire::{EventKind, Frame, Hello, Relayed, Status, Welcome};

/// The value of `prio` in a log event that marks a warning.
const WARNING_PRIO: u8 = 2;
/// The maximum length of a gateway's log line, in bytes. Longer lines are truncated.
const MAX_LINE: usize = 4 << 10;

impl Plane {
    /// Makes the connection one of the user on whose behalf the gateway sends requests. The token is known only
    /// to the angel and to the gateways that it has started.
    pub(super) fn greet_gateway(&mut self, id: ConnId, hello: &Hello) -> Result<(), Fault> {
        self.check_gateway(hello.token.as_deref())?;
        let Some(uid) = hello.uid else {
            let text = "a gateway must name the user (uid) of each request";
            return Err(Fault::Rejected(Status::INVALID_ARGUMENT, text.to_owned()));
        };
        self.set_user(id, Identity::Uid(uid));
        if let Some(conn) = self.peers.conns.get_mut(id) {
            // The process that uses the gateway is not known, so the connection does not belong to a worker.
            (conn.peer.uid, conn.peer.pid) = (uid, 0);
        }
        self.greet_client_with(id, hello, self.welcome_of_gateway());
        if let Some(Role::Client(client)) = self.peers.conns.get_mut(id).map(|conn| &mut conn.role)
        {
            client.worker = None;
            client.gateway = Some(hello.name.as_str().into());
        }
        Ok(())
    }

    fn welcome_of_gateway(&self) -> Welcome {
        let sites = self.config.sites.iter().map(|site| site.name.clone());
        Welcome {
            sites: Some(sites.collect()),
            ..Welcome::default()
        }
    }

    /// Sends WELCOME to all gateways again, because a reload has added or removed sites.
    pub(crate) fn announce_sites(&mut self) {
        let is_gateway =
            |role: &Role| matches!(role, Role::Client(client) if client.gateway.is_some());
        let conns = self.peers.conns.iter();
        let gateways: Vec<ConnId> = conns
            .filter(|(_, conn)| is_gateway(&conn.role))
            .map(|(id, _)| id)
            .collect();
        for id in gateways {
            self.welcome(id, self.welcome_of_gateway());
        }
    }

    /// Makes the connection one of the peer on another machine for which a gateway relays it.
    pub(super) fn identify_relayed(&mut self, id: ConnId, relayed: &Relayed) -> Result<(), Fault> {
        self.check_gateway(Some(&relayed.token))?;
        let Some(conn) = self.peers.conns.get_mut(id) else {
            return Ok(());
        };
        // Neither the user nor the process at the other end is one of this machine.
        (conn.peer.uid, conn.peer.pid) = (u32::MAX, 0);
        conn.may_administer = relayed.admin;
        conn.may_see_all = relayed.admin || relayed.read;
        conn.address = Some(relayed.address.as_str().into());
        let user = self.set_user(id, Identity::Remote(relayed.owner.as_str().into()));
        self.memory.users[user].max_inflight = relayed.inflight;
        // The connection was accepted as one of the gateway's own user, which has places of its own.
        if !relayed.admin {
            self.check_share(user)?;
        }
        Ok(())
    }

    fn check_gateway(&self, token: Option<&str>) -> Result<(), Fault> {
        let known = self.peers.gateway_token.as_deref();
        if known.is_some() && known == token {
            return Ok(());
        }
        let text = "only a gateway that this server's angel has started may send requests on behalf of users";
        Err(Fault::Rejected(Status::UNAUTHENTICATED, text.to_owned()))
    }

    /// Charges a connection to another user.
    fn set_user(&mut self, id: ConnId, identity: Identity) -> UserId {
        let user = self.memory.users.find_or_insert(identity);
        if let Some(conn) = self.peers.conns.get_mut(id) {
            if let Some(before) = conn.user.replace(user) {
                self.memory.users[before].connections -= 1;
            }
            self.memory.users[user].connections += 1;
        }
        user
    }

    /// Handles an event of a gateway: a line for the log, or a metric.
    pub(super) fn gateway_event(&mut self, id: ConnId, frame: &Frame<'_>) -> Result<(), Fault> {
        let name = self.client(id).and_then(|client| client.gateway.clone());
        let name = match (name, EventKind(frame.code)) {
            (Some(name), EventKind::LOG) => name,
            (Some(name), EventKind::METRIC) => {
                self.stats.gateway_metrics.report(&name, frame.body);
                return Ok(());
            }
            (Some(_), _) => {
                return Err(Fault::State(
                    "unknown EVENT: a gateway may send only LOG and METRIC",
                ));
            }
            (None, _) => return Err(Fault::State(CLIENT_FRAMES)),
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
            0 => "; restarting now".to_owned(),
            ms => format!("; restarting in {ms} ms"),
        });
        let text = format!("gateway {name} (pid {pid}) ended with {exit}{why}{again}");
        let entry = events::GATEWAY_DIED.message(text).with("gateway", name);
        self.log.put(entry.with("pid", pid).with("exit", exit));
    }
}
