//! Serves the static files of a site.

pub(crate) mod body;
mod cache;
pub(crate) mod conditions;
pub(crate) mod date;
pub(crate) mod directories;
mod directory;
mod encoding;
pub(crate) mod file;
pub(crate) mod kind;
mod lookup;
mod missing;
mod path;
mod pieces;
mod range;
mod resource;
pub(crate) mod respond;
#[cfg(test)]
mod tests;
pub(crate) mod version;

use body::FileBody;
use hyper::header::{HeaderMap, HeaderValue, LOCATION};
use hyper::{Method, Response, StatusCode, Uri};
use lookup::{Found, Lookup};
use path::Target;
use std::borrow::Cow;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

/// The file that is sent for a directory.
const INDEX: &[u8] = b"index.html";
/// The number of times that a file is opened for one request if it is replaced again and again.
const MAX_ATTEMPTS: usize = 4;

/// How the files of a site are served.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    /// The document root.
    pub(crate) root: PathBuf,
    /// Directories outside the document root to which symbolic links below it may lead, such as the storage of a Laravel
    /// application.
    pub(crate) linked: Vec<PathBuf>,
    /// Extensions, without a dot, of files that are never sent because they are source code, in addition to `php`.
    pub(crate) scripts: Vec<String>,
    /// How long clients may use a file without asking whether it has changed. Without it they decide themselves.
    pub(crate) max_age: Option<Duration>,
    /// The maximum number of files that are kept open.
    pub(crate) max_open: usize,
    /// The maximum number of bytes of small files that are kept in memory.
    pub(crate) max_memory: usize,
}

/// The static files of a site.
#[derive(Debug)]
pub(crate) struct Files {
    lookup: Lookup,
}

impl Files {
    /// Opens the directories. They stay open, so a root that is a symbolic link is looked up only here.
    pub(crate) fn open(settings: &Settings) -> io::Result<Self> {
        let lookup = Lookup::open(settings)?;
        Ok(Self { lookup })
    }

    /// Responds to a request for a file. `None` if the site has no such file, so that the front controller answers. An
    /// error means that the file can't be read, or that there are too many open files.
    pub(crate) async fn serve(
        &self,
        method: &Method,
        uri: &Uri,
        headers: &HeaderMap,
    ) -> io::Result<Option<Response<FileBody>>> {
        let is_read = matches!(*method, Method::GET | Method::HEAD);
        let path = match path::target(uri.path().as_bytes()) {
            Target::File(path) => path,
            Target::Directory(path) if is_read => index_of(&path),
            Target::Directory(_) | Target::None => return Ok(None),
            Target::Hostile => return Ok(Some(respond::text(StatusCode::BAD_REQUEST))),
        };
        if self.lookup.is_script(&path) {
            return Ok(None);
        }
        for _ in 0..MAX_ATTEMPTS {
            let resource = match self.lookup.find(&path)? {
                Found::File(resource) => resource,
                Found::Directory if is_read => return self.redirect(&path, uri),
                Found::Directory | Found::Nothing => return Ok(None),
            };
            if !is_read {
                return Ok(Some(respond::not_allowed()));
            }
            let whole = resource.choose(headers);
            if let Some(response) = respond::respond(method, headers, whole).await? {
                return Ok(Some(response));
            }
            self.lookup.forget(&path);
        }
        let path = String::from_utf8_lossy(&path);
        let text = format!("{path} kept changing while it was being read");
        Err(io::Error::other(text))
    }

    /// Sends the client to the same path with a slash, so that relative links in the directory's index are right.
    fn redirect(&self, path: &[u8], uri: &Uri) -> io::Result<Option<Response<FileBody>>> {
        if !matches!(self.lookup.find(&index_of(path))?, Found::File(_)) {
            return Ok(None);
        }
        let query = uri
            .query()
            .map_or(String::new(), |query| format!("?{query}"));
        let location = format!("{}/{query}", uri.path());
        let mut response = respond::text(StatusCode::MOVED_PERMANENTLY);
        // The text was valid in the request's line.
        let Ok(location) = HeaderValue::try_from(location) else {
            return Ok(None);
        };
        response.headers_mut().insert(LOCATION, location);
        Ok(Some(response))
    }
}

/// Whether a client sends such a path only to reach protected files.
pub(crate) fn is_hostile(path: &str) -> bool {
    path::target(path.as_bytes()) == Target::Hostile
}

fn index_of(path: &[u8]) -> Cow<'static, [u8]> {
    match path.is_empty() {
        true => Cow::Borrowed(INDEX),
        false => Cow::Owned([path, b"/", INDEX].concat()),
    }
}
