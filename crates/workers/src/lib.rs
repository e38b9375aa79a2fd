//! How workers come to be, and how many tasks each takes. The server knows what a strategy asks for, and none by its name.

#[cfg(feature = "adapters")]
pub mod exec;

/// A strategy of a pool.
#[derive(Debug)]
pub struct Strategy {
    /// As `strategy` in the configuration calls it.
    pub name: &'static str,
    /// Tasks that a worker takes in its life; 0 for no bound.
    pub tasks: u64,
    /// One process with a slot for each of the pool's workers runs the tasks, each in a process of its own.
    pub is_adapter: bool,
}

/// The variable that tells a worker how many tasks it takes in its life.
pub const TASKS: &str = "STOKER_TASKS";

/// The variable that tells an adapter how many tasks it runs at once.
pub const SLOTS: &str = "STOKER_SLOTS";

/// The variable that tells an adapter the `memory_limit` of its pool, bytes: each of its programs has it for itself.
pub const MEMORY_LIMIT: &str = "STOKER_MEMORY_LIMIT";

/// All of them. The first is that of a pool which names none.
pub static STRATEGIES: [Strategy; 3] = [
    // A process boots once and runs task after task.
    Strategy {
        name: "loop",
        tasks: 0,
        is_adapter: false,
    },
    // Processes are booted ahead, and each runs one task.
    Strategy {
        name: "spare",
        tasks: 1,
        is_adapter: false,
    },
    // A program is started for each task, which needs to know nothing of Stoker.
    Strategy {
        name: "exec",
        tasks: 0,
        is_adapter: true,
    },
];

impl Strategy {
    /// The one of this name.
    #[must_use]
    pub fn named(name: &str) -> Option<&'static Self> {
        STRATEGIES.iter().find(|strategy| strategy.name == name)
    }

    /// What a worker of this strategy finds in its environment besides what the pool says.
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

    /// The command that starts a worker: the pool's own, or an adapter that is given it.
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

/// Each is told from the others by its name.
impl PartialEq for Strategy {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl Eq for Strategy {}
