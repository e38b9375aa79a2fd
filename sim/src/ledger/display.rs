//! Formats a job for the message of a broken rule, with all state that the rules depend on.

use super::count::Count;
use super::{End, Job, State};
use std::fmt::{Display, Formatter, Result};

impl Display for Job {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        write!(f, "{{{}, push {:?}", self.state, self.push)?;
        write!(f, ", queues {:?}, {} runs", self.queues, self.runs)?;
        write!(f, ", attempts {}", self.attempts)?;
        write!(f, ", exceptions {}", self.exceptions)?;
        write!(f, ", crashes {}", self.crashes)?;
        let flags = [
            (self.cancel_requested, "to be cancelled"),
            (self.acked, "acknowledged"),
            (self.retried, "retried"),
            (self.displaced, "displaced"),
            (self.changing > 0, "changing"),
            (self.server_died, "server died"),
            (self.is_lost, "lost"),
            (self.may_have_ended, "may have ended"),
            (self.may_run_again, "may run again"),
            (self.may_be_suspended, "may be suspended"),
            (self.may_be_deleted, "may be deleted"),
            (self.may_be_over, "may be over"),
        ];
        for (_, name) in flags.iter().filter(|(is_set, _)| *is_set) {
            write!(f, ", {name}")?;
        }
        write!(f, "}}")
    }
}

impl Display for State {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        f.write_str(match self {
            Self::Waits => "waits",
            Self::Suspended => "suspended",
            Self::Assigned => "assigned",
            Self::Runs => "runs",
            Self::Ended(End::Done) => "done",
            Self::Ended(End::Failed) => "failed",
            Self::Ended(End::Cancelled) => "cancelled",
        })
    }
}

impl Display for Count {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        match self.low == self.high {
            true => write!(f, "{}", self.low),
            false => write!(f, "{} to {}", self.low, self.high),
        }
    }
}
