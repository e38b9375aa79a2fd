//! What the angel keeps for every server that it starts: the configuration, where it stands, and what
//! reloads have changed of it.

use super::schema::POOL;
use super::{Config, ConfigError, MAX_FILE, Pool, resolve};
use std::path::{Path, PathBuf};
use std::{fs, io};

/// Parts one after another; neither a path nor TOML can hold what stands between them.
const BETWEEN: char = '\0';

/// The configuration as a server gets it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Launch {
    /// The file that a reload reads again; `None` if there is none.
    pub file: Option<PathBuf>,
    /// The configuration as it was at the start.
    pub text: String,
    /// Pools as the last reload left them, as a configuration of their own; empty before the first.
    pub reloaded: String,
}

impl Launch {
    /// As one text, which the angel passes on without a look.
    pub fn encode(&self) -> String {
        let file = self.file.as_deref().and_then(Path::to_str);
        let parts = [file.unwrap_or_default(), &self.text, &self.reloaded];
        parts.join(&BETWEEN.to_string())
    }

    pub(crate) fn decode(text: &str) -> Self {
        let mut parts = text.splitn(3, BETWEEN).map(str::to_owned);
        let mut next = || parts.next().unwrap_or_default();
        let file = Some(next()).filter(|file| !file.is_empty());
        Self {
            file: file.map(PathBuf::from),
            text: next(),
            reloaded: next(),
        }
    }

    /// What is to be served: the configuration of the start, with what reloads have changed.
    pub(crate) fn config(&self) -> Result<Config, ConfigError> {
        let mut config = resolve("the configuration", &self.text)?;
        if !self.reloaded.is_empty() {
            let reloaded = resolve("the reloaded pools", &self.reloaded)?;
            for pool in &mut config.pools {
                let new = reloaded.pools.iter().find(|new| new.name == pool.name);
                new.into_iter().for_each(|new| pool.renew(new));
            }
        }
        Ok(config)
    }
}

/// Pools as a configuration of their own.
pub(crate) fn to_toml<'p>(pools: impl IntoIterator<Item = &'p Pool>) -> String {
    let sections = pools.into_iter();
    sections
        .map(|pool| POOL.to_toml(&pool.name, pool))
        .collect()
}

/// The text of a configuration file.
pub fn read_file(file: &Path) -> Result<String, String> {
    let shown = file.display();
    let unreadable = |error: io::Error| format!("cannot read {shown}: {error}");
    let bytes = fs::read(file).map_err(unreadable)?;
    if bytes.len() > MAX_FILE {
        let kb = MAX_FILE / 1024;
        return Err(format!("{shown} is larger than {kb} KB"));
    }
    String::from_utf8(bytes).map_err(|_| format!("{shown} is not UTF-8"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use stoker_core::Span;

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
    "#;

    #[test]
    fn pools_come_back_as_they_were_written() {
        let config = resolve("test", FULL).unwrap();
        let text = to_toml(&config.pools);
        assert_eq!(resolve("test", &text).unwrap().pools, config.pools);
    }

    #[test]
    fn what_the_angel_keeps_is_the_start_and_what_reloads_changed() {
        let reloaded = FULL
            .replace("\"5s\"", "\"7s\"")
            .replace("max = 3", "max = 9");
        let reloaded = to_toml(&resolve("test", &reloaded).unwrap().pools);
        let launch = Launch {
            file: Some("/srv/stoker.toml".into()),
            text: FULL.to_owned(),
            reloaded,
        };
        assert_eq!(Launch::decode(&launch.encode()), launch);
        let pool = &launch.config().unwrap().pools[0];
        assert_eq!(pool.core.boot_timeout, Span::from_secs(7));
        assert_eq!(pool.core.max, 3, "the size is not a reload's to change");
    }
}
