//! The header `Forwarded` (RFC 7239).

/// The information that one proxy adds about the request that it received.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Element {
    /// The address of its client.
    pub(crate) source: Option<String>,
    pub(crate) proto: Option<String>,
    pub(crate) host: Option<String>,
}

/// Parses the elements of one line, the oldest first. `None` if any of them is invalid: a quote that a client has not
/// closed could otherwise hide what a proxy has added.
pub(crate) fn parse(line: &[u8]) -> Option<Vec<Element>> {
    let mut rest = std::str::from_utf8(line).ok()?.trim();
    let mut elements = vec![Element::default()];
    while !rest.is_empty() {
        rest = match rest.as_bytes()[0] {
            b',' => {
                elements.push(Element::default());
                &rest[1..]
            }
            b';' => &rest[1..],
            _ => {
                let element = elements.last_mut()?;
                let rest = pair(rest, element)?;
                let is_end = rest.is_empty() || rest.starts_with([',', ';']);
                is_end.then_some(rest)?
            }
        };
        rest = rest.trim_start();
    }
    Some(elements)
}

/// Parses `name=value`, and returns what follows.
fn pair<'a>(text: &'a str, element: &mut Element) -> Option<&'a str> {
    let (name, rest) = text.split_once('=')?;
    let is_token = |text: &str| !text.is_empty() && text.bytes().all(is_token_byte);
    if !is_token(name) {
        return None;
    }
    let (value, rest) = match rest.strip_prefix('"') {
        Some(rest) => quoted(rest)?,
        None => {
            let end = rest.find([',', ';', ' ', '\t']).unwrap_or(rest.len());
            let (value, rest) = rest.split_at(end);
            // An IPv6 address should be in quotes, but is not always.
            let is_valid = !value.is_empty() && !value.contains('"');
            (is_valid.then(|| value.to_owned())?, rest)
        }
    };
    let field = match name.to_ascii_lowercase().as_str() {
        "for" => &mut element.source,
        "proto" => &mut element.proto,
        "host" => &mut element.host,
        _ => return Some(rest.trim_start()),
    };
    // A parameter must not occur twice in an element.
    match field.replace(value) {
        None => Some(rest.trim_start()),
        Some(_) => None,
    }
}

/// Reads a quoted string up to the closing quote.
fn quoted(text: &str) -> Option<(String, &str)> {
    let mut value = String::new();
    let mut characters = text.char_indices();
    while let Some((at, character)) = characters.next() {
        match character {
            '"' => return Some((value, &text[at + 1..])),
            '\\' => value.push(characters.next()?.1),
            character => value.push(character),
        }
    }
    None
}

fn is_token_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn element(source: &str, proto: &str, host: &str) -> Element {
        let some = |text: &str| (!text.is_empty()).then(|| text.to_owned());
        Element {
            source: some(source),
            proto: some(proto),
            host: some(host),
        }
    }

    #[test]
    fn elements_are_parsed() {
        for (line, expected) in [
            ("for=192.0.2.7", vec![element("192.0.2.7", "", "")]),
            (
                "For=\"[2001:db8::1]:4711\"; Proto=https ;host=\"a.test:8080\"",
                vec![element("[2001:db8::1]:4711", "https", "a.test:8080")],
            ),
            (
                "for=_hidden;by=1.2.3.4 , for=unknown,\tproto=http",
                vec![
                    element("_hidden", "", ""),
                    element("unknown", "", ""),
                    element("", "http", ""),
                ],
            ),
            ("for=\"a\\\"b,\\\\;\"", vec![element("a\"b,\\;", "", "")]),
            ("secret=\"x,for=1.1.1.1\";for=b", vec![element("b", "", "")]),
            (",", vec![Element::default(), Element::default()]),
            ("", vec![Element::default()]),
        ] {
            assert_eq!(parse(line.as_bytes()), Some(expected), "{line}");
        }
    }

    #[test]
    fn invalid_lines_are_rejected() {
        for line in [
            "for",
            "for=",
            "=a",
            "for=\"a",
            "for=\"a\\",
            "for=\"a\"b",
            "for=a b",
            "for=a\"b\"",
            "for=a;for=b",
            "f r=a",
            "for=\"evil, for=1.2.3.4;host=\"a\"",
            "for==\"\"\"",
        ] {
            assert_eq!(parse(line.as_bytes()), None, "{line}");
        }
        assert_eq!(parse(b"for=\xff"), None);
    }

    proptest! {
        #[test]
        fn quoted_values_are_read_back(values in proptest::collection::vec("[ -~]{1,12}", 1..6)) {
            let quote = |value: &String| {
                let escaped = value.replace('\\', "\\\\").replace('"', "\\\"");
                format!("for=\"{escaped}\"")
            };
            let line: Vec<String> = values.iter().map(quote).collect();
            let parsed = parse(line.join(", ").as_bytes()).unwrap();
            let sources: Vec<String> = parsed.into_iter().filter_map(|one| one.source).collect();
            prop_assert_eq!(sources, values);
        }

        #[test]
        fn no_line_panics(line in "[forhstp=\",;\\\\ \u{e4}\\[:\\]]{0,40}") {
            parse(line.as_bytes());
        }
    }
}
