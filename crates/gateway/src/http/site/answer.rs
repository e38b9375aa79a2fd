//! Reads a worker's answer, a message of HTTP/1.1 (section 11 of the protocol page), as a response.

use super::message::HOP_BY_HOP;
use bytes::Bytes;
use hyper::header::{CONTENT_LENGTH, HeaderMap, HeaderName, HeaderValue, TRAILER};
use hyper::{Method, StatusCode};

/// The largest head of an answer, in bytes, and the maximum number of its fields.
const MAX_HEAD: usize = 64 << 10;
const MAX_FIELDS: usize = 200;

/// A worker's answer.
#[derive(Debug)]
pub(super) struct Answered {
    pub(super) status: StatusCode,
    pub(super) headers: HeaderMap,
    pub(super) body: Bytes,
    /// Whether the response may have a body.
    pub(super) has_body: bool,
    /// The length that the worker announces of a body that comes in parts.
    pub(super) length: Option<u64>,
}

/// Parses an answer to a request with this method, or if `has_more` its first part. The error says what is wrong with it.
pub(super) fn parse(method: &Method, message: &Bytes, has_more: bool) -> Result<Answered, String> {
    let window = &message[..message.len().min(MAX_HEAD)];
    let end = window.windows(4).position(|four| four == b"\r\n\r\n");
    let end = end.ok_or_else(|| format!("its head does not end within {MAX_HEAD} bytes"))?;
    let mut lines = Lines(&message[..end]);
    let status = status(lines.next().unwrap_or_default())?;
    let mut headers = HeaderMap::new();
    for (count, line) in lines.enumerate() {
        if count >= MAX_FIELDS {
            return Err(format!("it has more than {MAX_FIELDS} header fields"));
        }
        let (name, value) = field(line)?;
        if !HOP_BY_HOP.contains(&name) || name == TRAILER {
            headers.append(name, value);
        }
    }
    let has_body = *method != Method::HEAD && !is_bodiless(status);
    let body = match has_body {
        true => message.slice(end + 4..),
        false => Bytes::new(),
    };
    // The length of a whole answer is the length of its body; for HEAD, of the body that GET would send.
    let is_announced = *method == Method::HEAD || has_body && has_more;
    let length = match is_announced {
        true => length(&headers)?,
        false => None,
    };
    if length.is_none() {
        headers.remove(CONTENT_LENGTH);
    }
    Ok(Answered {
        status,
        headers,
        body,
        has_body,
        length: length.filter(|_| has_body),
    })
}

/// The announced length. One that clients could misunderstand is an error.
fn length(headers: &HeaderMap) -> Result<Option<u64>, String> {
    let mut lengths = headers.get_all(CONTENT_LENGTH).iter();
    let (first, second) = (lengths.next(), lengths.next());
    let Some(first) = first else {
        return Ok(None);
    };
    let is_number = second.is_none() && first.as_bytes().iter().all(u8::is_ascii_digit);
    let text = first.to_str().ok().filter(|_| is_number);
    match text.and_then(|text| text.parse().ok()) {
        Some(length) => Ok(Some(length)),
        None => Err("its content-length is invalid".to_owned()),
    }
}

fn is_bodiless(status: StatusCode) -> bool {
    matches!(
        status,
        StatusCode::NO_CONTENT | StatusCode::NOT_MODIFIED | StatusCode::RESET_CONTENT
    )
}

fn status(line: &[u8]) -> Result<StatusCode, String> {
    let wrong = || {
        format!(
            "it does not begin with a status line such as HTTP/1.1 200 OK, but with {}",
            shown(line)
        )
    };
    let rest = line.strip_prefix(b"HTTP/1.").ok_or_else(wrong)?;
    let code = rest.get(2..5).filter(|_| rest.get(1) == Some(&b' '));
    let has_end = matches!(rest.get(5), None | Some(b' '));
    let code = code.filter(|_| has_end).ok_or_else(wrong)?;
    let status = StatusCode::from_bytes(code).map_err(|_| wrong())?;
    match status.as_u16() {
        200..600 => Ok(status),
        _ => Err(format!(
            "the status {} is not from 200 to 599",
            status.as_u16()
        )),
    }
}

/// Parses a line of a head.
pub(super) fn field(line: &[u8]) -> Result<(HeaderName, HeaderValue), String> {
    let colon = line.iter().position(|byte| *byte == b':');
    let wrong = || format!("invalid header field {}", shown(line));
    let (name, value) = line.split_at(colon.ok_or_else(wrong)?);
    let name = HeaderName::from_bytes(name).map_err(|_| wrong())?;
    let value = HeaderValue::from_bytes(value[1..].trim_ascii()).map_err(|_| wrong())?;
    Ok((name, value))
}

/// The beginning of a line, for messages.
fn shown(line: &[u8]) -> String {
    let line = String::from_utf8_lossy(&line[..line.len().min(80)]);
    format!("{line:?}")
}

/// The lines of a head. Each ends with CR LF, except the last one.
pub(super) struct Lines<'a>(pub(super) &'a [u8]);

impl<'a> Iterator for Lines<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        if self.0.is_empty() {
            return None;
        }
        let end = self.0.windows(2).position(|two| two == b"\r\n");
        let (line, rest) = match end {
            Some(end) => (&self.0[..end], &self.0[end + 2..]),
            None => (self.0, &[][..]),
        };
        self.0 = rest;
        Some(line)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> Result<Answered, String> {
        let message = Bytes::copy_from_slice(text.as_bytes());
        parse(&Method::GET, &message, false)
    }

    #[test]
    fn an_answer_is_read() {
        let text = "HTTP/1.1 201 Created\r\nContent-Type: text/plain\r\nset-cookie: a=1\r\nset-cookie: b=2\r\n\
                    connection: close\r\ncontent-length: 99\r\n\r\nhello\r\n\r\nworld";
        let answer = of(text).unwrap();
        assert_eq!(answer.status, StatusCode::CREATED);
        assert_eq!(answer.headers.get("content-type").unwrap(), "text/plain");
        assert_eq!(answer.headers.get_all("set-cookie").iter().count(), 2);
        assert_eq!(answer.headers.len(), 3);
        assert_eq!(&answer.body[..], b"hello\r\n\r\nworld");
        let empty = of("HTTP/1.1 200\r\n\r\n").unwrap();
        assert!(empty.body.is_empty() && empty.headers.is_empty());
    }

    #[test]
    fn bodies_that_are_not_allowed_are_dropped() {
        for status in [204, 304, 205] {
            let answer = of(&format!("HTTP/1.1 {status} X\r\n\r\nbody")).unwrap();
            assert!(answer.body.is_empty(), "{status}");
        }
        let text = Bytes::from_static(b"HTTP/1.1 200 OK\r\ncontent-length: 7\r\n\r\nbody");
        let head = parse(&Method::HEAD, &text, false).unwrap();
        assert_eq!(head.headers.get("content-length").unwrap(), "7");
        assert!(head.body.is_empty());
        for length in [
            "x",
            "-5",
            "+5",
            "",
            "5\r\ncontent-length: 6",
            "99999999999999999999",
        ] {
            let text = format!("HTTP/1.1 200 OK\r\ncontent-length: {length}\r\n\r\n");
            for (method, has_more) in [(Method::HEAD, false), (Method::GET, true)] {
                let error = parse(&method, &text.clone().into(), has_more).unwrap_err();
                assert_eq!(error, "its content-length is invalid", "{length}");
            }
        }
    }

    #[test]
    fn the_length_of_an_answer_in_parts_is_kept() {
        let parse_text =
            |text: &'static str| parse(&Method::GET, &Bytes::from_static(text.as_bytes()), true);
        let answer = parse_text("HTTP/1.1 200 OK\r\ncontent-length: 7\r\n\r\nbody").unwrap();
        assert_eq!(answer.headers.get("content-length").unwrap(), "7");
        assert_eq!((answer.length, &answer.body[..]), (Some(7), &b"body"[..]));
        let answer = parse_text("HTTP/1.1 204 No\r\ncontent-length: 7\r\n\r\nbody").unwrap();
        assert_eq!((answer.length, answer.headers.len()), (None, 0));
    }

    #[test]
    fn invalid_answers_are_described() {
        for (text, expected) in [
            ("", "its head does not end"),
            ("hello", "its head does not end"),
            ("hello\r\n\r\n", "it does not begin with a status line"),
            (
                "HTTP/1.1 20\r\n\r\n",
                "it does not begin with a status line",
            ),
            (
                "HTTP/1.1 2000\r\n\r\n",
                "it does not begin with a status line",
            ),
            (
                "HTTP/2 200 OK\r\n\r\n",
                "it does not begin with a status line",
            ),
            ("HTTP/1.1 100 Continue\r\n\r\n", "the status 100 is not"),
            ("HTTP/1.1 999 X\r\n\r\n", "the status 999 is not"),
            (
                "HTTP/1.1 200 OK\r\nno colon\r\n\r\n",
                "invalid header field",
            ),
            ("HTTP/1.1 200 OK\r\na b: c\r\n\r\n", "invalid header field"),
            (
                "HTTP/1.1 200 OK\r\na: b\nc: d\r\n\r\n",
                "invalid header field",
            ),
        ] {
            let error = of(text).unwrap_err();
            assert!(error.starts_with(expected), "{text:?}: {error}");
        }
        let many = "x: y\r\n".repeat(MAX_FIELDS + 1);
        assert!(of(&format!("HTTP/1.1 200 OK\r\n{many}\r\n")).is_err());
        let long = "y".repeat(MAX_HEAD);
        assert!(of(&format!("HTTP/1.1 200 OK\r\nx: {long}\r\n\r\n")).is_err());
    }
}
