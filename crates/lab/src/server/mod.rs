//! Servers that run while they are measured.

mod child;
mod lamp;
mod stoker;

pub(crate) use child::end_all;

use crate::application::Application;
use crate::error::Error;
use crate::http::Target;
use crate::interrupt::Interrupt;
use crate::way::Way;
use child::Child;
use std::path::Path;
use std::time::{Duration, Instant};

/// How long a server may take to get ready.
const BOOT_TIMEOUT: Duration = Duration::from_secs(60);
/// How many lines of its log explain why a server could not be measured.
const LAST_LINES: usize = 8;

/// Why a server could not be measured.
#[derive(Debug)]
pub(crate) struct Broken {
    pub(crate) reason: String,
    /// The end of its log.
    pub(crate) log: Vec<String>,
}

/// What stops a single measurement, or all.
#[derive(Debug)]
pub(crate) enum Stop {
    Broken(Broken),
    All(Error),
}

impl From<Error> for Stop {
    fn from(error: Error) -> Self {
        Self::All(error)
    }
}

impl From<std::io::Error> for Stop {
    fn from(error: std::io::Error) -> Self {
        Self::All(error.into())
    }
}

/// A server that is ready. Its processes are stopped when it is dropped.
#[derive(Debug)]
pub(crate) struct Server {
    /// The first one answers requests, and each has been started by the lab.
    children: Vec<Child>,
    pub(crate) target: Target,
    /// When its first process was started.
    pub(crate) start: Instant,
}

impl Server {
    /// Starts the application this way, with `workers` tasks at once. `folder` is for the server alone.
    pub(crate) fn start(
        way: Way,
        application: &Application,
        folder: &Path,
        workers: u32,
        interrupt: &Interrupt,
    ) -> Result<Self, Stop> {
        match way {
            Way::Strategy { strategy, auto } => {
                stoker::start(strategy, auto, application, folder, workers, interrupt)
            }
            Way::Lamp => lamp::start(application, folder, workers, interrupt),
        }
    }

    /// The processes that the lab has started.
    pub(crate) fn roots(&self) -> Vec<i32> {
        self.children.iter().map(Child::pid).collect()
    }

    /// Explains a failure with the end of the server's log.
    pub(crate) fn broken(&self, reason: impl Into<String>) -> Stop {
        broken(&self.children, reason)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.children.iter_mut().for_each(Child::stop);
        end_all();
    }
}

fn broken(children: &[Child], reason: impl Into<String>) -> Stop {
    Stop::Broken(Broken {
        reason: reason.into(),
        log: children
            .iter()
            .flat_map(|child| child.last_lines(LAST_LINES))
            .collect(),
    })
}
