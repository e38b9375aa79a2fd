//! Stoker with one pool of a strategy.

use super::child::Child;
use super::{BOOT_TIMEOUT, Server, Stop, broken};
use crate::application::Application;
use crate::config::{self, NAME};
use crate::error::Error;
use crate::http::Target;
use crate::interrupt::Interrupt;
use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::time::Instant;
use stoker_workers::{Requests, Strategy};

const FILE: &str = "stoker.toml";

pub(super) fn start(
    strategy: &Strategy,
    auto: bool,
    application: &Application,
    folder: &Path,
    workers: u32,
    interrupt: &Interrupt,
) -> Result<Server, Stop> {
    fs::write(
        folder.join(FILE),
        config::stoker(strategy, auto, application, folder, workers),
    )?;
    if strategy.name == "fastcgi" {
        fs::write(
            folder.join("fpm.conf"),
            config::fpm("${STOKER_ADDRESS}", workers),
        )?;
    }
    let words = ["serve", "--config", FILE].map(str::to_owned);
    let start = Instant::now();
    let mut child = Child::start(std::env::current_exe()?, &words, &[], folder)?;
    let ready = ready(&child, interrupt);
    child.stop_waiting();
    // From here on, the server is stopped whatever happens.
    let mut server = Server {
        children: vec![child],
        target: Target {
            address: SocketAddr::from(([127, 0, 0, 1], 0)),
            path: application.path.clone(),
            token: None,
        },
        start,
    };
    server.target.address = match ready {
        Ok(address) => address,
        Err(Error::Interrupted) => return Err(Stop::All(Error::Interrupted)),
        Err(error) => return Err(broken(&server.children, error.to_string())),
    };
    if strategy.requests == Requests::Nobody {
        server.target.path = format!("/call/{NAME}.run");
        server.target.token = Some(
            fs::read_to_string(folder.join("stoker.token"))?
                .trim()
                .to_owned(),
        );
    }
    Ok(server)
}

/// Waits until the pool has a worker. Returns the address of the gateway.
fn ready(child: &Child, interrupt: &Interrupt) -> crate::error::Result<SocketAddr> {
    let until = Instant::now() + BOOT_TIMEOUT;
    let (mut address, mut is_healthy) = (None, false);
    while let Some(line) = child.next_line(until, interrupt)? {
        let line: serde_json::Value = serde_json::from_str(&line).unwrap_or_default();
        match line["event"].as_str() {
            Some("pool_healthy") => is_healthy = true,
            Some("pool_unhealthy") => {
                return Err(Error::Failed("its workers can't start".to_owned()));
            }
            _ => address = address.or_else(|| listening(line["message"].as_str()?)),
        }
        if let (Some(address), true) = (address, is_healthy) {
            return Ok(address);
        }
    }
    Err(Error::Failed("Stoker ended before it was ready".to_owned()))
}

/// The address in a gateway's message that it accepts connections.
fn listening(message: &str) -> Option<SocketAddr> {
    let (_, address) = message.split_once("listening on http://")?;
    address
        .split(|byte: char| byte == ',' || byte.is_whitespace())
        .next()?
        .parse()
        .ok()
}
