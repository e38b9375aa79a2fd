//! The answer of a CGI program: header fields, an empty line, and the body.

use super::fields::content_length;
use super::{Head, Invalid, Limit, Response, excerpt, fields, find_text, has_no_body};

/// Converts the output of a CGI program into a response message while it arrives.
#[derive(Debug)]
pub(crate) struct CgiAnswer {
    is_head: bool,
    limit: Limit,
    head: Head,
    response: Option<Response>,
    /// The number of bytes of the body that are still to come, if the program has stated a length.
    missing: Option<u64>,
    is_without_body: bool,
}

impl CgiAnswer {
    /// An answer, to a HEAD request if `is_head`.
    pub(crate) fn new(is_head: bool, limit: Limit) -> Self {
        Self {
            is_head,
            limit,
            head: Head::default(),
            response: None,
            missing: None,
            is_without_body: false,
        }
    }

    /// Adds output of the program.
    pub(crate) fn feed(&mut self, bytes: &[u8]) -> Result<(), Invalid> {
        if self.response.is_some() {
            return self.append(bytes);
        }
        let Some((head, rest)) = self.head.feed(bytes)? else {
            return Ok(());
        };
        self.begin(&head)?;
        self.append(&rest)
    }

    /// The message as far as it has arrived and was not taken out; `None` while its head is not complete, and if it has no
    /// body of its own.
    pub(crate) fn unsent_mut(&mut self) -> Option<&mut Vec<u8>> {
        let response = self.response.as_mut().filter(|_| !self.is_without_body);
        response.and_then(Response::unsent_mut)
    }

    /// The number of bytes of the body that were dropped.
    pub(crate) fn dropped(&self) -> usize {
        self.response.as_ref().map_or(0, Response::dropped)
    }

    /// The rest of the message, after the program has written everything.
    pub(crate) fn finish(self) -> Result<Vec<u8>, Invalid> {
        let Some(response) = self.response else {
            return Err(match self.head.bytes() {
                [] => Invalid::new("it wrote nothing"),
                bytes => no_head(bytes),
            });
        };
        match self.missing.filter(|_| !self.is_without_body) {
            Some(missing) if missing > 0 => Err(Invalid(format!(
                "it ended {missing} bytes before its content-length"
            ))),
            _ => Ok(response.into_message()),
        }
    }

    fn begin(&mut self, head: &[u8]) -> Result<(), Invalid> {
        let all = fields(head).map_err(|invalid| match head.starts_with(b"HTTP/") {
            true => no_head(head),
            false => invalid,
        })?;
        if all.is_empty() {
            return Err(no_head(head));
        }
        let is_redirect = find_text(&all, "location").is_some();
        let usual = if is_redirect { "302 Found" } else { "200 OK" };
        let status = find_text(&all, "status").unwrap_or(usual).trim();
        let (code, reason) = status.split_once(' ').unwrap_or((status, ""));
        let is_code = code.len() == 3 && code.bytes().all(|byte| byte.is_ascii_digit());
        let code: u16 = code.parse().ok().filter(|_| is_code).ok_or_else(|| {
            Invalid(format!(
                "its status is {}: expected a number",
                excerpt(status.as_bytes())
            ))
        })?;
        self.is_without_body = has_no_body(code, self.is_head);
        self.missing = content_length(&all)?;
        let passed_on: Vec<_> = all
            .into_iter()
            .filter(|field| !field.is("status"))
            .collect();
        let length = self.missing.filter(|_| code != 204);
        self.response = Some(Response::new(code, reason, &passed_on, length, self.limit)?);
        Ok(())
    }

    /// Bytes after the stated length, and those of a body that the response can't have, are dropped.
    fn append(&mut self, bytes: &[u8]) -> Result<(), Invalid> {
        let Some(response) = self.response.as_mut().filter(|_| !self.is_without_body) else {
            return Ok(());
        };
        let Some(missing) = &mut self.missing else {
            return response.append(bytes);
        };
        let count = (*missing).min(bytes.len() as u64);
        *missing -= count;
        response.append(&bytes[..count as usize])
    }
}

fn no_head(bytes: &[u8]) -> Invalid {
    Invalid(format!(
        "it does not begin with CGI header fields and an empty line, but with {} (NPH programs are not supported)",
        excerpt(bytes)
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(output: &[u8], is_head: bool) -> Result<String, Invalid> {
        let whole = run(output.chunks(output.len().max(1)), is_head);
        let bytewise = run(output.chunks(1), is_head);
        assert_eq!(whole, bytewise);
        whole
    }

    fn run<'a>(pieces: impl Iterator<Item = &'a [u8]>, is_head: bool) -> Result<String, Invalid> {
        let mut answer = CgiAnswer::new(is_head, Limit::Held(10_000));
        for piece in pieces {
            answer.feed(piece)?;
        }
        let message = answer.finish()?;
        Ok(String::from_utf8_lossy(&message).into_owned())
    }

    #[test]
    fn converts_answers() {
        for (output, message) in [
            (
                "Content-Type: a/b\r\n\r\nhi",
                "HTTP/1.1 200 OK\r\ncontent-type: a/b\r\n\r\nhi",
            ),
            (
                "Status: 404 Not Found\nA: b\n\nno",
                "HTTP/1.1 404 Not Found\r\na: b\r\n\r\nno",
            ),
            ("Status: 500\nA: b\n\n", "HTTP/1.1 500 \r\na: b\r\n\r\n"),
            (
                "Location: /x\n\n",
                "HTTP/1.1 302 Found\r\nlocation: /x\r\n\r\n",
            ),
            (
                "Status: 301 Moved\nLocation: /x\n\n",
                "HTTP/1.1 301 Moved\r\nlocation: /x\r\n\r\n",
            ),
            (
                "A: b\nContent-Length: 2\n\nhi and more",
                "HTTP/1.1 200 OK\r\na: b\r\ncontent-length: 2\r\n\r\nhi",
            ),
            ("Status: 204 Empty\n\nbody", "HTTP/1.1 204 Empty\r\n\r\n"),
            (
                "Status: 304 Same\nContent-Length: 9\n\n",
                "HTTP/1.1 304 Same\r\ncontent-length: 9\r\n\r\n",
            ),
        ] {
            assert_eq!(
                answer(output.as_bytes(), false).as_deref(),
                Ok(message),
                "{output:?}"
            );
        }
        let head = answer(b"A: b\nContent-Length: 9\n\n", true);
        assert_eq!(
            head.unwrap(),
            "HTTP/1.1 200 OK\r\na: b\r\ncontent-length: 9\r\n\r\n"
        );
    }

    #[test]
    fn rejects_invalid_answers() {
        for (output, why) in [
            ("", "it wrote nothing"),
            ("hello", "does not begin with CGI header fields"),
            ("\nhello", "does not begin with CGI header fields"),
            ("hello\n\n", "\"hello\" is not a header field"),
            (
                "HTTP/1.1 200 OK\nA: b\n\n",
                "NPH programs are not supported",
            ),
            ("Status: OK\n\n", "its status is \"OK\""),
            ("Status: +20\n\n", "its status is"),
            ("Status: 100 Continue\n\n", "expected 200 to 599"),
            ("Status: 600 x\n\n", "expected 200 to 599"),
            ("A: b\nContent-Length: 5\n\nhi", "3 bytes before"),
            ("A: b\nContent-Length: x\n\n", "content-length is invalid"),
        ] {
            let error = answer(output.as_bytes(), false).unwrap_err().0;
            assert!(error.contains(why), "{output:?}: {error}");
        }
        let large = [&b"A: b\n\n"[..], &[b'x'; 10_000]].concat();
        assert!(answer(&large, false).unwrap_err().0.contains("X-Sendfile"));
    }
}
