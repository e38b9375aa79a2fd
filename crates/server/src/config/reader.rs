//! Reads the keys of a section, and turns errors into mistakes with a hint on how to correct them.

use super::{Mistake, parse_size, parse_time};
use std::ops::RangeInclusive;
use stoker_api::suggest;
use stoker_core::Span;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// Collects the mistakes of a whole file, so that a user can correct all of them at once.
pub(crate) struct Mistakes<'a> {
    source: &'a str,
    pub(crate) found: Vec<Mistake>,
}

impl<'a> Mistakes<'a> {
    pub(crate) fn new(source: &'a str) -> Self {
        Self {
            source,
            found: Vec::new(),
        }
    }

    pub(crate) fn line_of(&self, offset: usize) -> usize {
        let offset = offset.min(self.source.len());
        1 + self.source.as_bytes()[..offset]
            .iter()
            .filter(|byte| **byte == b'\n')
            .count()
    }

    pub(crate) fn add(&mut self, offset: usize, key: &str, what: String, hint: Option<String>) {
        self.add_at(self.line_of(offset), key, what, hint);
    }

    /// Adds a mistake of the file as a whole.
    pub(crate) fn add_without_place(&mut self, key: &str, what: String, hint: Option<String>) {
        self.add_at(0, key, what, hint);
    }

    fn add_at(&mut self, line: usize, key: &str, what: String, hint: Option<String>) {
        self.found.push(Mistake {
            line,
            key: key.to_owned(),
            what,
            hint,
        });
    }
}

/// A hint for an unquoted section name with a dot, which TOML reads as a section within a section.
fn quoted(path: &str, key: &str, value: &DeValue<'_>) -> Option<String> {
    let (kind, name) = path.split_once('.')?;
    let mut table = value.as_table()?;
    let mut name = format!("{name}.{key}");
    while let (1, Some((key, value))) = (table.len(), table.iter().next())
        && let Some(inner) = value.get_ref().as_table()
    {
        name += &format!(".{}", key.get_ref());
        table = inner;
    }
    Some(format!("quote a name with dots: [{kind}.\"{name}\"]"))
}

/// A table of the file, with its dotted name.
pub(crate) struct Section<'t, 'i> {
    table: Option<&'t DeTable<'i>>,
    pub(crate) path: String,
}

impl<'t, 'i> Section<'t, 'i> {
    /// Creates a section, and reports keys that its schema does not have.
    pub(crate) fn new(
        table: Option<&'t DeTable<'i>>,
        path: String,
        names: impl Iterator<Item = &'static str> + Clone,
        mistakes: &mut Mistakes<'_>,
    ) -> Self {
        for (key, value) in table.into_iter().flatten() {
            let name: &str = key.get_ref();
            if names.clone().all(|known| known != name) {
                let hint = quoted(&path, name, value.get_ref())
                    .unwrap_or_else(|| suggest(name, names.clone()));
                let full = format!("{path}.{name}");
                mistakes.add(
                    key.span().start,
                    &full,
                    "unknown key".to_owned(),
                    Some(hint),
                );
            }
        }
        Self { table, path }
    }

    pub(crate) fn value(&self, key: &str) -> Option<&'t Spanned<DeValue<'i>>> {
        self.table?.get(key)
    }

    /// The converted value of a key; a mistake if the key is present and can't be converted.
    pub(crate) fn get<T>(
        &self,
        key: &str,
        mistakes: &mut Mistakes<'_>,
        wanted: &str,
        convert: impl FnOnce(&DeValue<'i>) -> Option<T>,
    ) -> Option<T> {
        let value = self.value(key)?;
        let converted = convert(value.get_ref());
        if converted.is_none() {
            let full = format!("{}.{key}", self.path);
            let found = value.get_ref().type_str();
            mistakes.add(
                value.span().start,
                &full,
                format!("expected {wanted}, found {}", show(value.get_ref(), found)),
                None,
            );
        }
        converted
    }

    pub(crate) fn number(
        &self,
        key: &str,
        range: &RangeInclusive<u64>,
        mistakes: &mut Mistakes<'_>,
    ) -> Option<u64> {
        let wanted = format!("a number from {} to {}", range.start(), range.end());
        self.get(key, mistakes, &wanted, |value| {
            integer(value).filter(|n| range.contains(n))
        })
    }

    pub(crate) fn text(&self, key: &str, mistakes: &mut Mistakes<'_>) -> Option<String> {
        self.get(key, mistakes, "a string", |value| {
            value.as_str().map(str::to_owned)
        })
    }

    pub(crate) fn flag(&self, key: &str, mistakes: &mut Mistakes<'_>) -> Option<bool> {
        self.get(key, mistakes, "true or false", DeValue::as_bool)
    }

    pub(crate) fn texts(
        &self,
        key: &str,
        example: &str,
        mistakes: &mut Mistakes<'_>,
    ) -> Option<Vec<String>> {
        let wanted = format!("a list of strings, such as {example}");
        self.get(key, mistakes, &wanted, |value| {
            let list = value.as_array()?.iter();
            list.map(|item| item.get_ref().as_str().map(str::to_owned))
                .collect()
        })
    }

    /// A time of at least `min`, or, if `or_none` is set, "none" for no limit.
    pub(crate) fn time(
        &self,
        key: &str,
        min: Span,
        or_none: bool,
        mistakes: &mut Mistakes<'_>,
    ) -> Option<Span> {
        let above = match min {
            Span::ZERO => String::new(),
            min if min <= Span::from_millis(1) => " above 0".to_owned(),
            min => format!(" of at least {} s", min.as_millis() / 1_000),
        };
        let example = if min < Span::from_secs(1) {
            "\"500ms\", "
        } else {
            ""
        };
        let none = if or_none { ", or \"none\"" } else { "" };
        let wanted = format!("a duration{above} such as {example}\"30s\", \"5m\"{none}");
        self.get(key, mistakes, &wanted, |value| match value.as_str()? {
            "none" if or_none => Some(Span::FOREVER),
            text => parse_time(text).filter(|time| *time >= min),
        })
    }

    /// A size; 0 means "none".
    pub(crate) fn size(
        &self,
        key: &str,
        or_none: bool,
        mistakes: &mut Mistakes<'_>,
    ) -> Option<u64> {
        let none = if or_none { ", or \"none\"" } else { "" };
        let wanted = format!("a size above 0 such as \"256MB\"{none}");
        self.get(key, mistakes, &wanted, |value| match value.as_str()? {
            "none" if or_none => Some(0),
            text => parse_size(text).filter(|size| *size > 0),
        })
    }

    /// Reports a mistake in a value that could be read.
    pub(crate) fn add_mistake(
        &self,
        key: &str,
        mistakes: &mut Mistakes<'_>,
        what: String,
        hint: Option<String>,
    ) {
        let full = format!("{}.{key}", self.path);
        mistakes.add(self.offset_of(key), &full, what, hint);
    }

    pub(crate) fn offset_of(&self, key: &str) -> usize {
        self.value(key).map_or(0, |value| value.span().start)
    }
}

pub(crate) fn integer(value: &DeValue<'_>) -> Option<u64> {
    let integer = value.as_integer()?;
    u64::from_str_radix(&integer.as_str().replace('_', ""), integer.radix()).ok()
}

fn show(value: &DeValue<'_>, kind: &str) -> String {
    match value {
        DeValue::String(text) => format!("\"{text}\""),
        DeValue::Integer(number) => number.as_str().to_owned(),
        DeValue::Float(number) => number.as_str().to_owned(),
        DeValue::Boolean(truth) => truth.to_string(),
        _ => format!("a value of type {kind}"),
    }
}

/// The offset at which a section begins.
pub(super) fn section_offset(root: &DeTable<'_>, kind: &str, name: &str) -> usize {
    let sections = root
        .get(kind)
        .and_then(|sections| sections.get_ref().as_table());
    let mut keys = sections.into_iter().flat_map(|sections| sections.keys());
    let key = keys.find(|key| key.get_ref() == name);
    key.map_or(0, |key| key.span().start)
}
