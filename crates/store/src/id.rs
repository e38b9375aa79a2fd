//! Job numbers, and the UUIDs that users see.

use std::collections::HashMap;
use std::fmt;
use std::hash::{BuildHasherDefault, Hasher};
use uuid::Uuid;

/// A job's number in its store: the millisecond in which it was created and a count within that millisecond.
/// So numbers sort by age, and new rows are appended to the table. Users see the number as a UUIDv7 (see
/// [`Ids::uuid`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct JobId(pub u64);

/// The bits of a job's number that hold the count within a millisecond.
const COUNT_BITS: u32 = 15;

/// A hash map with job numbers as keys.
pub(crate) type JobMap<V> = HashMap<JobId, V, BuildHasherDefault<JobHasher>>;

/// Hashes with one multiplication, because job numbers are distributed well enough. The wire crate has the
/// same hasher for its ids, but the store does not depend on that crate.
#[derive(Default)]
pub(crate) struct JobHasher(u64);

impl Hasher for JobHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes
            .iter()
            .for_each(|byte| self.write_u64(u64::from(*byte)));
    }

    fn write_u64(&mut self, id: u64) {
        self.0 = (self.0 ^ id).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }
}

impl JobId {
    /// When the job was created, Unix milliseconds.
    #[must_use]
    pub fn created_ms(self) -> u64 {
        self.0 >> COUNT_BITS
    }
}

/// Order numbers for jobs that come after every job created up to the end of this millisecond. They are the
/// upper half of its range; `Ids::make` gives out numbers from the lower half.
pub(crate) fn places_after(ms: u64) -> std::ops::Range<u64> {
    let end = (ms + 1) << COUNT_BITS;
    end - (1 << (COUNT_BITS - 1))..end
}

/// Creates job numbers, and converts them to UUIDs (version 7, RFC 9562) and back.
///
/// 63 bits of a UUID are the number; the other 59 are a keyed hash of it. So UUIDs need no index of their
/// own, and the id of a job in another store is recognised as foreign instead of naming some other job.
#[derive(Clone, Debug)]
pub struct Ids {
    secret: u64,
    last: u64,
}

impl Ids {
    /// `last` is the highest number given out so far.
    #[must_use]
    pub fn new(secret: u64, last: u64) -> Self {
        Self { secret, last }
    }

    /// Returns a number above all earlier ones, even if the clock was set back.
    pub fn make(&mut self, now_ms: u64) -> JobId {
        self.last = (now_ms << COUNT_BITS).max(self.last + 1);
        JobId(self.last)
    }

    /// The highest number given out so far.
    #[must_use]
    pub fn last(&self) -> u64 {
        self.last
    }

    #[must_use]
    pub fn uuid(&self, id: JobId) -> Uuid {
        let count = id.0 & ((1 << COUNT_BITS) - 1);
        let high = id.created_ms() << 16 | 0x7000 | count >> 3;
        let low = 0b10 << 62 | (count & 0b111) << 59 | mix(id.0 ^ self.secret) >> 5;
        Uuid::from_u64_pair(high, low)
    }

    /// The job number in a UUID, if this store created the UUID.
    #[must_use]
    pub fn number(&self, uuid: Uuid) -> Option<JobId> {
        let (high, low) = uuid.as_u64_pair();
        let count = (high & 0xfff) << 3 | low >> 59 & 0b111;
        let id = JobId((high >> 16) << COUNT_BITS | count);
        (self.uuid(id) == uuid).then_some(id)
    }
}

/// The finalizer of splitmix64 (Steele, Lea and Flood, 2014): flipping one input bit changes about half of
/// the output bits.
fn mix(value: u64) -> u64 {
    let value = (value ^ value >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let value = (value ^ value >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ value >> 31
}

impl fmt::Display for JobId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_survives_conversion_to_a_uuid() {
        let mut ids = Ids::new(42, 0);
        for now in [1, 1_700_000_000_000, 1_700_000_000_000, 3, (1 << 48) - 1] {
            let id = ids.make(now);
            let uuid = ids.uuid(id);
            assert_eq!(uuid.get_version_num(), 7);
            assert_eq!(uuid.get_variant(), uuid::Variant::RFC4122);
            assert_eq!(ids.number(uuid), Some(id));
            assert_eq!(Ids::new(43, 0).number(uuid), None, "another store's id");
        }
    }

    #[test]
    fn numbers_and_their_uuids_sort_by_age() {
        let mut ids = Ids::new(7, 0);
        let made: Vec<JobId> = (0..100_000).map(|n| ids.make(1_000 + n / 50_000)).collect();
        assert!(made.is_sorted_by(|one, other| one < other));
        let uuids: Vec<Uuid> = made.iter().map(|id| ids.uuid(*id)).collect();
        assert!(uuids.is_sorted_by(|one, other| one < other));
    }
}
