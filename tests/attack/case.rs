//! A case and the group of cases that share a server.

use crate::arena::Arena;
use crate::bounds::Bounds;
use std::collections::HashSet;
use stoker_testkit::Setup;

type Attack = Box<dyn Fn(&mut Arena) + Send + Sync>;
type Prepare = Box<dyn Fn(Setup) -> Setup + Send + Sync>;

/// One scenario. It panics if something does not hold.
pub(crate) struct Case {
    pub(crate) name: String,
    pub(crate) attack: Attack,
}

/// Cases that run one after another against the same server.
pub(crate) struct Group {
    pub(crate) name: String,
    /// The number of the defect in issue 9, or of the bar, that the group guards.
    pub(crate) issue: &'static str,
    /// Whether the group belongs to the quick run.
    pub(crate) quick: bool,
    pub(crate) bounds: Bounds,
    /// How the group's server is started. If it is `None`, the cases start what they need.
    pub(crate) prepare: Option<Prepare>,
    pub(crate) cases: Vec<Case>,
}

impl Group {
    pub(crate) fn new(issue: &'static str, name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            issue,
            quick: true,
            bounds: Bounds::USUAL,
            prepare: None,
            cases: Vec::new(),
        }
    }

    /// Runs the group only in the full run.
    pub(crate) fn slow(mut self) -> Self {
        self.quick = false;
        self
    }

    pub(crate) fn bounds(mut self, bounds: Bounds) -> Self {
        self.bounds = bounds;
        self
    }

    /// Starts a server with this configuration first.
    pub(crate) fn config(self, toml: impl Into<String>) -> Self {
        let toml = toml.into();
        self.prepare(move |setup| setup.config(&toml))
    }

    pub(crate) fn prepare(
        mut self,
        prepare: impl Fn(Setup) -> Setup + Send + Sync + 'static,
    ) -> Self {
        self.prepare = Some(Box::new(prepare));
        self
    }

    /// Adds the only case of a group, which has the group's name.
    pub(crate) fn attack(self, attack: impl Fn(&mut Arena) + Send + Sync + 'static) -> Self {
        self.case("", attack)
    }

    pub(crate) fn case(
        mut self,
        name: impl AsRef<str>,
        attack: impl Fn(&mut Arena) + Send + Sync + 'static,
    ) -> Self {
        self.add(name, attack);
        self
    }

    pub(crate) fn add(
        &mut self,
        name: impl AsRef<str>,
        attack: impl Fn(&mut Arena) + Send + Sync + 'static,
    ) {
        let name = match name.as_ref() {
            "" => self.name.clone(),
            name => format!("{}: {name}", self.name),
        };
        let attack = Box::new(attack);
        self.cases.push(Case { name, attack });
    }
}

/// Checks that names are unique, because one of two cases with the same name could hide the other.
pub(crate) fn check_names(groups: &[Group]) {
    let mut seen = HashSet::new();
    for group in groups {
        assert!(
            !group.cases.is_empty(),
            "the group '{}' has no case",
            group.name
        );
        for case in &group.cases {
            assert!(
                seen.insert(&case.name),
                "two cases are called '{}'",
                case.name
            );
        }
    }
}
