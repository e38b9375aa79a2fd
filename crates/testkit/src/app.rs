//! A running Stoker in a directory of its own.

use crate::failing::{self, Call, Fault, Place};
use crate::log::Log;
use crate::run::finish;
use crate::{
    Client, Dir, Http, Output, Received, Request, Spawn, limit, matches, procs, run, until,
};
use rustix::fd::OwnedFd;
use rustix::process::Signal;
use serde_json::{Value, json};
use std::ffi::OsString;
use std::net::SocketAddr;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How to start a Stoker.
pub struct Setup {
    stoker: PathBuf,
    dir: Dir,
    args: Vec<String>,
    env: Vec<(String, OsString)>,
    script_before: Option<String>,
    stdin: Option<OwnedFd>,
}

/// A running Stoker in a directory of its own. When it is dropped, it is shut down, and no process that it started may
/// be left.
pub struct App {
    pub dir: Arc<Dir>,
    stoker: PathBuf,
    mark: String,
    child: Option<Child>,
    angel: i32,
    /// Processes below the angel that Stoker did not start, and that may stay.
    allowed_processes: Vec<i32>,
    log: Log,
}

/// How a Stoker ended.
pub struct Ended {
    pub code: i32,
    pub took: Duration,
    pub log: String,
    pub dir: Arc<Dir>,
}

impl Setup {
    pub fn new(stoker: &str) -> Self {
        Self {
            stoker: stoker.into(),
            dir: Dir::new(),
            args: Vec::new(),
            env: Vec::new(),
            script_before: None,
            stdin: None,
        }
    }

    /// The directory in which Stoker will run; tests can put files into it.
    pub fn dir(&self) -> &Dir {
        &self.dir
    }

    #[must_use]
    pub fn env(mut self, name: &str, value: &str) -> Self {
        self.env.push((name.to_owned(), value.into()));
        self
    }

    /// Makes a call on the store's files in the folder [`failing::Place::folder`] fail. Calls are counted from the
    /// moment at which the file [`failing::Place::arm`] exists.
    #[must_use]
    pub fn failing(mut self, call: &Call, fault: Fault) -> Self {
        let place = Place(self.dir.path());
        std::fs::create_dir(place.folder()).expect("the directory is new");
        let env = failing::preload(&place, Some((call, fault))).into_iter();
        self.env
            .extend(env.map(|(name, value)| (name.to_owned(), value)));
        self
    }

    /// Lets a shell run a script first and then become Stoker.
    #[must_use]
    pub fn after(mut self, script: &str) -> Self {
        self.script_before = Some(script.to_owned());
        self
    }

    /// Gives the shell of [`Self::after`] an open descriptor as its standard input.
    #[must_use]
    pub fn stdin(mut self, fd: OwnedFd) -> Self {
        self.stdin = Some(fd);
        self
    }

    /// Runs `stoker serve` with this configuration.
    #[must_use]
    pub fn config(mut self, toml: &str) -> Self {
        self.dir.write("stoker.toml", toml);
        self.args = vec!["serve".to_owned()];
        self
    }

    /// Runs `stoker serve` with these arguments.
    #[must_use]
    pub fn serve(mut self, words: &[&str]) -> Self {
        let words = words.iter().map(|word| (*word).to_owned());
        self.args = std::iter::once("serve".to_owned()).chain(words).collect();
        self
    }

    /// Starts Stoker and waits until its pools have all their workers.
    #[track_caller]
    pub fn start(self) -> App {
        let app = self.launch();
        app.ready();
        app
    }

    /// Starts Stoker and waits until it answers, whatever its workers do.
    #[track_caller]
    pub fn launch(self) -> App {
        let app = self.launch_without_waiting();
        until("the socket", || UnixStream::connect(app.socket()).ok());
        app.client();
        app
    }

    /// Starts Stoker without waiting.
    #[track_caller]
    pub fn launch_without_waiting(self) -> App {
        // All processes that Stoker starts inherit this mark, which identifies leftovers.
        let name = self.dir.path().display();
        let mark = format!("STOKERS_TEST={name}");
        let args: Vec<&str> = self.args.iter().map(String::as_str).collect();
        let spawn = match &self.script_before {
            None => Spawn::new(&self.stoker).args(&args),
            Some(script) => {
                let stoker = self.stoker.display().to_string();
                let script = format!("{script}\nexec \"$0\" \"$@\"");
                let shell = Spawn::new("/bin/sh").args(&["-c", &script, &stoker]);
                shell.args(&args)
            }
        };
        let spawn = spawn
            .env("STOKERS_TEST", name.to_string())
            .within(self.dir.path())
            .stdout(Stdio::null())
            .stderr(Stdio::piped());
        let spawn = match self.stdin {
            Some(fd) => spawn.stdin(fd),
            None => spawn,
        };
        let pairs = self.env.iter();
        let spawn = pairs.fold(spawn, |spawn, (name, value)| spawn.env(name, value));
        let mut child = spawn.start();
        let log = Log::of(child.stderr.take().expect("stderr is a pipe"));
        App {
            angel: child.id() as i32,
            dir: Arc::new(self.dir),
            stoker: self.stoker,
            mark,
            child: Some(child),
            allowed_processes: Vec::new(),
            log,
        }
    }
}

impl App {
    pub fn socket(&self) -> PathBuf {
        self.dir.file("stoker.sock")
    }

    /// The pid of the angel, which is the process that was started.
    pub fn angel(&self) -> i32 {
        self.angel
    }

    /// The pid of the server.
    #[track_caller]
    pub fn server(&self) -> i32 {
        until("a server process", || procs::server_of(self.angel))
    }

    /// The pid of a gateway.
    #[track_caller]
    pub fn gateway(&self, name: &str) -> i32 {
        until("a gateway's process", || {
            procs::gateway_of(self.angel, name)
        })
    }

    /// A connection to the unix socket `http.sock`.
    #[track_caller]
    pub fn http(&self) -> Http {
        Http::unix(&self.dir.file("http.sock")).expect("the angel listens")
    }

    /// The TCP address of the HTTP gateway, as the log reports it.
    #[track_caller]
    pub fn http_address(&self) -> SocketAddr {
        let line = self.wait_for_log("gateway http: listening on http://");
        let (_, rest) = line.split_once("http://").expect("the line has an address");
        let address = rest.split([',', ' ']).next().unwrap_or_default();
        address.parse().expect("an address")
    }

    /// The address of the site gateway's listener with this position in the configuration, as the log reports it.
    #[track_caller]
    pub fn site_address(&self, position: usize) -> SocketAddr {
        let line = self.wait_for_log("gateway sites: listening on http");
        let mut addresses = line.split("://").skip(1 + position);
        let rest = addresses.next().expect("the line has enough addresses");
        let address = rest.split([',', ' ']).next().unwrap_or_default();
        address.parse().expect("an address")
    }

    /// The address of the gateway for other machines, as the log reports it.
    #[track_caller]
    pub fn relay_address(&self) -> SocketAddr {
        let line = self.wait_for_log("gateway relay: listening on ");
        let (_, rest) = line.split_once("://").expect("the line has an address");
        let address = rest.split([',', ' ']).next().unwrap_or_default();
        address.parse().expect("an address")
    }

    /// All processes of this Stoker.
    pub fn processes(&self) -> Vec<i32> {
        procs::marked(&self.mark)
    }

    #[track_caller]
    pub fn client(&self) -> Client {
        Client::connect(&self.socket())
    }

    /// Makes one call on a connection of its own.
    #[track_caller]
    pub fn call(&self, name: &str, body: &str) -> Received {
        self.client().request(&Request::call(name, body))
    }

    /// Runs a command of `stoker` against this server.
    #[track_caller]
    pub fn cli(&self, args: &[&str]) -> Output {
        let socket = self.socket();
        let spawn = Spawn::new(&self.stoker).args(args).within(self.dir.path());
        run(spawn.env("STOKER_SOCKET", socket))
    }

    /// Runs a command of `stoker` in the directory of this server, with these environment variables only.
    #[track_caller]
    pub fn cli_with(&self, env: &[(&str, &str)], args: &[&str]) -> Output {
        let spawn = Spawn::new(&self.stoker).args(args).within(self.dir.path());
        let spawn = env
            .iter()
            .fold(spawn, |spawn, (name, value)| spawn.env(name, value));
        run(spawn)
    }

    /// The answer of `stoker.worker list`.
    #[track_caller]
    pub fn state(&self) -> Value {
        self.client()
            .call_server("stoker.worker", &json!({"op": "list"}))
    }

    /// The workers that take tasks.
    #[track_caller]
    pub fn workers(&self) -> Vec<Value> {
        let all = self.state()["workers"]
            .as_array()
            .cloned()
            .unwrap_or_default();
        let live = |worker: &Value| worker["state"] == "ready" || worker["state"] == "busy";
        all.into_iter().filter(live).collect()
    }

    #[track_caller]
    pub fn pids(&self) -> Vec<i32> {
        let workers = self.workers();
        let pids = workers.iter().filter_map(|worker| worker["pid"].as_i64());
        pids.map(|pid| pid as i32).collect()
    }

    /// The first pool.
    #[track_caller]
    pub fn pool(&self) -> Value {
        self.state()["pools"][0].clone()
    }

    /// Waits until every pool has its minimum of workers.
    #[track_caller]
    pub fn ready(&self) {
        until("all workers are ready", || {
            let state = self.state();
            let number = |value: &Value| value.as_u64().unwrap_or(0);
            let full = |pool: &Value| {
                number(&pool["ready"]) + number(&pool["busy"]) >= number(&pool["min"])
            };
            state["pools"].as_array()?.iter().all(full).then_some(())
        });
    }

    /// The log so far.
    pub fn log(&self) -> String {
        self.log.text()
    }

    /// Returns a function that counts the bytes logged so far.
    pub fn log_counter(&self) -> impl Fn() -> usize + Send + 'static {
        self.log.counter()
    }

    /// Waits for a log line that matches a pattern (see [`matches`]), and returns it.
    #[track_caller]
    pub fn wait_for_log(&self, pattern: &str) -> String {
        self.wait_for_log_after(0, pattern)
    }

    /// Like [`Self::wait_for_log`], in the log after its first `from` bytes.
    #[track_caller]
    pub fn wait_for_log_after(&self, from: usize, pattern: &str) -> String {
        let find = |log: &str| {
            let whole = log.rsplit_once('\n')?.0;
            let found = whole.lines().find(|line| matches(line, pattern));
            found.map(str::to_owned)
        };
        let found = self.log.wait(from, find);
        found.unwrap_or_else(|| panic!("no line of the log is like: {pattern}"))
    }

    /// Allows a process to stay that is below the angel but does not belong to Stoker.
    pub fn allow_process(&mut self, pid: i32) {
        self.allowed_processes.push(pid);
    }

    /// Sends TERM to the angel, as an operator does.
    pub fn term(&self) {
        procs::signal(self.angel, Signal::TERM);
    }

    /// Waits until Stoker has ended, and checks that it left no process.
    #[track_caller]
    pub fn wait_for_exit(mut self) -> Ended {
        self.finish()
    }

    /// Sends TERM and waits until Stoker has ended.
    #[track_caller]
    pub fn stop(self) -> Ended {
        self.term();
        self.wait_for_exit()
    }

    #[track_caller]
    fn finish(&mut self) -> Ended {
        let began = Instant::now();
        // Also counts processes without the mark: everything that is below the angel now must be gone as well.
        let below = procs::tree(self.angel);
        let child = self.child.take().expect("it ends once");
        let code = finish(child, 20.0).expect("it ends when it is told to");
        let took = began.elapsed();
        // After a killed angel has been reaped, its server may still be cleaning up.
        let end = Instant::now() + limit(2.0);
        let is_left = |pid: &i32| procs::is_alive(*pid) && !self.allowed_processes.contains(pid);
        while self.processes().iter().chain(&below).any(is_left) && Instant::now() < end {
            crate::pause(Duration::from_millis(3));
        }
        let left: Vec<String> = self
            .processes()
            .into_iter()
            .chain(below)
            .filter(is_left)
            .map(procs::command)
            .collect();
        assert!(left.is_empty(), "processes are left over: {left:?}");
        self.log.wait_for_end();
        let log = self.log.text();
        let dir = self.dir.clone();
        Ended {
            code,
            took,
            log,
            dir,
        }
    }
}

impl Drop for App {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let processes = self.processes();
            processes.into_iter().for_each(procs::kill);
            self.child.take().map(|mut child| child.wait().ok());
            let (dir, log) = (self.dir.path().display(), self.log.text());
            let lines: Vec<&str> = log.lines().rev().take(200).collect();
            eprintln!("--- end of the log of Stoker in {dir}");
            lines.iter().rev().for_each(|line| eprintln!("{line:.500}"));
            eprintln!("---");
        } else if self.child.is_some() {
            self.term();
            let ended = self.finish();
            assert_eq!(ended.code, 0, "it ends well: {}", ended.log);
        }
    }
}

/// The root directory of this repository.
pub fn repository() -> &'static Path {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent();
    crates
        .and_then(Path::parent)
        .expect("crates/testkit is two levels deep")
}
