//! Starting processes for tests.

use crate::{Dir, procs};
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// How to start a process. The process inherits none of Stoker's environment variables.
pub struct Spawn(Command);

impl Spawn {
    #[expect(
        clippy::disallowed_methods,
        reason = "the one place where tests start processes"
    )]
    pub fn new(program: impl AsRef<Path>) -> Self {
        let mut command = Command::new(program.as_ref());
        let stoker = std::env::vars_os().filter(|(name, _)| {
            let name = name.to_string_lossy();
            name.starts_with("STOKER_") && name != "STOKER_PATIENCE"
        });
        for (name, _) in stoker {
            command.env_remove(name);
        }
        command.stdin(Stdio::null());
        Self(command)
    }

    #[must_use]
    pub fn args(mut self, args: &[&str]) -> Self {
        self.0.args(args);
        self
    }

    #[must_use]
    pub fn env(mut self, name: &str, value: impl AsRef<std::ffi::OsStr>) -> Self {
        self.0.env(name, value);
        self
    }

    #[must_use]
    pub fn within(mut self, dir: &Path) -> Self {
        self.0.current_dir(dir);
        self
    }

    #[must_use]
    pub fn stdin(mut self, from: impl Into<Stdio>) -> Self {
        self.0.stdin(from);
        self
    }

    #[must_use]
    pub fn stdout(mut self, to: impl Into<Stdio>) -> Self {
        self.0.stdout(to);
        self
    }

    #[must_use]
    pub fn stderr(mut self, to: impl Into<Stdio>) -> Self {
        self.0.stderr(to);
        self
    }

    #[track_caller]
    pub fn start(mut self) -> Child {
        let started = self.0.spawn();
        started.unwrap_or_else(|error| panic!("cannot start {:?}: {error}", self.0))
    }
}

/// The result of a process that has ended.
#[derive(Debug)]
pub struct Output {
    /// The exit code, or 128 plus the signal that ended the process.
    pub code: i32,
    pub stdout: String,
    pub stderr: String,
}

/// Runs a process to its end, and kills it if it takes too long.
#[track_caller]
pub fn run(spawn: Spawn) -> Output {
    let dir = Dir::new();
    let (out, err) = (dir.file("out"), dir.file("err"));
    let open = |path: &PathBuf| File::create(path).expect("a file can be created");
    let child = spawn.stdout(open(&out)).stderr(open(&err)).start();
    let code = finish(child, 30.0);
    let read = |path| String::from_utf8_lossy(&fs::read(path).unwrap_or_default()).into_owned();
    let (stdout, stderr) = (read(out), read(err));
    let code = code.unwrap_or_else(|| panic!("it did not end: {stdout}\n{stderr}"));
    Output {
        code,
        stdout,
        stderr,
    }
}

/// Waits for a child's end; returns `None` if it had to be killed.
pub(crate) fn finish(mut child: Child, seconds: f64) -> Option<i32> {
    use std::os::unix::process::ExitStatusExt;
    let in_time = procs::wait_for_exit(child.id() as i32, seconds);
    if !in_time {
        child.kill().ok();
    }
    let status = child.wait().ok()?;
    let by_signal = || 128 + status.signal().unwrap_or(0);
    in_time.then(|| status.code().unwrap_or_else(by_signal))
}

/// The program `bad-worker`, which Cargo puts beside the tests.
#[track_caller]
pub fn bad_worker() -> PathBuf {
    beside_tests("bad-worker")
}

/// A program of this workspace, which Cargo puts beside the tests.
#[track_caller]
pub fn beside_tests(name: &str) -> PathBuf {
    let tests = std::env::current_exe().expect("a test knows its own path");
    let beside = tests.ancestors().map(|dir| dir.join(name));
    let found = beside.into_iter().take(4).find(|path| path.is_file());
    found.unwrap_or_else(|| panic!("{name} is not built: run `cargo build --workspace` first"))
}

/// A configuration with one pool `p` of bad-workers that run this script. `rest` begins with keys of the pool; sections
/// may follow.
pub fn pool_of(script: &str, rest: impl std::fmt::Display) -> String {
    let program = bad_worker();
    format!("[pool.p]\ncommand = [{program:?}, {script:?}]\n{rest}\n")
}
