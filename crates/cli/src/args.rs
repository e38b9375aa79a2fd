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
    /// The longest that a command waits for the server in all, to connect, to send and for the answer, such as 500ms
    /// or 2s [default: 30s for each answer; without end for calls, `reload` and changes of many jobs]
    #[arg(long, global = true, value_name = "TIME")]
    pub(crate) timeout: Option<String>,
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Subcommand)]
pub(crate) enum Command {
    /// Supervise workers and serve until a signal; TERM and INT drain, a later one ends at once
    ///
    /// TERM, INT and QUIT drain; one more, after a second or later, ends at once. HUP replaces all workers
    /// without losing a task, as `stoker reload`, and opens the log file anew. USR1 opens the log file anew.
    /// Other signals that end a program by default, as USR2, do nothing.
    Serve(Serve),
    /// Explain a configuration file, or say what is wrong with it
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
    /// Make one call and print the reply
    Call(Call),
    /// Push jobs and print their ids
    Push(Push),
    /// Look at jobs and steer them
    #[command(subcommand)]
    Jobs(Jobs),
    /// Show all queues and services
    Queues {
        #[command(subcommand)]
        action: Option<QueuesAction>,
    },
    /// Stop giving out a queue's tasks; what runs goes on
    Pause {
        queue: String,
        /// Make the queue if nothing was pushed to it yet
        #[arg(long)]
        create: bool,
    },
    /// Give out a paused queue's tasks again
    Resume { queue: String },
    /// Change a queue's share while running; it overrides the configuration until it is reset
    Set(Set),
    /// Show all workers and pools
    Workers,
    /// Resize a pool while running; it overrides the configuration until it is reset
    Scale {
        pool: String,
        /// A number, or MIN..MAX
        #[arg(required_unless_present = "reset")]
        workers: Option<String>,
        /// Take it back: what the configuration says
        #[arg(long, conflicts_with = "workers")]
        reset: bool,
    },
    /// Apply the configuration file as it is now, and replace all workers without losing a task. Waits until that is
    /// done, and reports what was applied, what operators have set that overrides it, and what needs a restart
    Reload {
        /// Only this pool, and of the configuration only what it says of it
        pool: Option<String>,
    },
    /// Look at what killed workers
    #[command(subcommand)]
    Quarantine(Quarantine),
    /// Look after the file in which jobs live
    #[command(subcommand)]
    Store(Store),
}

#[derive(Subcommand)]
pub(crate) enum QueuesAction {
    /// Forget a queue that holds no job and that neither the configuration nor a worker names
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
    /// Take all back: what the configuration says
    #[arg(long, conflicts_with_all = ["weight", "reserve", "limit"])]
    pub(crate) reset: bool,
    /// Make the queue if nothing was pushed to it yet
    #[arg(long)]
    pub(crate) create: bool,
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
    /// Waits before the second run, the third, …; the last repeats, such as 1s,5s,1m [default: the queue's]
    #[arg(long, value_name = "TIMES", value_delimiter = ',')]
    pub(crate) backoff: Vec<String>,
    /// The longest one run of the job may take [default: the pool's]
    #[arg(long, value_name = "TIME")]
    pub(crate) timeout: Option<String>,
    /// The longest to wait for the server, as --timeout of other commands [default: 30s for each answer]
    #[arg(long, value_name = "TIME")]
    pub(crate) wait: Option<String>,
    /// A run that overran its time is the last
    #[arg(long)]
    pub(crate) fail_on_timeout: bool,
    /// Try again for so long, instead of so many times
    #[arg(long, value_name = "TIME")]
    pub(crate) retry_for: Option<String>,
    /// Runs that may end in an exception; releases do not count
    #[arg(long)]
    pub(crate) max_exceptions: Option<u16>,
    /// Refuse the push while another unfinished job of the queue has this key
    #[arg(long, value_name = "KEY")]
    pub(crate) unique: Option<String>,
    /// Hold the unique key for so long at the most
    #[arg(long, value_name = "TIME", requires = "unique")]
    pub(crate) unique_for: Option<String>,
    /// Hold the unique key until the first run starts, not until the job has ended
    #[arg(long, requires = "unique")]
    pub(crate) unique_until_start: bool,
    /// Pushing twice with the same key makes one job
    #[arg(long, value_name = "KEY")]
    pub(crate) idempotency: Option<String>,
    /// What the job is, for people and filters
    #[arg(long = "type", value_name = "NAME")]
    pub(crate) kind: Option<String>,
    /// How long what it returns is kept [default: the queue's]
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
        /// Go on behind this id: the `next` of an earlier list of the same order
        #[arg(long, value_name = "ID")]
        after: Option<String>,
        /// Oldest first
        #[arg(long)]
        oldest: bool,
    },
    /// Count jobs
    Count(Filter),
    /// Show one job whole: payload, error, result, output, history
    Show {
        id: String,
        /// Only the N-th line of its history, whole and as it is: the payload before an edit may be long
        #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
        note: Option<u64>,
    },
    /// Show failed jobs by what they failed of, most frequent first
    Failures {
        #[command(flatten)]
        filter: Filter,
        #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u64).range(1..=1000))]
        limit: u64,
    },
    /// Run failed or cancelled jobs again with fresh budgets
    Retry {
        #[command(flatten)]
        which: Which,
        /// So many a second
        #[arg(long, value_name = "RATE", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
        per_second: Option<u32>,
    },
    /// End jobs that are not finished, running ones included
    Cancel(Which),
    /// Forget jobs that have ended
    Discard(Which),
    /// Have waiting jobs wait until they are released
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
    /// Give a failed, cancelled, delayed or suspended job another payload; its history keeps the former
    Edit {
        id: String,
        /// - for standard input
        #[arg(value_name = "JSON")]
        body: String,
    },
    /// Print jobs whole, a JSON object a line, for `import`
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

/// All that is given must hold.
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
    /// The class of its error
    #[arg(long, value_name = "CLASS")]
    pub(crate) error: Option<String>,
    /// What it failed of, as `failures` shows it
    #[arg(long)]
    pub(crate) fingerprint: Option<String>,
    /// The tenant
    #[arg(long)]
    pub(crate) key: Option<String>,
    /// Ended, or if it has not was pushed, longer ago than this, such as 2h or 7d
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
    /// All jobs for which it makes sense
    #[arg(long)]
    pub(crate) all: bool,
    /// Only say how many jobs are meant
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Do not ask on a terminal
    #[arg(short, long)]
    pub(crate) yes: bool,
}

#[derive(Subcommand)]
pub(crate) enum Store {
    /// Say what a store holds
    Show(StoreFile),
    /// Look for damage: of the file, and of what stands in it; also while a server uses it
    Check(StoreFile),
    /// Write a copy that is whole; also while a server uses it
    Backup {
        /// The file to write; it must not exist
        to: PathBuf,
        #[command(flatten)]
        file: StoreFile,
    },
    /// Give unused space back to the disk; only while no server uses it
    Compact(StoreFile),
}

#[derive(clap::Args)]
pub(crate) struct StoreFile {
    /// The store [default: that of the configuration, else stoker.db]
    #[arg(long, value_name = "FILE")]
    pub(crate) store: Option<PathBuf>,
    /// The configuration that names it [default: stoker.toml]
    #[arg(short, long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
}

#[derive(Subcommand)]
pub(crate) enum Quarantine {
    /// List them
    List,
    /// Show one with its body
    Show { id: String },
    /// Let calls run again that are refused because they killed workers
    Clear {
        /// Only calls of this service
        service: Option<String>,
    },
}
