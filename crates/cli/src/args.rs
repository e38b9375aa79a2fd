//! The command line, parsed by clap. The doc comments appear in `--help` and on the reference page.

use clap::{Parser, Subcommand};
use std::path::PathBuf;

/// Job server and worker supervisor.
#[derive(Parser)]
#[command(name = "stoker", version, max_term_width = 100)]
pub(crate) struct Args {
    /// The server's Unix socket [default: $STOKER_SOCKET, else stoker.sock; `serve` uses the configured socket before
    /// stoker.sock]
    #[arg(long, global = true, value_name = "PATH")]
    pub(crate) socket: Option<PathBuf>,
    /// Addresses of a server on this or another machine, separated by commas: unix://PATH, tcp://HOST:PORT or
    /// tls://HOST:PORT?ca=FILE [default: $STOKER_URL]. Other machines require a token in $STOKER_TOKEN
    #[arg(long, global = true, value_name = "URL", conflicts_with = "socket")]
    pub(crate) url: Option<String>,
    /// Print results as JSON
    #[arg(long, global = true)]
    pub(crate) json: bool,
    /// Maximum time to wait for the server in total, such as 500ms or 2s [default: 30s for each answer; no limit for
    /// calls, `reload` and changes of many jobs]
    #[arg(long, global = true, value_name = "TIME")]
    pub(crate) timeout: Option<String>,
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Subcommand)]
pub(crate) enum Command {
    /// Start Stoker: supervise workers and serve calls and jobs
    ///
    /// TERM, INT and QUIT start a graceful shutdown: running tasks finish, then Stoker exits. A second such signal, at
    /// least one second after the first, stops everything at once. HUP applies the configuration and replaces all
    /// workers, like `stoker reload`. HUP and USR1 reopen the log file. Other signals, such as USR2, are ignored.
    Serve(ServeArgs),
    /// Check a configuration file and show the pools, queues and services that it defines
    Check {
        /// The configuration file [default: stoker.toml]
        #[arg(value_name = "FILE")]
        file: Option<PathBuf>,
        /// Also boot the application of each pool with `strategy = "fork"`, and report what its forked processes would
        /// share: open connections, files, locks and threads. Exits with code 1 if there is anything
        #[arg(long)]
        fork: bool,
    },
    /// Run tasks with programs that do not speak Stoker's protocol (started by Stoker as a worker)
    #[command(hide = true)]
    Adapter {
        strategy: String,
        #[arg(last = true)]
        command: Vec<String>,
    },
    /// Make a call and print the answer
    Call(CallArgs),
    /// Push jobs and print their ids
    Push(PushArgs),
    /// Show and change jobs
    #[command(subcommand)]
    Jobs(Jobs),
    /// Show all queues and services
    Queues {
        #[command(subcommand)]
        action: Option<QueuesAction>,
    },
    /// Pause a queue: running tasks continue, but no more are started
    Pause {
        queue: String,
        /// Create the queue if it does not exist yet
        #[arg(long)]
        create: bool,
    },
    /// Resume a paused queue
    Resume { queue: String },
    /// Change a queue's weight, reserve or limit at run time. The change overrides the configuration until it is reset
    Set(SetArgs),
    /// Show all workers and pools
    Workers,
    /// Change the size of a pool at run time. The change overrides the configuration until it is reset
    Scale {
        pool: String,
        /// The number of workers, or MIN..MAX
        #[arg(required_unless_present = "reset")]
        workers: Option<String>,
        /// Restore the configured size
        #[arg(long, conflicts_with = "workers")]
        reset: bool,
    },
    /// Apply the configuration file and replace all workers without losing a task. Waits until this is done, and
    /// reports which settings were applied, which are overridden by `scale` or `set`, and which need a restart
    Reload {
        /// Replace only the workers of this pool, and apply only its section of the configuration
        pool: Option<String>,
    },
    /// Show tasks in quarantine, and release calls from it
    #[command(subcommand)]
    Quarantine(Quarantine),
    /// Inspect, check, back up and compact the job store
    #[command(subcommand)]
    Store(Store),
    /// Measure an application on this machine
    #[cfg(feature = "http")]
    #[command(subcommand)]
    Lab(Lab),
    /// Manage the tokens with which clients and workers on other machines connect ([listen] in the configuration)
    ///
    /// These commands change the token file on the server's machine. A running server applies a change within a second.
    #[cfg(feature = "relay")]
    #[command(subcommand)]
    Token(Token),
}

#[cfg(feature = "http")]
#[derive(Subcommand)]
pub(crate) enum Lab {
    /// Measure an application under every strategy: time, throughput, CPU, memory, and what is isolated between two tasks
    ///
    /// Starts a Stoker for each strategy, on a free port of this machine and one at a time, and nginx with php-fpm if both are
    /// installed. The command leaves no process or file behind, even after Ctrl-C. A strategy that can't be measured is
    /// listed with the reason. The guide "Choosing a strategy" explains the table and the JSON.
    Isolation(Isolation),
}

#[cfg(feature = "http")]
#[derive(clap::Args)]
pub(crate) struct Isolation {
    /// The folder of an application whose front controller is public/index.php, or one of hello, symfony and laravel.
    /// `loop`, `spare` and `fork` need its worker.php, `snapshot` its snapshot.php, unless it is a Laravel or Symfony
    /// application
    #[arg(long, value_name = "DIR", default_value = "hello")]
    pub(crate) app: String,
    /// The page that is fetched
    #[arg(long, value_name = "PATH", default_value = "/")]
    pub(crate) path: String,
    /// Names of strategies, separated by commas; also fork:auto and snapshot:auto (tasks_per_fork = "auto") and lamp
    /// (nginx and php-fpm) [default: all strategies and lamp]
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    pub(crate) strategies: Vec<String>,
    /// How often each strategy is measured, 1 to 50. From 6 on, intervals have a confidence of at least 95 %
    #[arg(long, value_name = "N", default_value_t = 6)]
    pub(crate) rounds: u32,
    /// Seconds of load for each strategy in each round, 0.1 to 60
    #[arg(long, value_name = "SECONDS", default_value_t = 2.0)]
    pub(crate) seconds: f64,
    /// Number of tasks at once, 1 to 64 [default: the number of processors, but at least 2]
    #[arg(long, value_name = "N")]
    pub(crate) workers: Option<u32>,
    /// Also write the result as a web page with charts
    #[arg(long, value_name = "FILE")]
    pub(crate) html: Option<PathBuf>,
}

#[cfg(feature = "relay")]
#[derive(Subcommand)]
pub(crate) enum Token {
    /// Create a token and print it. It is shown only once, because only its hash is stored
    Create {
        /// 1 to 64 characters from A-Z a-z 0-9 _ -. Jobs that are pushed with the token belong to token:NAME
        name: String,
        #[command(flatten)]
        options: TokenOptions,
        #[command(flatten)]
        file: TokenFile,
    },
    /// List all tokens
    List {
        #[command(flatten)]
        file: TokenFile,
    },
    /// Change a token; options that are not given keep their values
    Set {
        name: String,
        #[command(flatten)]
        options: TokenOptions,
        #[command(flatten)]
        file: TokenFile,
    },
    /// Replace the secret of a token and print the new token
    Rotate {
        name: String,
        /// Keep accepting the old secret for this time, such as 1h [default: reject it at once]
        #[arg(long, value_name = "TIME")]
        overlap: Option<String>,
        #[command(flatten)]
        file: TokenFile,
    },
    /// Delete a token, and end the connections that use it
    Revoke {
        name: String,
        #[command(flatten)]
        file: TokenFile,
    },
}

#[cfg(feature = "relay")]
#[derive(clap::Args)]
pub(crate) struct TokenOptions {
    /// What the token permits: push, call, work, read (see all queues, workers and jobs) or admin (everything);
    /// separate several with commas
    #[arg(long, value_name = "ROLES", value_delimiter = ',')]
    pub(crate) roles: Vec<String>,
    /// The queues to push to or to work on, such as emails,reports-*; * matches any characters
    #[arg(long, value_name = "PATTERNS", value_delimiter = ',')]
    pub(crate) queues: Vec<String>,
    /// The services to call or to serve, such as users,shop.*
    #[arg(long, value_name = "PATTERNS", value_delimiter = ',')]
    pub(crate) services: Vec<String>,
    /// Maximum number of open connections, or none
    #[arg(long, value_name = "N")]
    pub(crate) connections: Option<String>,
    /// Maximum number of unanswered requests, or none
    #[arg(long, value_name = "N")]
    pub(crate) inflight: Option<String>,
    /// Maximum number of pushes per second, or none
    #[arg(long, value_name = "N")]
    pub(crate) pushes_per_second: Option<String>,
    /// Time after which the token expires, such as 90d, or never
    #[arg(long, value_name = "TIME")]
    pub(crate) expires: Option<String>,
    /// Authenticate peers by this name in their client certificate; requires [listen] client_ca. The token's secrets become
    /// invalid. `none` removes the name
    #[arg(long, value_name = "NAME")]
    pub(crate) certificate: Option<String>,
}

#[cfg(feature = "relay")]
#[derive(clap::Args)]
pub(crate) struct TokenFile {
    /// The token file [default: the configured file, else stoker.tokens]
    #[arg(long, value_name = "FILE", conflicts_with = "config")]
    pub(crate) tokens: Option<PathBuf>,
    /// The configuration file with the path of the token file [default: stoker.toml]
    #[arg(short, long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
}

#[derive(Subcommand)]
pub(crate) enum QueuesAction {
    /// Remove a queue that contains no jobs and is named neither in the configuration nor by a worker
    Remove { queue: String },
}

#[derive(clap::Args)]
pub(crate) struct SetArgs {
    pub(crate) queue: String,
    /// The share of the pool's slots, relative to the other queues of the pool
    #[arg(long)]
    pub(crate) weight: Option<u32>,
    /// The guaranteed minimum of slots: while the queue uses fewer, it gets the next free slot
    #[arg(long)]
    pub(crate) reserve: Option<u32>,
    /// Maximum number of the queue's tasks that run at once, or none
    #[arg(long)]
    pub(crate) limit: Option<String>,
    /// Restore the configured settings
    #[arg(long, conflicts_with_all = ["weight", "reserve", "limit"])]
    pub(crate) reset: bool,
    /// Create the queue if it does not exist yet
    #[arg(long)]
    pub(crate) create: bool,
}

#[derive(clap::Args)]
pub(crate) struct ServeArgs {
    /// A worker script (.php, .py, .js) or program with its arguments, instead of a configuration file; or the front
    /// controller (index.php) of a web site
    #[arg(value_name = "WORKER")]
    pub(crate) worker: Vec<String>,
    /// Where to serve the web site of a front controller [default: 127.0.0.1:8080]
    #[arg(long, value_name = "ADDRESS", requires = "worker")]
    pub(crate) listen: Option<String>,
    /// The configuration file [default: stoker.toml, unless a worker is given]
    #[arg(short, long, value_name = "FILE", conflicts_with = "worker")]
    pub(crate) config: Option<PathBuf>,
}

#[derive(clap::Args)]
pub(crate) struct CallArgs {
    /// SERVICE.METHOD
    pub(crate) method: String,
    /// The request as JSON; - reads it from standard input
    #[arg(value_name = "JSON")]
    pub(crate) body: Option<String>,
    /// Priority from 0 (first) to 7 (last)
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u8).range(0..=7))]
    pub(crate) priority: u8,
    /// Allow the call to be retried if its worker dies
    #[arg(long)]
    pub(crate) idempotent: bool,
}

#[derive(clap::Args)]
pub(crate) struct PushArgs {
    pub(crate) queue: String,
    /// The payload as JSON; - reads it from standard input
    #[arg(value_name = "JSON")]
    pub(crate) body: Option<String>,
    /// Number of jobs to push
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=10_000_000))]
    pub(crate) count: u64,
    /// Delay before the job may run, such as 30s or 2h
    #[arg(long, value_name = "TIME")]
    pub(crate) delay: Option<String>,
    /// Priority from 0 (first) to 7 (last)
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u8).range(0..=7))]
    pub(crate) priority: u8,
    /// Fairness key, such as the tenant; keys share the queue fairly
    #[arg(long)]
    pub(crate) key: Option<String>,
    /// Maximum number of attempts, including the first; 0 for no limit [default: the queue's]
    #[arg(long)]
    pub(crate) tries: Option<u16>,
    /// Delays between attempts, such as 1s,5s,1m; the last one repeats [default: the queue's]
    #[arg(long, value_name = "TIMES", value_delimiter = ',')]
    pub(crate) backoff: Vec<String>,
    /// Maximum time of one run of the job [default: the pool's]
    #[arg(long, value_name = "TIME")]
    pub(crate) timeout: Option<String>,
    /// Maximum time to wait for the server, like --timeout of other commands [default: 30s for each answer]
    #[arg(long, value_name = "TIME")]
    pub(crate) wait: Option<String>,
    /// Fail the job if a run times out, instead of retrying it
    #[arg(long)]
    pub(crate) fail_on_timeout: bool,
    /// Retry for at most this time after the push, instead of limiting the number of attempts
    #[arg(long, value_name = "TIME")]
    pub(crate) retry_for: Option<String>,
    /// Maximum number of attempts that end with an exception; releases do not count
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
    /// Idempotency key: a second push with this key returns the id of the first job
    #[arg(long, value_name = "KEY")]
    pub(crate) idempotency: Option<String>,
    /// The job's type, for display and filters
    #[arg(long = "type", value_name = "NAME")]
    pub(crate) kind: Option<String>,
    /// How long to keep the result [default: the queue's]
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
        /// Continue after this job: the `next` value of the previous page of the same list
        #[arg(long, value_name = "ID")]
        after: Option<String>,
        /// List the oldest jobs first
        #[arg(long)]
        oldest: bool,
    },
    /// Count jobs
    Count(Filter),
    /// Show everything about one job: payload, error, result, output, history
    Show {
        id: String,
        /// Show only line N of the job's history, in full, such as the payload before an edit
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
    /// Retry failed or cancelled jobs; their attempts are counted from zero again
    Retry {
        #[command(flatten)]
        which: Which,
        /// Maximum number of retried jobs per second
        #[arg(long, value_name = "RATE", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
        per_second: Option<u32>,
    },
    /// Cancel unfinished jobs, including running ones
    Cancel(Which),
    /// Delete jobs that have ended
    Discard(Which),
    /// Suspend waiting jobs until they are released
    Suspend(Which),
    /// Run delayed, retrying and suspended jobs now
    Release(Which),
    /// Move failed, cancelled and waiting jobs to another queue
    Move {
        #[command(flatten)]
        which: Which,
        /// The target queue
        #[arg(long, value_name = "QUEUE")]
        to: String,
    },
    /// Change the payload of a failed, cancelled, delayed or suspended job; its history keeps the old one
    Edit {
        id: String,
        /// The new payload as JSON; - reads it from standard input
        #[arg(value_name = "JSON")]
        body: String,
    },
    /// Print jobs in the format that `import` reads, one JSON object per line
    Export {
        /// The id of one job
        #[arg(conflicts_with_all = ["queue", "state", "kind", "error", "fingerprint", "key", "older"])]
        id: Option<String>,
        #[command(flatten)]
        filter: Filter,
    },
    /// Push exported jobs that are read from a file or from standard input
    Import {
        #[arg(value_name = "FILE")]
        file: Option<PathBuf>,
    },
}

/// Selects jobs. A job must match every given option.
#[derive(clap::Args, Default)]
pub(crate) struct Filter {
    #[arg(long)]
    pub(crate) queue: Option<String>,
    /// The job's state: ready, running, delayed, retrying, suspended, done, failed or cancelled
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
    /// The job's fairness key, such as the tenant
    #[arg(long)]
    pub(crate) key: Option<String>,
    /// Only jobs that ended (or, if unfinished, were pushed) longer ago than this, such as 2h or 7d
    #[arg(long, value_name = "TIME")]
    pub(crate) older: Option<String>,
}

#[derive(clap::Args)]
pub(crate) struct Which {
    /// The id of one job
    #[arg(conflicts_with_all = ["queue", "state", "kind", "error", "fingerprint", "key", "older", "all"])]
    pub(crate) id: Option<String>,
    #[command(flatten)]
    pub(crate) filter: Filter,
    /// All jobs that the operation can change
    #[arg(long)]
    pub(crate) all: bool,
    /// Only count the jobs, without changing them
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
    /// Check the file and its records for damage. A server may be using the store
    Check(StoreFile),
    /// Write a complete copy. A server may be using the store
    Backup {
        /// The file to write; it must not exist
        to: PathBuf,
        #[command(flatten)]
        file: StoreFile,
    },
    /// Return unused space to the file system. No server may be using the store
    Compact(StoreFile),
}

#[derive(clap::Args)]
pub(crate) struct StoreFile {
    /// The store's file [default: the configured store, else stoker.db]
    #[arg(long, value_name = "FILE")]
    pub(crate) store: Option<PathBuf>,
    /// The configuration file that names the store [default: stoker.toml]
    #[arg(short, long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
}

#[derive(Subcommand)]
pub(crate) enum Quarantine {
    /// List the tasks in quarantine
    List,
    /// Show one task with its payload
    Show { id: String },
    /// Release calls from quarantine, so that they may run again
    Clear {
        /// Only calls of this service
        service: Option<String>,
    },
}
