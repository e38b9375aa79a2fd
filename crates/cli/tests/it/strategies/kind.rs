//! The strategies, and how a pool of each runs a script.

use crate::php::is_installed;
use crate::setup;
use std::path::Path;
use stoker_testkit::{Dir, Setup, php_host, repository};

/// How many children php-fpm has: more than the pool runs tasks at once, because a cancelled script occupies its child until it ends.
const CHILDREN: u8 = 8;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Loop,
    Spare,
    Fork,
    Exec,
    Sapi,
    Snapshot,
    /// php-cgi.
    Cgi,
    /// php-fpm.
    FastCgi,
    /// A server in PHP that forks a process for each request.
    Http,
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
            Self::Cgi => "cgi",
            Self::FastCgi => "fastcgi",
            Self::Http => "http",
        }
    }

    /// A server runs the script, in processes that Stoker does not know.
    pub(super) fn has_upstream(self) -> bool {
        matches!(self, Self::FastCgi | Self::Http)
    }

    /// Stoker's PHP host runs the script, and not `php`.
    pub(super) fn has_host(self) -> bool {
        matches!(self, Self::Sapi | Self::Snapshot)
    }

    /// A program is started for each task, and its exit status is known to the adapter only.
    pub(super) fn has_adapter(self) -> bool {
        matches!(self, Self::Exec | Self::Cgi)
    }

    /// The configuration of a pool that runs a script of `tests/php-strategies`, and of its queue and service.
    pub(super) fn config(self, script: &str, keys: &str) -> String {
        self.config_in(Path::new("."), script, keys)
    }

    pub(super) fn pool(self, script: &str, keys: &str) -> Setup {
        let setup = setup();
        if self == Self::FastCgi {
            write_fpm_config(setup.dir());
        }
        let config = self.config_in(setup.dir().path(), script, keys);
        setup.config(&config)
    }

    /// Scripts that answer requests do not run in the folder of the test, so the query of their requests names it.
    fn config_in(self, dir: &Path, script: &str, keys: &str) -> String {
        let scripts = repository().join("tests/php-strategies");
        let script = scripts.join(script);
        let options = "\"-d\", \"display_errors=0\"";
        let path = format!("task_path = \"/?folder={}\"\n", dir.display());
        let task_script = format!("{path}task_script = {script:?}\n");
        let pool = match self {
            Self::Sapi | Self::Snapshot => format!("command = [{options}, {script:?}]\n"),
            Self::Loop | Self::Spare | Self::Fork | Self::Exec => {
                format!("command = [\"php\", {options}, {script:?}]\n")
            }
            Self::Cgi => {
                format!(
                    "command = [\"php-cgi\", {options}, \"-d\", \"log_errors=1\"]\n{task_script}"
                )
            }
            Self::FastCgi => {
                let root = match rustix::process::geteuid().is_root() {
                    true => ", \"--allow-to-run-as-root\"",
                    false => "",
                };
                let command = "command = [\"/usr/sbin/php-fpm8.2\", \"-F\", \"-y\", \"fpm.conf\"";
                format!("{command}{root}]\naddress = \"./fpm-{{worker}}.sock\"\n{task_script}")
            }
            Self::Http => {
                let server = scripts.join("server.php");
                let words = format!("\"php\", {options}, {server:?}, \"{{address}}\", {script:?}");
                format!("command = [{words}]\naddress = \"./http-{{worker}}.sock\"\n{path}")
            }
        };
        format!(
            "[pool.p]\n{pool}strategy = {:?}\n{keys}\n\
             [queue.q]\npool = \"p\"\nbackoff = [\"0s\"]\n[service.t]\npool = \"p\"\n",
            self.name()
        )
    }
}

fn write_fpm_config(dir: &Dir) {
    let user = match rustix::process::geteuid().is_root() {
        true => "user = root\ngroup = root\n",
        false => "",
    };
    let config = format!(
        "[global]\nerror_log = {}\ndaemonize = no\n[www]\n{user}listen = ${{STOKER_ADDRESS}}\npm = static\npm.max_children = {CHILDREN}\n\
         php_admin_flag[display_errors] = off\nphp_admin_flag[log_errors] = on\n",
        dir.file("fpm.log").display()
    );
    dir.write("fpm.conf", config);
}
