//! The command line of the suite.

use std::path::PathBuf;
use stoker_testkit::beside_tests;

pub(crate) const USAGE: &str = "\
usage: attack [FILTER] [--all] [--strict] [--list] [--seed N] [--jobs N] [--binary FILE]
  FILTER     only cases whose name contains this text; it also selects cases that are not quick
  --all      the slow cases as well
  --strict   an administrator is always answered within the bound, not only in the median
  --list     print the names of the cases and their number
  --seed N   what the drawn combinations are drawn from (1)
  --jobs N   groups that run at the same time (as many as there are processors)
  --binary   the stoker to attack (the one that Cargo has built)";

pub(crate) struct Options {
    pub(crate) filter: Option<String>,
    pub(crate) all: bool,
    pub(crate) strict: bool,
    pub(crate) list: bool,
    pub(crate) seed: u64,
    pub(crate) jobs: usize,
    pub(crate) binary: PathBuf,
    /// If set, runs this group in this process, and prints its results for the parent.
    pub(crate) group: Option<String>,
}

impl Options {
    pub(crate) fn parse(mut args: impl Iterator<Item = String>) -> Result<Self, String> {
        let (mut found, mut binary) = (Self::default(), None);
        while let Some(arg) = args.next() {
            let mut value = || args.next().ok_or(format!("{arg} needs a value"));
            match &*arg {
                "--all" => found.all = true,
                "--strict" => found.strict = true,
                "--list" => found.list = true,
                "--seed" => found.seed = number(&value()?)?,
                "--jobs" => found.jobs = number(&value()?)?.max(1) as usize,
                "--binary" => binary = Some(PathBuf::from(value()?)),
                "--group" => found.group = Some(value()?),
                // Options that `cargo test` passes to every test binary.
                "--nocapture" | "--quiet" => {}
                option if option.starts_with('-') => {
                    return Err(format!("unknown option {option}"));
                }
                filter => found.filter = Some(filter.to_owned()),
            }
        }
        if !found.list {
            let binary = binary.unwrap_or_else(|| beside_tests("stoker"));
            let absolute = std::fs::canonicalize(&binary);
            found.binary = absolute.map_err(|error| format!("{}: {error}", binary.display()))?;
        }
        Ok(found)
    }
}

impl Default for Options {
    fn default() -> Self {
        Self {
            filter: None,
            all: false,
            strict: false,
            list: false,
            seed: 1,
            jobs: std::thread::available_parallelism().map_or(1, usize::from),
            binary: PathBuf::new(),
            group: None,
        }
    }
}

fn number(text: &str) -> Result<u64, String> {
    text.parse()
        .map_err(|_| format!("'{text}' is not a number"))
}
