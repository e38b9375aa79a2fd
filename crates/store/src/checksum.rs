//! Checksums of what is kept: 64 bits that change with any single bit, and with nearly all else.

use xxhash_rust::xxh3::xxh3_64;

/// Of a body as it is pushed, to tell a repeated push from another one with the same key.
pub(crate) fn of_body(body: &[u8]) -> u64 {
    xxh3_64(body)
}

/// A checksum of values in their order.
#[cfg(feature = "sqlite")]
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sum(u64);

#[cfg(feature = "sqlite")]
impl Sum {
    pub(crate) fn new(seed: u64) -> Self {
        Self(mix(seed))
    }

    pub(crate) fn null(&mut self) {
        self.add(0x6e75_6c6c);
    }

    pub(crate) fn number(&mut self, number: i64) {
        self.add(mix(number as u64));
    }

    pub(crate) fn bytes(&mut self, bytes: &[u8]) {
        self.add(xxh3_64(bytes));
    }

    pub(crate) fn finish(self) -> i64 {
        self.0 as i64
    }

    /// One to one in the value as well as in the sum before, so that no single change can be lost.
    fn add(&mut self, part: u64) {
        self.0 = mix(self.0.rotate_left(23) ^ part);
    }
}

/// One to one: an odd factor, and a shift.
#[cfg(feature = "sqlite")]
fn mix(number: u64) -> u64 {
    let product = number
        .wrapping_add(0x9e37_79b9_7f4a_7c15)
        .wrapping_mul(0xd6e8_feb8_6659_fd93);
    product ^ product >> 32
}
