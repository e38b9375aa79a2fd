//! Writes the response message of a task.

use super::fields::hop_by_hop;
use super::{Field, Invalid, find};

/// How many bytes of a message are held, and what happens to more.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Limit {
    /// Parts of the message are taken out meanwhile. A message of which more is held is invalid.
    Held(usize),
    /// The message is taken out when it is complete. The rest of its body is dropped and counted.
    Kept(usize),
}

/// A response message that is being written.
#[derive(Debug)]
pub(crate) struct Response {
    bytes: Vec<u8>,
    limit: Limit,
    /// The bytes of the body that were dropped.
    dropped: usize,
    /// The gateway sends a file instead of the body.
    names_file: bool,
}

impl Response {
    /// Writes the head of a message. Hop-by-hop fields are left out. `length` becomes
    /// `content-length`; a `content-length` among `fields` is ignored.
    pub(crate) fn new(
        status: u16,
        reason: &str,
        fields: &[Field<'_>],
        length: Option<u64>,
        limit: Limit,
    ) -> Result<Self, Invalid> {
        if !(200..=599).contains(&status) {
            return Err(Invalid(format!(
                "its status is {status}: expected 200 to 599"
            )));
        }
        let is_printable = reason.bytes().all(|byte| matches!(byte, b' '..=b'~'));
        let reason = if is_printable { reason } else { "" };
        let mut bytes = format!("HTTP/1.1 {status} {reason}\r\n").into_bytes();
        // The gateway needs the names of the trailers.
        let is_kept = |field: &&Field<'_>| {
            field.is("trailer") || !hop_by_hop(field, fields) && !field.is("content-length")
        };
        let kept = fields.iter().filter(is_kept);
        for field in kept {
            bytes.extend_from_slice(field.name.to_ascii_lowercase().as_bytes());
            bytes.extend_from_slice(b": ");
            bytes.extend_from_slice(field.value);
            bytes.extend_from_slice(b"\r\n");
        }
        if let Some(length) = length {
            bytes.extend_from_slice(format!("content-length: {length}\r\n").as_bytes());
        }
        bytes.extend_from_slice(b"\r\n");
        let mut response = Self {
            bytes: Vec::new(),
            limit,
            dropped: 0,
            names_file: find(fields, "x-sendfile").is_some(),
        };
        response.append(&bytes)?;
        Ok(response)
    }

    /// What has been written and was not taken out yet; `None` if it must be taken out as a whole.
    pub(crate) fn unsent_mut(&mut self) -> Option<&mut Vec<u8>> {
        let is_held = matches!(self.limit, Limit::Held(_));
        (is_held && !self.names_file).then_some(&mut self.bytes)
    }

    /// Appends bytes of the body. Fails if too many are held.
    pub(crate) fn append(&mut self, body: &[u8]) -> Result<(), Invalid> {
        let (Limit::Held(max) | Limit::Kept(max)) = self.limit;
        let (kept, surplus) = body.split_at(body.len().min(max - self.bytes.len()));
        if !surplus.is_empty() && matches!(self.limit, Limit::Held(_)) {
            return Err(Invalid(format!(
                "it has more than {max} bytes: let the application write it to a file, and send the file with the header X-Sendfile"
            )));
        }
        self.bytes.extend_from_slice(kept);
        self.dropped += surplus.len();
        Ok(())
    }

    /// The number of bytes of the body that were dropped.
    pub(crate) fn dropped(&self) -> usize {
        self.dropped
    }

    pub(crate) fn into_message(self) -> Vec<u8> {
        self.bytes
    }
}

/// Whether a response has no body, whatever its fields say.
pub(crate) fn has_no_body(status: u16, is_head: bool) -> bool {
    is_head || status < 200 || matches!(status, 204 | 304)
}

#[cfg(test)]
mod tests {
    use super::super::fields;
    use super::*;

    #[test]
    fn leaves_out_what_belongs_to_the_connection() {
        let all =
            fields(b"Set-Cookie: a\nSET-COOKIE: b\nConnection: x-y\nX-Y: 1\nContent-Length: 5\n")
                .unwrap();
        let mut response = Response::new(200, "OK", &all, None, Limit::Held(1000)).unwrap();
        response.append(b"hello").unwrap();
        let text = String::from_utf8(response.into_message()).unwrap();
        assert_eq!(
            text,
            "HTTP/1.1 200 OK\r\nset-cookie: a\r\nset-cookie: b\r\n\r\nhello"
        );
        let response =
            Response::new(304, "bad\x01reason", &all, Some(5), Limit::Held(1000)).unwrap();
        let text = String::from_utf8(response.into_message()).unwrap();
        assert!(
            text.starts_with("HTTP/1.1 304 \r\n") && text.contains("content-length: 5\r\n"),
            "{text}"
        );
    }

    #[test]
    fn limits_the_size() {
        let new = |status, max| Response::new(status, "", &[], None, Limit::Held(max));
        let mut response = new(200, 18).unwrap();
        response.append(b"x").unwrap();
        assert!(response.append(b"y").unwrap_err().0.contains("X-Sendfile"));
        assert!(new(200, 16).is_err());
        assert!(new(199, 20).is_err());
        assert!(new(600, 20).is_err());
    }

    #[test]
    fn counts_what_is_not_kept() {
        let mut response = Response::new(200, "", &[], None, Limit::Kept(18)).unwrap();
        response.append(b"xyz").unwrap();
        response.append(b"z").unwrap();
        assert!(response.unsent_mut().is_none());
        assert_eq!(response.dropped(), 3);
        assert!(response.into_message().ends_with(b"\r\n\r\nx"));
    }
}
