//! One task: its program is started, fed and heard, and how it ends is the answer.

use super::Handle;
use super::link::Link;
use super::output::{Heard, hear};
use super::program::Program;
use super::verdict::Verdict;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};
use std::io;
use std::process::{Child, ExitStatus};
use std::sync::PoisonError;
use std::sync::atomic::Ordering;
use std::time::Instant;
use stoker_wire::{Frame, Key};

#[derive(Debug)]
pub(super) struct Task {
    /// On the wire.
    pub(super) id: u32,
    /// That of the queue, or of the method.
    pub(super) name: String,
    /// The id of the job; empty for a call.
    pub(super) label: String,
    pub(super) attempt: u8,
    pub(super) is_job: bool,
    body: Vec<u8>,
}

impl Task {
    pub(super) fn of(frame: &Frame<'_>) -> Self {
        let job = frame.meta.get(Key::JOB_ID);
        Self {
            id: frame.id,
            name: frame.name.to_owned(),
            label: job.map_or(String::new(), hyphenated),
            attempt: frame.attempt,
            is_job: job.is_some(),
            body: frame.body.to_vec(),
        }
    }

    /// A word of the command, with what this task puts in the place of `{name}`, `{id}` and `{body}`.
    pub(super) fn fill(&self, word: &str) -> String {
        if !word.contains('{') {
            return word.to_owned();
        }
        let word = word
            .replace("{name}", &self.name)
            .replace("{id}", &self.label);
        // Last: what the body says stands for itself.
        word.replace("{body}", &String::from_utf8_lossy(&self.body))
    }

    pub(super) fn run(&self, program: &Program, handle: &Handle, link: &Link) {
        link.started(self.id);
        let began = Instant::now();
        let verdict = match program.command(self).spawn() {
            Ok(child) => self.follow(child, handle, link),
            Err(error) => Verdict::not_started(&error),
        };
        let worked = u32::try_from(began.elapsed().as_micros()).unwrap_or(u32::MAX);
        verdict.answer(self, worked.max(1), link);
    }

    /// Until it has ended, and all that it started.
    fn follow(&self, mut child: Child, handle: &Handle, link: &Link) -> Verdict {
        let group = i32::try_from(child.id()).unwrap_or_default();
        handle.set(group);
        if handle.is_cancelled.load(Ordering::SeqCst) {
            handle.kill();
        }
        let heard = hear(&mut child, &self.body, |lines| link.log(self.id, lines));
        let ended = end(&mut child, handle, group);
        match (heard, ended) {
            (Ok(heard), Ok(status)) => self.judge(&heard, status, handle),
            (Err(error), _) | (_, Err(error)) => Verdict::not_followed(&error),
        }
    }

    fn judge(&self, heard: &Heard, status: ExitStatus, handle: &Handle) -> Verdict {
        if handle.is_cancelled.load(Ordering::SeqCst) {
            return Verdict::cancelled();
        }
        Verdict::of(status, heard, self.is_job)
    }
}

/// Waits for the program, and ends what it has left behind. It is reaped last: until then nobody else has its number.
fn end(child: &mut Child, handle: &Handle, group: i32) -> io::Result<ExitStatus> {
    let ended = await_end(group);
    handle.set(0);
    kill_group(group);
    let status = child.wait();
    ended.and(status)
}

fn await_end(pid: i32) -> io::Result<()> {
    let Some(pid) = Pid::from_raw(pid) else {
        return Ok(());
    };
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
    rustix::io::retry_on_intr(|| waitid(WaitId::Pid(pid), options))?;
    Ok(())
}

impl Handle {
    fn set(&self, to: i32) {
        *self.group.lock().unwrap_or_else(PoisonError::into_inner) = to;
    }
}

/// A group that has no process any more is none.
pub(super) fn kill_group(group: i32) {
    if let Some(group) = Pid::from_raw(group) {
        kill_process_group(group, Signal::KILL).ok();
    }
}

/// The id of a job as people write it.
fn hyphenated(id: &[u8]) -> String {
    let hex: String = id.iter().map(|byte| format!("{byte:02x}")).collect();
    match hex.len() {
        32 => [
            &hex[..8],
            &hex[8..12],
            &hex[12..16],
            &hex[16..20],
            &hex[20..],
        ]
        .join("-"),
        _ => String::from_utf8_lossy(id).into_owned(),
    }
}
