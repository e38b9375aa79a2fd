//! How workers are started and how many tasks each runs. The server reads a strategy's properties, never its name.

#[cfg(feature = "adapters")]
pub mod exec;

/// A pool's strategy for starting workers.
#[derive(Debug)]
pub struct Strategy {
    /// The value of `strategy` in the configuration.
    pub name: &'static str,
    /// Number of tasks that a worker runs before it exits; 0 for no limit.
    pub tasks: u64,
    /// Whether the pool has a single worker, the adapter, which has several slots and runs each task in a separate process.
    pub is_adapter: bool,
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

/// All strategies. The first one is the default.
pub static STRATEGIES: [Strategy; 3] = [
    // A process boots once and runs one task after another.
    Strategy {
        name: "loop",
        tasks: 0,
        is_adapter: false,
    },
    // Processes are booted in advance, and each runs one task.
    Strategy {
        name: "spare",
        tasks: 1,
        is_adapter: false,
    },
    // The pool's command is started for each task. The program needs no Stoker SDK.
    Strategy {
        name: "exec",
        tasks: 0,
        is_adapter: true,
    },
];

impl Strategy {
    /// The strategy with this name.
    #[must_use]
    pub fn named(name: &str) -> Option<&'static Self> {
        STRATEGIES.iter().find(|strategy| strategy.name == name)
    }

    /// The environment variables that a worker of this strategy gets in addition to those of its pool.
    pub fn variables(
        &self,
        slots: u32,
        memory_limit: u64,
    ) -> impl Iterator<Item = (String, String)> {
        let limits_programs = self.is_adapter && memory_limit > 0;
        let all = [
            (self.tasks > 0).then_some((TASKS, self.tasks)),
            self.is_adapter.then(|| (SLOTS, u64::from(slots))),
            limits_programs.then_some((MEMORY_LIMIT, memory_limit)),
        ];
        let all = all.into_iter().flatten();
        all.map(|(name, value)| (name.to_owned(), value.to_string()))
    }

    /// The command that starts a worker: the pool's command, or an adapter with the pool's command as its arguments.
    #[must_use]
    pub fn command(&self, program: &str, pool: &[String]) -> Vec<String> {
        if !self.is_adapter {
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
