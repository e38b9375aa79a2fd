//! Draws which unsynced changes survive a power cut.

use super::content::Change;
use stoker_core::Rng;

/// The number of bytes that a disk writes either completely or not at all.
const SECTOR: u64 = 512;

#[derive(Clone, Copy)]
enum Survivors {
    None,
    /// The first changes, as if everything was written in order.
    Prefix(usize),
    /// Some changes, because the page cache is written in any order.
    Some,
    /// Some sectors of some changes.
    Sectors,
}

impl Survivors {
    fn draw(count: usize, rng: &mut Rng) -> Self {
        match rng.below(4) {
            0 => Self::None,
            1 => Self::Prefix(rng.below(count as u64 + 1) as usize),
            2 => Self::Some,
            _ => Self::Sectors,
        }
    }

    fn keeps(self, at: usize, rng: &mut Rng) -> bool {
        match self {
            Self::None => false,
            Self::Prefix(count) => at < count,
            Self::Some | Self::Sectors => rng.below(2) == 0,
        }
    }
}

/// Draws which changes of a folder survive.
pub(super) fn names<T: Clone>(changes: &[T], rng: &mut Rng) -> Vec<T> {
    let survivors = Survivors::draw(changes.len(), rng);
    let kept = |(at, change): (usize, &T)| survivors.keeps(at, rng).then(|| change.clone());
    changes.iter().enumerate().filter_map(kept).collect()
}

/// Draws which changes of a file survive.
pub(super) fn content(changes: &[Change], rng: &mut Rng) -> Vec<Change> {
    let survivors = Survivors::draw(changes.len(), rng);
    let mut kept = Vec::new();
    // Lengths are metadata, which the file system's journal keeps in order: if one is lost, so are later ones, together
    // with everything that was written beyond it.
    let mut limit = u64::MAX;
    for (at, change) in changes.iter().enumerate() {
        match change {
            Change::Length(len) if limit == u64::MAX && survivors.keeps(at, rng) => {
                kept.push(Change::Length(*len));
            }
            Change::Length(len) => limit = limit.min(*len),
            Change::Write { at: start, bytes } => match survivors {
                Survivors::Sectors => keep_some_sectors(*start, bytes, limit, rng, &mut kept),
                _ if survivors.keeps(at, rng) => keep(*start, bytes, limit, &mut kept),
                _ => {}
            },
        }
    }
    kept
}

fn keep_some_sectors(start: u64, bytes: &[u8], limit: u64, rng: &mut Rng, kept: &mut Vec<Change>) {
    let end = start + bytes.len() as u64;
    let mut at = start;
    while at < end {
        let next = end.min((at / SECTOR + 1) * SECTOR);
        if rng.below(2) == 0 {
            let sector = &bytes[(at - start) as usize..(next - start) as usize];
            keep(at, sector, limit, kept);
        }
        at = next;
    }
}

fn keep(at: u64, bytes: &[u8], limit: u64, kept: &mut Vec<Change>) {
    let room = limit.saturating_sub(at).min(bytes.len() as u64);
    if room > 0 {
        let bytes = bytes[..room as usize].to_vec();
        kept.push(Change::Write { at, bytes });
    }
}
