//! `stoker`: one binary that supervises workers, assigns tasks to them, and has the commands to inspect and control a
//! running server.

mod access;
mod args;
mod client;
mod command;
mod connect;
mod deadlines;
mod exit;
mod output;
#[cfg(test)]
mod reference;
mod running;
mod socket;
mod table;

use args::Args;
use clap::Parser;
use std::env;
use std::process::ExitCode;

fn main() -> ExitCode {
    // The angel starts the server and the gateways with these names as `argv[0]`; `ps` shows them too.
    if env::args_os()
        .next()
        .is_some_and(|name| name == stoker_angel::SERVER_NAME)
    {
        return exit::report(command::server(), false);
    }
    #[cfg(any(feature = "http", feature = "relay"))]
    if let Some(name) = env::args_os()
        .next()
        .as_deref()
        .and_then(stoker_angel::is_gateway)
    {
        return exit::report(command::gateway(name), false);
    }
    match Args::try_parse() {
        Ok(args) => {
            let json = args.json;
            exit::report(command::run(args), json)
        }
        // With `--json`, an invalid command line is reported as JSON, like every other error.
        Err(error) if error.use_stderr() && env::args_os().any(|word| word == "--json") => {
            let text = error.to_string();
            let text = text.strip_prefix("error: ").unwrap_or(&text).trim();
            exit::report(Err(exit::Failure::Usage(text.to_owned())), true)
        }
        Err(error) => error.exit(),
    }
}
