use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

/// A map by the small numbers that a peer chooses. A peer that chooses them badly slows down its own
/// connection, by no more than its bound of unanswered requests.
pub(crate) type IdMap<V> = HashMap<u32, V, BuildHasherDefault<IdHasher>>;

/// One multiplication (Fibonacci hashing, Knuth, TAOCP 6.4).
#[derive(Default)]
pub(crate) struct IdHasher(u64);

impl Hasher for IdHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes
            .iter()
            .for_each(|byte| self.write_u32(u32::from(*byte)));
    }

    fn write_u32(&mut self, id: u32) {
        self.0 = (self.0 ^ u64::from(id)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }
}
