//! Attacks a running `stoker`. Each case has a name, the number of the defect that it guards against, and bounds that
//! must hold during the attack: memory, processes, descriptors, log size, and the time in which an administrator is
//! answered.
//!
//! `cargo test -p stoker-attack` runs the quick cases, `make attack` all of them. Groups of cases run in processes of
//! their own, so that a panic, a limit or a hang of one group does not affect the next.

mod arena;
mod bounds;
mod case;
mod cases;
mod child;
mod expected;
mod options;
mod parent;
mod random;
mod watch;

use options::Options;
use std::process::ExitCode;

fn main() -> ExitCode {
    let options = match Options::parse(std::env::args().skip(1)) {
        Ok(options) => options,
        Err(text) => {
            eprintln!("attack: {text}\n{}", options::USAGE);
            return ExitCode::from(2);
        }
    };
    let groups = cases::all(options.seed);
    case::check_names(&groups);
    match &options.group {
        Some(name) => {
            let group = groups.iter().find(|group| group.name == *name);
            child::run(
                group.expect("the parent names a group that exists"),
                &options,
            )
        }
        None => parent::run(&groups, &options),
    }
}
