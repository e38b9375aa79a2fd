//! Requests for the files of a site.

use super::*;
use crate::http::site::test_dir::TestDir;
use cache::Known;
use http_body_util::BodyExt;
use hyper::header::HeaderName;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use pieces::PIECE;
use proptest::prelude::*;
use std::fs;
use std::io::{Read, Write};
use std::os::unix::fs::symlink;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Instant;

struct Site {
    dir: TestDir,
    files: Files,
    runtime: tokio::runtime::Runtime,
}

struct Reply {
    status: u16,
    headers: HeaderMap,
    body: Vec<u8>,
}

impl Reply {
    fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(|value| value.to_str().unwrap())
    }
}

fn settings(dir: &TestDir) -> Settings {
    Settings {
        root: dir.path().join("public"),
        linked: Vec::new(),
        scripts: vec!["inc".to_owned()],
        max_age: Some(Duration::from_secs(60)),
        max_open: 100,
        max_memory: 1 << 20,
    }
}

fn site() -> Site {
    let dir = TestDir::new();
    for (name, content) in [
        ("app.css", "body {}"),
        ("app.css.br", "BROTLI"),
        ("app.css.gz", "GZIP..."),
        ("photo.png", "PNG"),
        ("photo.png.gz", "never used"),
        ("empty.txt", ""),
        ("index.php", "<?php secret"),
        ("Upper.PHP", "<?php secret"),
        ("config.inc", "secret"),
        ("index.php.bak", "<?php secret"),
        (".env", "SECRET=1"),
        (".git/config", "secret"),
        (".well-known/security.txt", "Contact: x"),
        ("docs/index.html", "<h1>docs"),
        ("only-php/index.php", "<?php"),
        ("a b+c.txt", "space"),
        ("%2e%2e.txt", "percent"),
        ("\u{fc}.txt", "umlaut"),
    ] {
        dir.write(&format!("public/{name}"), content);
    }
    dir.write("secret.txt", "outside");
    dir.write("public/large.bin", content(3 * PIECE + 17));
    let files = Files::open(&settings(&dir)).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    Site {
        dir,
        files,
        runtime,
    }
}

fn content(len: usize) -> Vec<u8> {
    (0..len).map(|at| (at / 3) as u8).collect()
}

impl Site {
    fn public(&self) -> std::path::PathBuf {
        self.dir.path().join("public")
    }

    fn try_request(&self, method: &str, target: &str, headers: &[(&str, &str)]) -> Option<Reply> {
        let method = Method::from_bytes(method.as_bytes()).unwrap();
        let uri: Uri = target.parse().unwrap();
        let headers = headers.iter().map(|(name, value)| {
            let name = HeaderName::from_bytes(name.as_bytes()).unwrap();
            (name, HeaderValue::from_str(value).unwrap())
        });
        let headers: HeaderMap = headers.collect();
        self.runtime.block_on(async {
            let response = self.files.serve(&method, &uri, &headers).await.unwrap()?;
            let (head, body) = response.into_parts();
            Some(Reply {
                status: head.status.as_u16(),
                headers: head.headers,
                body: body.collect().await.unwrap().to_bytes().to_vec(),
            })
        })
    }

    fn request(&self, method: &str, target: &str, headers: &[(&str, &str)]) -> Reply {
        let reply = self.try_request(method, target, headers);
        reply.unwrap_or_else(|| panic!("{method} {target} is not a file"))
    }

    fn get(&self, target: &str) -> Option<Reply> {
        self.try_request("GET", target, &[])
    }

    fn text(&self, target: &str) -> Option<String> {
        let reply = self.get(target)?;
        assert_eq!(reply.status, 200, "{target}");
        Some(String::from_utf8(reply.body).unwrap())
    }

    /// Makes all files so old that they are cached.
    fn settle(&self) {
        // Only the kernel sets the time that counts, so the test waits for it.
        let end = Instant::now() + Duration::from_secs(20);
        while Instant::now() < end {
            self.get("/large.bin");
            if let Known::Fresh(_) = self
                .files
                .lookup
                .cache
                .borrow_mut()
                .get(b"large.bin", Instant::now())
            {
                return;
            }
            let step = Duration::from_millis(20);
            self.runtime
                .block_on(async { tokio::time::sleep(step).await });
        }
        panic!("the file is never cached");
    }
}

#[test]
fn a_file_is_sent_with_its_headers() {
    let site = site();
    let reply = site.request("GET", "/photo.png?v=1", &[]);
    assert_eq!((reply.status, &reply.body[..]), (200, &b"PNG"[..]));
    assert_eq!(reply.header("content-type"), Some("image/png"));
    assert_eq!(reply.header("content-length"), Some("3"));
    assert_eq!(reply.header("x-content-type-options"), Some("nosniff"));
    assert_eq!(reply.header("cache-control"), Some("max-age=60"));
    assert_eq!(reply.header("accept-ranges"), Some("bytes"));
    assert_eq!(reply.header("vary"), None);
    assert!(
        reply
            .header("etag")
            .is_some_and(|tag| tag.starts_with("\"3-"))
    );
    assert!(
        reply
            .header("last-modified")
            .is_some_and(|date| date.ends_with(" GMT"))
    );
    let head = site.request("HEAD", "/photo.png", &[("range", "bytes=0-0")]);
    assert_eq!((head.status, head.body.len()), (200, 0));
    assert_eq!(head.headers, reply.headers);
    let empty = site.request("GET", "/empty.txt", &[]);
    assert_eq!(
        (empty.status, empty.header("content-length")),
        (200, Some("0"))
    );
    let large = site.request("GET", "/large.bin", &[]);
    assert!(large.body == content(3 * PIECE + 17));
    assert_eq!(site.text("/a%20b+c.txt").as_deref(), Some("space"));
    assert_eq!(site.text("/%252e%252e.txt").as_deref(), Some("percent"));
    assert_eq!(site.text("/%C3%BC.txt").as_deref(), Some("umlaut"));
    let well_known = site.text("/.well-known/security.txt");
    assert_eq!(well_known.as_deref(), Some("Contact: x"));
}

#[test]
fn scripts_and_hidden_files_are_never_sent() {
    let site = site();
    symlink("index.php", site.public().join("source.txt")).unwrap();
    symlink(".env", site.public().join("env.txt")).unwrap();
    symlink(".git", site.public().join("git")).unwrap();
    symlink("../secret.txt", site.public().join("out.txt")).unwrap();
    symlink(site.dir.path(), site.public().join("parent")).unwrap();
    for path in [
        "/index.php",
        "/%69ndex.php",
        "/index.ph%70",
        "/Upper.PHP",
        "/config.inc",
        "/index.php.bak",
        "/index.php/",
        "/index.php/x.css",
        "/.env",
        "/%2eenv",
        "/.git/config",
        "/.git/",
        "/missing.css",
        "/app.css/",
        "/app.css/x",
        "/only-php",
        "/only-php/",
        "/",
        "//app.css",
        "/docs//index.html",
        "/docs%2findex.html",
        "/source.txt",
        "/env.txt",
        "/git/config",
        "/out.txt",
        "/parent/secret.txt",
        "/parent",
    ] {
        assert!(site.get(path).is_none(), "{path}");
    }
    for path in [
        "/../secret.txt",
        "/docs/../../secret.txt",
        "/%2e%2e/secret.txt",
        "/..%2fsecret.txt",
        "/app.css%00",
        "/%",
        "/docs/./index.html",
    ] {
        assert_eq!(site.get(path).unwrap().status, 400, "{path}");
    }
}

#[test]
fn a_directory_is_its_index() {
    let site = site();
    assert_eq!(site.text("/docs/").as_deref(), Some("<h1>docs"));
    assert_eq!(site.text("/docs/index.html").as_deref(), Some("<h1>docs"));
    let reply = site.get("/docs?page=2").unwrap();
    assert_eq!(reply.status, 301);
    assert_eq!(reply.header("location"), Some("/docs/?page=2"));
    assert!(site.try_request("POST", "/docs/", &[]).is_none());
    assert!(site.try_request("POST", "/docs", &[]).is_none());
    site.dir.write("public/index.html", "start");
    assert_eq!(site.text("/").as_deref(), Some("start"));
}

#[test]
fn files_can_only_be_read() {
    let site = site();
    for method in ["POST", "PUT", "DELETE", "OPTIONS", "PROPFIND"] {
        let reply = site.request(method, "/app.css", &[]);
        assert_eq!(reply.status, 405, "{method}");
        assert_eq!(reply.header("allow"), Some("GET, HEAD"));
        assert!(site.try_request(method, "/missing", &[]).is_none());
        assert!(site.try_request(method, "/index.php", &[]).is_none());
        assert!(site.try_request(method, "/", &[]).is_none());
    }
    assert!(site.try_request("OPTIONS", "*", &[]).is_none());
}

#[test]
fn compressed_siblings_are_sent_to_those_who_accept_them() {
    let site = site();
    for (accepted, body, encoding) in [
        ("br, gzip", "BROTLI", Some("br")),
        ("gzip", "GZIP...", Some("gzip")),
        ("br;q=0, gzip;q=0", "body {}", None),
    ] {
        let reply = site.request("GET", "/app.css", &[("accept-encoding", accepted)]);
        assert_eq!(reply.body, body.as_bytes());
        assert_eq!(reply.header("content-encoding"), encoding);
        assert_eq!(reply.header("vary"), Some("accept-encoding"));
        assert_eq!(
            reply.header("content-type"),
            Some("text/css; charset=utf-8")
        );
        let etag = reply.header("etag").unwrap();
        let again = [("accept-encoding", accepted), ("if-none-match", etag)];
        assert_eq!(site.request("GET", "/app.css", &again).status, 304);
        let other = [
            ("accept-encoding", "identity;q=1, br;q=0.5"),
            ("if-none-match", etag),
        ];
        let expected = if encoding.is_none() { 304 } else { 200 };
        assert_eq!(site.request("GET", "/app.css", &other).status, expected);
    }
    let accept = [("accept-encoding", "gzip")];
    let reply = site.request("GET", "/photo.png", &accept);
    assert_eq!(
        (reply.header("content-encoding"), reply.header("vary")),
        (None, None)
    );
    let reply = site.request("GET", "/app.css.gz", &accept);
    assert_eq!(reply.header("content-encoding"), None);
    assert_eq!(reply.header("content-type"), Some("application/gzip"));
}

#[test]
fn conditions_and_ranges() {
    let site = site();
    let whole = site.request("GET", "/large.bin", &[]);
    let (etag, date) = (
        whole.header("etag").unwrap(),
        whole.header("last-modified").unwrap(),
    );
    let size = whole.body.len();
    let reply = site.request("GET", "/large.bin", &[("if-none-match", etag)]);
    assert_eq!((reply.status, reply.body.len()), (304, 0));
    assert_eq!(reply.header("etag"), Some(etag));
    assert_eq!(reply.header("cache-control"), Some("max-age=60"));
    assert_eq!(
        (reply.header("content-length"), reply.header("content-type")),
        (None, None)
    );
    assert_eq!(
        site.request("GET", "/large.bin", &[("if-modified-since", date)])
            .status,
        304
    );
    let reply = site.request("HEAD", "/large.bin", &[("if-match", "\"x\"")]);
    assert_eq!(reply.status, 412);
    for (range, start, len) in [
        ("bytes=0-0", 0, 1),
        ("bytes=65530-131080", 65_530, 65_551),
        ("bytes=-17", size - 17, 17),
        ("bytes=0-", 0, size),
    ] {
        let given = [("range", range), ("if-range", etag)];
        let reply = site.request("GET", "/large.bin", &given);
        assert_eq!(reply.status, 206, "{range}");
        assert!(reply.body == whole.body[start..start + len], "{range}");
        let expected = format!("bytes {start}-{}/{size}", start + len - 1);
        assert_eq!(reply.header("content-range"), Some(expected.as_str()));
        assert_eq!(
            reply.header("content-length"),
            Some(len.to_string().as_str())
        );
    }
    let reply = site.request("GET", "/large.bin", &[("range", "bytes=999999999-")]);
    assert_eq!(reply.status, 416);
    assert_eq!(
        reply.header("content-range"),
        Some(format!("bytes */{size}").as_str())
    );
    for given in [
        &[("range", "bytes=0-1,3-4")][..],
        &[("range", "bytes=0-1"), ("if-range", "\"x\"")],
    ] {
        let reply = site.request("GET", "/large.bin", given);
        assert!(reply.status == 200 && reply.body == whole.body);
    }
    let part = site.request("GET", "/photo.png", &[("range", "bytes=1-1")]);
    assert_eq!((part.status, &part.body[..]), (206, &b"N"[..]));
}

#[test]
fn a_file_is_cached_and_looked_at_again() {
    let site = site();
    site.settle();
    let path = site.public().join("app.css");
    let replace = |content: &str| {
        let new = site.dir.write("new", content);
        fs::rename(new, &path).unwrap();
    };
    assert_eq!(site.text("/app.css").as_deref(), Some("body {}"));
    replace("new one");
    // The cached content may be used for a second, and is not used longer.
    let end = Instant::now() + Duration::from_secs(20);
    let mut texts = Vec::new();
    while Instant::now() < end && texts.last().is_none_or(|text| text != "new one") {
        texts.push(site.text("/app.css").unwrap());
    }
    assert_eq!(texts.first().map(String::as_str), Some("body {}"));
    assert_eq!(texts.last().map(String::as_str), Some("new one"));
    // A file that was replaced just now is not kept, so that the next change is noticed at once.
    replace("newer!!");
    assert_eq!(site.text("/app.css").as_deref(), Some("newer!!"));
    fs::remove_file(&path).unwrap();
    assert_eq!(site.text("/app.css"), None);
}

/// Nothing is looked for below a name that was missing a moment ago.
#[test]
fn a_new_file_is_noticed_within_a_second() {
    let site = site();
    assert_eq!(site.text("/new/a.txt"), None);
    site.dir.write("public/new/a.txt", "new");
    site.dir.write("public/css/new.css", "new");
    assert_eq!(site.text("/css/new.css").as_deref(), Some("new"));
    let began = std::time::Instant::now();
    while site.text("/new/a.txt").is_none() {
        assert!(began.elapsed() < std::time::Duration::from_secs(5));
        std::thread::yield_now();
    }
    assert_eq!(site.text("/new/a.txt").as_deref(), Some("new"));
}

#[test]
fn a_cached_large_file_that_changes_in_place_is_noticed_at_once() {
    let site = site();
    site.settle();
    let path = site.public().join("large.bin");
    let before = site.request("GET", "/large.bin", &[]);
    fs::OpenOptions::new()
        .write(true)
        .open(&path)
        .unwrap()
        .set_len(PIECE as u64 + 1)
        .unwrap();
    let after = site.request("GET", "/large.bin", &[]);
    assert_eq!(after.body.len(), PIECE + 1);
    assert_ne!(before.header("etag"), after.header("etag"));
}

#[test]
fn links_may_lead_to_configured_directories() {
    let site = site();
    site.dir.write("storage/photo.png", "linked");
    symlink(
        site.dir.path().join("storage"),
        site.public().join("storage"),
    )
    .unwrap();
    assert_eq!(site.text("/storage/photo.png"), None);
    let mut settings = settings(&site.dir);
    settings.linked.push(site.dir.path().join("storage"));
    let files = Files::open(&settings).unwrap();
    let site = Site { files, ..site };
    assert_eq!(site.text("/storage/photo.png").as_deref(), Some("linked"));
    settings.root = Path::new("/none").to_owned();
    let error = Files::open(&settings).unwrap_err();
    assert!(error.to_string().contains("/none: "), "{error}");
}

/// Sends the text of requests over a connection, and returns all that the gateway answers until it ends the connection.
fn over_http1(site: &Site, requests: &str, change: impl Fn() + Copy) -> String {
    let (mut client, server) = UnixStream::pair().unwrap();
    server.set_nonblocking(true).unwrap();
    let service = service_fn(async |request: hyper::Request<hyper::body::Incoming>| {
        let (head, _) = request.into_parts();
        let served = site
            .files
            .serve(&head.method, &head.uri, &head.headers)
            .await;
        change();
        served.map(|response| response.unwrap_or_else(|| respond::text(StatusCode::NOT_FOUND)))
    });
    let requests = requests.to_owned();
    let exchange = std::thread::spawn(move || {
        client.write_all(requests.as_bytes()).unwrap();
        let limit = Duration::from_secs(20);
        client.set_read_timeout(Some(limit)).unwrap();
        let mut answer = Vec::new();
        client.read_to_end(&mut answer).unwrap();
        String::from_utf8_lossy(&answer).into_owned()
    });
    site.runtime.block_on(async {
        let server = TokioIo::new(tokio::net::UnixStream::from_std(server).unwrap());
        let serve = hyper::server::conn::http1::Builder::new().serve_connection(server, service);
        // The error of a body ends the connection with an error.
        serve.await.ok();
    });
    exchange.join().unwrap()
}

#[test]
fn responses_are_valid_on_a_connection() {
    let site = site();
    let requests = "HEAD /app.css HTTP/1.1\r\nhost: a\r\n\r\n\
        GET /app.css HTTP/1.1\r\nhost: a\r\nrange: bytes=1-2\r\n\r\n\
        GET /app.css HTTP/1.1\r\nhost: a\r\nif-none-match: *\r\n\r\n\
        HEAD /app.css%00 HTTP/1.1\r\nhost: a\r\n\r\n\
        GET /photo.png HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n";
    let answer = over_http1(&site, requests, || {});
    let parts: Vec<&str> = answer.split("HTTP/1.1 ").skip(1).collect();
    let statuses: Vec<&str> = parts.iter().map(|part| &part[..3]).collect();
    assert_eq!(statuses, ["200", "206", "304", "400", "200"], "{answer}");
    for (part, end) in parts
        .iter()
        .zip(["\r\n\r\n", "\r\n\r\nod", "\r\n\r\n", "\r\n\r\n", "PNG"])
    {
        assert!(part.ends_with(end), "{part:?}");
    }
    assert_eq!(
        parts[0].matches("content-length: 7\r\n").count(),
        1,
        "{answer}"
    );
    assert_eq!(
        parts[1].matches("content-length: 2\r\n").count(),
        1,
        "{answer}"
    );
}

#[test]
fn the_connection_ends_if_a_file_shrinks_while_it_is_sent() {
    let site = site();
    let path = site.public().join("large.bin");
    let request = "GET /large.bin HTTP/1.1\r\nhost: a\r\n\r\n".repeat(2);
    let answer = over_http1(&site, &request, || {
        let file = fs::OpenOptions::new().write(true).open(&path).unwrap();
        file.set_len(PIECE as u64 + 100).unwrap();
    });
    // The client can't mistake what it has received for a complete answer, nor for the next one.
    assert!(answer.len() < PIECE * 2, "{}", answer.len());
    assert!(answer.matches("HTTP/1.1 ").count() <= 1);
}

#[test]
fn no_path_leads_to_a_secret() {
    let site = site();
    for (link, to) in [
        ("up", ".."),
        ("root", "/"),
        ("hidden", ".git"),
        ("here", "."),
    ] {
        symlink(to, site.public().join(link)).unwrap();
    }
    let part = prop_oneof![
        Just("/"),
        Just(".."),
        Just("%2e%2e"),
        Just("%2f"),
        Just("%5c"),
        Just("up"),
        Just("root"),
        Just("hidden"),
        Just("here"),
        Just("config"),
        Just("secret.txt"),
        Just("public"),
        Just(".env"),
        Just("index.php"),
        Just("INDEX.php"),
        Just("etc/passwd"),
        Just("app.css"),
        Just("."),
        Just("%00"),
        Just("%252e"),
        Just("docs/index.html"),
    ];
    let path = proptest::collection::vec(part, 1..8);
    let mut runner = proptest::test_runner::TestRunner::new(ProptestConfig::with_cases(2_000));
    let result = runner.run(&path, |parts| {
        let target = format!("/{}", parts.join("/"));
        for target in [
            target.replace("//", "/"),
            format!("/{}", parts.concat()),
            target,
        ] {
            if let Some(reply) = site.get(&target) {
                let body = String::from_utf8_lossy(&reply.body).into_owned();
                let own = ["body {}", "<h1>docs", "301 ", "400 "];
                prop_assert!(
                    own.iter().any(|own| body.starts_with(own)),
                    "{} {}",
                    target,
                    body
                );
            }
        }
        Ok(())
    });
    result.unwrap();
}
