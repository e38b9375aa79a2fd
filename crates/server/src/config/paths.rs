//! Checks that everything a configuration refers to exists: programs, directories, users, and the directories for
//! socket, store and log. This is checked before anything starts, so that what is missing is reported as a
//! mistake in the file.

use super::reader::Mistakes;
use super::{Config, ConfigError, Pool, SiteConfig};
use std::env;
use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use stoker_os::MAX_SOCKET_PATH;
use stoker_workers::Requests;
use toml::de::DeTable;

/// The search path for programs if PATH is not set, as in libc.
const DEFAULT_PATH: &str = "/bin:/usr/bin";

/// A configuration file: its text and the configuration that was resolved from it.
#[derive(Clone, Copy, Debug)]
pub struct Source<'a> {
    /// The file's name in messages.
    pub file: &'a str,
    pub text: &'a str,
    pub config: &'a Config,
    /// The directory that the paths are relative to, with its symbolic links unresolved.
    pub base: &'a Path,
    /// The socket is named elsewhere, so the one of the file is not used.
    pub socket_is_named: bool,
}

impl Source<'_> {
    /// Checks everything that would keep the server from starting.
    pub fn check_server(&self) -> Result<(), ConfigError> {
        self.run_checks(|places| places.check_server())
    }

    /// Checks everything that would keep the server or its workers from starting.
    pub fn check_all(&self) -> Result<(), ConfigError> {
        self.run_checks(|places| {
            places.check_server();
            places.check_pools();
        })
    }

    fn run_checks(&self, check: impl FnOnce(&mut PathChecks<'_>)) -> Result<(), ConfigError> {
        let base = fs::canonicalize(self.base).unwrap_or_else(|_| self.base.to_owned());
        let mut places = PathChecks {
            source: self,
            base,
            mistakes: Mistakes::new(self.text),
        };
        check(&mut places);
        let mut mistakes = places.mistakes.found;
        mistakes.sort_by_key(|mistake| mistake.line);
        let file = self.file.to_owned();
        match mistakes.is_empty() {
            true => Ok(()),
            false => Err(ConfigError { file, mistakes }),
        }
    }
}

struct PathChecks<'a> {
    source: &'a Source<'a>,
    base: PathBuf,
    mistakes: Mistakes<'a>,
}

impl PathChecks<'_> {
    fn check_server(&mut self) {
        let config = self.source.config;
        if !self.source.socket_is_named {
            self.check_socket(config);
        }
        if let Some(file) = &config.log.file {
            self.check_file(&["log", "file"], file, "stoker.log");
        }
        if let Some(socket) = &config.http.socket {
            self.check_socket_path(&["http", "socket"], socket);
        }
        if !config.http.listen.is_empty() {
            let file = config.http.token_file.clone();
            self.check_file(&["http", "token_file"], &file, "stoker.token");
        }
        if !config.listen.addresses.is_empty() {
            let file = config.listen.tokens.clone();
            self.check_file(&["listen", "tokens"], &file, "stoker.tokens");
        }
        for site in &config.sites {
            self.check_site(site);
        }
        if let Some(file) = &config.store.path {
            self.check_file(&["store", "path"], file, "stoker.db");
        }
    }

    /// Checks that the directories of a site exist, and its front controller if it is to be run.
    fn check_site(&mut self, site: &SiteConfig) {
        let send_files = site
            .send_files
            .iter()
            .map(|path| ("send_files", Path::new(path)));
        let root = site.root.iter().map(|path| ("root", path.as_path()));
        for (key, path) in root.chain(send_files) {
            let path = self.base.join(path);
            if !path.is_dir() {
                let what = format!("there is no directory {}", path.display());
                let hint =
                    "create it, or correct the path, which is relative to the configuration file";
                self.add_mistake(&["site", &site.name, key], what, hint);
                return;
            }
        }
        let mut pools = self.source.config.pools.iter();
        let pool = pools.find(|pool| pool.name == site.service.pool);
        let is_run = pool.is_some_and(|pool| pool.strategy.requests == Requests::FrontController);
        let script = site
            .root
            .as_ref()
            .map(|root| self.base.join(root).join(&site.index));
        if let Some(script) = script.filter(|script| is_run && !script.is_file()) {
            let what = format!("there is no file {}", script.display());
            let hint = "name the front controller, relative to root, such as \"index.php\"";
            self.add_mistake(&["site", &site.name, "index"], what, hint);
        }
    }

    fn check_socket(&mut self, config: &Config) {
        let path = config.socket.as_deref().unwrap_or(Path::new("stoker.sock"));
        self.check_socket_path(&["stoker", "socket"], path);
    }

    fn check_socket_path(&mut self, key: &[&str], path: &Path) {
        // Symbolic links in the path stay part of the socket's name, and so of its length.
        let path = self.source.base.join(path);
        let len = path.as_os_str().len();
        if len > MAX_SOCKET_PATH {
            let what = format!(
                "{} has {len} bytes, but the path of a socket may have at most {MAX_SOCKET_PATH}",
                path.display()
            );
            let hint = "use a shorter path, such as \"/run/stoker/stoker.sock\"";
            self.add_mistake(key, what, hint);
        } else if !is_in_directory(&path) {
            let (what, hint) = missing_directory(&path);
            self.add_mistake(key, what, &hint);
        }
    }

    /// Checks that a path is not a directory, and that the directory for it exists.
    fn check_file(&mut self, key: &[&str], path: &Path, example: &str) {
        let whole = self.base.join(path);
        if whole.is_dir() {
            let what = format!("{} is a directory", path.display());
            let hint = format!("name a file, such as \"{}\"", path.join(example).display());
            self.add_mistake(key, what, &hint);
        } else if !is_in_directory(&whole) {
            let (what, hint) = missing_directory(&whole);
            self.add_mistake(key, what, &hint);
        }
    }

    fn check_pools(&mut self) {
        let started = self.source.config.pools.iter();
        for pool in started.filter(|pool| pool.core.spawned) {
            self.check_user(pool);
            let directory = match &pool.directory {
                None => self.base.clone(),
                Some(directory) => self.base.join(directory),
            };
            if let (Some(host), true) = (pool.strategy.host, directory.is_dir()) {
                self.check_host(pool, host);
            } else if directory.is_dir() {
                self.check_program(pool, &directory);
                self.check_script(pool, &directory);
                self.check_task_script(pool, &directory);
            } else {
                let what = format!("there is no directory {}", directory.display());
                let hint =
                    "create it, or correct the path, which is relative to the configuration file";
                self.add_mistake(&["pool", &pool.name, "directory"], what, hint);
            }
        }
    }

    fn check_user(&mut self, pool: &Pool) {
        let Some(user) = &pool.user else { return };
        let own = rustix::process::geteuid().as_raw();
        let uid = stoker_angel::resolve_user(user).map(|(uid, _)| uid);
        let (what, hint) = match uid {
            Err(_) => (
                format!("there is no user '{user}'"),
                "use a name from /etc/passwd, or numbers: uid or uid:gid",
            ),
            Ok(uid) if own != 0 && uid != own => (
                format!("only root can start workers as '{user}'"),
                "start Stoker as root, or remove user",
            ),
            Ok(_) => return,
        };
        self.add_mistake(&["pool", &pool.name, "user"], what, hint);
    }

    fn check_host(&mut self, pool: &Pool, host: &str) {
        if let Some((what, hint)) = stoker_workers::missing_host(host) {
            self.add_mistake(&["pool", &pool.name, "strategy"], what, &hint);
        }
    }

    /// If the command is an interpreter with a script as its first argument, checks that the script exists.
    fn check_script(&mut self, pool: &Pool, directory: &Path) {
        let [program, script, ..] = pool.command.as_slice() else {
            return;
        };
        let interpreter = Path::new(program)
            .file_name()
            .and_then(|name| name.to_str());
        let is_interpreter = interpreter.is_some_and(|name| {
            let name = name.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.');
            ["php", "python", "node", "ruby", "bun"].contains(&name)
        });
        let path = directory.join(script);
        let is_script = Path::new(script).extension().is_some() && !script.starts_with('-');
        if is_interpreter && is_script && !path.is_file() {
            let what = format!("file not found: {}", path.display());
            let hint = "correct the path, which is relative to the pool's directory";
            self.add_mistake(&["pool", &pool.name, "command"], what, hint);
        }
    }

    /// Checks that the script for calls and jobs exists, unless it is on the machine of a server that Stoker does not start.
    fn check_task_script(&mut self, pool: &Pool, directory: &Path) {
        let Some(script) = &pool.task_script else {
            return;
        };
        let path = directory.join(script);
        if !pool.command.is_empty() && !path.is_file() {
            let what = format!("there is no file {}", path.display());
            let hint = "correct the path; it is relative to the pool's directory";
            self.add_mistake(&["pool", &pool.name, "task_script"], what, hint);
        }
    }

    /// Searches for a pool's program as exec does, with the working directory and PATH of the workers.
    fn check_program(&mut self, pool: &Pool, directory: &Path) {
        let Some(program) = pool.command.first() else {
            return;
        };
        let key = ["pool", &pool.name, "command"];
        if program.contains('/') {
            let path = directory.join(program);
            if !path.is_file() {
                let what = format!("file not found: {}", path.display());
                let hint = "correct the path, which is relative to the pool's directory";
                self.add_mistake(&key, what, hint);
            } else if !is_executable(&path) {
                let what = format!("{} is not executable", path.display());
                let hint = "make it executable with chmod +x, or put its interpreter first, such as \
                            [\"php\", \"worker.php\"]";
                self.add_mistake(&key, what, hint);
            }
            return;
        }
        let own = pool.env.iter().find(|(name, _)| name == "PATH");
        let search = own.map(|(_, value)| OsString::from(value));
        let search = search.or_else(|| env::var_os("PATH"));
        let search = search.unwrap_or_else(|| DEFAULT_PATH.into());
        let found = env::split_paths(&search)
            .any(|place| is_executable(&directory.join(place).join(program)));
        if !found {
            let search = search.to_string_lossy();
            let what = format!("program '{program}' was not found in PATH ({search})");
            self.add_mistake(&key, what, "install it, or give its full path");
        }
    }

    /// Reports a mistake at a key of the file, or without a line if the file does not contain the key.
    fn add_mistake(&mut self, key: &[&str], what: String, hint: &str) {
        let dotted = key.join(".");
        let hint = Some(hint.to_owned());
        match offset_of(self.source.text, key) {
            Some(offset) => self.mistakes.add(offset, &dotted, what, hint),
            None => self.mistakes.add_without_place(&dotted, what, hint),
        }
    }
}

/// The offset of a key's value.
fn offset_of(text: &str, key: &[&str]) -> Option<usize> {
    let root = DeTable::parse(text).ok()?;
    let (last, sections) = key.split_last()?;
    let mut table = root.get_ref();
    for section in sections {
        table = table.get(*section)?.get_ref().as_table()?;
    }
    Some(table.get(*last)?.span().start)
}

fn is_in_directory(path: &Path) -> bool {
    path.parent().is_none_or(Path::is_dir)
}

fn missing_directory(path: &Path) -> (String, String) {
    let parent = path.parent().unwrap_or(path).display();
    (
        format!("its directory {parent} does not exist"),
        "create it, or correct the path, which is relative to the configuration file".to_owned(),
    )
}

fn is_executable(path: &Path) -> bool {
    let metadata = fs::metadata(path);
    metadata.is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
}
