//! The strategies, and how a pool of each runs a script.

use crate::php::is_installed;
use crate::setup;
use stoker_testkit::{Setup, php_host, repository};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Loop,
    Spare,
    Fork,
    Exec,
    Sapi,
    Snapshot,
}

impl Kind {
    /// `None` if there is no PHP on this machine.
    pub(super) fn if_installed(self) -> Option<Self> {
        if self.has_host() {
            php_host();
        }
        is_installed().then_some(self)
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Loop => "loop",
            Self::Spare => "spare",
            Self::Fork => "fork",
            Self::Exec => "exec",
            Self::Sapi => "sapi",
            Self::Snapshot => "snapshot",
        }
    }

    /// Stoker's PHP host runs the script, and not `php`.
    pub(super) fn has_host(self) -> bool {
        matches!(self, Self::Sapi | Self::Snapshot)
    }

    /// A program is started for each task, and its exit status is known to the adapter only.
    pub(super) fn has_adapter(self) -> bool {
        self == Self::Exec
    }

    /// The configuration of a pool that runs a script of `tests/php-strategies`, and of its queue and service.
    pub(super) fn config(self, script: &str, keys: &str) -> String {
        let script = repository().join("tests/php-strategies").join(script);
        let program = match self.has_host() {
            true => "",
            false => "\"php\", ",
        };
        format!(
            "[pool.p]\ncommand = [{program}\"-d\", \"display_errors=0\", {script:?}]\nstrategy = {:?}\n{keys}\n\
             [queue.q]\npool = \"p\"\nbackoff = [\"0s\"]\n[service.t]\npool = \"p\"\n",
            self.name()
        )
    }

    pub(super) fn pool(self, script: &str, keys: &str) -> Setup {
        setup().config(&self.config(script, keys))
    }
}
