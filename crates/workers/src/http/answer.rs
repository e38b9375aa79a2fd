//! Reads the answer of an upstream server.

use super::chunked::Chunked;
use crate::message::{
    Field, Head, Invalid, Limit, Response, content_length, excerpt, fields, find, has_no_body,
    has_token, trailers,
};
use crate::upstream::Finished;

/// Converts the answer of a server into a response message while it arrives.
#[derive(Debug)]
pub(super) struct HttpResponse {
    is_head: bool,
    limit: Limit,
    head: Head,
    response: Option<Response>,
    is_without_body: bool,
    rest: Rest,
    /// The connection can be used again after this answer.
    is_reusable: bool,
}

/// The rest of the body.
#[derive(Debug)]
enum Rest {
    Bytes(u64),
    Chunked(Chunked),
    /// The end of the connection ends the body.
    UntilClosed,
}

impl HttpResponse {
    /// An answer, to a HEAD request if `is_head`.
    pub(super) fn new(is_head: bool, limit: Limit) -> Self {
        Self {
            is_head,
            limit,
            head: Head::default(),
            response: None,
            is_without_body: false,
            rest: Rest::UntilClosed,
            is_reusable: false,
        }
    }

    /// Takes bytes of the answer. Returns whether it is complete.
    pub(super) fn feed(&mut self, bytes: &[u8]) -> Result<bool, Invalid> {
        if self.response.is_some() {
            return self.append(bytes);
        }
        let mut bytes = bytes.to_vec();
        loop {
            let Some((head, rest)) = self.head.feed(&bytes)? else {
                return Ok(false);
            };
            if self.begin(&head)? {
                return self.append(&rest);
            }
            // The head belongs to an interim answer, such as 103: the final one follows.
            bytes = rest;
        }
    }

    /// Whether the response is complete if the server closes the connection now.
    pub(super) fn is_complete_on_close(&self) -> bool {
        self.response.is_some() && matches!(self.rest, Rest::UntilClosed)
    }

    /// The message as far as it has arrived and was not taken out; `None` while its head is not complete, and if it has no
    /// body.
    pub(super) fn unsent_mut(&mut self) -> Option<&mut Vec<u8>> {
        let response = self.response.as_mut().filter(|_| !self.is_without_body);
        response.and_then(Response::unsent_mut)
    }

    pub(super) fn finish(self) -> Result<Finished, Invalid> {
        let mut response = self
            .response
            .ok_or_else(|| Invalid::new("it has no head"))?;
        Ok(Finished {
            trailers: match &self.rest {
                Rest::Chunked(chunked) if response.unsent_mut().is_some() => {
                    trailers(chunked.trailers())?
                }
                _ => Vec::new(),
            },
            dropped: response.dropped(),
            message: response.into_message(),
            is_reusable: self.is_reusable,
            ..Finished::default()
        })
    }

    /// Takes a head. Returns false if it belongs to an interim answer.
    fn begin(&mut self, head: &[u8]) -> Result<bool, Invalid> {
        let end = head
            .iter()
            .position(|byte| *byte == b'\n')
            .map_or(head.len(), |at| at + 1);
        let (line, block) = head.split_at(end);
        let (minor, code, reason) = status_line(line).ok_or_else(|| {
            Invalid(format!(
                "it begins with {} instead of a status line",
                excerpt(line)
            ))
        })?;
        let all = fields(block)?;
        match code {
            101 => {
                return Err(Invalid::new(
                    "it switches to another protocol, which was not requested",
                ));
            }
            100..200 => return Ok(false),
            _ => {}
        }
        self.is_without_body = has_no_body(code, self.is_head);
        let (rest, is_clear) = rest(&all, self.is_without_body)?;
        let mut connections = all.iter().filter(|field| field.is("connection"));
        let closes = connections.any(|field| has_token(field.value, "close"));
        self.is_reusable = minor >= 1 && !closes && is_clear && !matches!(rest, Rest::UntilClosed);
        // A length that chunks contradict is not passed on.
        let length = match rest {
            Rest::Chunked(_) => None,
            _ => content_length(&all)?.filter(|_| code != 204),
        };
        self.rest = rest;
        self.response = Some(Response::new(code, &reason, &all, length, self.limit)?);
        Ok(true)
    }

    fn append(&mut self, bytes: &[u8]) -> Result<bool, Invalid> {
        let Some(response) = &mut self.response else {
            return Ok(false);
        };
        let surplus = match &mut self.rest {
            Rest::UntilClosed => {
                response.append(bytes)?;
                return Ok(false);
            }
            Rest::Bytes(missing) => {
                let count = (*missing).min(bytes.len() as u64);
                *missing -= count;
                let (now, surplus) = bytes.split_at(count as usize);
                response.append(now)?;
                (*missing == 0).then_some(surplus)
            }
            Rest::Chunked(chunked) => chunked.feed(bytes, |content| response.append(content))?,
        };
        // Bytes after the answer belong to nothing, so what follows on this connection can't be trusted.
        if surplus.is_some_and(|surplus| !surplus.is_empty()) {
            self.is_reusable = false;
        }
        Ok(surplus.is_some())
    }
}

/// The minor version, the status and the reason of `HTTP/1.1 200 OK`.
fn status_line(line: &[u8]) -> Option<(u8, u16, String)> {
    let line = line.trim_ascii_end().strip_prefix(b"HTTP/1.")?;
    let [minor @ b'0'..=b'9', b' ', code @ ..] = line else {
        return None;
    };
    let (code, reason) = code.split_at_checked(3)?;
    let is_code = code.iter().all(u8::is_ascii_digit) && reason.first().is_none_or(|b| *b == b' ');
    let code = std::str::from_utf8(code).ok().filter(|_| is_code)?;
    let reason = String::from_utf8_lossy(reason).trim().to_owned();
    Some((minor - b'0', code.parse().ok()?, reason))
}

/// How the body ends, and whether the head says so without a contradiction.
fn rest(all: &[Field<'_>], is_without_body: bool) -> Result<(Rest, bool), Invalid> {
    let length = content_length(all)?;
    if is_without_body {
        return Ok((Rest::Bytes(0), true));
    }
    match find(all, "transfer-encoding") {
        Some(encoding) if encoding.eq_ignore_ascii_case(b"chunked") => {
            Ok((Rest::Chunked(Chunked::default()), length.is_none()))
        }
        Some(encoding) => Err(Invalid(format!(
            "its transfer-encoding is {}, but only chunked is supported",
            excerpt(encoding)
        ))),
        None => Ok((length.map_or(Rest::UntilClosed, Rest::Bytes), true)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Feeds an answer in pieces of every size. Returns the message and whether the connection can be used again.
    fn read(answer: &str, is_head: bool) -> Result<(String, bool), String> {
        let results = (1..=answer.len()).map(|size| {
            let mut reader = HttpResponse::new(is_head, Limit::Held(1000));
            let mut is_over = false;
            for piece in answer.as_bytes().chunks(size) {
                if is_over {
                    // The exchange ends here; what has not been read is noticed before the next request.
                    break;
                }
                is_over = reader.feed(piece).map_err(|invalid| invalid.0)?;
            }
            if !is_over && !reader.is_complete_on_close() {
                return Err("unfinished".to_owned());
            }
            let finished = reader.finish().map_err(|invalid| invalid.0)?;
            let message = String::from_utf8(finished.message).unwrap();
            Ok((message, finished.is_reusable))
        });
        let results: Vec<_> = results.collect();
        assert!(
            results.iter().all(|result| result == &results[0]),
            "{results:?}"
        );
        results.into_iter().next().unwrap()
    }

    #[test]
    fn reads_answers_of_every_framing() {
        for (answer, message, is_reusable) in [
            (
                "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi",
                "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nhi",
                true,
            ),
            (
                "HTTP/1.1 200 OK\r\nTransfer-Encoding: Chunked\r\n\r\n2\r\nhi\r\n0\r\n\r\n",
                "HTTP/1.1 200 OK\r\n\r\nhi",
                true,
            ),
            (
                "HTTP/1.1 200 OK\r\n\r\nhi",
                "HTTP/1.1 200 OK\r\n\r\nhi",
                false,
            ),
            (
                "HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nhi",
                "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nhi",
                false,
            ),
            (
                "HTTP/1.1 200\r\nContent-Length: 0\r\nConnection: x, Close\r\nX: y\r\n\r\n",
                "HTTP/1.1 200 \r\ncontent-length: 0\r\n\r\n",
                false,
            ),
            (
                "HTTP/1.1 204 No Content\r\n\r\n",
                "HTTP/1.1 204 No Content\r\n\r\n",
                true,
            ),
            (
                "HTTP/1.1 304 Same\r\nContent-Length: 5\r\n\r\n",
                "HTTP/1.1 304 Same\r\ncontent-length: 5\r\n\r\n",
                true,
            ),
            (
                "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early\r\nLink: x\r\n\r\nHTTP/1.1 201 Made\r\nContent-Length: 0\r\n\r\n",
                "HTTP/1.1 201 Made\r\ncontent-length: 0\r\n\r\n",
                true,
            ),
            (
                "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
                "HTTP/1.1 200 OK\r\n\r\n",
                false,
            ),
        ] {
            assert_eq!(
                read(answer, false),
                Ok((message.to_owned(), is_reusable)),
                "{answer:?}"
            );
        }
        let head = read("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n", true).unwrap();
        assert_eq!(
            head,
            (
                "HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\n".to_owned(),
                true
            )
        );
    }

    #[test]
    fn a_surplus_is_not_taken_for_the_next_answer() {
        let mut reader = HttpResponse::new(false, Limit::Held(1000));
        assert!(
            reader
                .feed(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhiHTTP/1.1 200 OK\r\n")
                .unwrap()
        );
        let finished = reader.finish().unwrap();
        let message = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nhi";
        assert_eq!(finished.message, message);
        assert!(!finished.is_reusable);
    }

    #[test]
    fn trailers_are_kept() {
        let mut reader = HttpResponse::new(false, Limit::Held(1000));
        let answer = b"HTTP/1.1 200 OK\r\nTrailer: X-Sum\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\nX-Sum: 7\r\n\r\n";
        assert!(reader.feed(answer).unwrap());
        let finished = reader.finish().unwrap();
        assert_eq!(finished.trailers, b"x-sum: 7\r\n");
        let message = String::from_utf8(finished.message).unwrap();
        assert!(message.contains("\r\ntrailer: X-Sum\r\n"), "{message}");
    }

    #[test]
    fn rejects_invalid_answers() {
        for (answer, why) in [
            ("SSH-2.0\r\n\r\n", "instead of a status line"),
            ("HTTP/2 200 OK\r\n\r\n", "instead of a status line"),
            ("HTTP/1.1 2000 OK\r\n\r\n", "instead of a status line"),
            ("HTTP/1.1 +20 OK\r\n\r\n", "instead of a status line"),
            ("\r\n\r\n", "instead of a status line"),
            ("HTTP/1.1 101 Switching\r\n\r\n", "another protocol"),
            ("HTTP/1.1 099 Low\r\n\r\n", "expected 200 to 599"),
            ("HTTP/1.1 600 High\r\n\r\n", "expected 200 to 599"),
            ("HTTP/1.1 200 OK\r\nno colon\r\n\r\n", "not a header field"),
            (
                "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
                "content-length",
            ),
            (
                "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n",
                "only chunked",
            ),
            (
                "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nx\r\n",
                "size of a chunk",
            ),
            (
                "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nhi",
                "unfinished",
            ),
            ("HTTP/1.1 200 OK\r\n", "unfinished"),
        ] {
            let error = read(answer, false).unwrap_err();
            assert!(error.contains(why), "{answer:?}: {error}");
        }
        let large = format!("HTTP/1.1 200 OK\r\n\r\n{}", "x".repeat(1000));
        assert!(read(&large, false).unwrap_err().contains("X-Sendfile"));
    }
}
