//! HTTP messages in frames (codec `http`), as `docs/reference/protocol.md` describes them, and their translation for CGI.

mod body;
mod cgi;
mod fields;
mod head;
mod outcome;
mod post;
mod request;
mod response;
mod retry_after;
mod target;
mod task_script;
mod variables;

pub(crate) use body::Body;
pub(crate) use cgi::CgiAnswer;
pub(crate) use fields::{
    Field, content_length, fields, find, find_text, has_token, hop_by_hop, is_plain, trailers,
};
pub(crate) use head::Head;
pub(crate) use outcome::{Posted, outcome};
pub(crate) use post::{Post, add_facts};
pub(crate) use request::Request;
pub(crate) use response::{Limit, Response, has_no_body};
pub(crate) use task_script::TaskScript;
pub(crate) use variables::{Places, Variables, client, variables};

use crate::adapter::{Answer, MAX_RESULT, Task};
use std::fmt;
use stoker_wire::Status;

/// The maximum number of header fields of a message.
pub(crate) const MAX_FIELDS: usize = 100;
/// The maximum size of the header fields of a message, in bytes.
pub(crate) const MAX_HEAD: usize = 64 << 10;

/// What is kept of the answer to a call or job: any head, and the largest result.
pub(crate) const KEPT: Limit = Limit::Kept(2 * MAX_HEAD + MAX_RESULT);

/// Why a message is invalid, or can't be passed on.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Invalid(pub(crate) String);

impl Invalid {
    pub(crate) fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }
}

impl fmt::Display for Invalid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The HTTP request of a site that a task is.
pub(crate) fn request_of(task: &Task) -> Result<Request<'_>, Answer> {
    Request::parse(&task.body).map_err(|invalid| rejection(&invalid))
}

/// The answer to a call or job of a pool without a script for it.
pub(crate) fn no_task_script(task: &Task) -> Answer {
    let what = if task.is_job { "job" } else { "call" };
    let text = format!(
        "this pool answers HTTP requests only, not the {what} '{}': add task_script to the pool",
        task.name
    );
    Answer::new(Status::UNIMPLEMENTED, text)
}

/// The answer to a request that is not valid.
pub(crate) fn rejection(invalid: &Invalid) -> Answer {
    let text = format!("the request can't be passed on: {invalid}");
    Answer::new(Status::INVALID_ARGUMENT, text)
}

/// An excerpt of received bytes, for an error message.
pub(crate) fn excerpt(bytes: &[u8]) -> String {
    let line = bytes
        .split(|byte| *byte == b'\n')
        .next()
        .unwrap_or_default();
    let text = String::from_utf8_lossy(&line[..line.len().min(100)]);
    format!("{:?}", text.trim_end())
}
