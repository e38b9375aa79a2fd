//! Conditional requests (RFC 9110, section 13).

use super::date;
use hyper::Method;
use hyper::header::{
    HeaderMap, HeaderName, HeaderValue, IF_MATCH, IF_MODIFIED_SINCE, IF_NONE_MATCH, IF_RANGE,
    IF_UNMODIFIED_SINCE,
};

/// The identifiers of the current version of the file.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Validators<'a> {
    pub(crate) etag: Option<&'a [u8]>,
    /// Seconds since 1970.
    pub(crate) modified: Option<i64>,
}

/// The result of the conditions of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    Send,
    /// The client has the current version: 304.
    NotModified,
    /// The client expects another version: 412.
    Failed,
}

/// Evaluates the conditions of a GET or HEAD request, in the order of section 13.2.2.
pub(crate) fn evaluate(headers: &HeaderMap, now: Validators<'_>) -> Outcome {
    // Most requests have no conditions.
    let has = |name: &HeaderName| headers.contains_key(name);
    if has(&IF_MATCH) {
        if !any_tag(headers, &IF_MATCH, now.etag, is_same_strong) {
            return Outcome::Failed;
        }
    } else if let Some(since) = date_of(headers, &IF_UNMODIFIED_SINCE)
        && now.modified.is_some_and(|modified| modified > since)
    {
        return Outcome::Failed;
    }
    if has(&IF_NONE_MATCH) {
        if any_tag(headers, &IF_NONE_MATCH, now.etag, is_same_weak) {
            return Outcome::NotModified;
        }
    } else if let Some(since) = date_of(headers, &IF_MODIFIED_SINCE)
        && now.modified.is_some_and(|modified| modified <= since)
    {
        return Outcome::NotModified;
    }
    Outcome::Send
}

/// Whether the range of a request is valid for the current version. `clock` is the current time in seconds since 1970.
pub(crate) fn allows_range(
    method: &Method,
    headers: &HeaderMap,
    now: Validators<'_>,
    clock: i64,
) -> bool {
    if method != Method::GET {
        return false;
    }
    let Some(value) = headers.get(IF_RANGE).map(HeaderValue::as_bytes) else {
        return true;
    };
    let value = value.trim_ascii();
    if value.starts_with(b"\"") {
        return now.etag.is_some_and(|etag| is_same_strong(value, etag));
    }
    // A file that has changed in the current second may change again without another date.
    let is_settled = |modified: &i64| *modified < clock;
    let modified = now.modified.filter(is_settled);
    modified.is_some() && date::parse(value) == modified
}

fn date_of(headers: &HeaderMap, name: &HeaderName) -> Option<i64> {
    let value = headers.get(name)?;
    date::parse(value.as_bytes())
}

/// Whether one of the tags in a header names the current version. `*` means any version.
fn any_tag(
    headers: &HeaderMap,
    name: &HeaderName,
    etag: Option<&[u8]>,
    is_same: fn(&[u8], &[u8]) -> bool,
) -> bool {
    headers.get_all(name).iter().any(|value| {
        let value = value.as_bytes().trim_ascii();
        value == b"*"
            || etag.is_some_and(|etag| Tags { rest: value }.any(|given| is_same(given, etag)))
    })
}

fn is_same_strong(one: &[u8], other: &[u8]) -> bool {
    one == other && !one.starts_with(b"W/")
}

fn is_same_weak(one: &[u8], other: &[u8]) -> bool {
    let opaque = |tag| <[u8]>::strip_prefix(tag, b"W/").unwrap_or(tag);
    opaque(one) == opaque(other)
}

/// The entity tags in a list, up to the first one that is invalid.
struct Tags<'a> {
    rest: &'a [u8],
}

impl<'a> Iterator for Tags<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        let is_separator = |byte: &u8| matches!(byte, b',' | b' ' | b'\t');
        let start = self.rest.iter().position(|byte| !is_separator(byte))?;
        let rest = &self.rest[start..];
        let quote = match rest {
            [b'"', ..] => 0,
            [b'W', b'/', b'"', ..] => 2,
            _ => {
                self.rest = &[];
                return None;
            }
        };
        let len = rest[quote + 1..].iter().position(|byte| *byte == b'"')?;
        let (tag, rest) = rest.split_at(quote + 1 + len + 1);
        self.rest = rest;
        Some(tag)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Outcome::{Failed, NotModified, Send};
    use proptest::prelude::*;

    const NOW: Validators<'static> = Validators {
        etag: Some(b"\"a,b\""),
        modified: Some(784_111_777),
    };
    const DATE: &str = "Sun, 06 Nov 1994 08:49:37 GMT";
    const BEFORE: &str = "Sun, 06 Nov 1994 08:49:36 GMT";
    const AFTER: &str = "Sun, 06 Nov 1994 08:49:38 GMT";

    fn headers(all: &[(&'static str, &str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in all {
            let name = HeaderName::from_static(name);
            headers.append(name, HeaderValue::from_str(value).unwrap());
        }
        headers
    }

    #[test]
    fn conditions_are_evaluated_in_order() {
        let cases: &[(&[(&'static str, &str)], Outcome)] = &[
            (&[], Send),
            (&[("if-none-match", "\"a,b\"")], NotModified),
            (&[("if-none-match", "W/\"a,b\"")], NotModified),
            (&[("if-none-match", "\"x\", W/\"y\",\"a,b\"")], NotModified),
            (
                &[("if-none-match", "\"x\""), ("if-none-match", "\"a,b\"")],
                NotModified,
            ),
            (&[("if-none-match", "*")], NotModified),
            (&[("if-none-match", "\"a\"")], Send),
            (&[("if-none-match", "a,b")], Send),
            (&[("if-none-match", "\"a,b")], Send),
            (&[("if-none-match", "")], Send),
            (&[("if-modified-since", DATE)], NotModified),
            (&[("if-modified-since", AFTER)], NotModified),
            (&[("if-modified-since", BEFORE)], Send),
            (&[("if-modified-since", "yesterday")], Send),
            // A date counts only without a tag.
            (
                &[("if-none-match", "\"x\""), ("if-modified-since", DATE)],
                Send,
            ),
            (&[("if-match", "\"a,b\"")], Send),
            (&[("if-match", "*")], Send),
            (&[("if-match", "W/\"a,b\"")], Failed),
            (&[("if-match", "\"x\"")], Failed),
            (
                &[("if-match", "\"x\""), ("if-none-match", "\"a,b\"")],
                Failed,
            ),
            (
                &[("if-match", "\"a,b\""), ("if-none-match", "\"a,b\"")],
                NotModified,
            ),
            (&[("if-unmodified-since", DATE)], Send),
            (&[("if-unmodified-since", BEFORE)], Failed),
            (&[("if-unmodified-since", "never")], Send),
            (&[("if-match", "*"), ("if-unmodified-since", BEFORE)], Send),
        ];
        for (given, expected) in cases {
            assert_eq!(evaluate(&headers(given), NOW), *expected, "{given:?}");
        }
    }

    #[test]
    fn without_validators_no_condition_holds() {
        let none = Validators {
            etag: None,
            modified: None,
        };
        for (name, expected) in [("if-none-match", Send), ("if-match", Failed)] {
            assert_eq!(evaluate(&headers(&[(name, "\"x\"")]), none), expected);
        }
        assert_eq!(
            evaluate(&headers(&[("if-modified-since", AFTER)]), none),
            Send
        );
        let given = headers(&[("if-range", DATE)]);
        assert!(!allows_range(&Method::GET, &given, none, i64::MAX));
    }

    #[test]
    fn a_range_needs_the_same_version() {
        let clock = 784_111_778;
        for (value, expected) in [
            ("\"a,b\"", true),
            ("W/\"a,b\"", false),
            ("\"x\"", false),
            (DATE, true),
            (BEFORE, false),
            (AFTER, false),
            ("", false),
        ] {
            let given = headers(&[("if-range", value)]);
            let allowed = allows_range(&Method::GET, &given, NOW, clock);
            assert_eq!(allowed, expected, "{value}");
            assert!(!allows_range(&Method::HEAD, &given, NOW, clock));
        }
        let given = headers(&[("if-range", DATE)]);
        assert!(!allows_range(&Method::GET, &given, NOW, clock - 1));
        assert!(allows_range(&Method::GET, &headers(&[]), NOW, clock));
    }

    proptest! {
        #[test]
        fn a_tag_is_found_at_any_place_of_a_list(
            tags in proptest::collection::vec("(W/)?\"[!#-~]{0,8}\"", 1..20),
            place: proptest::sample::Index,
        ) {
            let etag = place.get(&tags).trim_start_matches("W/").as_bytes();
            let now = Validators { etag: Some(etag), modified: None };
            let given = headers(&[("if-none-match", &tags.join(", "))]);
            prop_assert_eq!(evaluate(&given, now), NotModified);
        }

        #[test]
        fn no_header_panics(value in "[ -~]{0,60}") {
            let given = headers(&[
                ("if-none-match", &value), ("if-match", &value), ("if-range", &value),
            ]);
            evaluate(&given, NOW);
            allows_range(&Method::GET, &given, NOW, 0);
        }
    }
}
