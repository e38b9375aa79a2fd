//! Converts the outcome of a program into an answer.

use crate::adapter::{Answer, Captured};
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use stoker_wire::Status;

/// Maximum size of a result, in bytes.
pub(super) const MAX_RESULT: usize = 8 << 20;
/// `EX_TEMPFAIL` of sysexits.h: a temporary failure. The job is retried later.
const EX_TEMPFAIL: i32 = 75;
/// Maximum size of a job's result, in bytes. A longer result is dropped.
const MAX_KEPT_RESULT: usize = 64 << 10;

pub(super) fn of(
    status: ExitStatus,
    captured: &Captured<impl FnMut(&[u8])>,
    is_job: bool,
) -> Answer {
    match (status.code(), status.signal()) {
        (Some(0), _) => done(captured, is_job),
        // Only jobs can be retried: for a call, this exit code is an error.
        (Some(EX_TEMPFAIL), _) if is_job => {
            Answer::new(Status::RETRY, captured.error_text.after("exit code 75"))
        }
        (Some(code), _) => {
            Answer::exception(captured.error_text.after(&format!("exit code {code}")))
        }
        (None, signal) => Answer::crashed(signal, captured.error_text.after("")),
    }
}

fn done(captured: &Captured<impl FnMut(&[u8])>, is_job: bool) -> Answer {
    if !is_job && captured.len > MAX_RESULT {
        return Answer::exception(format!(
            "its output has {} bytes, but at most {MAX_RESULT} are allowed",
            captured.len
        ));
    }
    // A job whose result is too long still counts as done, because failing it would repeat the work.
    let is_kept = !is_job || captured.len <= MAX_KEPT_RESULT;
    Answer::new(Status::OK, if is_kept { &captured.result[..] } else { &[] })
}
