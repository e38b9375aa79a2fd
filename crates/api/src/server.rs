//! `stoker.server`: the server itself.

request! {
    /// Returns counters of the server as a whole.
    pub struct Stats: "stoker.server" "stats" by Anyone -> ServerStats {}
}

answer! {
    /// Counters of the server since its process was started.
    pub struct ServerStats {
        /// Number of iterations of the server's event loop
        pub turns: u64 = "turns",
        /// Total time of all iterations of the event loop, in microseconds
        pub busy_us: u64 = "busy_us",
        /// The longest iteration of the event loop, in microseconds
        pub max_lag_us: u64 = "max_lag_us",
        /// Number of open connections of clients and workers
        pub connections: usize = "connections",
        /// Bytes of bodies, jobs and answers in memory
        pub memory_bytes: usize = "memory_bytes",
        /// The limit of `memory_bytes` (`stoker.max_memory`)
        pub max_memory_bytes: usize = "max_memory_bytes",
        /// Bytes that the job store holds in memory for the server
        pub store_bytes: usize = "store_bytes",
        /// Number of transactions that the job store has committed
        pub store_commits: u64 = "store_commits",
        /// Number of transactions of the job store that failed
        pub store_failed_commits: u64 = "store_failed_commits",
        /// Total time of all transactions of the job store, including disk writes, in microseconds
        pub store_commit_us: u64 = "store_commit_us",
        /// Size of the job store's file, in bytes
        pub store_file_bytes: u64 = "store_file_bytes",
        /// Size of the job store's write-ahead log, in bytes
        pub store_journal_bytes: u64 = "store_journal_bytes",
        /// Whether jobs are kept on disk
        pub durable: bool = "durable",
        /// Whether the server is shutting down and accepts no new tasks
        pub draining: bool = "draining",
        /// Omitted if there are none: metrics that gateways have reported
        #[serde(skip_serializing_if = "Vec::is_empty", default)]
        pub gateways: Vec<GatewayMetric> = "gateways",
    }
}

answer! {
    /// A metric that a gateway reports.
    pub struct GatewayMetric {
        /// The gateway, such as `relay`
        pub gateway: String = "gateway",
        /// The name of the metric
        pub name: String = "name",
        /// The value that was reported last
        pub value: f64 = "value",
    }
}
