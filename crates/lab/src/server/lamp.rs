//! nginx before php-fpm, without Stoker.

use super::child::Child;
use super::{BOOT_TIMEOUT, Server, Stop, broken};
use crate::application::Application;
use crate::config;
use crate::error::Error;
use crate::http::Target;
use crate::interrupt::Interrupt;
use crate::way::program;
use std::fs;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::time::{Duration, Instant};

/// How long is waited between two attempts to connect.
const ATTEMPT: Duration = Duration::from_millis(2);

pub(super) fn start(
    application: &Application,
    folder: &Path,
    workers: u32,
    interrupt: &Interrupt,
) -> Result<Server, Stop> {
    let address = free_address()?;
    let upstream = folder.join("fpm.sock").display().to_string();
    fs::write(folder.join("fpm.conf"), config::fpm(&upstream, workers))?;
    let nginx = config::nginx(
        application,
        folder,
        &address.to_string(),
        &upstream,
        workers,
    );
    fs::write(folder.join("nginx.conf"), nginx)?;
    let start = Instant::now();
    let (fpm, words) = {
        let mut words = config::fpm_command(&folder.join("fpm.conf"));
        (words.remove(0), words)
    };
    let mut server = Server {
        children: vec![Child::start(fpm, &words, &application.env, folder)?],
        target: Target {
            address,
            path: application.path.clone(),
            token: None,
        },
        start,
    };
    let is_ready = fpm_is_ready(&server.children[0], interrupt);
    server.children[0].stop_waiting();
    match is_ready {
        Ok(true) => {}
        Err(Error::Interrupted) => return Err(Stop::All(Error::Interrupted)),
        _ => return Err(broken(&server.children, "php-fpm can't start")),
    }
    let folder_text = folder.display().to_string();
    let words = ["-p", &folder_text, "-c", "nginx.conf", "-e", "stderr"].map(str::to_owned);
    let mut nginx = Child::start(program("nginx").unwrap_or_default(), &words, &[], folder)?;
    nginx.stop_waiting();
    server.children.insert(0, nginx);
    let until = Instant::now() + BOOT_TIMEOUT;
    while TcpStream::connect(address).is_err() {
        interrupt.check()?;
        // The wait ends early if nginx ends.
        if server.children[0].ends_within(ATTEMPT) || Instant::now() > until {
            return Err(broken(&server.children, "nginx can't start"));
        }
    }
    Ok(server)
}

fn fpm_is_ready(fpm: &Child, interrupt: &Interrupt) -> crate::error::Result<bool> {
    let until = Instant::now() + BOOT_TIMEOUT;
    while let Some(line) = fpm.next_line(until, interrupt)? {
        if line.contains("ready to handle connections") {
            return Ok(true);
        }
    }
    Ok(false)
}

/// A port that nothing uses, of a loopback address that hardly any other program uses: it depends on the pid, so that no
/// program takes the port before nginx does.
fn free_address() -> std::io::Result<SocketAddr> {
    let [_, _, high, low] = std::process::id().to_be_bytes();
    TcpListener::bind((Ipv4Addr::new(127, high, low, 1), 0))?.local_addr()
}
