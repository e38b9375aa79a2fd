//! Converts the outcome of a program into an answer.

use crate::adapter::{Answer, Captured, EX_TEMPFAIL, result_of};
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use stoker_wire::Status;

pub(super) fn of(
    status: ExitStatus,
    captured: &Captured<impl FnMut(&[u8])>,
    is_job: bool,
) -> Answer {
    match (status.code(), status.signal()) {
        (Some(0), _) => result_of(is_job, &captured.result, captured.len),
        // Only jobs can be retried: for a call, this exit code is an error.
        (Some(EX_TEMPFAIL), _) if is_job => {
            Answer::new(Status::RETRY, captured.error_text.append_to("exit code 75"))
        }
        (Some(code), _) => {
            Answer::exception(captured.error_text.append_to(&format!("exit code {code}")))
        }
        (None, signal) => Answer::crashed(signal, captured.error_text.append_to("")),
    }
}
