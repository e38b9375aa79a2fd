//! What a child wrote down while it worked with a store: what it asked, what it was told, and what it found wrong.

use std::cell::RefCell;
use std::collections::BTreeMap;
use stoker_store::State;

/// What is to be true of a job when the store is opened again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Due {
    /// It was told so.
    Is(String),
    /// It was refused, or forgotten as was asked.
    Absent,
    /// It may have been forgotten: its time is over.
    Either,
    /// No answer came.
    Unknown,
}

/// Writes a line of the ledger at once, or the end of the process could take it.
pub(crate) struct Ledger {
    is_told: bool,
    faults: RefCell<Vec<String>>,
}

impl Ledger {
    /// Of a child: its parent reads it.
    pub(crate) fn reported() -> Self {
        // The test's harness has not ended its line.
        println!();
        Self {
            is_told: true,
            faults: RefCell::default(),
        }
    }

    pub(crate) fn silent() -> Self {
        Self {
            is_told: false,
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

    /// It was told that something is damaged. A page that can't be read may be.
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
        if self.is_told {
            println!("> {text}");
        }
    }
}

/// The ledger as its reader has it.
#[derive(Debug, Default)]
pub(crate) struct Read {
    pub(crate) jobs: BTreeMap<String, Due>,
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
            "asked" => Due::Unknown,
            "absent" => Due::Absent,
            "either" => Due::Either,
            "is" => {
                let (label, state) = rest.split_once(' ').unwrap();
                self.jobs
                    .insert(label.to_owned(), Due::Is(state.to_owned()));
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
