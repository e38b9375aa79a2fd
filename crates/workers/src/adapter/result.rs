//! The result of a task whose program has succeeded.

use super::Answer;
use stoker_wire::Status;

/// Maximum size of a result, in bytes.
pub(crate) const MAX_RESULT: usize = 8 << 20;
/// `EX_TEMPFAIL` of sysexits.h: the exit code of a temporary failure. The job is retried later.
pub(crate) const EX_TEMPFAIL: i32 = 75;
/// Maximum size of a job's result, in bytes. A longer result is dropped.
const MAX_KEPT_RESULT: usize = 64 << 10;

/// The answer with a result of `len` bytes, of which `bytes` were kept: all of them up to [`MAX_RESULT`].
pub(crate) fn result_of(is_job: bool, bytes: &[u8], len: usize) -> Answer {
    if !is_job && len > MAX_RESULT {
        let text = format!("its output has {len} bytes, but at most {MAX_RESULT} are allowed");
        return Answer::exception(text);
    }
    // A job whose result is too long still counts as done, because failing it would repeat the work.
    let is_kept = !is_job || len <= MAX_KEPT_RESULT;
    Answer::new(Status::OK, if is_kept { bytes } else { &[] })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_is_done_whatever_the_size_of_its_result() {
        let result = vec![b'x'; MAX_KEPT_RESULT + 1];
        let kept = result_of(true, &result[1..], MAX_KEPT_RESULT);
        assert_eq!((kept.status, kept.body.len()), (Status::OK, 64 << 10));
        let dropped = result_of(true, &result, result.len());
        assert_eq!((dropped.status, dropped.body.len()), (Status::OK, 0));
    }

    #[test]
    fn a_call_whose_result_is_too_large_fails() {
        assert_eq!(result_of(false, b"hi", 2).body, b"hi");
        let failed = result_of(false, b"hi", MAX_RESULT + 1);
        assert_eq!(failed.status, Status::EXCEPTION);
    }
}
