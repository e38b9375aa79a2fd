//! The checksum of a body: 64 bits that change with nearly every change of the body.

use xxhash_rust::xxh3::xxh3_64;

/// The checksum of a pushed body. It distinguishes a repeated push from a different push with the same
/// idempotency key.
pub(crate) fn of_body(body: &[u8]) -> u64 {
    xxh3_64(body)
}
