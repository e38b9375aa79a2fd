//! `stoker`: one binary that supervises workers, feeds them, and lets people look and steer.

mod access;
mod args;
mod client;
mod command;
mod exit;
#[cfg(test)]
mod reference;
mod socket;
mod table;

use clap::Parser;
use std::process::ExitCode;

fn main() -> ExitCode {
    exit::code(command::run(args::Args::parse()))
}
