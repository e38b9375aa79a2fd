//! Header fields: lines of the form `name: value`.

use super::{Invalid, MAX_FIELDS, MAX_HEAD, excerpt};

/// A header field. The name is as it was sent, in any case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Field<'a> {
    pub(crate) name: &'a str,
    pub(crate) value: &'a [u8],
}

impl Field<'_> {
    pub(crate) fn is(&self, name: &str) -> bool {
        self.name.eq_ignore_ascii_case(name)
    }
}

/// Reads lines until the end of the block, without the empty line that ends it. Lines end with LF or CRLF.
pub(crate) fn fields(block: &[u8]) -> Result<Vec<Field<'_>>, Invalid> {
    if block.len() > MAX_HEAD {
        return Err(Invalid(format!(
            "its header fields have more than {MAX_HEAD} bytes"
        )));
    }
    let block = block.strip_suffix(b"\n").unwrap_or(block);
    let lines = block.split(|byte| *byte == b'\n');
    let lines = lines.map(|line| line.strip_suffix(b"\r").unwrap_or(line));
    let mut fields = Vec::new();
    for line in lines.filter(|_| !block.is_empty()) {
        if fields.len() == MAX_FIELDS {
            return Err(Invalid(format!(
                "it has more than {MAX_FIELDS} header fields"
            )));
        }
        let field = field(line);
        fields.push(field.ok_or_else(|| {
            Invalid(format!(
                "{} is not a header field (name: value)",
                excerpt(line)
            ))
        })?);
    }
    Ok(fields)
}

fn field(line: &[u8]) -> Option<Field<'_>> {
    let colon = line.iter().position(|byte| *byte == b':')?;
    let (name, value) = (&line[..colon], trim(&line[colon + 1..]));
    let is_valid = !name.is_empty() && name.iter().all(|byte| is_token(*byte));
    let is_clean = !value.iter().any(|byte| matches!(byte, b'\r' | b'\n' | 0));
    let name = std::str::from_utf8(name).ok()?;
    (is_valid && is_clean).then_some(Field { name, value })
}

/// Removes spaces and tabs on both sides, and nothing else: a CR that belongs to no end of a line is invalid.
fn trim(mut value: &[u8]) -> &[u8] {
    while let [b' ' | b'\t', rest @ ..] | [rest @ .., b' ' | b'\t'] = value {
        value = rest;
    }
    value
}

/// Whether a byte may be part of a token of RFC 9110, such as a method or the name of a field.
pub(super) fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

/// The first field of this name.
pub(crate) fn find<'a>(fields: &[Field<'a>], name: &str) -> Option<&'a [u8]> {
    let mut found = fields.iter().filter(|field| field.is(name));
    found.next().map(|field| field.value)
}

/// The first field of this name, if its value is UTF-8.
pub(crate) fn find_text<'a>(fields: &[Field<'a>], name: &str) -> Option<&'a str> {
    std::str::from_utf8(find(fields, name)?).ok()
}

/// The value of `content-length`, or an error if the field is invalid or has several different values.
pub(crate) fn content_length(fields: &[Field<'_>]) -> Result<Option<u64>, Invalid> {
    let mut values = fields.iter().filter(|field| field.is("content-length"));
    let Some(first) = values.next() else {
        return Ok(None);
    };
    let is_number = !first.value.is_empty() && first.value.iter().all(u8::is_ascii_digit);
    let number = std::str::from_utf8(first.value).ok();
    let number = number
        .filter(|_| is_number)
        .and_then(|text| text.parse().ok());
    match number {
        Some(number) if values.all(|other| other.value == first.value) => Ok(Some(number)),
        _ => Err(Invalid::new("its content-length is invalid")),
    }
}

/// Whether a field describes one connection only and must not be passed on.
pub(crate) fn hop_by_hop(field: &Field<'_>, fields: &[Field<'_>]) -> bool {
    const NAMES: [&str; 7] = [
        "connection",
        "keep-alive",
        "proxy-connection",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
    ];
    let is_named = || {
        let mut connections = fields.iter().filter(|other| other.is("connection"));
        connections.any(|connection| has_token(connection.value, field.name))
    };
    NAMES.iter().any(|name| field.is(name)) || is_named()
}

/// The trailer fields of a block that may be passed on, as lines that end with CRLF. Left out are fields that the recipient
/// would need before the body (RFC 9110, section 6.5.1).
pub(crate) fn trailers(block: &[u8]) -> Result<Vec<u8>, Invalid> {
    const NAMES: [&str; 9] = [
        "authorization",
        "cache-control",
        "content-encoding",
        "content-length",
        "content-range",
        "content-type",
        "host",
        "location",
        "set-cookie",
    ];
    let all = fields(block)?;
    let may_follow =
        |field: &&Field<'_>| !hop_by_hop(field, &all) && !NAMES.iter().any(|name| field.is(name));
    let mut lines = Vec::new();
    for field in all.iter().filter(may_follow) {
        lines.extend_from_slice(field.name.to_ascii_lowercase().as_bytes());
        lines.extend_from_slice(b": ");
        lines.extend_from_slice(field.value);
        lines.extend_from_slice(b"\r\n");
    }
    Ok(lines)
}

/// Whether a name consists of letters, digits and hyphens. Other names are dropped from requests: a program that gets the name
/// in a variable could take it for another one, because hyphens become underscores there.
pub(crate) fn is_plain(name: &str) -> bool {
    name.bytes()
        .all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
}

/// Whether a list separated by commas contains a token.
pub(crate) fn has_token(list: &[u8], token: &str) -> bool {
    let mut tokens = list.split(|byte| *byte == b',');
    tokens.any(|one| one.trim_ascii().eq_ignore_ascii_case(token.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_fields_with_both_ends_of_lines() {
        let read = fields(b"A: 1\r\nb:2\nempty:\r\n").unwrap();
        let pairs: Vec<_> = read.iter().map(|field| (field.name, field.value)).collect();
        assert_eq!(pairs, [("A", &b"1"[..]), ("b", b"2"), ("empty", b"")]);
        assert_eq!(fields(b"").unwrap(), []);
        assert_eq!(find(&read, "a"), Some(&b"1"[..]));
    }

    #[test]
    fn rejects_invalid_lines() {
        for bad in [
            &b"no colon\n"[..],
            b": no name\n",
            b"a b: space\n",
            b" folded: line\n",
            b"a: b\n continued\n",
            b"a: \0\n",
            b"a: b\rc\n",
            b"\xff: x\n",
            b"a: b\n\nc: d\n",
        ] {
            assert!(fields(bad).is_err(), "{:?}", String::from_utf8_lossy(bad));
        }
    }

    #[test]
    fn limits_number_and_size() {
        assert_eq!(
            fields("a: b\n".repeat(MAX_FIELDS).as_bytes())
                .unwrap()
                .len(),
            MAX_FIELDS
        );
        let many = "a: b\n".repeat(MAX_FIELDS + 1);
        assert_eq!(
            fields(many.as_bytes()).unwrap_err().0,
            "it has more than 100 header fields"
        );
        let long = format!("a: {}\n", "x".repeat(MAX_HEAD - 4));
        assert!(fields(long.as_bytes()).is_ok());
        let long = format!("a: {}\n", "x".repeat(MAX_HEAD - 3));
        assert!(fields(long.as_bytes()).is_err());
    }

    #[test]
    fn content_length_must_be_one_number() {
        let length_in = |block: &str| content_length(&fields(block.as_bytes()).unwrap());
        assert_eq!(length_in("a: b\n"), Ok(None));
        assert_eq!(
            length_in("Content-Length: 5\ncontent-length: 5\n"),
            Ok(Some(5))
        );
        for bad in ["+5", "-1", "5,5", "", "0x5", "99999999999999999999", "1 2"] {
            assert!(
                length_in(&format!("content-length: {bad}\n")).is_err(),
                "{bad}"
            );
        }
        assert!(length_in("content-length: 5\ncontent-length: 6\n").is_err());
    }

    #[test]
    fn finds_fields_of_one_connection() {
        let all =
            fields(b"Connection: close, X-Own\nx-own: 1\nTE: trailers\nx-other: 1\n").unwrap();
        let kept = all.iter().filter(|field| !hop_by_hop(field, &all));
        assert_eq!(
            kept.map(|field| field.name).collect::<Vec<_>>(),
            ["x-other"]
        );
    }

    #[test]
    fn only_harmless_trailers_are_passed_on() {
        let block =
            b"X-Sum: 1\r\nContent-Length: 5\r\nset-cookie: a=b\r\nTE: x\r\nServer-Timing: db\r\n";
        let lines = trailers(block).unwrap();
        assert_eq!(lines, b"x-sum: 1\r\nserver-timing: db\r\n");
        assert_eq!(trailers(b"").unwrap(), b"");
        assert!(trailers(b"no colon\r\n").is_err());
    }
}
