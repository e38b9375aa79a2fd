//! How PHP is started for each strategy, and what each strategy can't do.

use std::fs;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU8, Ordering};
use stoker_testkit::{Dir, repository};
use stoker_workers::{Settings, cgi};

/// Number of requests at once.
pub(crate) const SLOTS: u16 = 3;
const OPTIONS: [&str; 7] = [
    "-n",
    "-d",
    "display_errors=0",
    "-d",
    "log_errors=1",
    "-d",
    "html_errors=0",
];

/// A strategy, with the kind of PHP that it needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// `php-cgi`, started for each request.
    Cgi,
}

/// What is different with a strategy.
impl Kind {
    /// What a script writes to its standard error is known to belong to its task.
    pub(crate) fn attributes_logs(self) -> bool {
        matches!(self, Self::Cgi)
    }

    /// The process of a script that crashes is the one that the adapter has started, so it knows the signal.
    pub(crate) fn sees_crashes(self) -> bool {
        matches!(self, Self::Cgi)
    }

    /// A cancelled script is killed. Otherwise it ends by itself when it notices that nobody reads its output.
    pub(crate) fn kills(self) -> bool {
        matches!(self, Self::Cgi)
    }

    /// The script is chosen by the metadata, and not by the path.
    pub(crate) fn takes_script(self) -> bool {
        true
    }

    /// The adapter's function, and its settings. Each process has `mark` in its environment.
    pub(crate) fn adapter(self, dir: &Dir, mark: &str) -> (site::Serve, Settings) {
        let (program, words, address) = match self {
            Self::Cgi => ("php-cgi", OPTIONS.map(str::to_owned).to_vec(), None),
        };
        let mut command = vec!["env".to_owned(), mark.to_owned(), program_path(program)];
        command.extend(words);
        let settings = Settings {
            slots: SLOTS,
            sites: vec!["shop".to_owned(), "admin".to_owned()],
            address,
            command,
            ..Settings::default()
        };
        let serve: site::Serve = match self {
            Self::Cgi => cgi::serve,
        };
        (serve, settings)
    }
}

use crate::site;

/// The folder with the scripts.
pub(crate) fn scripts() -> PathBuf {
    repository().join("tests/http-behaviour")
}

/// The path of a program, which may be in a folder that is not in the `PATH` of every user.
fn program_path(name: &str) -> String {
    let path = std::env::var("PATH").unwrap_or_default();
    let folders = path.split(':').chain(["/usr/sbin"]);
    let mut paths = folders.map(|folder| Path::new(folder).join(name));
    let found = paths.find(|path| path.is_file());
    let found = found.unwrap_or_else(|| panic!("{name} is not installed: run scripts/setup"));
    found.to_string_lossy().into_owned()
}
