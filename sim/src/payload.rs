//! A job's payload: the job's number, which identifies it wherever it arrives, the version of the payload, and
//! padding.

use crate::setup::Setup;

/// The length of a large result.
const LARGE_RESULT: usize = 900;

/// A job's payload.
pub(crate) fn body(no: u64, version: u32, len: usize) -> Vec<u8> {
    let mut body = format!("{no}.{version}.").into_bytes();
    let filling = (0..).map(|at: u64| b'a' + ((no + at) % 23) as u8);
    let rest = len.saturating_sub(body.len());
    body.extend(filling.take(rest));
    body
}

/// The result of a task. Some results are large where memory is short.
pub(crate) fn result(no: u64, setup: &Setup) -> Vec<u8> {
    match setup.has_little_memory() && no.is_multiple_of(3) {
        true => body(no, 0, LARGE_RESULT),
        false => format!("{no}.").into_bytes(),
    }
}

/// The number in a payload.
pub(crate) fn number(body: &[u8]) -> Option<u64> {
    let text = std::str::from_utf8(body).ok()?;
    text.split('.').next()?.parse().ok()
}
