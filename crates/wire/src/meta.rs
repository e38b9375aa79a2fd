use crate::WireError;

/// A metadata key. Constants name the keys of the protocol page; others pass through untouched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Key(pub u8);

named! { Key {
    TRACEPARENT = 1 "traceparent",
    TRACESTATE = 2 "tracestate",
    BAGGAGE = 3 "baggage",
    AFFINITY = 4 "affinity key",
    FAIRNESS = 5 "fairness key",
    IDEMPOTENCY = 6 "idempotency key",
    CALLER = 7 "caller",
    TOKEN = 8 "token",
    PIN = 9 "pin",
    PARENT = 10 "parent",
    RETRY_AFTER = 11 "retry after",
    QUEUE_TIME = 12 "queue time",
    WORKER = 13 "worker",
    ERROR_CLASS = 14 "error class",
    DEADLINE_ORIGIN = 15 "deadline origin",
    JOB_ID = 16 "job id",
    DELAY = 17 "delay",
    UNIQUE = 18 "unique key",
    TRIES = 19 "tries",
    BACKOFF = 20 "backoff",
    COST = 21 "cost",
    TIMEOUT = 22 "timeout",
    DUE_AT = 23 "due at",
    QUEUE = 24 "queue",
    CRASHES = 25 "crashes",
    ERROR_PLACE = 26 "error place",
    CREATED_AT = 27 "created at",
    RETRY_UNTIL = 28 "retry until",
    MAX_EXCEPTIONS = 29 "max exceptions",
    FAIL_ON_TIMEOUT = 30 "fail on timeout",
    UNIQUE_UNTIL_START = 31 "unique until start",
    UNIQUE_FOR = 32 "unique for",
    JOB_TYPE = 33 "job type",
    KEEP_RESULT = 34 "keep result",
    CHECKPOINT = 35 "checkpoint",
} }

impl Key {
    /// The width in bytes of a key whose value is an integer or an id.
    fn width(self) -> Option<usize> {
        Some(match self {
            Self::PARENT | Self::RETRY_AFTER | Self::QUEUE_TIME | Self::COST | Self::TIMEOUT => 4,
            Self::TRIES | Self::MAX_EXCEPTIONS => 2,
            Self::CRASHES => 1,
            Self::DELAY
            | Self::DUE_AT
            | Self::CREATED_AT
            | Self::RETRY_UNTIL
            | Self::UNIQUE_FOR
            | Self::KEEP_RESULT => 8,
            Self::FAIL_ON_TIMEOUT | Self::UNIQUE_UNTIL_START => 0,
            Self::JOB_ID => 16,
            _ => return None,
        })
    }

    fn accepts(self, value: &[u8]) -> bool {
        match self {
            Self::FAIRNESS | Self::IDEMPOTENCY | Self::UNIQUE => (1..=200).contains(&value.len()),
            Self::BACKOFF => value.len().is_multiple_of(4) && (4..=400).contains(&value.len()),
            Self::QUEUE => crate::check_name(value).is_ok(),
            Self::JOB_TYPE => {
                (1..=255).contains(&value.len()) && std::str::from_utf8(value).is_ok()
            }
            Self::CHECKPOINT => value.len() <= 32 << 10,
            key => key.width().is_none_or(|width| value.len() == width),
        }
    }
}

/// Metadata of a frame: a run of `key, length, bytes` entries that has been checked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Meta<'a>(&'a [u8]);

impl<'a> Meta<'a> {
    pub const EMPTY: Self = Self(&[]);

    /// Checks a run of entries: whole, no key twice, no reserved key, known keys of their width.
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

    /// The integer under a key, whatever its width; `None` where the key is absent.
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

/// Metadata under construction. What would exceed the 65,535 bytes of a frame's
/// metadata is refused, never cut.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MetaBuf(Vec<u8>);

impl MetaBuf {
    pub fn new() -> Self {
        Self::default()
    }

    pub fn clear(&mut self) {
        self.0.clear();
    }

    /// Appends one entry; false (and nothing appended) when the frame's metadata would be too long.
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
