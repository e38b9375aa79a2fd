//! The commands, one file for each group of them.

mod adapter;
mod call;
mod check;
mod check_fork;
mod control;
mod descriptors;
mod export_import;
mod front_controller;
#[cfg(any(feature = "http", feature = "relay"))]
mod gateway_process;
mod gateways;
mod jobs;
#[cfg(feature = "http")]
mod lab;
mod push;
mod serve;
mod show;
mod store;
mod systemd;
#[cfg(feature = "relay")]
mod token;

use crate::args::{Args, Command, QueuesAction};
use crate::client::Client;
use crate::connect;
use crate::exit::{Failure, Result};
use std::time::Duration;

#[cfg(any(feature = "http", feature = "relay"))]
pub(crate) use gateway_process::gateway;
pub(crate) use serve::server;

/// Runs the command that the command line names.
pub(crate) fn run(args: Args) -> Result {
    let timeout = timeout_of(&args)?;
    reject_unused(&args)?;
    let connect = || {
        let addresses = connect::addresses(args.socket.clone(), args.url.as_deref())?;
        Client::connect(&addresses, timeout)
    };
    let json = args.json;
    match args.command {
        Command::Serve(serve) => serve::serve(args.socket, &serve),
        Command::Check { file, fork } => check::check(args.socket, file, fork, json),
        Command::Adapter { strategy, command } => adapter::adapter(&strategy, command),
        Command::Call(call) => call::call(&mut connect()?, &call, timeout),
        Command::Push(push) => push::push(&mut connect()?, &push, json),
        Command::Jobs(jobs) => jobs::jobs(&mut connect()?, &jobs, json),
        Command::Queues { action: None } => show::queues(&mut connect()?, json),
        Command::Queues {
            action: Some(QueuesAction::Remove { queue }),
        } => control::remove_queue(&mut connect()?, &queue, json),
        Command::Workers => show::workers(&mut connect()?, json),
        Command::Quarantine(which) => show::quarantine(&mut connect()?, &which, json),

        Command::Store(what) => store::store(&what, json),
        #[cfg(feature = "http")]
        Command::Lab(what) => lab::lab(what, json),
        #[cfg(feature = "relay")]
        Command::Token(what) => token::token(&what, json),
        Command::Pause { queue, create } => control::pause(&mut connect()?, &queue, create, json),
        Command::Resume { queue } => control::resume(&mut connect()?, &queue, json),
        Command::Set(set) => control::set(&mut connect()?, &set, json),
        Command::Scale { pool, workers, .. } => {
            control::scale(&mut connect()?, &pool, workers.as_deref(), json)
        }
        Command::Reload { pool } => control::reload(&mut connect()?, pool.as_deref(), json),
    }
}

/// Rejects global options that have no effect on this command.
fn reject_unused(args: &Args) -> Result {
    let command = match args.command {
        Command::Store(_) => "store",
        Command::Serve(_) => "serve",
        Command::Check { .. } => "check",
        Command::Adapter { .. } => "adapter",
        #[cfg(feature = "http")]
        Command::Lab(_) => "lab",
        #[cfg(feature = "relay")]
        Command::Token(_) => "token",
        _ => return Ok(()),
    };
    let reject = |text: String| Err(Failure::Usage(text));
    if args.timeout.is_some() {
        return reject(format!(
            "`stoker {command}` sends no request to a server: remove --timeout"
        ));
    }
    if args.url.is_some() {
        return reject(format!(
            "`stoker {command}` sends no request to a server: remove --url"
        ));
    }
    if command == "lab" && args.socket.is_some() {
        return reject(
            "--socket is for commands that send requests to a server, but `stoker lab` starts servers of its own: remove it".to_owned(),
        );
    }
    if command == "token" && args.socket.is_some() {
        return reject(
            "--socket is for commands that send requests to a server, but `stoker token` changes a file; name it with \
             --tokens FILE, or its configuration with --config FILE"
                .to_owned(),
        );
    }
    if command == "store" && args.socket.is_some() {
        return reject(
            "--socket is for commands that send requests to a server, but `stoker store` works on a file; name it \
             with --store FILE, or its configuration with --config FILE"
                .to_owned(),
        );
    }
    Ok(())
}

/// The time limit of the command. `push` calls it `--wait`, because its `--timeout` is the time limit of the job.
fn timeout_of(args: &Args) -> Result<Option<Duration>> {
    let timeout = match &args.command {
        Command::Push(push) => push.wait.as_deref(),
        _ => args.timeout.as_deref(),
    };
    let timeout = timeout.map(call::milliseconds).transpose()?;
    Ok(timeout.map(|ms| Duration::from_millis(ms.into())))
}
