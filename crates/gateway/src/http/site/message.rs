//! Writes a request as a message of HTTP/1.1, the body of a call (section 11 of the protocol page).

use hyper::header::{
    CONNECTION, CONTENT_LENGTH, COOKIE, EXPECT, HOST, HeaderMap, HeaderName, HeaderValue, TE,
    TRAILER, TRANSFER_ENCODING, UPGRADE,
};
use hyper::http::request::Parts;
use hyper::{Method, Version};

/// Fields that belong to one connection and are not passed on.
pub(super) const HOP_BY_HOP: [HeaderName; 7] = [
    CONNECTION,
    HeaderName::from_static("keep-alive"),
    HeaderName::from_static("proxy-connection"),
    TE,
    TRAILER,
    TRANSFER_ENCODING,
    UPGRADE,
];
/// Programs that get fields as environment variables would take this one for the address of a proxy (httpoxy).
const PROXY: HeaderName = HeaderName::from_static("proxy");

/// Properties of a request that are not in its head.
pub(super) struct Envelope<'a> {
    pub(super) scheme: &'a str,
    /// Host and port, as the client wrote them.
    pub(super) authority: &'a str,
    /// The length of the body, if there is one.
    pub(super) content_length: Option<u64>,
}

/// Writes the head of a request, up to the empty line.
pub(super) fn write_head(head: &Parts, envelope: &Envelope<'_>) -> Vec<u8> {
    let Envelope {
        scheme, authority, ..
    } = envelope;
    let target = head.uri.path_and_query();
    // `*`, the server itself, is a URL without a path (RFC 9112, section 3.2.4).
    let target = target.map_or("/", |target| target.as_str());
    let target = if target == "*" { "" } else { target };
    let mut message = Vec::with_capacity(512);
    for part in [
        head.method.as_str(),
        " ",
        scheme,
        "://",
        authority,
        target,
        " ",
        version(head.version),
    ] {
        message.extend_from_slice(part.as_bytes());
    }
    message.extend_from_slice(b"\r\n");
    put(&mut message, b"host", authority.as_bytes());
    put_fields(&mut message, &head.headers);
    if let Some(len) = envelope.content_length {
        put(&mut message, b"content-length", len.to_string().as_bytes());
    }
    message.extend_from_slice(b"\r\n");
    message
}

fn put_fields(message: &mut Vec<u8>, headers: &HeaderMap) {
    let mut has_cookies = false;
    for (name, value) in headers {
        if name == COOKIE {
            // HTTP/2 may send a field for each cookie, which must be joined (RFC 9113, 8.2.3).
            if !std::mem::replace(&mut has_cookies, true) {
                let cookies: Vec<&[u8]> = headers.get_all(COOKIE).iter().map(bytes_of).collect();
                put(message, b"cookie", &cookies.join(&b"; "[..]));
            }
        } else if is_passed_on(name, headers) {
            put(message, name.as_str().as_bytes(), value.as_bytes());
        }
    }
}

fn bytes_of(value: &HeaderValue) -> &[u8] {
    value.as_bytes()
}

fn is_passed_on(name: &HeaderName, headers: &HeaderMap) -> bool {
    let is_own = [HOST, CONTENT_LENGTH, EXPECT, PROXY].contains(name);
    !is_own && !HOP_BY_HOP.contains(name) && !is_named_by_connection(name, headers)
}

/// Whether the client declared that a field belongs to its connection.
fn is_named_by_connection(name: &HeaderName, headers: &HeaderMap) -> bool {
    let values = headers.get_all(CONNECTION).iter();
    let mut options = values
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','));
    options.any(|option| option.trim().eq_ignore_ascii_case(name.as_str()))
}

fn put(message: &mut Vec<u8>, name: &[u8], value: &[u8]) {
    for part in [name, b": ", value, b"\r\n"] {
        message.extend_from_slice(part);
    }
}

fn version(version: Version) -> &'static str {
    match version {
        Version::HTTP_10 => "HTTP/1.0",
        Version::HTTP_2 => "HTTP/2",
        _ => "HTTP/1.1",
    }
}

/// Whether a request with this method can be repeated without harm.
pub(super) fn is_safe(method: &Method) -> bool {
    matches!(*method, Method::GET | Method::HEAD | Method::OPTIONS)
}

#[cfg(test)]
mod tests {
    use super::*;
    use hyper::Request;

    fn written(request: hyper::http::request::Builder, content_length: Option<u64>) -> String {
        let (head, ()) = request.body(()).unwrap().into_parts();
        let envelope = Envelope {
            scheme: "https",
            authority: "shop.test:8443",
            content_length,
        };
        String::from_utf8(write_head(&head, &envelope)).unwrap()
    }

    #[test]
    fn a_request_is_written_in_absolute_form() {
        let request = Request::post("/a%2Fb/../c?x=1&y")
            .header("host", "other.test")
            .header("x-two", "1")
            .header("x-two", "2")
            .header("content-length", "9");
        assert_eq!(
            written(request, Some(3)),
            "POST https://shop.test:8443/a%2Fb/../c?x=1&y HTTP/1.1\r\nhost: shop.test:8443\r\nx-two: 1\r\n\
             x-two: 2\r\ncontent-length: 3\r\n\r\n"
        );
    }

    #[test]
    fn fields_of_the_connection_and_proxy_are_left_out() {
        let request = Request::get("/")
            .version(Version::HTTP_10)
            .header("connection", "close, X-Mine")
            .header("keep-alive", "5")
            .header("x-mine", "a")
            .header("te", "trailers")
            .header("transfer-encoding", "chunked")
            .header("upgrade", "h2c")
            .header("proxy", "http://evil.test")
            .header("accept", "*/*");
        assert_eq!(
            written(request, None),
            "GET https://shop.test:8443/ HTTP/1.0\r\nhost: shop.test:8443\r\naccept: */*\r\n\r\n"
        );
    }

    #[test]
    fn the_server_itself_has_no_path() {
        let request = Request::options("*");
        assert_eq!(
            written(request, None),
            "OPTIONS https://shop.test:8443 HTTP/1.1\r\nhost: shop.test:8443\r\n\r\n"
        );
    }

    #[test]
    fn cookies_are_joined() {
        let request = Request::get("/")
            .version(Version::HTTP_2)
            .header("cookie", "a=1")
            .header("cookie", "b=2");
        assert!(written(request, None).contains("\r\ncookie: a=1; b=2\r\n"));
    }
}
