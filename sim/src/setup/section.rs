//! One section of a configuration file: its keys and their values as they are written.

use crate::dice::Dice;
use std::fmt::Write;

#[derive(Clone, Debug)]
pub(crate) struct Section {
    pub(crate) head: String,
    pub(crate) keys: Vec<(&'static str, String)>,
}

impl Section {
    pub(crate) fn new(head: String) -> Self {
        let keys = Vec::new();
        Self { head, keys }
    }

    pub(crate) fn put(&mut self, key: &'static str, value: impl ToString) {
        self.keys.retain(|(known, _)| *known != key);
        self.keys.push((key, value.to_string()));
    }

    /// In half of the cases, sets the key to one of these values. Otherwise the key has its default.
    pub(crate) fn maybe(&mut self, dice: &mut Dice, key: &'static str, values: &[&str]) {
        if dice.percent(50) {
            let value = *dice.one_of(values);
            self.put(key, value);
        }
    }

    /// Removes a key. Returns whether it was there.
    pub(crate) fn take(&mut self, key: &str) -> bool {
        let before = self.keys.len();
        self.keys.retain(|(known, _)| *known != key);
        self.keys.len() < before
    }

    /// Takes over one key from another section of the same kind: its value, or that it is missing.
    pub(crate) fn copy_key(&mut self, key: &'static str, from: &Self) {
        self.keys.retain(|(known, _)| *known != key);
        if let Some(value) = from.get(key) {
            self.put(key, value);
        }
    }

    pub(crate) fn get(&self, key: &str) -> Option<&str> {
        let mut all = self.keys.iter();
        all.find(|(known, _)| *known == key)
            .map(|(_, value)| value.as_str())
    }

    /// The number under this key, or `or` if the key is missing.
    pub(crate) fn number(&self, key: &str, or: u64) -> u64 {
        self.get(key)
            .map_or(or, |value| value.parse().expect("a number"))
    }

    /// The duration under this key in milliseconds, or `or` if the key is missing; `None` for "none".
    pub(crate) fn millis(&self, key: &str, or: u64) -> Option<u64> {
        self.get(key)
            .map_or(Some(or), |value| millis(value.trim_matches('"')))
    }

    /// The size under this key in bytes; `None` for "none", and if the key is missing.
    pub(crate) fn bytes(&self, key: &str) -> Option<u64> {
        bytes(self.get(key)?.trim_matches('"'))
    }

    /// Makes the section of a service that of a site, which lacks some of its keys.
    pub(crate) fn make_site(&mut self) {
        self.head = self.head.replace("service.s", "site.");
        for key in ["idempotent", "per_key", "age_step"] {
            self.take(key);
        }
        let name = self.head.replace("site.", "");
        self.put("listen", format!("[\"127.0.0.1:808{name}\"]"));
    }

    pub(crate) fn write(&self, text: &mut String) {
        writeln!(text, "[{}]", self.head).ok();
        for (key, value) in &self.keys {
            writeln!(text, "{key} = {value}").ok();
        }
    }
}

fn millis(text: &str) -> Option<u64> {
    let at = text.find(|letter: char| !letter.is_ascii_digit())?;
    let number: u64 = text[..at].parse().ok()?;
    let unit = match &text[at..] {
        "ms" => 1,
        "s" => 1_000,
        "m" => 60_000,
        "h" => 3_600_000,
        "d" => 86_400_000,
        other => unreachable!("unknown unit of time: {other}"),
    };
    Some(number * unit)
}

fn bytes(text: &str) -> Option<u64> {
    let at = text.find(|letter: char| !letter.is_ascii_digit())?;
    let number: u64 = text[..at].parse().ok()?;
    let unit = match &text[at..] {
        "B" => 1,
        "KB" => 1 << 10,
        "MB" => 1 << 20,
        "GB" => 1 << 30,
        other => unreachable!("unknown unit of size: {other}"),
    };
    Some(number * unit)
}
