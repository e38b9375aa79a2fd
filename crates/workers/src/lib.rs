//! How workers come to be, and how many tasks each takes. The server knows what a strategy asks for, and none by its name.

/// A strategy of a pool.
#[derive(Debug)]
pub struct Strategy {
    /// As `strategy` in the configuration calls it.
    pub name: &'static str,
    /// What it is, in a sentence.
    pub doc: &'static str,
    /// Tasks that a worker takes in its life; 0 for no bound.
    pub tasks: u64,
}

/// The variable that tells a worker how many tasks it takes in its life.
pub const TASKS: &str = "STOKER_TASKS";

/// All of them. The first is that of a pool which names none.
pub static STRATEGIES: [Strategy; 2] = [
    Strategy {
        name: "loop",
        doc: "a process boots once and runs task after task",
        tasks: 0,
    },
    Strategy {
        name: "spare",
        doc: "processes are booted ahead, and each runs one task",
        tasks: 1,
    },
];

impl Strategy {
    /// The one of this name.
    #[must_use]
    pub fn named(name: &str) -> Option<&'static Self> {
        STRATEGIES.iter().find(|strategy| strategy.name == name)
    }

    /// What a worker of this strategy finds in its environment besides what the pool says.
    pub fn variables(&self) -> impl Iterator<Item = (String, String)> {
        let tasks = (self.tasks > 0).then(|| (TASKS.to_owned(), self.tasks.to_string()));
        tasks.into_iter()
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
