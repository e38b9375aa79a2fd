//! All sections of the configuration and their keys. Each key is one entry in the table of its section.

mod http;
mod listen;
mod log;
mod pool;
mod queue;
mod server;
mod service;
mod site;
mod store;

pub(crate) use http::HTTP;
pub(crate) use listen::LISTEN;
pub(crate) use log::LOG;
pub(crate) use pool::POOL;
pub(crate) use queue::QUEUE;
pub(crate) use server::STOKER;
pub(crate) use service::SERVICE;
pub(crate) use site::SITE;
pub(crate) use store::STORE;

use super::key::Key;
use super::quote;
use super::reader::{Mistakes, Section};

/// A section: its name, its description and its keys.
pub(crate) struct Schema<T: 'static> {
    /// For example `pool` or `stoker`.
    pub(crate) kind: &'static str,
    /// There may be several sections of this kind, each with its own name.
    pub(crate) is_named: bool,
    pub(crate) doc: &'static str,
    pub(crate) keys: &'static [Key<T>],
}

impl<T> Schema<T> {
    pub(crate) fn names(&self) -> impl Iterator<Item = &'static str> + Clone + use<T> {
        self.keys.iter().map(|key| key.name)
    }

    /// Reads every key that the section contains.
    pub(crate) fn read(
        &self,
        section: &Section<'_, '_>,
        into: &mut T,
        mistakes: &mut Mistakes<'_>,
    ) {
        for key in self.keys {
            key.read(section, into, mistakes);
        }
    }

    /// The keys whose values differ.
    pub(crate) fn changed<'a>(
        &self,
        now: &'a T,
        new: &'a T,
    ) -> impl Iterator<Item = &'static Key<T>> + use<'a, T> {
        let keys = self.keys.iter();
        keys.filter(|key| key.write(now) != key.write(new))
    }

    /// Copies the values of `new` into `now`, except those whose change needs a restart.
    pub(crate) fn update(&self, now: &mut T, new: &T) {
        let keys = self.keys.iter().filter(|key| !key.needs_restart);
        keys.for_each(|key| key.copy(new, now));
    }

    /// The section as TOML. `name` is the name of a named section. Keys with the same value as in `default` are
    /// left out.
    pub(crate) fn to_toml(&self, name: &str, config: &T, default: Option<&T>) -> String {
        let is_default = |key: &Key<T>| {
            let default = default.map(|default| key.write(default));
            default.is_some_and(|default| default == key.write(config))
        };
        let lines = self.keys.iter().filter(|key| !is_default(key));
        let lines =
            lines.filter_map(|key| Some(format!("{} = {}\n", key.name, key.write(config)?)));
        let heading = match self.is_named {
            true => format!("{}.{}", self.kind, quote(name)),
            false => self.kind.to_owned(),
        };
        format!("[{heading}]\n{}", lines.collect::<String>())
    }

    fn documented(&self) -> SectionDoc {
        let heading = match self.is_named {
            true => format!("[{}.NAME]", self.kind),
            false => format!("[{}]", self.kind),
        };
        let keys = self.keys.iter().map(|key| KeyDoc {
            name: key.name,
            kind: key.kind(),
            default: key.default,
            doc: key.doc,
            needs_restart: key.needs_restart,
        });
        SectionDoc {
            heading,
            doc: self.doc,
            keys: keys.collect(),
        }
    }
}

/// A section as the reference page shows it.
pub struct SectionDoc {
    pub heading: String,
    pub doc: &'static str,
    pub keys: Vec<KeyDoc>,
}

/// A key as the reference page shows it.
pub struct KeyDoc {
    pub name: &'static str,
    pub kind: String,
    pub default: &'static str,
    pub doc: &'static str,
    /// A reload does not apply a change of this key.
    pub needs_restart: bool,
}

/// All sections, for the reference page.
pub fn sections() -> [SectionDoc; 9] {
    [
        STOKER.documented(),
        POOL.documented(),
        QUEUE.documented(),
        SERVICE.documented(),
        SITE.documented(),
        STORE.documented(),
        LOG.documented(),
        HTTP.documented(),
        LISTEN.documented(),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::resolve;

    /// Every default that the documentation gives as a value is the one that the reader uses.
    #[test]
    fn documented_defaults_are_the_real_ones() {
        let pool = "[pool.p]\ncommand = [\"x\"]\n";
        let mut compared = 0;
        for section in sections() {
            let heading = section.heading.replace("NAME", "p");
            for key in &section.keys {
                let line = format!("{} = {}\n", key.name, key.default);
                // A site needs an address, so the default of this key is not valid.
                let is_address = heading == "[site.p]" && key.name == "listen";
                if toml::de::DeTable::parse(&line).is_err() || is_address {
                    continue;
                }
                let needed = match heading == "[site.p]" {
                    true => "listen = [\"127.0.0.1:1\"]\n",
                    false => "",
                };
                let with = match heading == "[pool.p]" {
                    true => format!("{pool}{line}"),
                    false => format!("{pool}{heading}\n{needed}{line}"),
                };
                let without = match heading == "[pool.p]" {
                    true => pool.to_owned(),
                    false => format!("{pool}{heading}\n{needed}"),
                };
                let (with, without) = (resolve("with", &with), resolve("without", &without));
                assert_eq!(with.unwrap(), without.unwrap(), "{heading} {line}");
                compared += 1;
            }
        }
        assert!(
            compared > 30,
            "only {compared} defaults are written as values"
        );
    }
}
