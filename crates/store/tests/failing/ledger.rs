//! The ledger that a child writes while it uses a store: its requests, their answers, and the faults it
//! found.

use std::cell::RefCell;
use std::collections::BTreeMap;
use stoker_store::State;

/// What must be true of a job when the store is opened again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Expected {
    /// The job was reported to be in this state.
    Is(String),
    /// The job was rejected or deleted.
    Absent,
    /// The job has expired, so it may have been deleted.
    Either,
    /// No answer was received.
    Unknown,
}

/// Writes each line of the ledger at once, because the process may be killed at any time.
pub(crate) struct Ledger {
    is_printed: bool,
    faults: RefCell<Vec<String>>,
}

impl Ledger {
    /// The ledger of a child, whose parent reads it.
    pub(crate) fn reported() -> Self {
        // Ends the line that the test harness has begun.
        println!();
        Self {
            is_printed: true,
            faults: RefCell::default(),
        }
    }

    pub(crate) fn silent() -> Self {
        Self {
            is_printed: false,
            faults: RefCell::default(),
        }
    }

    pub(crate) fn asked(&self, label: &str) {
        self.line(&format!("asked {label}"));
    }

    pub(crate) fn is(&self, label: &str, state: State) {
        self.line(&format!("is {label} {}", state.name()));
    }

    pub(crate) fn absent(&self, label: &str) {
        self.line(&format!("absent {label}"));
    }

    pub(crate) fn either(&self, label: &str) {
        self.line(&format!("either {label}"));
    }

    pub(crate) fn paused(&self, is: bool) {
        self.line(&format!("paused {is}"));
    }

    pub(crate) fn note(&self, text: &str) {
        self.line(&format!("note {}", text.replace('\n', " ")));
    }

    /// Records that the store reported damage. That is allowed if a page can't be read.
    pub(crate) fn damage(&self, text: &str) {
        self.line(&format!("damage {}", text.replace('\n', " ")));
    }

    pub(crate) fn fault(&self, text: &str) {
        self.line(&format!("fault {}", text.replace('\n', " ")));
        self.faults.borrow_mut().push(text.to_owned());
    }

    pub(crate) fn end(&self) {
        self.line("end");
    }

    pub(crate) fn faults(&self) -> Vec<String> {
        self.faults.borrow().clone()
    }

    fn line(&self, text: &str) {
        if self.is_printed {
            println!("> {text}");
        }
    }
}

/// A ledger as its reader parses it.
#[derive(Debug, Default)]
pub(crate) struct Read {
    pub(crate) jobs: BTreeMap<String, Expected>,
    pub(crate) paused: Option<bool>,
    pub(crate) faults: Vec<String>,
    pub(crate) damage: Vec<String>,
    pub(crate) has_ended: bool,
}

impl Read {
    pub(crate) fn of(output: &str) -> Self {
        let mut read = Self::default();
        for line in output.lines().filter_map(|line| line.strip_prefix("> ")) {
            let (verb, rest) = line.split_once(' ').unwrap_or((line, ""));
            read.take(verb, rest);
        }
        read
    }

    fn take(&mut self, verb: &str, rest: &str) {
        let due = match verb {
            "asked" => Expected::Unknown,
            "absent" => Expected::Absent,
            "either" => Expected::Either,
            "is" => {
                let (label, state) = rest.split_once(' ').unwrap();
                self.jobs
                    .insert(label.to_owned(), Expected::Is(state.to_owned()));
                return;
            }
            "paused" => return self.paused = Some(rest == "true"),
            "fault" => return self.faults.push(rest.to_owned()),
            "damage" => return self.damage.push(rest.to_owned()),
            "end" => return self.has_ended = true,
            _ => return,
        };
        self.jobs.insert(rest.to_owned(), due);
    }
}
