//! Metadata of a frame.

use crate::{Key, WireError};

/// Metadata of a frame: a checked sequence of `key, length, bytes` entries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Meta<'a>(&'a [u8]);

impl<'a> Meta<'a> {
    pub const EMPTY: Self = Self(&[]);

    /// Checks a sequence of entries: each entry is complete, no key is reserved or repeated, and
    /// the values of known keys are valid.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, WireError> {
        let mut seen = [0u64; 4];
        let mut rest = bytes;
        while let Some((key, value, tail)) = next(rest)? {
            let (word, bit) = (usize::from(key.0 >> 6), 1u64 << (key.0 & 63));
            if seen[word] & bit != 0 || key.0 == 0 || key.0 == 255 {
                return Err(WireError::BadMeta);
            }
            seen[word] |= bit;
            if !key.accepts(value) {
                return Err(WireError::BadMetaValue(key.0));
            }
            rest = tail;
        }
        Ok(Self(bytes))
    }

    /// All entries in the order of the frame.
    pub fn iter(self) -> impl Iterator<Item = (Key, &'a [u8])> {
        let mut rest = self.0;
        std::iter::from_fn(move || {
            let (key, value, tail) = next(rest).ok()??;
            rest = tail;
            Some((key, value))
        })
    }

    pub fn get(self, wanted: Key) -> Option<&'a [u8]> {
        if self.0.is_empty() {
            return None;
        }
        self.iter()
            .find(|(key, _)| *key == wanted)
            .map(|(_, value)| value)
    }

    /// The integer stored under a key, whatever its width; `None` if the key is absent.
    pub fn uint(self, wanted: Key) -> Option<u64> {
        let value = self.get(wanted)?;
        Some(value.iter().fold(0, |n, byte| n << 8 | u64::from(*byte)))
    }

    pub fn text(self, wanted: Key) -> Option<&'a str> {
        std::str::from_utf8(self.get(wanted)?).ok()
    }

    pub fn bytes(self) -> &'a [u8] {
        self.0
    }

    pub fn is_empty(self) -> bool {
        self.0.is_empty()
    }
}

type Entry<'a> = (Key, &'a [u8], &'a [u8]);

fn next(bytes: &[u8]) -> Result<Option<Entry<'_>>, WireError> {
    let (key, len, rest) = match *bytes {
        [] => return Ok(None),
        [key, 255, high, low, ref rest @ ..] => {
            (key, usize::from(u16::from_be_bytes([high, low])), rest)
        }
        [key, len, ref rest @ ..] if len < 255 => (key, usize::from(len), rest),
        _ => return Err(WireError::BadMeta),
    };
    if rest.len() < len {
        return Err(WireError::BadMeta);
    }
    let (value, tail) = rest.split_at(len);
    Ok(Some((Key(key), value, tail)))
}

/// Metadata under construction. An entry that would exceed the 65,535 bytes of a frame's metadata
/// is rejected, never truncated.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MetaBuf(Vec<u8>);

impl MetaBuf {
    pub fn new() -> Self {
        Self::default()
    }

    pub fn clear(&mut self) {
        self.0.clear();
    }

    /// Appends one entry. Returns false, and appends nothing, if the metadata would become too
    /// long.
    pub fn push(&mut self, key: Key, value: &[u8]) -> bool {
        let Ok(len) = u16::try_from(value.len()) else {
            return false;
        };
        let [high, low] = len.to_be_bytes();
        let long = [key.0, 255, high, low];
        let short = [key.0, low];
        let head = if len < 255 { &short[..] } else { &long[..] };
        if self.0.len() + head.len() + value.len() > usize::from(u16::MAX) {
            return false;
        }
        self.0.extend_from_slice(head);
        self.0.extend_from_slice(value);
        true
    }

    pub fn as_meta(&self) -> Meta<'_> {
        Meta(&self.0)
    }
}
