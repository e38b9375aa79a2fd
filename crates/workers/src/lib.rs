//! How workers are started and how many tasks each runs. The server reads a strategy's properties, never its name.

#[cfg(feature = "adapters")]
mod adapter;
mod address;
#[cfg(feature = "adapters")]
pub mod cgi;
#[cfg(feature = "adapters")]
pub mod exec;
#[cfg(feature = "adapters")]
pub mod fastcgi;
mod host;
#[cfg(feature = "adapters")]
pub mod http;
#[cfg(feature = "adapters")]
mod message;
#[cfg(feature = "adapters")]
mod upstream;

#[cfg(feature = "adapters")]
pub use adapter::Settings;
pub use address::{Address, WORKER_IN_ADDRESS};
pub use host::{become_host, missing_host};

/// A pool's strategy for starting workers.
#[derive(Debug)]
pub struct Strategy {
    /// The value of `strategy` in the configuration.
    pub name: &'static str,
    /// Number of tasks that a worker runs before it exits; 0 for no limit.
    pub tasks: u64,
    /// Whether the command is started once for each version of the pool, as a zygote, which forks the workers. The pool
    /// may change the number of tasks that each of them runs.
    pub has_zygote: bool,
    /// Whether the pool has a single worker, the adapter, which has several slots and runs each task in a separate process.
    pub is_adapter: bool,
    /// Whether the adapter passes tasks on to a server at the pool's `address`. It starts that server if the pool has a command.
    pub has_upstream: bool,
    /// Who answers the HTTP requests of sites.
    pub requests: Requests,
    /// How an adapter passes a call or job on.
    pub tasks_as: TasksAs,
    /// The program of Stoker that runs the pool's tasks. The words of the pool's command are its arguments. It is a program of its
    /// own, beside `stoker`, because it needs libraries that may be missing on a machine.
    pub host: Option<&'static str>,
}

/// Who answers the HTTP requests of sites, in a pool of this strategy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Requests {
    /// The strategy can't answer requests.
    Nobody,
    /// The worker, or the server at the pool's address.
    Worker,
    /// The site's front controller, whose path the program gets.
    FrontController,
}

/// How calls and jobs reach the code of a pool of this strategy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TasksAs {
    /// In the wire protocol, or as a program of their own.
    Tasks,
    /// As HTTP requests.
    Requests,
    /// As HTTP requests that a script of the pool answers, if it has one.
    RequestsToScript,
}

/// What the keys of a pool say about its workers.
#[derive(Clone, Copy, Debug)]
pub struct PoolKeys<'a> {
    /// Number of tasks that a worker runs; 0 for no limit.
    pub tasks: u64,
    /// Number of tasks that an adapter runs at once.
    pub slots: u32,
    /// In bytes; 0 for no limit.
    pub memory_limit: u64,
    pub address: Option<&'a str>,
    /// The path of the requests that calls and jobs become.
    pub task_path: &'a str,
    /// The script for calls and jobs.
    pub task_script: Option<&'a str>,
}

/// The environment variable with the number of tasks that a worker runs before it exits.
pub const TASKS: &str = "STOKER_TASKS";

/// The environment variable with the number of tasks that an adapter runs at once.
pub const SLOTS: &str = "STOKER_SLOTS";

/// The environment variable with the names of the sites whose requests the pool answers, separated by commas.
pub const SITES: &str = "STOKER_SITES";

/// The environment variable with the pool's `memory_limit` in bytes, for an adapter. The limit applies to each of its
/// programs separately.
pub const MEMORY_LIMIT: &str = "STOKER_MEMORY_LIMIT";

/// The environment variable with the address of the server to which an adapter passes tasks on.
pub const ADDRESS: &str = "STOKER_ADDRESS";

/// The environment variable with the path of the requests that calls and jobs become.
pub const TASK_PATH: &str = "STOKER_TASK_PATH";

/// The environment variable with the path of the script for calls and jobs.
pub const TASK_SCRIPT: &str = "STOKER_TASK_SCRIPT";

/// Placeholder in the pool's command for the address of the server.
pub const ADDRESS_IN_COMMAND: &str = "{address}";

/// All strategies. The first one is the default.
pub static STRATEGIES: [Strategy; 9] = [
    // A process boots once and runs one task after another.
    Strategy {
        name: "loop",
        tasks: 0,
        has_zygote: false,
        is_adapter: false,
        has_upstream: false,
        requests: Requests::Worker,
        tasks_as: TasksAs::Tasks,
        host: None,
    },
    // Processes are booted in advance, and each runs one task.
    Strategy {
        name: "spare",
        tasks: 1,
        has_zygote: false,
        is_adapter: false,
        has_upstream: false,
        requests: Requests::Worker,
        tasks_as: TasksAs::Tasks,
        host: None,
    },
    // The application boots once, in a zygote; each worker is forked from it and runs one task.
    Strategy {
        name: "fork",
        tasks: 1,
        has_zygote: true,
        is_adapter: false,
        has_upstream: false,
        requests: Requests::Worker,
        tasks_as: TasksAs::Tasks,
        host: None,
    },
    // The pool's command is started for each task. The program needs no Stoker SDK.
    Strategy {
        name: "exec",
        tasks: 0,
        has_zygote: false,
        is_adapter: true,
        has_upstream: false,
        requests: Requests::Nobody,
        tasks_as: TasksAs::Tasks,
        host: None,
    },
    // The pool's command is started for each HTTP request, call or job, as a CGI program.
    Strategy {
        name: "cgi",
        tasks: 0,
        has_zygote: false,
        is_adapter: true,
        has_upstream: false,
        requests: Requests::FrontController,
        tasks_as: TasksAs::RequestsToScript,
        host: None,
    },
    // HTTP requests, calls and jobs are passed on to a FastCGI server, such as php-fpm.
    Strategy {
        name: "fastcgi",
        tasks: 0,
        has_zygote: false,
        is_adapter: true,
        has_upstream: true,
        requests: Requests::FrontController,
        tasks_as: TasksAs::RequestsToScript,
        host: None,
    },
    // HTTP requests, calls and jobs are passed on to a server that speaks HTTP/1.1.
    Strategy {
        name: "http",
        tasks: 0,
        has_zygote: false,
        is_adapter: true,
        has_upstream: true,
        requests: Requests::Worker,
        tasks_as: TasksAs::Requests,
        host: None,
    },
    // PHP scripts run one after another in one process, each as a request of its own to the PHP engine.
    Strategy {
        name: "sapi",
        tasks: 0,
        has_zygote: false,
        is_adapter: false,
        has_upstream: false,
        requests: Requests::FrontController,
        tasks_as: TasksAs::Tasks,
        host: Some("stoker-php"),
    },
    // A PHP script boots an application once; each worker is cloned from that process, inside the script, and runs one task.
    Strategy {
        name: "snapshot",
        tasks: 1,
        has_zygote: true,
        is_adapter: false,
        has_upstream: false,
        requests: Requests::Worker,
        tasks_as: TasksAs::Tasks,
        host: Some("stoker-php"),
    },
];

impl Strategy {
    /// The strategy with this name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<&'static Self> {
        STRATEGIES.iter().find(|strategy| strategy.name == name)
    }

    /// The environment variables that a worker of this strategy gets in addition to the variables of its pool.
    #[must_use]
    pub fn variables(&self, pool: &PoolKeys<'_>) -> Vec<(String, String)> {
        let limits_programs = self.limits_programs() && pool.memory_limit > 0;
        let address = pool.address.filter(|_| self.has_upstream);
        let takes_script = self.tasks_as == TasksAs::RequestsToScript;
        let takes_path = takes_script || self.tasks_as == TasksAs::Requests;
        let all = [
            (pool.tasks > 0).then(|| (TASKS, pool.tasks.to_string())),
            self.is_adapter.then(|| (SLOTS, pool.slots.to_string())),
            limits_programs.then(|| (MEMORY_LIMIT, pool.memory_limit.to_string())),
            address.map(|address| (ADDRESS, address.to_owned())),
            takes_path.then(|| (TASK_PATH, pool.task_path.to_owned())),
            pool.task_script
                .filter(|_| takes_script)
                .map(|script| (TASK_SCRIPT, script.to_owned())),
        ];
        let all = all.into_iter().flatten();
        all.map(|(name, value)| (name.to_owned(), value)).collect()
    }

    /// Whether there is a program for each task, to which the pool's `memory_limit` applies.
    #[must_use]
    pub fn limits_programs(&self) -> bool {
        self.is_adapter && !self.has_upstream
    }

    /// The command that starts a worker: the pool's command, or an adapter or host with the pool's command as its arguments.
    #[must_use]
    pub fn command(&self, program: &str, pool: &[String]) -> Vec<String> {
        if !self.is_adapter && self.host.is_none() {
            return pool.to_vec();
        }
        let adapter = [program, "adapter", self.name, "--"].map(str::to_owned);
        adapter.into_iter().chain(pool.iter().cloned()).collect()
    }
}

impl Default for &'static Strategy {
    fn default() -> Self {
        &STRATEGIES[0]
    }
}

/// Strategies are compared by name.
impl PartialEq for Strategy {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl Eq for Strategy {}
