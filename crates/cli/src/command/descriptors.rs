//! Descriptors that this process has inherited.

use rustix::fd::{FromRawFd, OwnedFd};
use std::env;

/// Takes the descriptors that the angel left open and listed in the environment variable `name`.
pub(crate) fn take_inherited(name: &str) -> Vec<OwnedFd> {
    let numbers = env::var(name).unwrap_or_default();
    let numbers = numbers.split(',').filter_map(|number| number.parse().ok());
    numbers.map(take_descriptor).collect()
}

#[expect(unsafe_code, reason = "a number becomes a descriptor nowhere else")]
pub(super) fn take_descriptor(number: i32) -> OwnedFd {
    // SAFETY: the parent opened this descriptor for this process and passed its number; nothing else here uses it.
    unsafe { OwnedFd::from_raw_fd(number) }
}
