//! How PHP is started for each strategy, and what each strategy can't do.

use crate::site::Serve;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU8, Ordering};
use stoker_testkit::{Dir, Spawn, php_host, repository};
use stoker_workers::{Settings, cgi, fastcgi, http};

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
    /// `php-fpm` with two children, fewer than the adapter has slots.
    FastCgi,
    /// `php -S`, which answers one request after another.
    Http,
    /// `stoker-php`, which is a worker itself.
    Sapi,
}

/// What is different with a strategy.
impl Kind {
    /// What a script writes to its standard error is known to belong to its task.
    pub(crate) fn attributes_logs(self) -> bool {
        !matches!(self, Self::Http)
    }

    /// Number of requests at once.
    pub(crate) fn slots(self) -> u16 {
        match self {
            Self::Sapi => 1,
            _ => SLOTS,
        }
    }

    /// Whether the adapter learns that the process of a script has died, and of which signal: only if it has started that
    /// process itself.
    pub(crate) fn sees_crashes(self) -> bool {
        matches!(self, Self::Cgi | Self::Http)
    }

    /// A cancelled script is killed. Otherwise it ends by itself when it notices that nobody reads its output.
    pub(crate) fn kills(self) -> bool {
        matches!(self, Self::Cgi)
    }

    /// The script is chosen by the metadata, and not by the path.
    pub(crate) fn takes_script(self) -> bool {
        !matches!(self, Self::Http)
    }

    /// Whether another request is answered while one waits for its caller to read.
    pub(crate) fn answers_at_once(self) -> bool {
        matches!(self, Self::Cgi | Self::FastCgi)
    }

    /// The adapter's function, and its settings. Each process has `mark` in its environment.
    pub(crate) fn adapter(self, dir: &Dir, mark: &str) -> (Serve, Settings) {
        if self == Self::Sapi {
            let mut command = vec![mark.to_owned(), php_host().to_string_lossy().into_owned()];
            command.extend(OPTIONS.map(str::to_owned));
            let settings = Settings {
                command,
                ..Settings::default()
            };
            return (host, settings);
        }
        let (serve, program, words, address): (Serve, _, _, _) = match self {
            Self::Cgi => (
                cgi::serve,
                "php-cgi",
                OPTIONS.map(str::to_owned).to_vec(),
                None,
            ),
            Self::FastCgi => {
                let socket = dir.file("fpm-{worker}.sock").to_string_lossy().into_owned();
                (fastcgi::serve, "php-fpm8.2", fpm(dir), Some(socket))
            }
            Self::Http => (http::serve, "php", builtin(), Some(any_port())),
            Self::Sapi => unreachable!("it has no adapter"),
        };
        let mut command = vec!["env".to_owned(), mark.to_owned()];
        // What a server writes to its standard error is not part of the test's output.
        if !matches!(self, Self::Cgi) {
            let log = dir.file("server.log");
            let script = format!("exec \"$0\" \"$@\" 2>>{}", log.display());
            command.extend(["sh".to_owned(), "-c".to_owned(), script]);
        }
        command.push(program_path(program));
        command.extend(words);
        let settings = Settings {
            slots: SLOTS,
            sites: vec!["shop".to_owned(), "admin".to_owned()],
            address,
            worker: "web-1".to_owned(),
            command,
            ..Settings::default()
        };
        (serve, settings)
    }
}

/// Runs the host program to its end. It gets the socket as its standard input, so that no other process inherits it.
fn host(socket: UnixStream, settings: Settings) -> io::Result<()> {
    let words: Vec<&str> = settings.command.iter().map(String::as_str).collect();
    let spawn = Spawn::new("env").args(&words).env("STOKER_FD", "0");
    let spawn = spawn.env("STOKER_SITES", "shop,admin");
    let ended = spawn.stdin(OwnedFd::from(socket)).start().wait()?;
    match ended.success() {
        true => Ok(()),
        false => Err(io::Error::other(ended.to_string())),
    }
}

/// Writes a configuration of php-fpm, and returns the arguments for it.
fn fpm(dir: &Dir) -> Vec<String> {
    let is_root = rustix::process::geteuid().is_root();
    let user = if is_root {
        "user = root\ngroup = root"
    } else {
        ""
    };
    let log = dir.file("fpm.log");
    let config = format!(
        "[global]\nerror_log = {}\ndaemonize = no\n[www]\n{user}\nlisten = ${{STOKER_ADDRESS}}\npm = static\npm.max_children = 2\n\
         php_admin_flag[display_errors] = off\nphp_admin_flag[log_errors] = on\nphp_admin_flag[html_errors] = off\n",
        log.display()
    );
    let config = dir.write("fpm.conf", config).to_string_lossy().into_owned();
    let mut words = vec!["-n", "-F", "-y", &config];
    words.extend(is_root.then_some("--allow-to-run-as-root"));
    words.into_iter().map(str::to_owned).collect()
}

/// The arguments for PHP's own server.
fn builtin() -> Vec<String> {
    let folder = scripts().to_string_lossy().into_owned();
    let server = ["-q", "-S", "{address}", "-t", &folder];
    let words = OPTIONS.iter().copied().chain(server);
    words.map(str::to_owned).collect()
}

/// Any port of an address of this machine that no other test uses, so that none can take the port before PHP does.
fn any_port() -> String {
    static NEXT: AtomicU8 = AtomicU8::new(1);
    let [_, _, high, low] = std::process::id().to_be_bytes();
    format!(
        "127.{high}.{low}.{}:0",
        NEXT.fetch_add(1, Ordering::Relaxed)
    )
}

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
