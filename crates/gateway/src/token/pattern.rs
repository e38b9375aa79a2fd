//! Patterns of names, in which `*` stands for any characters.

use super::MAX_PATTERN;

pub(super) fn is_valid(pattern: &str) -> bool {
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"_.:/@-*".contains(&byte);
    (1..=MAX_PATTERN).contains(&pattern.len()) && pattern.bytes().all(is_allowed)
}

/// Whether a name matches a pattern. Takes time in proportion to the product of both lengths at most.
#[must_use]
pub fn matches(pattern: &str, name: &str) -> bool {
    let (pattern, name) = (pattern.as_bytes(), name.as_bytes());
    let (mut at, mut next) = (0, 0);
    // The last `*`, and the length of the name that was matched when it was reached.
    let mut star = None;
    while next < name.len() {
        if pattern.get(at) == Some(&b'*') {
            star = Some((at, next));
            at += 1;
        } else if pattern.get(at) == Some(&name[next]) {
            (at, next) = (at + 1, next + 1);
        } else if let Some((star_at, matched)) = star {
            // The `*` takes one more character.
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
    fn a_star_stands_for_any_characters() {
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
