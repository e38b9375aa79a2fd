//! The ways to run an application that are compared: Stoker's strategies, and what they replace.

use crate::application::Application;
use crate::error::{Error, Result};
use std::path::{Path, PathBuf};
use stoker_workers::{Requests, STRATEGIES, Strategy, missing_host};

/// The name of nginx before php-fpm in `--strategies`.
const LAMP: &str = "lamp";
/// Added to the name of a strategy that forks: `tasks_per_fork = "auto"`.
const AUTO: &str = ":auto";
/// The order in the table, by what the ways have in common.
const DEFAULT: [&str; 10] = [
    "loop", "spare", "fork", "snapshot", "sapi", "fastcgi", "http", "cgi", "exec", LAMP,
];

/// A way to run an application.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Way {
    Strategy {
        strategy: &'static Strategy,
        /// Whether processes run more than one task under load.
        auto: bool,
    },
    /// nginx, and php-fpm without Stoker.
    Lamp,
}

impl PartialEq for Way {
    fn eq(&self, other: &Self) -> bool {
        self.name() == other.name()
    }
}

impl Way {
    /// The ways with these names; all if there are none.
    pub(crate) fn select(names: &[String]) -> Result<Vec<Self>> {
        if names.is_empty() {
            return DEFAULT.into_iter().map(Self::from_name).collect();
        }
        let mut ways: Vec<Self> = Vec::new();
        for name in names {
            let way = Self::from_name(name.trim())?;
            if ways.contains(&way) {
                return Err(Error::Invalid(format!(
                    "--strategies names {name} twice: remove one of them"
                )));
            }
            ways.push(way);
        }
        Ok(ways)
    }

    fn from_name(name: &str) -> Result<Self> {
        let (base, auto) = match name.strip_suffix(AUTO) {
            Some(base) => (base, true),
            None => (name, false),
        };
        let strategy = Strategy::from_name(base).filter(|strategy| strategy.has_zygote || !auto);
        match strategy {
            Some(strategy) => Ok(Self::Strategy { strategy, auto }),
            None if name == LAMP => Ok(Self::Lamp),
            None => {
                let forks = STRATEGIES.iter().filter(|strategy| strategy.has_zygote);
                let forks = forks.map(|strategy| format!("{}{AUTO}", strategy.name));
                let all: Vec<String> = DEFAULT
                    .into_iter()
                    .map(str::to_owned)
                    .chain(forks)
                    .collect();
                Err(Error::Invalid(format!(
                    "unknown strategy {name:?} in --strategies: expected some of {}",
                    all.join(", ")
                )))
            }
        }
    }

    pub(crate) fn name(self) -> String {
        match self {
            Self::Strategy { strategy, auto } => {
                format!("{}{}", strategy.name, if auto { AUTO } else { "" })
            }
            Self::Lamp => LAMP.to_owned(),
        }
    }

    /// Whether the first PHP process only forks the others.
    pub(crate) fn has_parent(self) -> bool {
        match self {
            Self::Strategy { strategy, .. } => strategy.has_zygote || strategy.name == "fastcgi",
            Self::Lamp => true,
        }
    }

    /// Whether a task is a call with the `php` command line, because the strategy answers no HTTP requests.
    pub(crate) fn makes_calls(self) -> bool {
        matches!(self, Self::Strategy { strategy, .. } if strategy.requests == Requests::Nobody)
    }

    /// Why this way can't be measured with an application on this machine.
    pub(crate) fn obstacle(self, application: &Application) -> Option<String> {
        let Self::Strategy { strategy, .. } = self else {
            let missing: Vec<&str> = [("nginx", program("nginx")), ("php-fpm", php_fpm())]
                .into_iter()
                .filter_map(|(name, found)| found.is_none().then_some(name))
                .collect();
            return (!missing.is_empty()).then(|| format!("needs {}", missing.join(" and ")));
        };
        if strategy
            .host
            .is_some_and(|host| missing_host(host).is_some())
        {
            return Some("needs stoker-php: make php".to_owned());
        }
        let needs =
            |name: &str, found: Option<PathBuf>| found.is_none().then(|| format!("needs {name}"));
        match strategy.name {
            "snapshot" => application.snapshot.as_ref().err().cloned(),
            "sapi" => None,
            "cgi" => needs("php-cgi", program("php-cgi")),
            "fastcgi" => needs("php-fpm", php_fpm()),
            "exec" | "http" => needs("php", program("php")),
            _ => {
                needs("php", program("php")).or_else(|| application.worker.as_ref().err().cloned())
            }
        }
    }
}

/// The path of a program, which may be in a folder that is not in the `PATH` of every user.
pub(crate) fn program(name: &str) -> Option<PathBuf> {
    folders()
        .map(|folder| folder.join(name))
        .find(|path| path.is_file())
}

/// php-fpm, whose name has the version of PHP on some systems. The highest version is chosen.
pub(crate) fn php_fpm() -> Option<PathBuf> {
    let plain = program("php-fpm");
    plain.or_else(|| {
        let entries = folders()
            .filter_map(|folder| std::fs::read_dir(folder).ok())
            .flatten()
            .flatten();
        let versions = entries.filter_map(|entry| {
            let name = entry.file_name().into_string().ok()?;
            let (major, minor) = name.strip_prefix("php-fpm")?.split_once('.')?;
            Some((
                (major.parse::<u32>().ok()?, minor.parse::<u32>().ok()?),
                entry.path(),
            ))
        });
        versions.max().map(|(_, path)| path)
    })
}

fn folders() -> impl Iterator<Item = PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let own: Vec<PathBuf> = std::env::split_paths(&path).collect();
    own.into_iter()
        .chain(["/usr/sbin", "/usr/local/sbin"].map(|folder| Path::new(folder).to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(names: &[&str]) -> Result<Vec<String>> {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        Ok(Way::select(&names)?.into_iter().map(Way::name).collect())
    }

    #[test]
    fn every_strategy_is_measured_by_default() {
        let all = names(&[]).unwrap();
        for strategy in &STRATEGIES {
            assert!(
                all.iter().any(|name| name == strategy.name),
                "{}",
                strategy.name
            );
        }
        assert_eq!(all.len(), STRATEGIES.len() + 1);
    }

    #[test]
    fn names_are_checked() {
        assert_eq!(
            names(&["sapi", "fork:auto", "lamp"]).unwrap(),
            ["sapi", "fork:auto", "lamp"]
        );
        for bad in [
            &["slow"][..],
            &["loop:auto"],
            &["loop", "fork", "loop"],
            &[""],
        ] {
            let error = names(bad).unwrap_err().to_string();
            assert!(error.contains("--strategies"), "{error}");
        }
    }
}
