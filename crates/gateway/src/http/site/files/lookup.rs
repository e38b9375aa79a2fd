//! Finds files by their paths.

use super::cache::{Cache, Known, Weight};
use super::directories::Directories;
use super::encoding::Coding;
use super::missing::{Missing, first_part};
use super::resource::{Open, Resource};
use super::version::{Opened, Version};
use super::{Settings, kind, path};
use hyper::header::HeaderValue;
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use std::cell::RefCell;
use std::io;
use std::path::PathBuf;
use std::rc::Rc;
use std::time::{Instant, SystemTime};

#[derive(Debug)]
pub(crate) struct Lookup {
    directories: Directories,
    scripts: Vec<String>,
    cache_control: Option<HeaderValue>,
    pub(super) cache: RefCell<Cache<Resource>>,
    missing: RefCell<Missing>,
}

/// The result of looking up a path.
pub(crate) enum Found {
    File(Rc<Resource>),
    Directory,
    Nothing,
}

impl Lookup {
    pub(crate) fn open(settings: &Settings) -> io::Result<Self> {
        let linked = settings.linked.iter().map(PathBuf::as_path);
        let all = std::iter::once(settings.root.as_path()).chain(linked);
        let mut scripts = settings.scripts.clone();
        scripts.push("php".to_owned());
        let max_age = settings
            .max_age
            .map(|age| format!("max-age={}", age.as_secs()));
        let limit = Weight {
            files: settings.max_open,
            bytes: settings.max_memory,
        };
        Ok(Self {
            directories: Directories::open(all)?,
            scripts,
            cache_control: max_age.and_then(|value| HeaderValue::try_from(value).ok()),
            cache: RefCell::new(Cache::new(limit)),
            missing: RefCell::new(Missing::new(Instant::now())),
        })
    }

    /// Whether a file of this name may hold the source of a script, and is never sent.
    pub(crate) fn is_script(&self, path: &[u8]) -> bool {
        path::is_script(path, &self.scripts)
    }

    /// Makes the next request look at the path again, because its file has changed.
    pub(crate) fn forget(&self, path: &[u8]) {
        self.cache.borrow_mut().remove(path);
    }

    /// Returns what is at a path, which is relative to the document root. The answer may be a second old.
    pub(crate) fn find(&self, path: &[u8]) -> io::Result<Found> {
        let now = Instant::now();
        let known = self.cache.borrow_mut().get(path, now);
        let stale = match known {
            Known::Fresh(resource) => return Ok(Found::File(resource)),
            Known::Stale(resource) => Some(resource),
            Known::Nothing if self.missing.borrow_mut().contains(path, now) => {
                return Ok(Found::Nothing);
            }
            Known::Nothing => None,
        };
        let loaded = match self.load(path)? {
            Some((fd, Opened::File(version))) => Ok(self.resource(path, (fd, version))?),
            Some((_, Opened::Directory)) => Err(Found::Directory),
            Some((_, Opened::Other)) => Err(Found::Nothing),
            None => {
                let mut missing = self.missing.borrow_mut();
                if missing.has_room_for(path) && self.directories.is_missing(first_part(path)) {
                    missing.insert(path, now);
                }
                Err(Found::Nothing)
            }
        };
        let found = match loaded {
            Ok(found) => found,
            Err(other) => {
                self.cache.borrow_mut().remove(path);
                return Ok(other);
            }
        };
        let resource = match stale {
            Some(stale) if stale.is_same(&found) => stale,
            _ => Rc::new(found),
        };
        let mut cache = self.cache.borrow_mut();
        match resource.is_settled(SystemTime::now()) {
            true => cache.insert(path, resource.clone(), resource.weight(), now),
            false => cache.remove(path),
        }
        Ok(Found::File(resource))
    }

    /// Opens what is at a path. If there are too many open files, those of the cache are closed first.
    fn load(&self, path: &[u8]) -> io::Result<Option<(OwnedFd, Opened)>> {
        let is_allowed = |path: &[u8]| !path::is_hidden(path) && !self.is_script(path);
        let open = || self.directories.open_first(path, is_allowed);
        let opened = match open() {
            Err(error) if is_full(&error) => {
                self.cache.borrow_mut().clear();
                open()?
            }
            opened => opened?,
        };
        match opened {
            None => Ok(None),
            Some(fd) => {
                let opened = Version::of(&fd)?;
                Ok(Some((fd, opened)))
            }
        }
    }

    /// Opens the compressed siblings of a file.
    fn resource(&self, path: &[u8], plain: Open) -> io::Result<Resource> {
        let mut encoded = Vec::new();
        if kind::kind(path).is_compressible {
            for coding in Coding::ALL {
                let name = [path, coding.suffix().as_bytes()].concat();
                if let Some((fd, Opened::File(version))) = self.load(&name)? {
                    encoded.push((coding, (fd, version)));
                }
            }
        }
        let (control, now) = (self.cache_control.as_ref(), SystemTime::now());
        Ok(Resource::new(path, plain, encoded, control, now))
    }
}

/// Whether the process or the system has no room for another open file.
fn is_full(error: &io::Error) -> bool {
    let error = Errno::from_io_error(error);
    matches!(error, Some(Errno::MFILE | Errno::NFILE))
}
