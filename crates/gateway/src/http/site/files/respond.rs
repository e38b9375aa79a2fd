//! The response that sends a file, or a part of it, or says that the client has it already.

use super::body::FileBody;
use super::conditions::{self, Outcome, Validators};
use super::file::File;
use super::range::{self, Part};
use super::version::seconds;
use hyper::header::{
    ACCEPT_RANGES, ALLOW, CONTENT_ENCODING, CONTENT_LANGUAGE, CONTENT_LENGTH, CONTENT_RANGE,
    CONTENT_TYPE, HeaderMap, HeaderValue, RANGE, X_CONTENT_TYPE_OPTIONS,
};
use hyper::{Method, Response, StatusCode};
use std::io;
use std::time::SystemTime;

/// A file that is sent; the range that the client asks for is chosen later.
pub(crate) struct Whole<'a> {
    pub(crate) file: &'a File,
    /// The headers of a response with the whole file, including `content-length`.
    pub(crate) headers: &'a HeaderMap,
    pub(crate) validators: Validators<'a>,
}

/// Responds to a GET or HEAD request. `None` if the file has changed since it was opened.
pub(crate) async fn respond(
    method: &Method,
    headers: &HeaderMap,
    whole: Whole<'_>,
) -> io::Result<Option<Response<FileBody>>> {
    match conditions::evaluate(headers, whole.validators) {
        Outcome::Send => {}
        Outcome::NotModified => return Ok(Some(not_modified(whole.headers))),
        Outcome::Failed => return Ok(Some(text(StatusCode::PRECONDITION_FAILED))),
    }
    let size = whole.file.version.size;
    let part = part(method, headers, &whole);
    let (start, len) = match part {
        Part::Unsatisfiable => return Ok(Some(unsatisfiable(whole.headers, size))),
        Part::Whole => (0, size),
        Part::Range { start, len } => (start, len),
    };
    let body = match *method == Method::HEAD {
        true => Some(FileBody::empty()),
        false => whole.file.body(start, len).await?,
    };
    let Some(body) = body else {
        return Ok(None);
    };
    let mut response = Response::new(body);
    *response.headers_mut() = whole.headers.clone();
    if let Part::Range { start, len } = part {
        *response.status_mut() = StatusCode::PARTIAL_CONTENT;
        let headers = response.headers_mut();
        headers.insert(CONTENT_LENGTH, HeaderValue::from(len));
        let range = format!("bytes {start}-{}/{size}", start + len - 1);
        put(headers, range);
    }
    Ok(Some(response))
}

fn part(method: &Method, headers: &HeaderMap, whole: &Whole<'_>) -> Part {
    if !headers.contains_key(RANGE) {
        return Part::Whole;
    }
    let clock = seconds(SystemTime::now());
    match conditions::allows_range(method, headers, whole.validators, clock) {
        true => range::part(headers, whole.file.version.size),
        false => Part::Whole,
    }
}

fn put(headers: &mut HeaderMap, range: String) {
    // The text consists of digits and punctuation.
    if let Ok(range) = HeaderValue::try_from(range) {
        headers.insert(CONTENT_RANGE, range);
    }
}

/// The headers without those that describe a body.
fn without_body(headers: &HeaderMap) -> HeaderMap {
    let mut headers = headers.clone();
    for name in [
        CONTENT_TYPE,
        CONTENT_LENGTH,
        CONTENT_ENCODING,
        CONTENT_LANGUAGE,
    ] {
        headers.remove(name);
    }
    headers
}

fn not_modified(headers: &HeaderMap) -> Response<FileBody> {
    let mut response = Response::new(FileBody::empty());
    *response.status_mut() = StatusCode::NOT_MODIFIED;
    *response.headers_mut() = without_body(headers);
    response.headers_mut().remove(ACCEPT_RANGES);
    response
}

fn unsatisfiable(headers: &HeaderMap, size: u64) -> Response<FileBody> {
    let mut response = Response::new(FileBody::empty());
    *response.status_mut() = StatusCode::RANGE_NOT_SATISFIABLE;
    let mut headers = without_body(headers);
    put(&mut headers, format!("bytes */{size}"));
    *response.headers_mut() = headers;
    response
}

/// A response without a file. Its body names the status.
pub(crate) fn text(status: StatusCode) -> Response<FileBody> {
    let mut response = Response::new(FileBody::Bytes(format!("{status}\n").into()));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    let kind = HeaderValue::from_static("text/plain; charset=utf-8");
    headers.insert(CONTENT_TYPE, kind);
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    response
}

pub(crate) fn not_allowed() -> Response<FileBody> {
    let mut response = text(StatusCode::METHOD_NOT_ALLOWED);
    let methods = HeaderValue::from_static("GET, HEAD");
    response.headers_mut().insert(ALLOW, methods);
    response
}
