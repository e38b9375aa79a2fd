//! What the workers of a version of a pool start with. It is prepared once and cached, because a pool whose workers run
//! one task each starts many of them a second.

use crate::{Spec, SpecText, env, environment, user};
use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, HashMap};
use std::ffi::{CString, OsStr, OsString};
use std::io;

/// The maximum number of cached recipes. It exceeds the number of versions that pools have at the same time.
const MAX_RECIPES: usize = 256;
/// Variables that each worker has for itself.
const PER_WORKER: [&str; 5] = [env::FD, env::SOCKET, env::WORKER, env::COOKIE, env::ZYGOTE];

pub(crate) struct Recipe {
    /// Whether the worker gets a socket to the server.
    pub(crate) protocol: bool,
    pub(crate) arguments: Vec<CString>,
    /// The environment without the variables that each worker has for itself.
    pub(crate) environment: Vec<CString>,
    pub(crate) dir: Option<CString>,
    /// The uid and gid to run as.
    pub(crate) identity: Option<(u32, u32)>,
    /// Added to the niceness of this process.
    pub(crate) nice: u8,
    /// Program and directory, as error messages show them.
    pub(crate) shown: String,
}

/// The recipes prepared since the configuration last changed. A change of the configuration clears them, because a user
/// may have another uid or home by then.
#[derive(Default)]
pub(crate) struct Recipes(HashMap<Box<str>, Recipe>);

impl Recipes {
    pub(crate) fn get_or_prepare(&mut self, spec: &SpecText) -> io::Result<&Recipe> {
        if self.0.len() >= MAX_RECIPES {
            self.clear();
        }
        match self.0.entry(spec.as_str().into()) {
            Entry::Occupied(kept) => Ok(kept.into_mut()),
            Entry::Vacant(vacant) => {
                let recipe = Recipe::new(&spec.parse()?)?;
                Ok(vacant.insert(recipe))
            }
        }
    }

    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }
}

impl Recipe {
    pub(crate) fn new(spec: &Spec) -> io::Result<Self> {
        if spec.command.is_empty() {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let account = spec.user.as_deref().map(user::find_account).transpose()?;
        let mut environment = environment::of_worker(spec, account.as_ref(), std::env::vars_os());
        environment.retain(|(name, _)| PER_WORKER.iter().all(|own| name != own));
        let arguments: io::Result<Vec<CString>> = spec.command.iter().map(c_string).collect();
        let dir = spec.dir.as_ref();
        let place = dir.map(|dir| format!(" in {}", dir.display()));
        Ok(Self {
            protocol: spec.protocol,
            arguments: arguments?,
            environment: assignments(environment)?,
            dir: dir.map(c_string).transpose()?,
            identity: account.map(|account| (account.uid, account.gid)),
            nice: spec.nice,
            shown: format!("'{}'{}", spec.command.join(" "), place.unwrap_or_default()),
        })
    }
}

/// `NAME=VALUE` of a variable.
pub(crate) fn assignment(
    name: impl Into<OsString>,
    value: impl AsRef<OsStr>,
) -> io::Result<CString> {
    let mut text = name.into();
    text.push("=");
    text.push(value);
    c_string(text)
}

/// The assignments of all variables. If a variable is set twice, the last one counts.
fn assignments(variables: Vec<(OsString, OsString)>) -> io::Result<Vec<CString>> {
    let variables: BTreeMap<OsString, OsString> = variables.into_iter().collect();
    let all = variables.into_iter();
    all.map(|(name, value)| assignment(name, value)).collect()
}

fn c_string(text: impl AsRef<OsStr>) -> io::Result<CString> {
    Ok(CString::new(text.as_ref().as_encoded_bytes())?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec(name: &str) -> Spec {
        Spec {
            command: vec!["true".to_owned(), name.to_owned()],
            env: vec![
                ("STOKER_WORKER".to_owned(), "x".to_owned()),
                ("TWICE".to_owned(), "1".to_owned()),
                ("TWICE".to_owned(), "2".to_owned()),
            ],
            ..Spec::default()
        }
    }

    fn text(spec: &Spec) -> SpecText {
        SpecText::new(spec).expect("it can be written")
    }

    #[test]
    fn a_recipe_omits_the_per_worker_variables() {
        let recipe = Recipe::new(&spec("a")).expect("it can be prepared");
        let has = |text: &str| {
            recipe
                .environment
                .iter()
                .any(|set| set.as_bytes() == text.as_bytes())
        };
        assert!(has("TWICE=2") && !has("TWICE=1") && !has("STOKER_WORKER=x"));
    }

    #[test]
    fn the_recipe_cache_is_bounded_and_can_be_cleared() {
        let mut recipes = Recipes::default();
        for no in 0..=MAX_RECIPES {
            recipes
                .get_or_prepare(&text(&spec(&no.to_string())))
                .expect("it can be prepared");
        }
        assert_eq!(recipes.0.len(), 1);
        recipes.clear();
        assert!(recipes.0.is_empty());
    }

    #[test]
    fn failed_recipes_are_not_cached() {
        let mut recipes = Recipes::default();
        let nobody = Spec {
            user: Some("nobody-of-this-name".to_owned()),
            ..spec("a")
        };
        assert!(recipes.get_or_prepare(&text(&nobody)).is_err());
        assert!(recipes.get_or_prepare(&text(&Spec::default())).is_err());
        assert!(recipes.0.is_empty());
    }
}
