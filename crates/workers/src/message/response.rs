//! Writes the response message of a task.

use super::fields::hop_by_hop;
use super::{Field, Invalid, find};

/// A response message that is being written.
#[derive(Debug)]
pub(crate) struct Response {
    bytes: Vec<u8>,
    max: usize,
    /// The gateway sends a file instead of the body.
    names_file: bool,
}

impl Response {
    /// Writes the head of a message. No more than `max` bytes are held. Hop-by-hop fields are left out. `length` becomes
    /// `content-length`; a `content-length` among `fields` is ignored.
    pub(crate) fn new(
        status: u16,
        reason: &str,
        fields: &[Field<'_>],
        length: Option<u64>,
        max: usize,
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
            max,
            names_file: find(fields, "x-sendfile").is_some(),
        };
        response.append(&bytes)?;
        Ok(response)
    }

    /// What has been written and was not taken out yet; `None` if it must be sent as a whole.
    pub(crate) fn held(&mut self) -> Option<&mut Vec<u8>> {
        (!self.names_file).then_some(&mut self.bytes)
    }

    /// Appends bytes of the body. Fails if too many are held.
    pub(crate) fn append(&mut self, body: &[u8]) -> Result<(), Invalid> {
        if body.len() > self.max - self.bytes.len() {
            return Err(Invalid(format!(
                "it has more than {} bytes: let the application write it to a file, and send the file with the header X-Sendfile",
                self.max
            )));
        }
        self.bytes.extend_from_slice(body);
        Ok(())
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
        let mut response = Response::new(200, "OK", &all, None, 1000).unwrap();
        response.append(b"hello").unwrap();
        let text = String::from_utf8(response.into_message()).unwrap();
        assert_eq!(
            text,
            "HTTP/1.1 200 OK\r\nset-cookie: a\r\nset-cookie: b\r\n\r\nhello"
        );
        let response = Response::new(304, "bad\x01reason", &all, Some(5), 1000).unwrap();
        let text = String::from_utf8(response.into_message()).unwrap();
        assert!(
            text.starts_with("HTTP/1.1 304 \r\n") && text.contains("content-length: 5\r\n"),
            "{text}"
        );
    }

    #[test]
    fn limits_the_size() {
        let mut response = Response::new(200, "", &[], None, 18).unwrap();
        response.append(b"x").unwrap();
        assert!(response.append(b"y").unwrap_err().0.contains("X-Sendfile"));
        assert!(Response::new(200, "", &[], None, 16).is_err());
        assert!(Response::new(199, "", &[], None, 20).is_err());
        assert!(Response::new(600, "", &[], None, 20).is_err());
    }
}
