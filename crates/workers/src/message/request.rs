//! Parses the request message of a task.

use super::fields::content_length;
use super::target::Target;
use super::{Field, Invalid, MAX_HEAD, fields, find};

/// A request. Everything in it is as the client sent it.
#[derive(Debug)]
pub(crate) struct Request<'a> {
    pub(crate) target: Target<'a>,
    pub(crate) fields: Vec<Field<'a>>,
    pub(crate) content_length: Option<u64>,
    pub(crate) body: &'a [u8],
}

impl<'a> Request<'a> {
    /// Parses a whole message. Its lines end with CRLF.
    pub(crate) fn parse(message: &'a [u8]) -> Result<Self, Invalid> {
        let end = end_of_head(message)?;
        let (head, body) = (&message[..end], &message[end + 4..]);
        let line = head.windows(2).position(|pair| pair == b"\r\n");
        let (line, rest) = head.split_at(line.unwrap_or(head.len()));
        if rest
            .iter()
            .zip(&rest[1.min(rest.len())..])
            .any(|(a, b)| *b == b'\n' && *a != b'\r')
        {
            return Err(Invalid::new("a line does not end with CRLF"));
        }
        let target = Target::parse(line)?;
        let fields = fields(rest.strip_prefix(b"\r\n").unwrap_or(rest))?;
        if find(&fields, "host").is_none() {
            return Err(Invalid::new("it has no host field"));
        }
        if find(&fields, "transfer-encoding").is_some() {
            return Err(Invalid::new(
                "transfer-encoding is not supported: send the body with content-length",
            ));
        }
        let content_length = content_length(&fields)?;
        if !body.is_empty() && content_length != Some(body.len() as u64) {
            return Err(Invalid(format!(
                "its content-length does not match its body ({} bytes)",
                body.len()
            )));
        }
        Ok(Self {
            target,
            fields,
            content_length,
            body,
        })
    }

    pub(crate) fn is_head(&self) -> bool {
        self.target.method == "HEAD"
    }
}

/// Where the empty line begins that ends the head.
fn end_of_head(message: &[u8]) -> Result<usize, Invalid> {
    // The first line may be as long as the fields.
    let searched = &message[..message.len().min(2 * MAX_HEAD + 4)];
    let end = searched.windows(4).position(|four| four == b"\r\n\r\n");
    end.ok_or_else(|| {
        Invalid::new(match searched.len() == message.len() {
            true => "its head does not end".to_owned(),
            false => format!("its head has more than {} bytes", 2 * MAX_HEAD),
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_a_message() {
        let request = Request::parse(
            b"POST https://a.test/x HTTP/2\r\nhost: a.test\r\ncookie: a=b\r\ncookie: c=\xff\r\ncontent-length: 4\r\n\r\n\r\n\r\n",
        )
        .unwrap();
        assert_eq!(
            (request.target.method, request.body),
            ("POST", &b"\r\n\r\n"[..])
        );
        assert_eq!((request.fields.len(), request.content_length), (4, Some(4)));
        assert_eq!(request.fields[2].value, b"c=\xff");
    }

    #[test]
    fn rejects_hostile_messages() {
        let line = "GET http://a/ HTTP/1.1\r\n";
        for (bad, why) in [
            (String::new(), "does not end"),
            (line.to_owned(), "does not end"),
            (format!("{line}\r\n"), "no host"),
            (
                format!("{line}host: a\r\ncontent-length: 1\r\n\r\nab"),
                "content-length",
            ),
            (format!("{line}host: a\r\n\r\nbody"), "content-length"),
            (
                format!("{line}host: a\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\na"),
                "content-length",
            ),
            (
                format!("{line}host: a\r\ntransfer-encoding: chunked\r\n\r\n"),
                "transfer-encoding",
            ),
            (format!("{line}host: a\nx: y\r\n\r\n"), "CRLF"),
            (format!("{line}host: a\r\nx: y\n\n\r\n\r\n"), "CRLF"),
            (format!("{line}host: a\r\nx: \r y\r\n\r\n"), "header field"),
            (format!("{line}host: a\r\n folded\r\n\r\n"), "header field"),
            (
                format!(
                    "GET http://a/{} HTTP/1.1\r\nhost: a\r\n\r\n",
                    "x".repeat(2 * MAX_HEAD)
                ),
                "head has more",
            ),
            (
                format!("{line}host: a\r\nx: {}\r\n\r\n", "y".repeat(MAX_HEAD)),
                "header fields have more",
            ),
            (
                format!("{line}host: a\r\n{}\r\n", "x: y\r\n".repeat(100)),
                "more than 100",
            ),
        ] {
            let error = Request::parse(bad.as_bytes()).unwrap_err().0;
            assert!(error.contains(why), "{error}: {why}");
        }
    }
}
