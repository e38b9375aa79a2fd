//! The definition of one key of a section: its name and meaning, how it is read and written, and whether a reload
//! applies a change. The reader, the comparison, error messages and the reference page all use the same entry.

use super::reader::{Mistakes, Section};
use super::{quote, write_time};
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use stoker_core::Span;

/// A key of the section that is read into a `T`.
pub(crate) struct Key<T: 'static> {
    pub(crate) name: &'static str,
    /// The default as it would be written in the file, or in words.
    pub(crate) default: &'static str,
    pub(crate) doc: &'static str,
    /// A reload only reports a change of this key; the value from the start stays in use.
    pub(crate) needs_restart: bool,
    field: Field<T>,
}

/// The type of the value, and how to access it in a `T`.
pub(crate) enum Field<T: 'static> {
    Text(Access<T, Option<String>>),
    Path(Access<T, Option<PathBuf>>),
    Flag(Access<T, bool>),
    /// A list of strings, with an example of such a list.
    Texts(Access<T, Vec<String>>, &'static str),
    /// A number. A value outside the range means "none".
    Number {
        range: RangeInclusive<u64>,
        get: fn(&T) -> u64,
        set: fn(&mut T, u64),
    },
    Time {
        min: Span,
        /// `"none"` is permitted and means [`Span::FOREVER`].
        or_none: bool,
        access: Access<T, Span>,
    },
    /// A size above 0. The value 0 means "none", which is permitted if `or_none` is set.
    Size {
        or_none: bool,
        get: fn(&T) -> u64,
        set: fn(&mut T, u64),
    },
    /// One of a few words, represented by its index.
    Word {
        words: &'static [&'static str],
        get: fn(&T) -> usize,
        set: fn(&mut T, usize),
    },
    Other(Other<T>),
}

/// A value with its own syntax.
pub(crate) struct Other<T: 'static> {
    /// The type for the reference page.
    pub(crate) kind: &'static str,
    pub(crate) read: fn(&Section<'_, '_>, &str, &mut T, &mut Mistakes<'_>),
    /// The value as TOML; `None` if the key is left out.
    pub(crate) write: fn(&T) -> Option<String>,
    /// Copies the value from the first to the second.
    pub(crate) copy: fn(&T, &mut T),
}

pub(crate) struct Access<T: 'static, V> {
    pub(crate) get: fn(&T) -> &V,
    pub(crate) set: fn(&mut T, V),
}

/// Any unsigned integer type. The range of a key guarantees that a number fits into the type of its field.
pub(crate) trait UnsignedInteger {
    fn widen(self) -> u64;
    fn narrow(number: u64) -> Self;
}

macro_rules! unsigned {
    ($($kind:ty)*) => {$(
        impl UnsignedInteger for $kind {
            fn widen(self) -> u64 {
                self as u64
            }

            fn narrow(number: u64) -> Self {
                number as Self
            }
        }
    )*};
}

unsigned!(u8 u16 u32 u64 usize);

/// Access to a field, for example `at!(core.kill_grace)`.
macro_rules! at {
    ($($field:ident).+) => {
        crate::config::key::Access {
            get: |config| &config.$($field).+,
            set: |config, value| config.$($field).+ = value,
        }
    };
}

/// A number within a range, for example `number!(core.weight, 1..=100)`.
macro_rules! number {
    ($($field:ident).+, $range:expr) => {
        crate::config::key::Field::Number {
            range: $range,
            get: |config| crate::config::key::UnsignedInteger::widen(config.$($field).+),
            set: |config, number| config.$($field).+ = crate::config::key::UnsignedInteger::narrow(number),
        }
    };
}

macro_rules! size {
    ($($field:ident).+) => {
        crate::config::key::Field::Size {
            or_none: false,
            get: |config| crate::config::key::UnsignedInteger::widen(config.$($field).+),
            set: |config, size| config.$($field).+ = crate::config::key::UnsignedInteger::narrow(size),
        }
    };
}

/// A size, or `"none"` for no limit.
macro_rules! size_or_none {
    ($($field:ident).+) => {
        crate::config::key::Field::Size {
            or_none: true,
            get: |config| crate::config::key::UnsignedInteger::widen(config.$($field).+),
            set: |config, size| config.$($field).+ = crate::config::key::UnsignedInteger::narrow(size),
        }
    };
}

/// Two words for `false` and `true`, for example `word!(json, ["text", "json"])`.
macro_rules! word {
    ($($field:ident).+, $words:expr) => {
        crate::config::key::Field::Word {
            words: &$words,
            get: |config| usize::from(config.$($field).+),
            set: |config, at| config.$($field).+ = at == 1,
        }
    };
}

pub(crate) use {at, number, size, size_or_none, word};

pub(crate) const fn key<T>(
    name: &'static str,
    default: &'static str,
    field: Field<T>,
    doc: &'static str,
) -> Key<T> {
    Key {
        name,
        default,
        doc,
        needs_restart: false,
        field,
    }
}

/// A key whose change takes effect at the next start.
pub(crate) const fn start_key<T>(
    name: &'static str,
    default: &'static str,
    field: Field<T>,
    doc: &'static str,
) -> Key<T> {
    Key {
        needs_restart: true,
        ..key(name, default, field, doc)
    }
}

/// A time that may be zero.
pub(crate) const fn time<T>(access: Access<T, Span>) -> Field<T> {
    Field::Time {
        min: Span::ZERO,
        or_none: false,
        access,
    }
}

/// A time that can't be zero.
pub(crate) const fn time_above_zero<T>(access: Access<T, Span>) -> Field<T> {
    Field::Time {
        min: Span::from_millis(1),
        or_none: false,
        access,
    }
}

/// A time above zero, or `"none"` for no limit.
pub(crate) const fn time_or_none<T>(access: Access<T, Span>) -> Field<T> {
    Field::Time {
        min: Span::from_millis(1),
        or_none: true,
        access,
    }
}

impl<T> Key<T> {
    /// The permitted values, for the reference page.
    pub(crate) fn kind(&self) -> String {
        match &self.field {
            Field::Text(_) => "string".to_owned(),
            Field::Path(_) => "path".to_owned(),
            Field::Flag(_) => "true or false".to_owned(),
            Field::Texts(..) => "list of strings".to_owned(),
            Field::Number { range, .. } => {
                let (from, to) = (grouped(*range.start()), grouped(*range.end()));
                format!("number, {from} to {to}")
            }
            Field::Time { or_none, .. } if *or_none => "duration or \"none\"".to_owned(),
            Field::Time { .. } => "duration".to_owned(),
            Field::Size { or_none, .. } if *or_none => "size or \"none\"".to_owned(),
            Field::Size { .. } => "size".to_owned(),
            Field::Word { words, .. } => one_of(words),
            Field::Other(other) => other.kind.to_owned(),
        }
    }

    /// Reads the key if the section contains it, and adds errors to the list of mistakes.
    pub(crate) fn read(&self, section: &Section<'_, '_>, into: &mut T, out: &mut Mistakes<'_>) {
        let key = self.name;
        match &self.field {
            Field::Text(at) => {
                set_if_some(section.text(key, out), |text| (at.set)(into, Some(text)));
            }
            Field::Path(at) => set_if_some(section.text(key, out), |text| {
                (at.set)(into, Some(PathBuf::from(text)));
            }),
            Field::Flag(at) => set_if_some(section.flag(key, out), |flag| (at.set)(into, flag)),
            Field::Texts(at, example) => set_if_some(section.texts(key, example, out), |texts| {
                (at.set)(into, texts);
            }),
            Field::Number { range, set, .. } => {
                set_if_some(section.number(key, range, out), |n| set(into, n));
            }
            Field::Time {
                min,
                or_none,
                access,
            } => set_if_some(section.time(key, *min, *or_none, out), |time| {
                (access.set)(into, time);
            }),
            Field::Size { or_none, set, .. } => {
                set_if_some(section.size(key, *or_none, out), |size| set(into, size));
            }
            Field::Word { words, set, .. } => {
                let place = |word: &str| words.iter().position(|known| *known == word);
                let found = section.get(key, out, &one_of(words), |value| place(value.as_str()?));
                set_if_some(found, |at| set(into, at));
            }
            Field::Other(other) => (other.read)(section, key, into, out),
        }
    }

    /// Copies the value from `from` to `to`.
    pub(crate) fn copy(&self, from: &T, to: &mut T) {
        match &self.field {
            Field::Text(at) => (at.set)(to, (at.get)(from).clone()),
            Field::Path(at) => (at.set)(to, (at.get)(from).clone()),
            Field::Flag(at) => (at.set)(to, *(at.get)(from)),
            Field::Texts(at, _) => (at.set)(to, (at.get)(from).clone()),
            Field::Number { get, set, .. } | Field::Size { get, set, .. } => set(to, get(from)),
            Field::Time { access, .. } => (access.set)(to, *(access.get)(from)),
            Field::Word { get, set, .. } => set(to, get(from)),
            Field::Other(other) => (other.copy)(from, to),
        }
    }

    /// The value as TOML; `None` if the value means the same as leaving the key out. Two values are equal if and
    /// only if their TOML is equal.
    pub(crate) fn write(&self, config: &T) -> Option<String> {
        match &self.field {
            Field::Text(at) => (at.get)(config).as_deref().map(quote),
            Field::Path(at) => {
                let path = (at.get)(config).as_deref();
                path.and_then(Path::to_str).map(quote)
            }
            Field::Flag(at) => Some((at.get)(config).to_string()),
            Field::Texts(at, _) => {
                let texts = (at.get)(config);
                (!texts.is_empty()).then(|| quote_list(texts))
            }
            Field::Number { range, get, .. } => {
                let number = get(config);
                range.contains(&number).then(|| number.to_string())
            }
            Field::Time {
                or_none, access, ..
            } => match *(access.get)(config) {
                Span::FOREVER => or_none.then(|| quote("none")),
                time => Some(write_time(time)),
            },
            Field::Size { or_none, get, .. } => match get(config) {
                0 => or_none.then(|| quote("none")),
                size => Some(format!("\"{size}B\"")),
            },
            Field::Word { words, get, .. } => words.get(get(config)).map(|word| quote(word)),
            Field::Other(other) => (other.write)(config),
        }
    }
}

fn set_if_some<V>(value: Option<V>, set: impl FnOnce(V)) {
    if let Some(value) = value {
        set(value);
    }
}

fn one_of(words: &[&str]) -> String {
    let quoted: Vec<String> = words.iter().map(|word| quote(word)).collect();
    quoted.join(" or ")
}

fn quote_list(texts: &[String]) -> String {
    let quoted: Vec<String> = texts.iter().map(|text| quote(text)).collect();
    format!("[{}]", quoted.join(", "))
}

/// A number with the digits grouped as in TOML: `10_000`.
fn grouped(number: u64) -> String {
    match number {
        0..1_000 => number.to_string(),
        _ => format!("{}_{:03}", grouped(number / 1_000), number % 1_000),
    }
}
