//! The script that an application of the lab needs once before it is started.

use crate::application::{Application, text};
use crate::error::{Error, Result};
use crate::interrupt::{Interrupt, PAUSE};
use rustix::process::{Pid, Signal, kill_process};
use std::fs;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use stoker_os::{wait_for_exit, watch_process};

/// How long the script may run.
const TIMEOUT: Duration = Duration::from_secs(60);

/// Runs the script if there is one, such as the one that compiles the container.
#[expect(
    clippy::disallowed_methods,
    reason = "the lab is a tool; the application is prepared before any server is started"
)]
pub(crate) fn prepare(application: &Application, interrupt: &Interrupt) -> Result {
    let Some(script) = &application.prepare else {
        return Ok(());
    };
    let output = script.with_extension("log");
    let mut command = Command::new("php");
    command
        .arg(script)
        .current_dir(&application.folder)
        .stdin(Stdio::null())
        .stdout(Stdio::null());
    command.stderr(fs::File::create(&output)?);
    let mut child = command.spawn().map_err(|error| {
        Error::Failed(format!(
            "cannot start php ({error}): install it, or add its folder to PATH"
        ))
    })?;
    let until = Instant::now() + TIMEOUT;
    let pid = child.id() as i32;
    let process = watch_process(pid);
    while process
        .as_ref()
        .is_some_and(|process| !wait_for_exit(process, PAUSE))
    {
        if interrupt.is_set() || Instant::now() > until {
            Pid::from_raw(pid).map(|pid| kill_process(pid, Signal::KILL));
        }
    }
    let status = child.wait()?;
    interrupt.check()?;
    if status.success() {
        return Ok(());
    }
    let said = fs::read_to_string(&output).unwrap_or_default();
    let said: Vec<&str> = said.lines().take(5).collect();
    Err(Error::Failed(format!(
        "the application {} can't be prepared by {}: {}",
        application.name,
        text(script),
        match said.is_empty() {
            true => status.to_string(),
            false => said.join("\n    "),
        }
    )))
}
