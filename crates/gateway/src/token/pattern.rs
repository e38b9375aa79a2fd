//! Patterns for names, in which `*` matches any number of characters.

use super::MAX_PATTERN;

pub(super) fn is_valid(pattern: &str) -> bool {
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"_.:/@-*".contains(&byte);
    (1..=MAX_PATTERN).contains(&pattern.len()) && pattern.bytes().all(is_allowed)
}

/// Whether a name matches a pattern. The time is at most proportional to the product of both lengths.
#[must_use]
pub fn matches(pattern: &str, name: &str) -> bool {
    let (pattern, name) = (pattern.as_bytes(), name.as_bytes());
    let (mut at, mut next) = (0, 0);
    // The position of the last `*`, and how much of the name it and everything before it match.
    let mut star = None;
    while next < name.len() {
        if pattern.get(at) == Some(&b'*') {
            star = Some((at, next));
            at += 1;
        } else if pattern.get(at) == Some(&name[next]) {
            (at, next) = (at + 1, next + 1);
        } else if let Some((star_at, matched)) = star {
            // Backtrack: the `*` matches one more character.
            star = Some((star_at, matched + 1));
            (at, next) = (star_at + 1, matched + 1);
        } else {
            return false;
        }
    }
    pattern[at..].iter().all(|byte| *byte == b'*')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_star_matches_any_characters() {
        for (pattern, name) in [
            ("*", "a"),
            ("a*", "a"),
            ("a*", "abc"),
            ("*c", "abc"),
            ("a*c", "abbc"),
            ("a*b*c", "a-b-b-c"),
            ("**", "x"),
            ("abc", "abc"),
        ] {
            assert!(matches(pattern, name), "{pattern} {name}");
        }
        for (pattern, name) in [
            ("a", "ab"),
            ("ab", "a"),
            ("a*c", "abcd"),
            ("*b", "abc"),
            ("a*b*c", "acb"),
            ("", "a"),
        ] {
            assert!(!matches(pattern, name), "{pattern} {name}");
        }
    }
}
