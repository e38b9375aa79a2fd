use clap::{Parser, Subcommand};
use std::path::PathBuf;

/// Stoker keeps your workers warm and fed.
#[derive(Parser)]
#[command(name = "stoker", version, max_term_width = 100)]
pub(crate) struct Args {
    /// The server's unix socket [default: $STOKER_SOCKET, else stoker.sock; `serve` asks its
    /// configuration before that]
    #[arg(long, global = true, value_name = "PATH")]
    pub(crate) socket: Option<PathBuf>,
    /// Print results as JSON
    #[arg(long, global = true)]
    pub(crate) json: bool,
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Subcommand)]
pub(crate) enum Command {
    /// Supervise workers and serve until a signal; TERM and INT drain, a second one ends at once
    Serve(Serve),
    /// Explain a configuration file, or say what is wrong with it
    Check {
        /// The file [default: stoker.toml]
        #[arg(value_name = "FILE")]
        file: Option<PathBuf>,
    },
    /// Make one call and print the reply
    Call(Call),
    /// Push jobs and print their ids
    Push(Push),
    /// Look at jobs and steer them
    #[command(subcommand)]
    Jobs(Jobs),
    /// Show all queues and services
    Queues,
    /// Stop giving out a queue's tasks; what runs goes on
    Pause { queue: String },
    /// Give out a paused queue's tasks again
    Resume { queue: String },
    /// Change a queue's share while running
    Set {
        queue: String,
        #[arg(long)]
        weight: Option<u32>,
        #[arg(long)]
        reserve: Option<u32>,
        #[arg(long)]
        limit: Option<u32>,
    },
    /// Show all workers and pools
    Workers,
    /// Resize a pool: a number, or MIN..MAX
    Scale { pool: String, workers: String },
    /// Replace all workers without losing a task; waits until it is done
    Reload {
        /// Only this pool
        pool: Option<String>,
    },
    /// Look at what killed workers
    #[command(subcommand)]
    Quarantine(Quarantine),
    /// The server process; started by `serve`
    #[command(hide = true)]
    Server,
}

#[derive(clap::Args)]
pub(crate) struct Serve {
    /// A worker script (.php, .py, .js) or program; instead of a configuration file
    #[arg(value_name = "WORKER")]
    pub(crate) worker: Vec<String>,
    /// The configuration [default: stoker.toml, if no worker is named]
    #[arg(short, long, value_name = "FILE", conflicts_with = "worker")]
    pub(crate) config: Option<PathBuf>,
}

#[derive(clap::Args)]
pub(crate) struct Call {
    /// SERVICE.METHOD
    pub(crate) method: String,
    /// The request as JSON
    #[arg(value_name = "JSON")]
    pub(crate) body: Option<String>,
    /// Time for the answer, such as 500ms or 2s [default: the service's]
    #[arg(long, value_name = "TIME")]
    pub(crate) timeout: Option<String>,
    /// 0 (first) to 7 (last)
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u8).range(0..=7))]
    pub(crate) priority: u8,
    /// The call may run again if its worker dies
    #[arg(long)]
    pub(crate) idempotent: bool,
}

#[derive(clap::Args)]
pub(crate) struct Push {
    pub(crate) queue: String,
    /// The job as JSON
    #[arg(value_name = "JSON")]
    pub(crate) body: Option<String>,
    /// Push it so many times
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=10_000_000))]
    pub(crate) count: u64,
    /// Run it after this time, such as 30s or 2h
    #[arg(long, value_name = "TIME")]
    pub(crate) delay: Option<String>,
    /// 0 (first) to 7 (last)
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u8).range(0..=7))]
    pub(crate) priority: u8,
    /// The tenant it is for; tenants share a queue fairly
    #[arg(long)]
    pub(crate) key: Option<String>,
    /// Runs allowed, the first one included; 0 for no bound [default: the queue's]
    #[arg(long)]
    pub(crate) tries: Option<u16>,
}

#[derive(Subcommand)]
pub(crate) enum Jobs {
    /// List jobs, oldest first
    List {
        #[arg(long)]
        queue: Option<String>,
        /// ready, running, delayed, retrying, done, failed or cancelled
        #[arg(long)]
        state: Option<String>,
        #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u64).range(1..=1000))]
        limit: u64,
        /// Only jobs after this id: the `next` of an earlier list
        #[arg(long, value_name = "ID")]
        after: Option<String>,
    },
    /// Show one job whole
    Show { id: String },
    /// Run failed or cancelled jobs again: one by id, or all that the options name
    Retry(Which),
    /// End jobs that are not finished: one by id, or all that the options name
    Cancel(Which),
}

#[derive(clap::Args)]
#[group(required = true, multiple = true)]
pub(crate) struct Which {
    #[arg(conflicts_with_all = ["queue", "state"])]
    pub(crate) id: Option<String>,
    #[arg(long)]
    pub(crate) queue: Option<String>,
    #[arg(long)]
    pub(crate) state: Option<String>,
}

#[derive(Subcommand)]
pub(crate) enum Quarantine {
    /// List them
    List,
    /// Show one with its body
    Show { id: String },
}
