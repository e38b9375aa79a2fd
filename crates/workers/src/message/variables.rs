//! The variables that a CGI program or a FastCGI server gets (RFC 3875).

use super::fields::is_plain;
use super::{Field, Invalid, Request};
use crate::adapter::Task;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use stoker_wire::Key;

const SERVER_SOFTWARE: &str = concat!("stoker/", env!("CARGO_PKG_VERSION"));

/// Names and values. A value contains no NUL.
pub(crate) type Variables = BTreeMap<String, Vec<u8>>;

/// What a request runs, and for whom.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Places<'a> {
    pub(crate) script: &'a str,
    pub(crate) root: Option<&'a str>,
    pub(crate) client: Option<SocketAddr>,
}

impl<'a> Places<'a> {
    /// The script of the site that a request is for.
    pub(crate) fn of(task: &'a Task) -> Result<Self, Invalid> {
        let script = task.text(Key::SCRIPT).ok_or_else(|| {
            Invalid::new("it names no script to run: set `root` of the site to the directory with its front controller")
        })?;
        Ok(Self {
            script,
            root: task.text(Key::DOCUMENT_ROOT),
            client: task.text(Key::CLIENT_ADDRESS).and_then(client),
        })
    }
}

/// The variables of a request. `body_len` is the length of its body.
pub(crate) fn variables(places: Places<'_>, request: &Request<'_>, body_len: u64) -> Variables {
    let mut all = of_headers(&request.fields);
    let mut set = |name: &str, value: &[u8]| drop(all.insert(name.to_owned(), value.to_vec()));
    set_places(places.script, places.root, request, &mut set);
    set_server(request, &mut set);
    if let Some(client) = places.client {
        set("REMOTE_ADDR", client.ip().to_string().as_bytes());
        set("REMOTE_PORT", client.port().to_string().as_bytes());
    }
    if let Some(kind) = super::find(&request.fields, "content-type") {
        set("CONTENT_TYPE", kind);
    }
    if body_len > 0 || request.content_length.is_some() {
        set("CONTENT_LENGTH", body_len.to_string().as_bytes());
    }
    all
}

/// The address of the client, from the metadata.
pub(crate) fn client(text: &str) -> Option<SocketAddr> {
    text.parse().ok()
}

fn set_server(request: &Request<'_>, set: &mut impl FnMut(&str, &[u8])) {
    let target = &request.target;
    let (host, port) = target.host_and_port();
    let version = match target.version {
        "HTTP/2" => "HTTP/2.0",
        "HTTP/3" => "HTTP/3.0",
        other => other,
    };
    set("GATEWAY_INTERFACE", b"CGI/1.1");
    set("SERVER_SOFTWARE", SERVER_SOFTWARE.as_bytes());
    set("SERVER_PROTOCOL", version.as_bytes());
    set("SERVER_NAME", host.as_bytes());
    set("SERVER_PORT", port.as_bytes());
    set("REQUEST_METHOD", target.method.as_bytes());
    set(
        "REQUEST_SCHEME",
        if target.is_https { b"https" } else { b"http" },
    );
    if target.is_https {
        set("HTTPS", b"on");
    }
    // Without it php-cgi refuses to run (`cgi.force_redirect`).
    set("REDIRECT_STATUS", b"200");
}

/// Sets the variables that name the script, and the URL under which it was called.
fn set_places(
    script: &str,
    root: Option<&str>,
    request: &Request<'_>,
    set: &mut impl FnMut(&str, &[u8]),
) {
    let (path, query) = request.target.path_and_query();
    let parent = script.rsplit_once('/').map_or("", |(parent, _)| parent);
    let root = root.unwrap_or(parent).trim_end_matches('/');
    let inside = script
        .strip_prefix(root)
        .filter(|rest| rest.starts_with('/'));
    let name = inside.unwrap_or(&script[parent.len()..]);
    set("SCRIPT_FILENAME", script.as_bytes());
    set("SCRIPT_NAME", name.as_bytes());
    set(
        "DOCUMENT_ROOT",
        if root.is_empty() {
            b"/"
        } else {
            root.as_bytes()
        },
    );
    set("REQUEST_URI", &request.target.origin_form());
    set("QUERY_STRING", query);
    // As with nginx and Apache: what follows the script's own name in the path, decoded; usually nothing.
    let info = path.strip_prefix(name.as_bytes());
    if let Some(info) = info.filter(|info| info.starts_with(b"/")) {
        set("PATH_INFO", &decode(info));
    }
}

/// The header fields as `HTTP_NAME`. The field `proxy` is dropped, because many libraries would take it for the setting
/// `HTTP_PROXY`.
fn of_headers(fields: &[Field<'_>]) -> Variables {
    let mut all = Variables::new();
    for field in fields {
        let is_other = ["proxy", "content-type", "content-length"];
        if !is_plain(field.name) || is_other.iter().any(|name| field.is(name)) {
            continue;
        }
        let name = format!("HTTP_{}", field.name.to_ascii_uppercase().replace('-', "_"));
        // Clients of HTTP/2 may send each cookie in a field of its own.
        let separator: &[u8] = if field.is("cookie") { b"; " } else { b", " };
        match all.get_mut(&name) {
            Some(value) => value.extend_from_slice(&[separator, field.value].concat()),
            None => drop(all.insert(name, field.value.to_vec())),
        }
    }
    all
}

/// Decodes `%41`. A path with an encoded NUL is left as it is, because a variable can't contain NUL.
fn decode(path: &[u8]) -> Vec<u8> {
    let (mut decoded, mut rest) = (Vec::with_capacity(path.len()), path);
    while let [byte, more @ ..] = rest {
        let hex = |byte: u8| char::from(byte).to_digit(16).map(|digit| digit as u8);
        rest = match (byte, more) {
            (b'%', [high, low, more @ ..]) if hex(*high).is_some() && hex(*low).is_some() => {
                decoded.push(hex(*high).unwrap_or(0) << 4 | hex(*low).unwrap_or(0));
                more
            }
            _ => {
                decoded.push(*byte);
                more
            }
        };
    }
    if decoded.contains(&0) {
        return path.to_vec();
    }
    decoded
}

#[cfg(test)]
mod tests {
    use super::*;
    use stoker_wire::{Codec, Encode, MetaBuf, Type, encode, parse};

    fn task(meta: &[(Key, &str)], message: &str) -> Task {
        let mut buffer = MetaBuf::new();
        for (key, value) in meta {
            assert!(buffer.push(*key, value.as_bytes()));
        }
        let mut bytes = Vec::new();
        encode(
            &mut bytes,
            Encode {
                code: Codec::HTTP.0,
                name: "http:a.request",
                meta: buffer.as_meta(),
                body: message.as_bytes(),
                ..Encode::new(Type::Req, 1)
            },
        );
        Task::of(&parse(&bytes, bytes.len()).unwrap().unwrap().0)
    }

    fn of(meta: &[(Key, &str)], message: &str) -> Result<BTreeMap<String, String>, Invalid> {
        let task = task(meta, message);
        let request = Request::parse(&task.body).unwrap();
        let all = variables(Places::of(&task)?, &request, request.body.len() as u64);
        let text = |(name, value)| (name, String::from_utf8(value).unwrap());
        Ok(all.into_iter().map(text).collect())
    }

    const SITE: [(Key, &str); 3] = [
        (Key::SCRIPT, "/srv/shop/public/index.php"),
        (Key::DOCUMENT_ROOT, "/srv/shop/public"),
        (Key::CLIENT_ADDRESS, "[2001:db8::1]:51234"),
    ];

    #[test]
    fn describes_the_request() {
        let all = of(
            &SITE,
            "POST https://shop.test:8443/a%20b?x=1 HTTP/2\r\nhost: shop.test:8443\r\nproxy: evil\r\n\
            x_under: 1\r\nx-under: 2\r\ncookie: a=1\r\ncookie: b=2\r\naccept: x\r\naccept: y\r\ncontent-type: t/x\r\ncontent-length: 2\r\n\r\nhi",
        );
        let all = all.unwrap();
        let expected = [
            ("CONTENT_LENGTH", "2"),
            ("CONTENT_TYPE", "t/x"),
            ("DOCUMENT_ROOT", "/srv/shop/public"),
            ("GATEWAY_INTERFACE", "CGI/1.1"),
            ("HTTPS", "on"),
            ("HTTP_ACCEPT", "x, y"),
            ("HTTP_COOKIE", "a=1; b=2"),
            ("HTTP_HOST", "shop.test:8443"),
            ("HTTP_X_UNDER", "2"),
            ("QUERY_STRING", "x=1"),
            ("REDIRECT_STATUS", "200"),
            ("REMOTE_ADDR", "2001:db8::1"),
            ("REMOTE_PORT", "51234"),
            ("REQUEST_METHOD", "POST"),
            ("REQUEST_SCHEME", "https"),
            ("REQUEST_URI", "/a%20b?x=1"),
            ("SCRIPT_FILENAME", "/srv/shop/public/index.php"),
            ("SCRIPT_NAME", "/index.php"),
            ("SERVER_NAME", "shop.test"),
            ("SERVER_PORT", "8443"),
            ("SERVER_PROTOCOL", "HTTP/2.0"),
            ("SERVER_SOFTWARE", SERVER_SOFTWARE),
        ];
        let all: Vec<_> = all
            .iter()
            .map(|(name, value)| (name.as_str(), value.as_str()))
            .collect();
        assert_eq!(all, expected);
    }

    #[test]
    fn the_path_after_the_script_is_the_path_info() {
        for (path, info) in [
            ("/index.php/a%2Fb%zz", Some("/a/b%zz")),
            ("/index.php/%00", Some("/%00")),
            ("/index.php", None),
            ("/index.phpx/a", None),
            ("/other", None),
        ] {
            let message = format!("GET http://a{path} HTTP/1.1\r\nhost: a\r\n\r\n");
            let all = of(&SITE, &message).unwrap();
            assert_eq!(all.get("PATH_INFO").map(String::as_str), info, "{path}");
            assert_eq!(all.get("CONTENT_LENGTH"), None);
        }
    }

    #[test]
    fn a_script_outside_of_the_root_has_its_file_name() {
        let message = "GET http://a/ HTTP/1.1\r\nhost: a\r\n\r\n";
        for (script, root, name) in [
            ("/srv/app.php", Some("/srv/public"), "/app.php"),
            ("/srv/publicity/app.php", Some("/srv/public"), "/app.php"),
            ("/srv/public/a/b.php", Some("/srv/public/"), "/a/b.php"),
            ("/srv/a/b.php", None, "/b.php"),
            ("/b.php", None, "/b.php"),
        ] {
            let mut meta = vec![(Key::SCRIPT, script)];
            meta.extend(root.map(|root| (Key::DOCUMENT_ROOT, root)));
            assert_eq!(of(&meta, message).unwrap()["SCRIPT_NAME"], name, "{script}");
        }
        let missing = of(&[], message).unwrap_err();
        assert!(missing.0.contains("set `root`"), "{missing}");
    }
}
