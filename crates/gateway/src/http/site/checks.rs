//! Rejects requests that another program on the way could interpret differently, and those that no worker can answer.

use super::error::SiteError;
use hyper::header::{TRANSFER_ENCODING, UPGRADE};
use hyper::http::request::Parts;
use hyper::{Method, StatusCode, Version};

/// Checks what decides where a request begins and ends, and which resource it is for. The text of the error is for the
/// client.
pub(super) fn check_form(head: &Parts) -> Result<(), SiteError> {
    let mut codings = head.headers.get_all(TRANSFER_ENCODING).iter();
    let (coding, second) = (codings.next(), codings.next());
    let is_chunked = coding.is_none_or(|coding| coding.as_bytes().eq_ignore_ascii_case(b"chunked"));
    // A worker would get a body that is still encoded, without the field that says so.
    if !is_chunked || second.is_some() {
        let text = "the only supported transfer coding is chunked";
        return Err(SiteError::new(StatusCode::NOT_IMPLEMENTED).explained(text));
    }
    let (scheme, has_authority) = (head.uri.scheme_str(), head.uri.authority().is_some());
    let is_http1 = head.version < Version::HTTP_2;
    let is_known = scheme.is_none_or(|scheme| matches!(scheme, "http" | "https"));
    // `GET example.com` names a host, but no resource.
    let is_authority_alone = is_http1 && has_authority && scheme.is_none();
    let is_server = head.uri.path() == "*" && head.method != Method::OPTIONS;
    match is_known && !is_server && (!is_authority_alone || head.method == Method::CONNECT) {
        true => Ok(()),
        false => {
            let text =
                "invalid request target: expected a path such as /a, or a URL with http or https";
            Err(SiteError::new(StatusCode::BAD_REQUEST).explained(text))
        }
    }
}

/// Checks whether a worker can answer the request.
pub(super) fn check_support(head: &Parts) -> Result<(), SiteError> {
    if head.method == Method::CONNECT || head.method == Method::TRACE {
        return Err(SiteError::new(StatusCode::METHOD_NOT_ALLOWED));
    }
    let upgrade = head.headers.get(UPGRADE);
    let is_websocket = upgrade.is_some_and(|to| to.as_bytes().eq_ignore_ascii_case(b"websocket"));
    match is_websocket {
        true => {
            Err(SiteError::new(StatusCode::NOT_IMPLEMENTED).explained("WebSocket is not supported"))
        }
        false => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hyper::Request;

    fn form(method: &str, target: &str, codings: &[&str], version: Version) -> Option<u16> {
        let request = Request::builder()
            .method(method)
            .uri(target)
            .version(version);
        let request = codings.iter().fold(request, |request, coding| {
            request.header(TRANSFER_ENCODING, *coding)
        });
        let (head, ()) = request.body(()).unwrap().into_parts();
        check_form(&head).err().map(|error| error.status.as_u16())
    }

    #[test]
    fn only_chunked_is_a_transfer_coding() {
        let request_with = |codings: &[&str]| form("POST", "/", codings, Version::HTTP_11);
        for codings in [&[][..], &["chunked"], &["Chunked"]] {
            assert_eq!(request_with(codings), None, "{codings:?}");
        }
        for codings in [
            &["gzip, chunked"][..],
            &["identity"],
            &["chunked, chunked"],
            &["chunked", "chunked"],
            &["identity", "chunked"],
            &[""],
        ] {
            assert_eq!(request_with(codings), Some(501), "{codings:?}");
        }
    }

    #[test]
    fn the_target_names_a_resource() {
        for (method, target) in [
            ("GET", "/"),
            ("GET", "http://a.test/x"),
            ("GET", "HTTPS://a.test"),
            ("OPTIONS", "*"),
            ("CONNECT", "a.test:80"),
        ] {
            assert_eq!(
                form(method, target, &[], Version::HTTP_11),
                None,
                "{target}"
            );
        }
        for (method, target) in [
            ("GET", "a.test"),
            ("GET", "a.test:80"),
            ("GET", "*"),
            ("GET", "ftp://a.test/x"),
        ] {
            assert_eq!(
                form(method, target, &[], Version::HTTP_11),
                Some(400),
                "{target}"
            );
        }
        assert_eq!(form("GET", "*", &[], Version::HTTP_2), Some(400));
    }
}
