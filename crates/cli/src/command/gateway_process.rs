//! The main function of a gateway process, which the angel starts.

use super::descriptors::take_inherited;
use crate::exit::{Failure, Result};
use rustix::fd::OwnedFd;
use std::env;
use stoker_angel::{Beat, Heartbeat, Stage, env as names};

/// The main function of a gateway process, which the angel starts.
pub(crate) fn gateway(name: &str) -> Result {
    match name {
        #[cfg(feature = "http")]
        "http" | "sites" => {
            let Process::<stoker_gateway::http::Settings> {
                mut settings,
                server,
                listeners,
            } = Process::inherited(name)?;
            let restarts = env::var(names::RESTARTS).ok();
            settings.restarts = restarts.and_then(|text| text.parse().ok()).unwrap_or(0);
            Ok(stoker_gateway::http::run(
                settings,
                server,
                listeners,
                beat(),
            )?)
        }
        #[cfg(feature = "relay")]
        "relay" => {
            let Process {
                settings,
                server,
                listeners,
            } = Process::inherited(name)?;
            Ok(stoker_gateway::relay::run(
                settings,
                server,
                listeners,
                beat(),
            )?)
        }
        _ => Err(Failure::Usage(format!(
            "there is no gateway '{name}'; gateways are started by 'stoker serve'"
        ))),
    }
}

/// The descriptors that a gateway's process has inherited from the angel.
struct Process<S> {
    settings: S,
    server: stoker_gateway::client::Settings,
    listeners: Vec<OwnedFd>,
}

impl<S: serde::de::DeserializeOwned> Process<S> {
    fn inherited(name: &str) -> Result<Self> {
        let variable = |name| env::var(name).ok();
        let (Some(config), Some(token), Some(socket)) = (
            variable(names::GATEWAY),
            variable(names::GATEWAY_TOKEN),
            variable(names::SOCKET),
        ) else {
            let text = "a gateway's process is started by 'stoker serve'";
            return Err(Failure::Usage(text.to_owned()));
        };
        let settings = serde_json::from_str(&config);
        stoker_server::raise_descriptor_limit();
        Ok(Self {
            settings: settings.map_err(|error| Failure::Config(error.to_string()))?,
            server: stoker_gateway::client::Settings {
                socket: socket.into(),
                name: name.to_owned(),
                token: Some(token),
                own_uid: rustix::process::geteuid().as_raw(),
            },
            listeners: take_inherited(names::LISTENERS),
        })
    }
}

/// Returns a function that reports to the angel that the gateway makes progress.
fn beat() -> impl FnMut() + 'static {
    let heartbeat = take_inherited(names::HEARTBEAT).pop().map(Heartbeat::of);
    let mut count = 0;
    move || {
        count += 1;
        let stage = Stage::Serving;
        // If the heartbeat can't be written, the angel treats this process as stuck.
        if let Some(heartbeat) = &heartbeat {
            heartbeat.beat(Beat { count, stage }).ok();
        }
    }
}
