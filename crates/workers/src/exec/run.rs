//! Runs a task: starts its program, writes the input, reads the output and answers with the outcome.

use super::Handle;
use super::connection::Connection;
use super::output::{Captured, read_output};
use super::program::Program;
use super::task::Task;
use super::verdict::Verdict;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};
use std::io;
use std::process::{Child, ExitStatus};
use std::sync::PoisonError;
use std::sync::atomic::Ordering;
use std::time::Instant;

impl Task {
    pub(super) fn run(&self, program: &Program, handle: &Handle, connection: &Connection) {
        connection.started(self.id);
        let began = Instant::now();
        let verdict = match program.command(self).spawn() {
            Ok(child) => self.wait_for_end(child, handle, connection),
            Err(error) => Verdict::not_started(&error),
        };
        let worked = u32::try_from(began.elapsed().as_micros()).unwrap_or(u32::MAX);
        verdict.answer(self, worked.max(1), connection);
    }

    /// Waits until the program has ended, and kills the processes that it has left behind in its group.
    fn wait_for_end(&self, mut child: Child, handle: &Handle, connection: &Connection) -> Verdict {
        let group = i32::try_from(child.id()).unwrap_or_default();
        handle.set(group);
        if handle.is_cancelled.load(Ordering::SeqCst) {
            handle.kill();
        }
        let captured = read_output(&mut child, &self.body, |lines| {
            connection.log(self.id, lines);
        });
        let ended = wait_and_kill_group(&mut child, handle, group);
        match (captured, ended) {
            (Ok(captured), Ok(status)) => self.verdict_of(&captured, status, handle),
            (Err(error), _) | (_, Err(error)) => Verdict::output_failed(&error),
        }
    }

    fn verdict_of(&self, captured: &Captured, status: ExitStatus, handle: &Handle) -> Verdict {
        if handle.is_cancelled.load(Ordering::SeqCst) {
            return Verdict::cancelled();
        }
        if handle.is_too_large.load(Ordering::SeqCst) {
            return Verdict::too_large();
        }
        Verdict::of(status, captured, self.is_job)
    }
}

/// Waits for the program to exit and kills the rest of its process group. The program is reaped last: until then its process
/// number, which is also the group's number, can't be reused.
fn wait_and_kill_group(child: &mut Child, handle: &Handle, group: i32) -> io::Result<ExitStatus> {
    let ended = wait_for_exit(group);
    handle.set(0);
    kill_group(group);
    let status = child.wait();
    ended.and(status)
}

fn wait_for_exit(pid: i32) -> io::Result<()> {
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

/// Kills a process group. Does nothing for group 0, or if the group has no processes any more.
pub(super) fn kill_group(group: i32) {
    if let Some(group) = Pid::from_raw(group) {
        kill_process_group(group, Signal::KILL).ok();
    }
}
