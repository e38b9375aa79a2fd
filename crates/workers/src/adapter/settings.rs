//! The settings of an adapter, which the server passes in environment variables.

use crate::{ADDRESS, MEMORY_LIMIT, SITES, SLOTS, TASK_PATH, TASK_SCRIPT};
use std::env;
use std::path::PathBuf;
use std::str::FromStr;
use stoker_wire::{Hello, Role};

/// The settings of an adapter.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    /// Number of tasks at once, 1 to 1000.
    pub slots: u16,
    /// The limit for the memory of each program and its descendants, in bytes.
    pub memory_limit: Option<u64>,
    /// The address of the pool's upstream server.
    pub address: Option<String>,
    /// The name of the worker, such as `web-1`.
    pub worker: String,
    /// The sites whose requests the pool answers.
    pub sites: Vec<String>,
    /// The path of the requests that calls and jobs become, in which `{name}` is the name of the queue or method; empty for `/`.
    pub task_path: String,
    /// The script for calls and jobs.
    pub task_script: Option<PathBuf>,
    /// The pool's command; may be empty if the pool has an address.
    pub command: Vec<String>,
}

impl Settings {
    /// Reads the settings from the environment. Returns `None` if the server has not set it.
    #[must_use]
    pub fn from_environment(command: Vec<String>) -> Option<Self> {
        let sites = env::var(SITES).unwrap_or_default();
        let sites = sites.split(',').filter(|name| !name.is_empty());
        Some(Self {
            slots: number(SLOTS)?,
            memory_limit: number(MEMORY_LIMIT),
            address: env::var(ADDRESS).ok(),
            worker: env::var("STOKER_WORKER").unwrap_or_default(),
            sites: sites.map(str::to_owned).collect(),
            task_path: env::var(TASK_PATH).unwrap_or_default(),
            task_script: env::var_os(TASK_SCRIPT).map(PathBuf::from),
            command,
        })
    }

    /// The HELLO of an adapter that offers nothing yet.
    pub(crate) fn hello(&self, name: &str) -> Hello {
        Hello {
            v: vec![1],
            role: Role::Worker,
            name: name.to_owned(),
            pid: Some(std::process::id()),
            slots: Some(self.slots),
            soft_cancel: true,
            ..Hello::default()
        }
    }

    /// The HELLO of an adapter that answers the HTTP requests of the pool's sites, and if `takes_jobs` runs its calls and jobs.
    pub(crate) fn hello_of_sites(&self, name: &str, takes_jobs: bool) -> Hello {
        let calls = self.sites.iter().map(|site| format!("http:{site}.request"));
        Hello {
            calls: calls.collect(),
            // The worker serves all queues of its pool.
            jobs: Vec::from_iter(takes_jobs.then(|| "*".to_owned())),
            ..self.hello(name)
        }
    }
}

/// Reads a number from an environment variable.
fn number<T: FromStr>(name: &str) -> Option<T> {
    env::var(name).ok()?.parse().ok()
}
