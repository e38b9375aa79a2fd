//! The access log: one line per request.

use std::borrow::Cow;
use std::time::Duration;

/// The maximum number of bytes of a request's target, of a user agent and of a method that are logged.
const MAX_TARGET: usize = 2 << 10;
const MAX_AGENT: usize = 512;
const MAX_METHOD: usize = 32;

/// A request that has been answered.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Access<'a> {
    pub(crate) site: &'a str,
    /// The address of the client, after trusted proxies were evaluated. `None` for a Unix socket.
    pub(crate) client: Option<std::net::IpAddr>,
    pub(crate) method: &'a str,
    /// The path and the query, as the client sent them.
    pub(crate) target: &'a [u8],
    pub(crate) status: u16,
    /// The number of bytes of the body that were sent.
    pub(crate) bytes: u64,
    /// The time from the request's head to the end of the response.
    pub(crate) duration: Duration,
    /// The header `User-Agent`, if there is one.
    pub(crate) user_agent: Option<&'a [u8]>,
}

/// One line, without a timestamp and a newline at the end. The site, the client, the method, the status, the number of
/// bytes and the duration contain no spaces; the target and the user agent are in quotes.
pub(crate) fn text(access: &Access<'_>) -> String {
    let client = access.client.map(|client| client.to_string());
    let micros = access.duration.as_micros();
    let mut line = format!(
        "{} {} {} \"{}\" {} {} {}.{:03}ms",
        access.site,
        client.as_deref().unwrap_or("-"),
        method(access.method),
        quoted(&cut(access.target, MAX_TARGET)),
        access.status,
        access.bytes,
        micros / 1_000,
        micros % 1_000,
    );
    match access.user_agent {
        None => line.push_str(" -"),
        Some(agent) => {
            let agent = cut(agent, MAX_AGENT);
            line.push_str(&format!(" \"{}\"", quoted(&agent)));
        }
    }
    line
}

/// A method is a token, which has no spaces and no quotes, but it may be long.
fn method(method: &str) -> Cow<'_, str> {
    match method.len() <= MAX_METHOD {
        true => Cow::Borrowed(method),
        false => Cow::Owned(cut(method.as_bytes(), MAX_METHOD)),
    }
}

/// The first `max` bytes of a string, with an ellipsis if there are more. Control characters and invalid UTF-8 are replaced
/// by escapes.
fn cut(bytes: &[u8], max: usize) -> String {
    let (shown, is_cut) = match bytes.get(..max) {
        Some(shown) if bytes.len() > max => (without_part(shown), true),
        _ => (bytes, false),
    };
    let mut text = String::with_capacity(shown.len() + 3);
    for chunk in shown.utf8_chunks() {
        // A backslash of the client's own must not look like the beginning of an escape.
        let valid = chunk.valid().replace('\\', "\\\\");
        let valid = stoker_api::printable(&valid);
        // Tabs separate the columns of some tools.
        text.push_str(&valid.replace('\t', "\\t"));
        for byte in chunk.invalid() {
            text.push_str(&format!("\\x{byte:02x}"));
        }
    }
    if is_cut {
        text.push('\u{2026}');
    }
    text
}

/// Removes the beginning of a character that was truncated.
fn without_part(bytes: &[u8]) -> &[u8] {
    match std::str::from_utf8(bytes) {
        Err(error) if error.error_len().is_none() => &bytes[..error.valid_up_to()],
        _ => bytes,
    }
}

/// Escapes the quotes in a string that is written in quotes.
fn quoted(text: &str) -> Cow<'_, str> {
    match text.contains('"') {
        true => Cow::Owned(text.replace('"', "\\\"")),
        false => Cow::Borrowed(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn access() -> Access<'static> {
        Access {
            site: "shop",
            client: Some("203.0.113.7".parse().unwrap()),
            method: "GET",
            target: b"/a?b=1",
            status: 200,
            bytes: 1_234,
            duration: Duration::from_micros(12_045),
            user_agent: Some(b"curl/8.0"),
        }
    }

    #[test]
    fn a_line_has_all_fields() {
        let expected = "shop 203.0.113.7 GET \"/a?b=1\" 200 1234 12.045ms \"curl/8.0\"";
        assert_eq!(text(&access()), expected);
        let bare = Access {
            client: None,
            user_agent: None,
            duration: Duration::from_secs(61),
            ..access()
        };
        assert_eq!(text(&bare), "shop - GET \"/a?b=1\" 200 1234 61000.000ms -");
    }

    #[test]
    fn a_client_can_forge_neither_lines_nor_fields() {
        let forged = Access {
            target: b"/\" 200 0 0.000ms \"x\"\r\nshop 1.1.1.1 \x1b[31m",
            user_agent: Some(b"\\a\"b\xff\xc3\t\x00\xe2\x80\xae"),
            ..access()
        };
        let expected = "shop 203.0.113.7 GET \"/\\\" 200 0 0.000ms \\\"x\\\"\\r\\nshop 1.1.1.1 \\u{1b}[31m\" 200 1234 \
            12.045ms \"\\\\a\\\"b\\xff\\xc3\\t\\u{0}\\u{202e}\"";
        assert_eq!(text(&forged), expected);
    }

    #[test]
    fn long_texts_are_cut_between_characters() {
        let target = "/\u{e4}".repeat(1_000);
        let long = Access {
            target: target.as_bytes(),
            user_agent: Some(&[b'a'; 600]),
            method: &"M".repeat(40),
            ..access()
        };
        let line = text(&long);
        let shown: Vec<&str> = line.split('"').collect();
        assert_eq!(
            shown[1],
            format!("{}/\u{2026}", &target[..2_046]).replace("//", "/")
        );
        assert_eq!(shown[3], "a".repeat(512) + "\u{2026}");
        assert!(
            line.contains(&format!(" {}\u{2026} ", "M".repeat(32))),
            "{line}"
        );
        assert!(line.len() < 3_000);
        let exact = Access {
            target: &[b'a'; MAX_TARGET],
            ..access()
        };
        assert!(text(&exact).contains("a\" 200"));
    }

    proptest! {
        #[test]
        fn a_line_is_one_line_with_eight_fields(
            target in proptest::collection::vec(any::<u8>(), 0..3_000),
            agent in proptest::collection::vec(any::<u8>(), 0..700),
        ) {
            let given = Access { target: &target, user_agent: Some(&agent), ..access() };
            let line = text(&given);
            prop_assert!(!line.contains(char::is_control));
            // A quote after a backslash does not end a string.
            let quotes = line.replace("\\\\", "").replace("\\\"", "").matches('"').count();
            prop_assert_eq!(quotes, 4);
        }
    }
}
