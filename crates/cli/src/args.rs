//! The command line, as clap reads it.

use clap::{Parser, Subcommand};
use std::path::PathBuf;

/// Stoker keeps your workers warm and fed.
#[derive(Parser)]
#[command(name = "stoker", version, max_term_width = 100)]
pub(crate) struct Args {
    /// The server's unix socket [default: $STOKER_SOCKET, else stoker.sock; for `serve` the
    /// configuration comes first]
    #[arg(long, global = true, value_name = "PATH")]
    pub(crate) socket: Option<PathBuf>,
    /// Print results as JSON
    #[arg(long, global = true)]
    pub(crate) json: bool,
    /// How long the command may wait for the server in total, such as 500ms or 2s [default: 30s for each answer; no
    /// limit for calls, `reload` and changes of many jobs]
    #[arg(long, global = true, value_name = "TIME")]
    pub(crate) timeout: Option<String>,
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Subcommand)]
pub(crate) enum Command {
    /// Start Stoker: supervise workers and serve calls and jobs
    ///
    /// TERM, INT and QUIT drain: running tasks finish, then Stoker exits. A second one, a second or more after the
    /// first, ends everything at once. HUP applies the configuration and replaces all workers, like `stoker reload`.
    /// HUP and USR1 open the log file again. Other signals, such as USR2, are ignored.
    Serve(Serve),
    /// Check a configuration file, and show what it means
    Check {
        /// The file [default: stoker.toml]
        #[arg(value_name = "FILE")]
        file: Option<PathBuf>,
    },
    /// What Stoker starts as a worker, for programs that do not speak its protocol
    #[command(hide = true)]
    Adapter {
        strategy: String,
        #[arg(last = true, required = true)]
        command: Vec<String>,
    },
    /// Make a call and print its answer
    Call(Call),
    /// Push jobs and print their ids
    Push(Push),
    /// Show and change jobs
    #[command(subcommand)]
    Jobs(Jobs),
    /// Show all queues and services
    Queues {
        #[command(subcommand)]
        action: Option<QueuesAction>,
    },
    /// Pause a queue: its tasks wait, running ones continue
    Pause {
        queue: String,
        /// Create the queue if nothing was pushed to it yet
        #[arg(long)]
        create: bool,
    },
    /// Resume a paused queue
    Resume { queue: String },
    /// Change a queue's weight, reserve or limit at run time; overrides the configuration until it is reset
    Set(Set),
    /// Show all workers and pools
    Workers,
    /// Change the size of a pool at run time; overrides the configuration until it is reset
    Scale {
        pool: String,
        /// A number, or MIN..MAX
        #[arg(required_unless_present = "reset")]
        workers: Option<String>,
        /// Return to the size in the configuration
        #[arg(long, conflicts_with = "workers")]
        reset: bool,
    },
    /// Apply the configuration file and replace all workers without losing a task. Waits until that is
    /// done, and reports what was applied, what `scale` and `set` override, and what needs a restart
    Reload {
        /// Replace the workers of this pool only, and apply only its section
        pool: Option<String>,
    },
    /// Show tasks that killed workers
    #[command(subcommand)]
    Quarantine(Quarantine),
    /// Check, copy and compact the job store
    #[command(subcommand)]
    Store(Store),
}

#[derive(Subcommand)]
pub(crate) enum QueuesAction {
    /// Remove a queue that holds no job and that neither the configuration nor a worker names
    Remove { queue: String },
}

#[derive(clap::Args)]
pub(crate) struct Set {
    pub(crate) queue: String,
    #[arg(long)]
    pub(crate) weight: Option<u32>,
    #[arg(long)]
    pub(crate) reserve: Option<u32>,
    /// A number, or none
    #[arg(long)]
    pub(crate) limit: Option<String>,
    /// Return to the settings in the configuration
    #[arg(long, conflicts_with_all = ["weight", "reserve", "limit"])]
    pub(crate) reset: bool,
    /// Create the queue if nothing was pushed to it yet
    #[arg(long)]
    pub(crate) create: bool,
}

#[derive(clap::Args)]
pub(crate) struct Serve {
    /// A worker script (.php, .py, .js) or program, instead of a configuration file
    #[arg(value_name = "WORKER")]
    pub(crate) worker: Vec<String>,
    /// The configuration [default: stoker.toml, unless a worker is given]
    #[arg(short, long, value_name = "FILE", conflicts_with = "worker")]
    pub(crate) config: Option<PathBuf>,
}

#[derive(clap::Args)]
pub(crate) struct Call {
    /// SERVICE.METHOD
    pub(crate) method: String,
    /// The request as JSON; - for standard input
    #[arg(value_name = "JSON")]
    pub(crate) body: Option<String>,
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
    /// The job as JSON; - for standard input
    #[arg(value_name = "JSON")]
    pub(crate) body: Option<String>,
    /// How many jobs to push
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=10_000_000))]
    pub(crate) count: u64,
    /// Run the job after this time, such as 30s or 2h
    #[arg(long, value_name = "TIME")]
    pub(crate) delay: Option<String>,
    /// 0 (first) to 7 (last)
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u8).range(0..=7))]
    pub(crate) priority: u8,
    /// Fairness key, such as the tenant; tenants share a queue fairly
    #[arg(long)]
    pub(crate) key: Option<String>,
    /// How many attempts the job has, the first one included; 0 for no limit [default: the queue's]
    #[arg(long)]
    pub(crate) tries: Option<u16>,
    /// Waits between attempts, such as 1s,5s,1m; the last one repeats [default: the queue's]
    #[arg(long, value_name = "TIMES", value_delimiter = ',')]
    pub(crate) backoff: Vec<String>,
    /// How long one run of the job may take [default: the pool's]
    #[arg(long, value_name = "TIME")]
    pub(crate) timeout: Option<String>,
    /// How long to wait for the server, like --timeout of other commands [default: 30s for each answer]
    #[arg(long, value_name = "TIME")]
    pub(crate) wait: Option<String>,
    /// Do not retry a run that timed out
    #[arg(long)]
    pub(crate) fail_on_timeout: bool,
    /// Retry for this time, instead of a number of attempts
    #[arg(long, value_name = "TIME")]
    pub(crate) retry_for: Option<String>,
    /// How many attempts may end with an exception; releases do not count
    #[arg(long)]
    pub(crate) max_exceptions: Option<u16>,
    /// Reject the push while another unfinished job of the queue has this key
    #[arg(long, value_name = "KEY")]
    pub(crate) unique: Option<String>,
    /// Hold the unique key for at most this time
    #[arg(long, value_name = "TIME", requires = "unique")]
    pub(crate) unique_for: Option<String>,
    /// Hold the unique key until the first run starts, not until the job has ended
    #[arg(long, requires = "unique")]
    pub(crate) unique_until_start: bool,
    /// A second push with this key returns the id of the first job
    #[arg(long, value_name = "KEY")]
    pub(crate) idempotency: Option<String>,
    /// The job's type, for display and filters
    #[arg(long = "type", value_name = "NAME")]
    pub(crate) kind: Option<String>,
    /// How long the result is kept [default: the queue's]
    #[arg(long, value_name = "TIME")]
    pub(crate) keep_result: Option<String>,
}

#[derive(Subcommand)]
pub(crate) enum Jobs {
    /// List jobs, newest first
    List {
        #[command(flatten)]
        filter: Filter,
        #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u64).range(1..=1000))]
        limit: u64,
        /// Continue after this id: the `next` of a previous list in the same order
        #[arg(long, value_name = "ID")]
        after: Option<String>,
        /// Oldest first
        #[arg(long)]
        oldest: bool,
    },
    /// Count jobs
    Count(Filter),
    /// Show everything about one job: payload, error, result, output, history
    Show {
        id: String,
        /// Show only the N-th text of its history, in full, such as the payload before an edit
        #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
        note: Option<u64>,
    },
    /// Show failed jobs grouped by error, most frequent first
    Failures {
        #[command(flatten)]
        filter: Filter,
        #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u64).range(1..=1000))]
        limit: u64,
    },
    /// Run failed or cancelled jobs again, with all their tries
    Retry {
        #[command(flatten)]
        which: Which,
        /// How many jobs per second
        #[arg(long, value_name = "RATE", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
        per_second: Option<u32>,
    },
    /// Cancel unfinished jobs, running ones included
    Cancel(Which),
    /// Delete jobs that have ended
    Discard(Which),
    /// Put waiting jobs aside until they are released
    Suspend(Which),
    /// Run delayed, retrying and suspended jobs now
    Release(Which),
    /// Move failed, cancelled and waiting jobs to another queue
    Move {
        #[command(flatten)]
        which: Which,
        /// The queue
        #[arg(long, value_name = "QUEUE")]
        to: String,
    },
    /// Change the payload of a failed, cancelled, delayed or suspended job; its history keeps the old one
    Edit {
        id: String,
        /// - for standard input
        #[arg(value_name = "JSON")]
        body: String,
    },
    /// Print jobs for `import`, one JSON object per line
    Export {
        /// One job
        #[arg(conflicts_with_all = ["queue", "state", "kind", "error", "fingerprint", "key", "older"])]
        id: Option<String>,
        #[command(flatten)]
        filter: Filter,
    },
    /// Push exported jobs from a file, or from standard input
    Import {
        #[arg(value_name = "FILE")]
        file: Option<PathBuf>,
    },
}

/// A job must match every option that is given.
#[derive(clap::Args, Default)]
pub(crate) struct Filter {
    #[arg(long)]
    pub(crate) queue: Option<String>,
    /// ready, running, delayed, retrying, suspended, done, failed or cancelled
    #[arg(long)]
    pub(crate) state: Option<String>,
    /// The job's type
    #[arg(long = "type", value_name = "NAME")]
    pub(crate) kind: Option<String>,
    /// The class of the job's error
    #[arg(long, value_name = "CLASS")]
    pub(crate) error: Option<String>,
    /// The fingerprint of the error, from `stoker jobs failures`
    #[arg(long)]
    pub(crate) fingerprint: Option<String>,
    /// The tenant
    #[arg(long)]
    pub(crate) key: Option<String>,
    /// Ended (or, if unfinished, pushed) longer ago than this, such as 2h or 7d
    #[arg(long, value_name = "TIME")]
    pub(crate) older: Option<String>,
}

#[derive(clap::Args)]
pub(crate) struct Which {
    /// One job
    #[arg(conflicts_with_all = ["queue", "state", "kind", "error", "fingerprint", "key", "older", "all"])]
    pub(crate) id: Option<String>,
    #[command(flatten)]
    pub(crate) filter: Filter,
    /// Every job that the operation can change
    #[arg(long)]
    pub(crate) all: bool,
    /// Only count the jobs
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Do not ask for confirmation
    #[arg(short, long)]
    pub(crate) yes: bool,
}

#[derive(Subcommand)]
pub(crate) enum Store {
    /// Show what a store contains
    Show(StoreFile),
    /// Check the file and its records for damage, also while a server uses it
    Check(StoreFile),
    /// Write a complete copy, also while a server uses it
    Backup {
        /// The file to write; it must not exist
        to: PathBuf,
        #[command(flatten)]
        file: StoreFile,
    },
    /// Give unused space back to the disk; no server may be using it
    Compact(StoreFile),
}

#[derive(clap::Args)]
pub(crate) struct StoreFile {
    /// The store [default: that of the configuration, else stoker.db]
    #[arg(long, value_name = "FILE")]
    pub(crate) store: Option<PathBuf>,
    /// The configuration that names the store [default: stoker.toml]
    #[arg(short, long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
}

#[derive(Subcommand)]
pub(crate) enum Quarantine {
    /// List the tasks in quarantine
    List,
    /// Show one task with its payload
    Show { id: String },
    /// Allow calls again that are rejected because they killed workers
    Clear {
        /// Only calls of this service
        service: Option<String>,
    },
}
