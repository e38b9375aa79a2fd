//! `stoker.server`: the server itself.

request! {
    /// Shows what the server as a whole counts.
    pub struct Stats: "stoker.server" "stats" by Anyone -> ServerStats {}
}

answer! {
    /// What the server counts of itself, since its process was started.
    pub struct ServerStats {
        /// Turns of the data plane
        pub turns: u64 = "turns",
        /// Microseconds that they took
        pub busy_us: u64 = "busy_us",
        /// The longest of them
        pub max_lag_us: u64 = "max_lag_us",
        /// Open connections of clients and workers
        pub connections: usize = "connections",
        /// Bytes of bodies, jobs and answers in memory
        pub memory_bytes: usize = "memory_bytes",
        /// How many there may be (`stoker.max_memory`)
        pub max_memory_bytes: usize = "max_memory_bytes",
        /// Bytes that the job store holds in memory for the server
        pub store_bytes: usize = "store_bytes",
        /// Transactions that the job store has committed
        pub store_commits: u64 = "store_commits",
        /// Those that failed
        pub store_failed_commits: u64 = "store_failed_commits",
        /// Microseconds that all of them took, the disk's part included
        pub store_commit_us: u64 = "store_commit_us",
        /// Bytes of the job store's file
        pub store_file_bytes: u64 = "store_file_bytes",
        /// Bytes of its write-ahead log
        pub store_journal_bytes: u64 = "store_journal_bytes",
        /// Whether jobs are kept on disk
        pub durable: bool = "durable",
        /// It ends, and takes nothing new
        pub draining: bool = "draining",
    }
}
