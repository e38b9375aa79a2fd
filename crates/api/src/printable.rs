//! Makes text that users control safe for terminals and log files.

use std::borrow::Cow;
use std::fmt::Write;

/// Makes text that a user controls safe for a terminal or a log file. Control characters (C0, DEL, C1), line and
/// paragraph separators, and characters that change the direction of text are replaced by escapes such as `\u{1b}`.
/// Everything else, including tabs, stays unchanged.
#[must_use]
pub fn printable(text: &str) -> Cow<'_, str> {
    let Some(first) = text.find(is_unsafe) else {
        return Cow::Borrowed(text);
    };
    let mut safe = String::with_capacity(text.len() + 16);
    safe.push_str(&text[..first]);
    for character in text[first..].chars() {
        // Writing to a string can't fail.
        let written = match character {
            '\n' => write!(safe, "\\n"),
            '\r' => write!(safe, "\\r"),
            control if is_unsafe(control) => write!(safe, "{}", control.escape_unicode()),
            character => write!(safe, "{character}"),
        };
        written.ok();
    }
    Cow::Owned(safe)
}

/// Like [`printable`], but keeps line feeds.
#[must_use]
pub fn printable_lines(text: &str) -> Cow<'_, str> {
    let mut lines = text.split_inclusive('\n');
    if lines.all(|line| !line.trim_end_matches('\n').contains(is_unsafe)) {
        return Cow::Borrowed(text);
    }
    let lines = text.split('\n').map(printable);
    Cow::Owned(lines.collect::<Vec<_>>().join("\n"))
}

/// Makes JSON safe for a terminal. JSON itself escapes the control characters below U+0020; the other unsafe
/// characters, which occur only in strings, are replaced by escapes such as `\u202e`. Line feeds between values stay.
#[must_use]
pub fn printable_json(json: &str) -> Cow<'_, str> {
    let is_unsafe = |character: char| character != '\n' && is_unsafe(character);
    let Some(first) = json.find(is_unsafe) else {
        return Cow::Borrowed(json);
    };
    let mut safe = String::with_capacity(json.len() + 16);
    safe.push_str(&json[..first]);
    for character in json[first..].chars() {
        // Writing to a string can't fail. All unsafe characters are below U+10000, so four digits are enough.
        let written = match is_unsafe(character) {
            true => write!(safe, "\\u{:04x}", u32::from(character)),
            false => write!(safe, "{character}"),
        };
        written.ok();
    }
    Cow::Owned(safe)
}

fn is_unsafe(character: char) -> bool {
    match character {
        '\t' => false,
        // Line and paragraph separators; then direction marks, embeddings, overrides and isolates.
        '\u{2028}' | '\u{2029}' => true,
        '\u{061c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' => true,
        '\u{2066}'..='\u{2069}' => true,
        character => character.is_control(),
    }
}

#[cfg(test)]
mod tests {
    use super::{printable, printable_json, printable_lines};

    // Issue 9, A15.
    #[test]
    fn terminal_control_characters_are_escaped() {
        let cases = [
            ("\x1b]0;owned\x07", r"\u{1b}]0;owned\u{7}"),
            ("a\r\nb", r"a\r\nb"),
            ("\u{9b}31m", r"\u{9b}31m"),
            ("\x7f\0\u{8}", r"\u{7f}\u{0}\u{8}"),
            ("txt\u{202e}exe", r"txt\u{202e}exe"),
            ("\u{2066}x\u{2069}\u{200f}", r"\u{2066}x\u{2069}\u{200f}"),
            ("a\u{2028}b", r"a\u{2028}b"),
        ];
        for (text, shown) in cases {
            assert_eq!(printable(text), shown);
        }
    }

    #[test]
    fn line_breaks_are_kept_in_multi_line_text() {
        assert_eq!(printable_lines("a\n\x1bb\r\n"), "a\n\\u{1b}b\\r\n");
        assert_eq!(printable_lines("a\nb\n"), "a\nb\n");
    }

    #[test]
    fn escaped_json_has_the_same_value() {
        let value = serde_json::json!({"k\u{202e}": "\x1b\u{9b}\x7f\u{2028}\n"});
        for text in [value.to_string(), format!("{value:#}")] {
            let safe = printable_json(&text);
            assert!(!safe.contains(['\u{9b}', '\u{202e}', '\x7f', '\u{2028}', '\x1b']));
            let read: serde_json::Value = serde_json::from_str(&safe).expect("JSON");
            assert_eq!(read, value);
        }
    }

    #[test]
    fn ordinary_text_is_returned_unchanged_without_a_copy() {
        for text in ["App\\Mail\\Welcome", "naïve 日本 עברית 👩‍🚀", "a\tb", ""] {
            assert!(matches!(printable(text), std::borrow::Cow::Borrowed(same) if same == text));
        }
    }
}
