//! The state that the angel keeps for every server that it starts: the configuration and its location, the
//! changes by reloads, and the sizes set by `stoker scale`.

use super::resolve::resolve_generated;
use super::schema::{HTTP, LISTEN, LOG, POOL, QUEUE, SERVICE, SITE, STOKER, STORE};
use super::{Config, ConfigError, MAX_FILE, Queue, Service, resolve};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::{fs, io};

/// The separator of the encoded parts. Neither a path nor TOML can contain it.
const SEPARATOR: char = '\0';

/// The configuration in the form in which a server receives it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Launch {
    /// The path of the file that a reload reads. Its symbolic links are not resolved here, but again at each
    /// reload. `None` if there is no file.
    pub file: Option<PathBuf>,
    /// The directory, without symbolic links, that paths in the configuration are relative to.
    pub base: PathBuf,
    /// The path of the job store, without symbolic links, as it was at the start. A server that is started again
    /// opens the same file, wherever links point then. `None` if there is no file.
    pub store: Option<PathBuf>,
    /// The configuration as it was at the start.
    pub text: String,
    /// The whole configuration since the last reload, as TOML; empty before the first reload.
    pub reloaded: String,
    /// The sizes that operators have set, by pool name: minimum and maximum number of workers.
    pub scaled: BTreeMap<String, (u32, u32)>,
}

impl Launch {
    /// Encodes everything as one text, which the angel passes on without parsing it.
    pub fn encode(&self) -> String {
        let text = |path: Option<&Path>| path.and_then(Path::to_str).unwrap_or_default().to_owned();
        // A map of names and numbers can always be serialized.
        let scaled = serde_json::to_string(&self.scaled).unwrap_or_default();
        let parts = [
            &text(self.file.as_deref()),
            &text(Some(&self.base)),
            &text(self.store.as_deref()),
            &scaled,
            &self.text,
            &self.reloaded,
        ];
        parts.map(String::as_str).join(&SEPARATOR.to_string())
    }

    pub(crate) fn decode(text: &str) -> Self {
        let mut parts = text.splitn(6, SEPARATOR).map(str::to_owned);
        let mut next = || parts.next().unwrap_or_default();
        let path = |text: String| {
            Some(text)
                .filter(|text| !text.is_empty())
                .map(PathBuf::from)
        };
        Self {
            file: path(next()),
            base: next().into(),
            store: path(next()),
            scaled: serde_json::from_str(&next()).unwrap_or_default(),
            text: next(),
            reloaded: next(),
        }
    }

    /// The configuration's directory with its symbolic links unresolved, so that paths in it follow a link that is
    /// switched.
    pub(crate) fn unresolved_base(&self) -> &Path {
        let directory = self.file.as_deref().and_then(Path::parent);
        directory.unwrap_or(&self.base)
    }

    /// The configuration's current directory without symbolic links. After a deploy it may be that of the next
    /// release.
    pub(crate) fn find_base(&self) -> io::Result<PathBuf> {
        fs::canonicalize(self.unresolved_base())
    }

    /// The keys that a server which is started with this text would not have as in the file.
    #[cfg(feature = "sim")]
    pub fn keys_unlike_file(text: &str, file: &str) -> Result<Vec<String>, ConfigError> {
        let file = resolve("the configuration", file)?;
        let all = Self::decode(text).config()?.differences(&file);
        let reloadable = all
            .into_iter()
            .filter(|difference| !difference.needs_restart);
        Ok(reloadable.map(|difference| difference.key).collect())
    }

    /// The configuration to use: the one that was reloaded last, or else the one of the start.
    pub(crate) fn config(&self) -> Result<Config, ConfigError> {
        match self.reloaded.is_empty() {
            true => resolve("the configuration", &self.text),
            false => resolve_generated(&self.reloaded),
        }
    }
}

impl Config {
    /// The whole configuration as the text of an equivalent file.
    pub(crate) fn to_toml(&self) -> String {
        let mut text = STOKER.to_toml("", self, None);
        text += &LOG.to_toml("", &self.log, None);
        text += &STORE.to_toml("", &self.store, None);
        text += &HTTP.to_toml("", &self.http, None);
        text += &LISTEN.to_toml("", &self.listen, None);
        for pool in &self.pools {
            text += &POOL.to_toml(&pool.name, pool, None);
        }
        // There may be thousands of queues, so their defaults are left out.
        let queue = Queue::new(String::new());
        for each in &self.queues {
            text += &QUEUE.to_toml(&each.name, each, Some(&queue));
        }
        let service = Service::new(String::new());
        for each in self.services.iter().filter(|each| !each.is_of_site()) {
            text += &SERVICE.to_toml(&each.name, each, Some(&service));
        }
        for site in &self.sites {
            text += &SITE.to_toml(&site.name, site, None);
        }
        text
    }
}

/// The text of a configuration file.
pub fn read_file(file: &Path) -> Result<String, String> {
    let shown = file.display().to_string();
    let shown = stoker_api::printable(&shown);
    let unreadable = |error: io::Error| format!("cannot read {shown}: {error}");
    let bytes = stoker_os::read_file(file).map_err(unreadable)?;
    if bytes.len() > MAX_FILE {
        let kb = MAX_FILE / 1024;
        return Err(format!("{shown} is larger than {kb} KB"));
    }
    String::from_utf8(bytes).map_err(|_| format!("{shown} is not UTF-8"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const FULL: &str = r#"
        [pool."a.b"]
        command = ["php", "say \"hi\".php"]
        workers = { min = 1, max = 3 }
        directory = "work"
        user = "33:33"
        env = { APP_ENV = "prod", "odd key" = "line\nend" }
        token = "secret"
        boot_timeout = "5s"
        task_timeout = "none"
        memory_limit = "64MB"
        max_tasks = 500
        max_age = "1h"
        crash_budget = 2
        [pool.far]
        workers = 2
        [pool.watched]
        command = ["tail"]
        protocol = false
        workers = 1
        [queue.mails]
        pool = "far"
        backoff = ["1s", "2m"]
        tries = 0
        ack = "delivery"
        limit = 3
        [queue."odd:name"]
        pool = "a.b"
        age_step = "none"
        backoff = { base = "2s", cap = "1h" }
        [service.users]
        pool = "far"
        idempotent = ["get"]
        max_wait = "3s"
        [stoker]
        socket = "run/s.sock"
        socket_mode = "0666"
        socket_group = "33"
        max_memory = "64MB"
        [log]
        format = "json"
        [store]
        driver = "memory"
    "#;

    #[test]
    fn a_configuration_written_as_toml_resolves_to_itself() {
        let config = resolve("test", FULL).unwrap();
        assert_eq!(resolve("test", &config.to_toml()).unwrap(), config);
    }

    /// The configuration is larger than a file may be, because it contains all keys.
    #[test]
    fn the_last_reload_survives_encoding_and_is_used() {
        let reloaded = FULL
            .replace("\"5s\"", "\"7s\"")
            .replace("max = 3", "max = 9");
        let many: String = (0..9_000)
            .map(|n| format!("[queue.q{n}]\npool = \"far\"\n"))
            .collect();
        let reloaded = resolve_generated(&(reloaded + &many)).unwrap();
        let launch = Launch {
            file: Some("/srv/current/stoker.toml".into()),
            base: "/srv/releases/1".into(),
            store: Some("/srv/shared/jobs.db".into()),
            text: FULL.to_owned(),
            reloaded: reloaded.to_toml(),
            scaled: [("a.b".to_owned(), (2, 5))].into(),
        };
        assert_eq!(Launch::decode(&launch.encode()), launch);
        assert_eq!(launch.config().unwrap(), reloaded);
        let start = Launch {
            reloaded: String::new(),
            ..launch
        };
        assert_eq!(start.config().unwrap(), resolve("test", FULL).unwrap());
    }
}
