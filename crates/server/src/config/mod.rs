//! `stoker.toml`: read permissively, resolved once into a type that can't be invalid.

mod change;
mod error;
mod http;
mod key;
mod launch;
mod memory;
mod paths;
mod reader;
mod releases;
mod resolve;
pub mod schema;
mod units;

pub use error::{ConfigError, Mistake};
pub use http::HttpConfig;
pub use launch::{Launch, read_file};
pub use paths::Source;
pub use releases::shared_store_for;
pub use resolve::resolve;
pub use stoker_api::nearest;
pub(crate) use stoker_api::suggest;
pub use units::{parse_size, parse_time};
pub(crate) use units::{size_text, write_time};

use std::path::{Path, PathBuf};
use stoker_core::{Backoff, PoolConfig, Span};
use stoker_workers::Strategy;

pub use stoker_core::QueueConfig;

/// The largest configuration file, in bytes.
pub const MAX_FILE: usize = 128 * 1024;

/// Workers of one pool, or slots of a queue, at the most.
pub(crate) const MAX_WORKERS: u64 = 10_000;

/// A whole configuration, every reference in it resolved and every number within its bounds.
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
    /// What one user may have of connections, calls and pushes under way, and bytes of calls; 0 bytes stand
    /// for three quarters of `max_memory`.
    pub user_connections: usize,
    pub user_inflight: usize,
    pub user_pushes: usize,
    pub user_memory: usize,
    pub user_queues: usize,
    /// When a queue that nothing names is forgotten after its last job.
    pub queue_expiry: Span,
    /// How long the server may go without progress; [`Span::FOREVER`] for as long as it likes.
    pub watchdog: Span,
    pub log: LogConfig,
    pub store: StoreConfig,
    pub http: HttpConfig,
    pub pools: Vec<Pool>,
    pub queues: Vec<Queue>,
    pub services: Vec<Service>,
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
            pools: Vec::new(),
            queues: Vec::new(),
            services: Vec::new(),
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogConfig {
    pub json: bool,
    pub file: Option<PathBuf>,
    /// The size in bytes at which the file is replaced by a new one; 0 for never.
    pub max_size: u64,
    /// Former files that are kept.
    pub keep_files: u32,
    /// Bytes of output per second that one worker may log for long; 0 for no bound.
    pub rate_limit: u64,
    /// Bytes that it may log at once.
    pub rate_burst: u64,
}

impl LogConfig {
    /// With the path of its file from a directory, as the file is opened again and again. Where there is no such
    /// place, as in a release that lacks what another one had, the path stays as it is.
    pub(crate) fn within(&self, directory: &Path) -> Self {
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

/// Where jobs live.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoreConfig {
    /// `None`: in memory, for the life of the server.
    pub path: Option<PathBuf>,
    /// Whether what is accepted is on the disk, not only in the system's memory.
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

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pool {
    pub name: String,
    /// How its workers come to be.
    pub strategy: &'static Strategy,
    /// Tasks at once of an adapter; how many workers there are otherwise.
    pub slots: u32,
    /// Empty: workers dial in.
    pub command: Vec<String>,
    pub directory: Option<PathBuf>,
    pub user: Option<String>,
    /// Workers get nothing of Stoker's own environment but PATH and `env_pass`.
    pub env_clear: bool,
    /// Names of variables; a `*` at the end stands for any rest.
    pub env_pass: Vec<String>,
    pub env: Vec<(String, String)>,
    pub token: Option<String>,
    pub core: PoolConfig,
}

impl Pool {
    /// As it is if no key says otherwise.
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
            slots: core.max,
            command: Vec::new(),
            directory: None,
            user: None,
            env_clear: false,
            env_pass: Vec::new(),
            env: Vec::new(),
            token: None,
            core,
        }
    }
}

impl Pool {
    /// What its strategy asks for. An adapter stands for all of the pool's workers, with a slot for each.
    fn settle(&mut self) {
        let core = &mut self.core;
        (core.tasks, core.isolated) = (self.strategy.tasks, self.strategy.is_adapter);
        self.slots = core.max;
        if self.strategy.is_adapter {
            (core.min, core.max) = (1, 1);
        }
    }

    /// What the scheduler knows of it. An adapter limits the memory of each of its programs itself.
    pub(crate) fn for_core(&self) -> PoolConfig {
        let memory_limit = match self.strategy.is_adapter {
            true => 0,
            false => self.core.memory_limit,
        };
        PoolConfig {
            memory_limit,
            ..self.core.clone()
        }
    }

    /// The number of tasks that it can always run at once.
    pub(crate) fn guaranteed_slots(&self) -> u32 {
        self.guaranteed_slots_with(self.core.min)
    }

    /// The same, with so many processes at the least.
    pub(crate) fn guaranteed_slots_with(&self, min: u32) -> u32 {
        match self.strategy.is_adapter {
            true => min.saturating_mul(self.slots),
            false => min,
        }
    }

    /// What its processes get besides their part of Stoker's own environment.
    pub(crate) fn environment(&self) -> Vec<(String, String)> {
        let own = self.strategy.variables(self.slots, self.core.memory_limit);
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

/// The defaults of a queue's jobs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobsConfig {
    pub tries: u16,
    pub backoff: Backoff,
    pub keep_done: usize,
    pub keep_done_for: Span,
    pub keep_failed: usize,
    pub keep_failed_for: Span,
    /// How long a done job's payload stays, zero for not at all.
    pub keep_payloads: Span,
    pub keep_results: Span,
}

impl Default for JobsConfig {
    fn default() -> Self {
        Self {
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
    /// The configuration of `stoker serve worker.php`: one pool, everything else as announced.
    pub fn for_command(command: &[String]) -> String {
        let quoted: Vec<String> = command.iter().map(|word| quote(word)).collect();
        format!("[pool.default]\ncommand = [{}]\n", quoted.join(", "))
    }
}

/// A text as a TOML basic string.
fn quote(text: &str) -> String {
    let escaped = text.chars().map(|c| match c {
        '"' | '\\' => format!("\\{c}"),
        c if c.is_control() => format!("\\u{:04x}", c as u32),
        c => c.to_string(),
    });
    format!("\"{}\"", escaped.collect::<String>())
}
