//! Starts a child for each call that is to fail, several at a time.

use crate::ledger::Read;
use crate::verdict;
use std::fs::{self, File};
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use stoker_testkit::failing::{self, Call, Fault, Place};
use stoker_testkit::{Dir, Spawn, procs};

/// How long one run may take, seconds.
const TIMEOUT_S: f64 = 60.0;

/// The number of children that run at once. They spend most of their time waiting for the store's next
/// attempt.
const MAX_CHILDREN: usize = 12;

/// The name of a child's script.
#[derive(Clone, Copy)]
pub(crate) struct Script(pub(crate) &'static str);

/// The result of a run.
pub(crate) struct Outcome {
    /// Whether the call that was to fail was made.
    pub(crate) is_reached: bool,
    pub(crate) faults: Vec<String>,
    pub(crate) calls: Vec<Call>,
    pub(crate) output: String,
}

impl Script {
    /// Runs the script once in a directory.
    pub(crate) fn run(self, dir: &Path, failing: Option<(&Call, Fault)>) -> Outcome {
        let place = Place(dir);
        fs::create_dir(place.folder()).unwrap();
        let (output, mut faults) = self.child(&place, failing);
        let ledger = Read::of(&output);
        if !ledger.has_ended {
            faults.push("the script did not finish".to_owned());
        }
        let of_reads = failing.is_some_and(|(call, _)| call.reads());
        faults.extend(verdict::faults(&place, &ledger));
        if !of_reads {
            faults.extend(ledger.damage);
        }
        let report = fs::read_to_string(place.report()).unwrap_or_default();
        let fails = |line: &str| line.starts_with("fails ") || line.starts_with("short ");
        Outcome {
            is_reached: report.lines().any(fails),
            faults,
            calls: report.lines().filter_map(Call::of_line).collect(),
            output,
        }
    }

    /// Runs a child. Returns its output and the faults in how it ended.
    fn child(self, place: &Place<'_>, failing: Option<(&Call, Fault)>) -> (String, Vec<String>) {
        let (out, err) = (place.0.join("out"), place.0.join("err"));
        let spawn = Spawn::new(std::env::current_exe().unwrap())
            .args(&["child::child", "--exact", "--ignored", "--nocapture"])
            .env("FAILING_SCRIPT", self.0)
            .env("FAILING_PLACE", place.0);
        let env = failing::preload(place, failing).into_iter();
        let spawn = env.fold(spawn, |spawn, (name, value)| spawn.env(name, value));
        let files = [&out, &err].map(|path| File::create(path).unwrap());
        let [to_out, to_err] = files;
        let mut child = spawn.stdout(to_out).stderr(to_err).start();
        let mut faults = Vec::new();
        if !procs::wait_for_exit(child.id() as i32, TIMEOUT_S) {
            faults.push("it hangs".to_owned());
            child.kill().ok();
        }
        let status = child.wait().unwrap();
        if !status.success() {
            faults.push(format!("it ended with {status}"));
        }
        let [out, err] = [out, err].map(|path| fs::read_to_string(path).unwrap_or_default());
        let panics = err.lines().skip_while(|line| !line.contains("panicked at"));
        faults.extend(panics.take(2).map(str::to_owned));
        (out, faults)
    }
}

/// The number of runs, and the faults that they found.
#[derive(Default)]
pub(crate) struct Summary {
    pub(crate) runs: usize,
    pub(crate) not_reached: usize,
    pub(crate) faults: Vec<String>,
}

/// Lets each of these calls fail, in a separate run.
pub(crate) fn all(script: Script, failing: &[(Call, Fault)]) -> Summary {
    let (next, summary) = (AtomicUsize::new(0), Mutex::new(Summary::default()));
    std::thread::scope(|scope| {
        for _ in 0..MAX_CHILDREN {
            scope.spawn(|| {
                while let Some((call, fault)) = failing.get(next.fetch_add(1, Ordering::Relaxed)) {
                    one(script, call, *fault, &summary);
                }
            });
        }
    });
    summary.into_inner().unwrap()
}

fn one(script: Script, call: &Call, fault: Fault, summary: &Mutex<Summary>) {
    let dir = Dir::new();
    let outcome = script.run(dir.path(), Some((call, fault)));
    let mut summary = summary.lock().unwrap();
    summary.runs += 1;
    summary.not_reached += usize::from(!outcome.is_reached);
    if outcome.faults.is_empty() {
        return;
    }
    let at = format!("{}: {call}: {}", script.0, fault.name);
    let faults = outcome.faults.iter().map(|fault| format!("{at}: {fault}"));
    summary.faults.extend(faults);
    summary
        .faults
        .push(format!("{at}: see {}", dir.path().display()));
    // The directory is kept for debugging.
    std::mem::forget(dir);
}
