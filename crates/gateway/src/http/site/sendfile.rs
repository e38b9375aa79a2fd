//! `x-sendfile`: a worker answers with the path of a file, and the gateway sends the file.

use super::files::body::FileBody;
use super::files::conditions::Validators;
use super::files::date;
use super::files::directories::Directories;
use super::files::file::File;
use super::files::kind::kind;
use super::files::respond::{Whole, respond};
use super::files::version::{Opened, Version, seconds};
use hyper::header::{
    ACCEPT_RANGES, CONTENT_LENGTH, CONTENT_RANGE, CONTENT_TYPE, ETAG, HeaderMap, HeaderName,
    HeaderValue, LAST_MODIFIED, TRANSFER_ENCODING,
};
use hyper::{Method, Response, StatusCode};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::SystemTime;
use std::{fmt, fs, io};

/// The header of a worker's answer with the absolute path of the file.
pub(crate) const X_SENDFILE: HeaderName = HeaderName::from_static("x-sendfile");
/// The number of times that a file is opened for one answer if it is replaced again and again.
const MAX_ATTEMPTS: usize = 4;

/// The directories from which the workers of a site may send files.
#[derive(Debug)]
pub(crate) struct SendFiles {
    directories: Directories,
    /// Their paths, for error messages.
    paths: String,
}

/// Why a file can't be sent. The text is for the log: it says more than a client may know.
#[derive(Debug)]
pub(crate) enum SendError {
    NotAbsolute(PathBuf),
    Missing(PathBuf),
    NotPermitted { path: PathBuf, permitted: String },
    NotAFile(PathBuf),
    Changing(PathBuf),
    Io { path: PathBuf, error: io::Error },
}

impl fmt::Display for SendError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (path, reason): (&Path, &dyn fmt::Display) = match self {
            Self::NotAbsolute(path) => (path, &"expected an absolute path"),
            Self::Missing(path) => (path, &"it does not exist, or cannot be read"),
            Self::NotPermitted { path, permitted } => {
                let text = format!(
                    "it is not below {permitted}: add its directory to send_files of the site"
                );
                return write_refusal(f, path, &text);
            }
            Self::NotAFile(path) => (path, &"it is not a regular file"),
            Self::Changing(path) => (path, &"it kept changing while it was being read"),
            Self::Io { path, error } => (path, error),
        };
        write_refusal(f, path, reason)
    }
}

fn write_refusal(
    f: &mut fmt::Formatter<'_>,
    path: &Path,
    reason: &dyn fmt::Display,
) -> fmt::Result {
    write!(
        f,
        "cannot send {path:?}, which a worker named in x-sendfile: {reason}"
    )
}

impl std::error::Error for SendError {}

impl SendFiles {
    /// Opens the directories: the document root, if the site has one, and those of `send_files`.
    pub(crate) fn open(root: Option<&Path>, send_files: &[PathBuf]) -> io::Result<Self> {
        let paths = || {
            root.into_iter()
                .chain(send_files.iter().map(PathBuf::as_path))
        };
        let shown: Vec<String> = paths().map(|path| path.display().to_string()).collect();
        Ok(Self {
            directories: Directories::open(paths())?,
            paths: match shown.is_empty() {
                true => "any permitted directory".to_owned(),
                false => shown.join(", "),
            },
        })
    }

    /// Replaces a worker's answer to a request by the same answer with the file that its header names. The range and the
    /// conditions of the request are those of the file, unless the worker has set an `etag` or a `last-modified` itself.
    pub(crate) async fn send(
        &self,
        method: &Method,
        headers: &HeaderMap,
        mut answer: Response<()>,
    ) -> Result<Response<FileBody>, SendError> {
        let named = answer.headers_mut().remove(X_SENDFILE);
        let named = named.unwrap_or(HeaderValue::from_static(""));
        let path = Path::new(OsStr::from_bytes(named.as_bytes()));
        let failed = |error| SendError::Io {
            path: path.to_owned(),
            error,
        };
        for _ in 0..MAX_ATTEMPTS {
            let file = self.file(path)?;
            complete(answer.headers_mut(), path, &file);
            let response = answer_with(method, headers, &answer, &file);
            if let Some(response) = response.await.map_err(failed)? {
                return Ok(response);
            }
        }
        Err(SendError::Changing(path.to_owned()))
    }

    fn file(&self, path: &Path) -> Result<File, SendError> {
        if !path.is_absolute() {
            return Err(SendError::NotAbsolute(path.to_owned()));
        }
        let failed = |error| SendError::Io {
            path: path.to_owned(),
            error,
        };
        let opened = self.directories.open_absolute(path).map_err(failed)?;
        let fd = opened.ok_or_else(|| self.refusal(path))?;
        match Version::of(&fd).map_err(|error| failed(error.into()))? {
            Opened::File(version) => Ok(File::new(fd, version)),
            Opened::Directory | Opened::Other => Err(SendError::NotAFile(path.to_owned())),
        }
    }

    fn refusal(&self, path: &Path) -> SendError {
        match fs::metadata(path) {
            Ok(_) => SendError::NotPermitted {
                path: path.to_owned(),
                permitted: self.paths.clone(),
            },
            Err(_) => SendError::Missing(path.to_owned()),
        }
    }
}

/// Adds the headers that describe a file to the worker's headers, which stay.
fn complete(headers: &mut HeaderMap, path: &Path, file: &File) {
    for name in [CONTENT_RANGE, TRANSFER_ENCODING] {
        headers.remove(name);
    }
    headers.insert(CONTENT_LENGTH, HeaderValue::from(file.version.size));
    let mut add = |name: HeaderName, value: HeaderValue| {
        headers.entry(name).or_insert(value);
    };
    let kind = kind(path.as_os_str().as_bytes());
    add(CONTENT_TYPE, HeaderValue::from_static(kind.name));
    add(ACCEPT_RANGES, HeaderValue::from_static("bytes"));
    add(ETAG, file.version.etag(""));
    let now = seconds(SystemTime::now());
    add(LAST_MODIFIED, file.version.last_modified(now));
}

/// `None` if the file has changed since it was opened.
async fn answer_with(
    method: &Method,
    headers: &HeaderMap,
    answer: &Response<()>,
    file: &File,
) -> io::Result<Option<Response<FileBody>>> {
    let is_read = matches!(*method, Method::GET | Method::HEAD);
    // The worker may have answered the range of the request itself; the gateway does it again.
    let is_ok = matches!(
        answer.status(),
        StatusCode::OK | StatusCode::PARTIAL_CONTENT
    );
    let own = answer.headers();
    if is_read && is_ok {
        let modified = own.get(LAST_MODIFIED);
        let whole = Whole {
            file,
            headers: own,
            validators: Validators {
                etag: own.get(ETAG).map(HeaderValue::as_bytes),
                modified: modified.and_then(|date| date::parse(date.as_bytes())),
            },
        };
        return respond(method, headers, whole).await;
    }
    let has_body = !matches!(
        answer.status(),
        StatusCode::NO_CONTENT | StatusCode::NOT_MODIFIED
    );
    let body = match has_body && *method != Method::HEAD {
        true => file.body(0, file.version.size).await?,
        false => Some(FileBody::empty()),
    };
    Ok(body.map(|body| {
        let mut response = Response::new(body);
        *response.status_mut() = answer.status();
        *response.headers_mut() = own.clone();
        if !has_body {
            response.headers_mut().remove(CONTENT_LENGTH);
        }
        response
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::site::test_dir::TestDir;
    use http_body_util::BodyExt;
    use std::os::unix::fs::symlink;

    struct Setup {
        dir: TestDir,
        send_files: SendFiles,
    }

    fn setup() -> Setup {
        let dir = TestDir::new();
        dir.write("public/a.txt", "in the root");
        dir.write("private/report.pdf", "0123456789");
        dir.write("private/large", vec![7; 200_000]);
        dir.write("privateer/secret", "secret");
        symlink("../privateer/secret", dir.path().join("private/link")).unwrap();
        symlink("report.pdf", dir.path().join("private/latest")).unwrap();
        let root = dir.path().join("public");
        let private = dir.path().join("private");
        let send_files = SendFiles::open(Some(&root), &[private]).unwrap();
        Setup { dir, send_files }
    }

    impl Setup {
        fn send(
            &self,
            request: (&str, &[(&'static str, &str)]),
            status: u16,
            answer: &[(&'static str, &str)],
        ) -> Result<(Response<()>, Vec<u8>), SendError> {
            let map = |all: &[(&'static str, &str)]| -> HeaderMap {
                let all = all.iter().map(|(name, value)| {
                    let value = HeaderValue::from_bytes(value.as_bytes()).unwrap();
                    (HeaderName::from_static(name), value)
                });
                all.collect()
            };
            let mut head = Response::new(());
            *head.status_mut() = StatusCode::from_u16(status).unwrap();
            *head.headers_mut() = map(answer);
            let method = Method::from_bytes(request.0.as_bytes()).unwrap();
            let headers = map(request.1);
            let runtime = tokio::runtime::Builder::new_current_thread()
                .build()
                .unwrap();
            runtime.block_on(async {
                let response = self.send_files.send(&method, &headers, head).await?;
                let (head, body) = response.into_parts();
                let body = body.collect().await.unwrap().to_bytes();
                Ok((Response::from_parts(head, ()), body.to_vec()))
            })
        }

        fn path(&self, name: &str) -> String {
            self.dir.path().join(name).to_str().unwrap().to_owned()
        }

        fn error(&self, path: &str) -> String {
            let sent = self.send(("GET", &[]), 200, &[("x-sendfile", path)]);
            sent.unwrap_err().to_string()
        }
    }

    fn header<'a>(head: &'a Response<()>, name: &str) -> Option<&'a str> {
        head.headers()
            .get(name)
            .map(|value| value.to_str().unwrap())
    }

    #[test]
    fn a_file_is_sent_with_the_headers_of_the_worker() {
        let setup = setup();
        let path = setup.path("private/report.pdf");
        let answer = [
            ("x-sendfile", path.as_str()),
            ("content-type", "application/x-own"),
            ("content-length", "0"),
            ("set-cookie", "a=b"),
        ];
        let (head, body) = setup.send(("GET", &[]), 200, &answer).unwrap();
        assert_eq!(
            (head.status().as_u16(), &body[..]),
            (200, &b"0123456789"[..])
        );
        assert_eq!(header(&head, "content-type"), Some("application/x-own"));
        assert_eq!(header(&head, "content-length"), Some("10"));
        assert_eq!(header(&head, "set-cookie"), Some("a=b"));
        assert_eq!(header(&head, "x-sendfile"), None);
        let etag = header(&head, "etag").unwrap().to_owned();
        let condition = [("if-none-match", etag.as_str())];
        let (head, body) = setup.send(("GET", &condition), 200, &answer).unwrap();
        assert_eq!((head.status().as_u16(), body.len()), (304, 0));
        assert_eq!(header(&head, "set-cookie"), Some("a=b"));
        let (head, body) = setup.send(("HEAD", &[]), 200, &answer).unwrap();
        assert_eq!(
            (header(&head, "content-length"), body.len()),
            (Some("10"), 0)
        );
        let path = setup.path("private/large");
        let (head, body) = setup
            .send(("GET", &[]), 200, &[("x-sendfile", &path)])
            .unwrap();
        assert_eq!(
            header(&head, "content-type"),
            Some("application/octet-stream")
        );
        assert!(body == vec![7; 200_000]);
    }

    #[test]
    fn ranges_are_those_of_the_file() {
        let setup = setup();
        let path = setup.path("private/latest");
        let answer = [("x-sendfile", path.as_str()), ("etag", "\"own\"")];
        for status in [200, 206] {
            let range = [("range", "bytes=2-4"), ("if-range", "\"own\"")];
            let (head, body) = setup.send(("GET", &range), status, &answer).unwrap();
            assert_eq!((head.status().as_u16(), &body[..]), (206, &b"234"[..]));
            assert_eq!(header(&head, "content-range"), Some("bytes 2-4/10"));
            let range = [("range", "bytes=10-")];
            let (head, _) = setup.send(("GET", &range), status, &answer).unwrap();
            assert_eq!(head.status().as_u16(), 416);
        }
        for (method, status) in [("POST", 200), ("GET", 404)] {
            let range = [("range", "bytes=2-4")];
            let (head, body) = setup.send((method, &range), status, &answer).unwrap();
            assert_eq!((head.status().as_u16(), body.len()), (status, 10));
        }
        let (head, body) = setup.send(("GET", &[]), 304, &answer).unwrap();
        assert_eq!((header(&head, "content-length"), body.len()), (None, 0));
    }

    #[test]
    fn files_outside_the_permitted_directories_are_refused() {
        let setup = setup();
        assert!(
            setup
                .send(
                    ("GET", &[]),
                    200,
                    &[("x-sendfile", &setup.path("public/a.txt"))]
                )
                .is_ok()
        );
        for path in [
            "/etc/passwd".to_owned(),
            setup.path("privateer/secret"),
            setup.path("private/link"),
            setup.path("private/../privateer/secret"),
            setup.path("public/../privateer/secret"),
        ] {
            let error = setup.error(&path);
            let expected = format!(
                "cannot send {path:?}, which a worker named in x-sendfile: it is not below {}, {}: add its directory to \
                send_files of the site",
                setup.path("public"),
                setup.path("private")
            );
            assert_eq!(error, expected);
        }
        for path in ["", "report.pdf", "../secret", "private/report.pdf"] {
            assert!(
                setup.error(path).contains("expected an absolute path"),
                "{path}"
            );
        }
        let missing = setup.error(&setup.path("private/none"));
        assert!(missing.contains("does not exist"), "{missing}");
        let directory = setup.error(&setup.path("private"));
        assert!(directory.contains("is not below"), "{directory}");
        fs::create_dir(setup.dir.path().join("private/sub")).unwrap();
        let directory = setup.error(&setup.path("private/sub"));
        assert!(directory.contains("not a regular file"), "{directory}");
        let none = SendFiles::open(None, &[]).unwrap();
        let setup = Setup {
            send_files: none,
            ..setup
        };
        let error = setup.error(&setup.path("private/report.pdf"));
        assert!(
            error.contains("not below any permitted directory"),
            "{error}"
        );
    }
}
