//! The checksum of a body: 64 bits that change with nearly every change of it.

use xxhash_rust::xxh3::xxh3_64;

/// Of a body as it is pushed, to tell a repeated push from another one with the same key.
pub(crate) fn of_body(body: &[u8]) -> u64 {
    xxh3_64(body)
}
