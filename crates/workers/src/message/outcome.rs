//! What the answer to the request of a call or job means for it: one mapping for every adapter.

use super::retry_after::retry_after;
use super::{Field, fields, find_text};
use crate::adapter::{Answer, EX_TEMPFAIL, ErrorText, result_of};
use std::time::SystemTime;
use stoker_wire::{Codec, Status};

/// Maximum size of the part of an answer's body that becomes part of an error message, in bytes.
const MAX_EXCERPT: usize = 2 << 10;

/// The complete answer to the request of a call or job.
#[derive(Debug, Default)]
pub(crate) struct Posted {
    /// The response message, without what was dropped at its end.
    pub(crate) message: Vec<u8>,
    /// The number of bytes of its body that were dropped.
    pub(crate) dropped: usize,
    /// The exit code of the script, as far as it is known; 0 if it is not.
    pub(crate) exit_code: i32,
    pub(crate) error_text: ErrorText,
}

/// A response message, taken apart.
struct Parts<'a> {
    code: u16,
    /// Code and reason: `404 Not Found`.
    status: &'a str,
    fields: Vec<Field<'a>>,
    body: &'a [u8],
}

/// The answer to the task.
pub(crate) fn outcome(is_job: bool, posted: &Posted) -> Answer {
    let Some(parts) = parts(&posted.message) else {
        return Answer::exception("the head of its answer is invalid");
    };
    let failed = |status| failure_answer(status, &parts, posted);
    match parts.code {
        200..=299 => success_answer(is_job, &parts, posted),
        // The server can't run it now, and says so.
        429 | 503 => Answer {
            status: if is_job {
                Status::RETRY
            } else {
                Status::EXCEPTION
            },
            retry_after: find_text(&parts.fields, "retry-after")
                .and_then(|value| retry_after(value, SystemTime::now())),
            ..failed(Status::EXCEPTION)
        },
        408 | 425 | 500..=599 => failed(Status::EXCEPTION),
        _ if is_job => failed(Status::FAILED),
        400 | 422 => failed(Status::INVALID_ARGUMENT),
        404 | 410 => failed(Status::NOT_FOUND),
        _ => failed(Status::EXCEPTION),
    }
}

/// A status of 2xx. The exit code of a script counts as it does for `exec`.
fn success_answer(is_job: bool, parts: &Parts<'_>, posted: &Posted) -> Answer {
    let text = |code| posted.error_text.append_to(&format!("exit code {code}"));
    match posted.exit_code {
        0 => {
            let kind = find_text(&parts.fields, "content-type").unwrap_or_default();
            Answer {
                codec: Codec::of_content_type(kind),
                ..result_of(is_job, parts.body, parts.body.len() + posted.dropped)
            }
        }
        EX_TEMPFAIL if is_job => Answer::new(Status::RETRY, text(EX_TEMPFAIL)),
        code => Answer::exception(text(code)),
    }
}

fn failure_answer(status: Status, parts: &Parts<'_>, posted: &Posted) -> Answer {
    let text = format!("HTTP {}", parts.status);
    let text = match excerpt(parts) {
        Some(excerpt) => format!("{}: {excerpt}", text.trim_end()),
        None => text.trim_end().to_owned(),
    };
    Answer {
        class: Some(format!("HTTP {}", parts.code)),
        ..Answer::new(status, posted.error_text.append_to(&text))
    }
}

/// The beginning of the body, if people can read it: pages of HTML are for browsers.
fn excerpt<'a>(parts: &Parts<'a>) -> Option<&'a str> {
    let mut end = parts.body.len().min(MAX_EXCERPT);
    if end < parts.body.len() {
        // The excerpt must not end in the middle of a character.
        while end > 0 && parts.body[end] & 0xc0 == 0x80 {
            end -= 1;
        }
    }
    let text = std::str::from_utf8(&parts.body[..end]).ok()?.trim();
    (!text.is_empty() && !text.starts_with('<')).then_some(text)
}

/// Takes a response message apart. Its lines end with CRLF.
fn parts(message: &[u8]) -> Option<Parts<'_>> {
    let end = message.windows(4).position(|four| four == b"\r\n\r\n")?;
    let (head, body) = (&message[..end + 2], &message[end + 4..]);
    let line = head.windows(2).position(|two| two == b"\r\n")?;
    let status = std::str::from_utf8(&head[..line]).ok()?;
    let status = status.strip_prefix("HTTP/1.1 ")?;
    Some(Parts {
        code: status.get(..3)?.parse().ok()?,
        status,
        fields: fields(&head[line + 2..]).ok()?,
        body,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn posted(message: &str) -> Posted {
        Posted {
            message: message.as_bytes().to_vec(),
            ..Posted::default()
        }
    }

    /// The answer to a job or a call whose request was answered with this status and these fields.
    fn answer(is_job: bool, status: &str) -> Answer {
        let message = format!("HTTP/1.1 {status}\r\n\r\nwhy\n");
        outcome(is_job, &posted(&message))
    }

    #[test]
    fn a_status_of_2xx_is_done_with_the_body_as_result() {
        for is_job in [true, false] {
            let done = answer(is_job, "201 Created\r\ncontent-type: application/json");
            assert_eq!((done.status, done.codec), (Status::OK, Codec::JSON));
            assert_eq!((&done.body[..], done.class), (&b"why\n"[..], None));
        }
        let empty = outcome(true, &posted("HTTP/1.1 204 \r\n\r\n"));
        assert_eq!((empty.status, empty.codec), (Status::OK, Codec::RAW));
        assert!(empty.body.is_empty());
    }

    #[test]
    fn other_statuses_fail_it() {
        for (status, job, call) in [
            ("302 Found", Status::FAILED, Status::EXCEPTION),
            ("400 Bad", Status::FAILED, Status::INVALID_ARGUMENT),
            ("401 Who", Status::FAILED, Status::EXCEPTION),
            ("404 Not Found", Status::FAILED, Status::NOT_FOUND),
            ("408 Timeout", Status::EXCEPTION, Status::EXCEPTION),
            ("410 Gone", Status::FAILED, Status::NOT_FOUND),
            ("422 Invalid", Status::FAILED, Status::INVALID_ARGUMENT),
            ("425 Early", Status::EXCEPTION, Status::EXCEPTION),
            ("429 Slow Down", Status::RETRY, Status::EXCEPTION),
            ("500 Error", Status::EXCEPTION, Status::EXCEPTION),
            ("501 No", Status::EXCEPTION, Status::EXCEPTION),
            ("503 Busy", Status::RETRY, Status::EXCEPTION),
            ("599 ", Status::EXCEPTION, Status::EXCEPTION),
        ] {
            for (is_job, expected) in [(true, job), (false, call)] {
                let failed = answer(is_job, status);
                assert_eq!(failed.status, expected, "{status}");
                let text = String::from_utf8(failed.body).unwrap();
                assert_eq!(text, format!("HTTP {}: why", status.trim_end()));
                assert_eq!(failed.class, Some(format!("HTTP {}", &status[..3])));
            }
        }
    }

    #[test]
    fn retry_after_is_when_it_runs_again() {
        for status in ["429 Slow", "503 Busy"] {
            let later = answer(true, &format!("{status}\r\nRetry-After: 7"));
            assert_eq!(later.retry_after, Some(7000));
            let later = answer(true, &format!("{status}\r\nretry-after: soon"));
            assert_eq!((later.status, later.retry_after), (Status::RETRY, None));
        }
        let failed = answer(true, "500 Error\r\nretry-after: 7");
        assert_eq!(failed.retry_after, None);
    }

    #[test]
    fn an_exit_code_counts_as_for_a_program() {
        for (code, is_job, expected) in [
            (75, true, Status::RETRY),
            (75, false, Status::EXCEPTION),
            (3, true, Status::EXCEPTION),
        ] {
            let mut posted = posted("HTTP/1.1 200 OK\r\n\r\nhi");
            posted.exit_code = code;
            posted.error_text.note(b"bad\n");
            let failed = outcome(is_job, &posted);
            assert_eq!(failed.status, expected);
            assert_eq!(failed.body, format!("exit code {code}: bad").as_bytes());
        }
        // php-cgi exits with 255 after an error that it has answered.
        let mut posted = posted("HTTP/1.1 404 Not Found\r\n\r\n");
        posted.exit_code = 255;
        assert_eq!(outcome(true, &posted).status, Status::FAILED);
    }

    #[test]
    fn a_message_quotes_what_people_can_read() {
        let long = "é".repeat(MAX_EXCERPT);
        for (body, expected) in [
            ("<html>error</html>", "HTTP 500 Error".to_owned()),
            (" ", "HTTP 500 Error".to_owned()),
            (
                &long[..],
                format!("HTTP 500 Error: {}", &long[..MAX_EXCERPT]),
            ),
        ] {
            let message = format!("HTTP/1.1 500 Error\r\n\r\n{body}");
            let failed = outcome(true, &posted(&message));
            assert_eq!(String::from_utf8(failed.body).unwrap(), expected);
        }
        let mut posted = posted("HTTP/1.1 500 Error\r\n\r\n");
        posted.error_text.note(b"PHP Fatal error: x\n");
        let failed = outcome(true, &posted);
        assert_eq!(failed.body, b"HTTP 500 Error: PHP Fatal error: x");
    }

    #[test]
    fn a_result_above_the_limit() {
        let mut posted = posted("HTTP/1.1 200 OK\r\n\r\nhi");
        posted.dropped = 100 << 20;
        let done = outcome(true, &posted);
        assert_eq!((done.status, done.body.len()), (Status::OK, 0));
        assert_eq!(outcome(false, &posted).status, Status::EXCEPTION);
    }
}
