//! `stoker.toml`: its text is resolved once into a type that is always valid.

mod change;
mod error;
mod http;
mod key;
mod launch;
mod listen;
mod memory;
mod paths;
mod reader;
mod releases;
mod resolve;
pub mod schema;
mod site;
mod task_requests;
mod units;

pub use error::{ConfigError, Mistake};
pub use http::HttpConfig;
pub use launch::{Launch, read_file};
pub use listen::ListenConfig;
pub use paths::Source;
pub use releases::shared_store_for;
pub use resolve::resolve;
pub use site::SiteConfig;
pub use stoker_api::nearest;
pub(crate) use stoker_api::suggest;
pub use units::{parse_size, parse_time};
pub(crate) use units::{size_text, write_time};

use std::path::{Path, PathBuf};
use stoker_angel::Spec;
use stoker_core::{Backoff, PoolConfig, Span};
use stoker_workers::{PoolKeys, Strategy};

pub use stoker_core::QueueConfig;

/// The maximum size of a configuration file, in bytes.
pub const MAX_FILE: usize = 128 * 1024;

/// The maximum number of workers of a pool, and of slots of a queue.
pub(crate) const MAX_WORKERS: u64 = 10_000;

/// A whole configuration: all references are resolved, and all numbers are within their bounds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    pub socket: Option<PathBuf>,
    pub socket_mode: u32,
    /// A name, or a gid.
    pub socket_group: Option<String>,
    pub boots_at_once: u32,
    pub max_connections: usize,
    pub max_inflight: usize,
    pub max_memory: usize,
    pub frame_timeout: Span,
    pub hello_timeout: Span,
    /// Limits per user: connections, unfinished calls, pushes that are not stored yet, and bytes of calls and
    /// answers. 0 for `user_memory` means three quarters of `max_memory`.
    pub user_connections: usize,
    pub user_inflight: usize,
    pub user_pushes: usize,
    pub user_memory: usize,
    pub user_queues: usize,
    /// A queue that neither the configuration nor a worker names is removed after it has been unused for this
    /// time.
    pub queue_expiry: Span,
    /// The maximum time without progress of the server; [`Span::FOREVER`] for no limit.
    pub watchdog: Span,
    pub log: LogConfig,
    pub store: StoreConfig,
    pub http: HttpConfig,
    pub listen: ListenConfig,
    pub pools: Vec<Pool>,
    pub queues: Vec<Queue>,
    /// Includes the services of [`Config::sites`].
    pub services: Vec<Service>,
    pub sites: Vec<SiteConfig>,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            socket: None,
            socket_mode: 0o660,
            socket_group: None,
            boots_at_once: stoker_os::processors(),
            max_connections: 10_000,
            max_inflight: 1_024,
            max_memory: memory::default_memory(),
            frame_timeout: Span::from_secs(60),
            hello_timeout: Span::from_secs(10),
            user_connections: 9_000,
            user_inflight: 50_000,
            user_pushes: 50_000,
            user_memory: 0,
            user_queues: 900,
            queue_expiry: Span::from_secs(3_600),
            watchdog: Span::from_secs(60),
            log: LogConfig::default(),
            store: StoreConfig::default(),
            http: HttpConfig::default(),
            listen: ListenConfig::default(),
            pools: Vec::new(),
            queues: Vec::new(),
            services: Vec::new(),
            sites: Vec::new(),
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogConfig {
    pub json: bool,
    pub file: Option<PathBuf>,
    /// The size in bytes at which the file is rotated; 0 for never.
    pub max_size: u64,
    /// The number of rotated files that are kept.
    pub keep_files: u32,
    /// Bytes of output per second that one worker may log in the long run; 0 for no limit.
    pub rate_limit: u64,
    /// Bytes that one worker may log at once.
    pub rate_burst: u64,
}

impl LogConfig {
    /// Makes the path of the file absolute, because the file is opened again later. The directory may not exist,
    /// for example in a release that lacks a directory which another one had; then the path stays as it is.
    pub(crate) fn with_absolute_path(&self, directory: &Path) -> Self {
        let file = self.file.as_ref().map(|file| directory.join(file));
        let is_place = |file: &PathBuf| file.parent().is_some_and(Path::is_dir);
        Self {
            file: file.filter(is_place).or_else(|| self.file.clone()),
            ..self.clone()
        }
    }
}

impl Default for LogConfig {
    fn default() -> Self {
        Self {
            json: false,
            file: None,
            max_size: 100 << 20,
            keep_files: 4,
            rate_limit: 1 << 20,
            rate_burst: 16 << 20,
        }
    }
}

/// The settings of the job store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoreConfig {
    /// The SQLite file; `None` for a store in memory, which lasts as long as the server.
    pub path: Option<PathBuf>,
    /// Whether commits are synced to disk before they are acknowledged.
    pub sync: bool,
}

impl Default for StoreConfig {
    fn default() -> Self {
        Self {
            path: Some("stoker.db".into()),
            sync: true,
        }
    }
}

/// The maximum number of tasks of a forked worker with `tasks_per_fork = "auto"`.
const MAX_AUTOMATIC_TASKS: u64 = 100;
/// The path by which the angel finds its own program, even if the file has been replaced.
const OWN_PROGRAM: &str = "/proc/self/exe";

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pool {
    pub name: String,
    /// How the workers are started, and how many tasks each runs.
    pub strategy: &'static Strategy,
    /// For strategies with a zygote: the number of tasks that each forked worker runs. `None`: one, or more while the
    /// pool is saturated.
    pub tasks_per_fork: Option<u64>,
    /// The number of tasks that an adapter runs at once; for other strategies the maximum number of workers.
    pub slots: u32,
    /// Program and arguments; empty if workers connect by themselves.
    pub command: Vec<String>,
    /// The address of the server to which the strategy passes tasks on.
    pub address: Option<String>,
    /// The path of the requests that calls and jobs become, in which `{name}` stands for their name.
    pub task_path: String,
    /// The script that answers these requests, relative to `directory`.
    pub task_script: Option<String>,
    pub directory: Option<PathBuf>,
    pub user: Option<String>,
    /// Workers get only PATH and `env_pass` of Stoker's own environment.
    pub env_clear: bool,
    /// Names of variables; a `*` at the end matches any rest.
    pub env_pass: Vec<String>,
    pub env: Vec<(String, String)>,
    /// The niceness of the pool's processes, in addition to Stoker's own.
    pub nice: u8,
    pub token: Option<String>,
    /// The names of the sites whose requests the pool answers.
    pub sites: Vec<String>,
    pub core: PoolConfig,
}

impl Pool {
    /// A pool with the defaults of all keys.
    fn new(name: String) -> Self {
        let core = PoolConfig {
            min: stoker_os::processors(),
            max: stoker_os::processors(),
            spawned: false,
            ..PoolConfig::default()
        };
        Self {
            name,
            strategy: <&Strategy>::default(),
            tasks_per_fork: Some(1),
            slots: core.max,
            command: Vec::new(),
            address: None,
            task_path: task_requests::DEFAULT_PATH.to_owned(),
            task_script: None,
            directory: None,
            user: None,
            env_clear: false,
            env_pass: Vec::new(),
            env: Vec::new(),
            nice: 0,
            token: None,
            sites: Vec::new(),
            core,
        }
    }
}

impl Pool {
    /// Applies the strategy. An adapter is a single process that replaces all of the pool's workers and has a
    /// slot for each.
    fn apply_strategy(&mut self) {
        let core = &mut self.core;
        (core.tasks_per_worker, core.max_tasks_per_worker) = match self.tasks_per_fork {
            _ if !self.strategy.has_zygote => (self.strategy.tasks, 0),
            Some(tasks) => (tasks, 0),
            None => (1, MAX_AUTOMATIC_TASKS),
        };
        core.isolated = self.strategy.is_adapter;
        core.boots_quickly = self.strategy.has_zygote;
        self.slots = core.max;
        if self.strategy.is_adapter {
            (core.min, core.max) = (1, 1);
        }
        // The adapter itself is started even if the server to which it passes tasks on runs elsewhere. A host is started even
        // without arguments.
        let needs_script = self.strategy.has_zygote;
        core.spawned |=
            self.strategy.has_upstream || (self.strategy.host.is_some() && !needs_script);
    }

    /// The part of the pool's configuration that the core needs. An adapter limits the memory of each of its
    /// programs itself, so the core applies no limit.
    pub(crate) fn core_config(&self) -> PoolConfig {
        let memory_limit = match self.strategy.is_adapter {
            true => 0,
            false => self.core.memory_limit,
        };
        PoolConfig {
            memory_limit,
            ..self.core.clone()
        }
    }

    /// The number of tasks that the pool can always run at once.
    pub(crate) fn guaranteed_slots(&self) -> u32 {
        self.guaranteed_slots_with(self.core.min)
    }

    /// The number of tasks that the pool could always run at once with this minimum of processes.
    pub(crate) fn guaranteed_slots_with(&self, min: u32) -> u32 {
        match self.strategy.is_adapter {
            true => min.saturating_mul(self.slots),
            false => min,
        }
    }

    /// How the angel starts a worker of the pool, or its zygote.
    #[must_use]
    pub fn worker_spec(&self) -> Spec {
        Spec {
            protocol: self.core.protocol,
            command: self.strategy.command(OWN_PROGRAM, &self.command),
            env_clear: self.env_clear,
            env_pass: self.env_pass.clone(),
            env: self.environment(),
            dir: self.directory.clone(),
            user: self.user.clone(),
            nice: self.nice,
        }
    }

    /// The environment variables that are set for the pool's processes, in addition to the inherited ones.
    pub(crate) fn environment(&self) -> Vec<(String, String)> {
        // If the number changes, a worker can't count its tasks itself.
        let tasks = match self.core.max_tasks_per_worker {
            0 => self.core.tasks_per_worker,
            _ => 0,
        };
        let own = self.strategy.variables(&PoolKeys {
            tasks,
            slots: self.slots,
            memory_limit: self.core.memory_limit,
            address: self.address.as_deref(),
            task_path: &self.task_path,
            task_script: self.task_script.as_deref(),
        });
        let sites = (!self.sites.is_empty()).then(|| self.sites.join(","));
        let sites = sites.map(|sites| (stoker_workers::SITES.to_owned(), sites));
        let own = own.into_iter().chain(sites);
        own.chain(self.env.clone()).collect()
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Queue {
    pub name: String,
    /// The name of one of [`Config::pools`].
    pub pool: String,
    pub core: QueueConfig,
    pub jobs: JobsConfig,
}

impl Queue {
    fn new(name: String) -> Self {
        let core = QueueConfig {
            max_waiting: 10_000_000,
            ..QueueConfig::default()
        };
        Self {
            name,
            pool: String::new(),
            core,
            jobs: JobsConfig::default(),
        }
    }
}

/// The settings of a queue's jobs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobsConfig {
    /// The maximum size of a push's body, in bytes; 0 means that only the limit of a frame applies.
    pub max_body: usize,
    pub tries: u16,
    pub backoff: Backoff,
    pub keep_done: usize,
    pub keep_done_for: Span,
    pub keep_failed: usize,
    pub keep_failed_for: Span,
    /// How long a done job's payload is kept; zero means that it is deleted at once.
    pub keep_payloads: Span,
    pub keep_results: Span,
}

impl Default for JobsConfig {
    fn default() -> Self {
        Self {
            max_body: 0,
            tries: 1,
            backoff: Backoff::default(),
            keep_done: 10_000,
            keep_done_for: Span::from_secs(86_400),
            keep_failed: 100_000,
            keep_failed_for: Span::from_secs(30 * 86_400),
            keep_payloads: Span::ZERO,
            keep_results: Span::from_secs(86_400),
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Service {
    pub name: String,
    /// The name of one of [`Config::pools`].
    pub pool: String,
    pub idempotent: Vec<String>,
    pub core: QueueConfig,
}

impl Service {
    fn new(name: String) -> Self {
        let core = QueueConfig {
            max_waiting: 10_000,
            ..QueueConfig::default()
        };
        Self {
            name,
            pool: String::new(),
            idempotent: Vec::new(),
            core,
        }
    }
}

impl Config {
    /// The configuration of `stoker serve worker.php`: one pool and defaults for everything else.
    pub fn for_command(command: &[String]) -> String {
        let quoted: Vec<String> = command.iter().map(|word| quote(word)).collect();
        format!("[pool.default]\ncommand = [{}]\n", quoted.join(", "))
    }
}

/// Formats a string as a TOML basic string.
#[must_use]
pub fn quote(text: &str) -> String {
    let escaped = text.chars().map(|c| match c {
        '"' | '\\' => format!("\\{c}"),
        c if c.is_control() => format!("\\u{:04x}", c as u32),
        c => c.to_string(),
    });
    format!("\"{}\"", escaped.collect::<String>())
}
