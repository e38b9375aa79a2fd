//! A file of a site with its compressed siblings, and the headers with which they are sent.

use super::cache::Weight;
use super::conditions::Validators;
use super::encoding::{self, Coding};
use super::file::File;
use super::kind::kind;
use super::respond::Whole;
use super::version::{Version, seconds};
use hyper::header::{
    ACCEPT_RANGES, CACHE_CONTROL, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, ETAG, HeaderMap,
    HeaderValue, LAST_MODIFIED, VARY, X_CONTENT_TYPE_OPTIONS,
};
use rustix::fd::OwnedFd;
use std::time::SystemTime;

/// An open file and its version.
pub(crate) type Open = (OwnedFd, Version);

#[derive(Debug)]
pub(crate) struct Resource {
    plain: Representation,
    /// In the order of [`Coding::ALL`].
    encoded: Vec<(Coding, Representation)>,
}

#[derive(Debug)]
struct Representation {
    file: File,
    etag: HeaderValue,
    modified: i64,
    headers: HeaderMap,
}

impl Resource {
    pub(crate) fn new(
        path: &[u8],
        plain: Open,
        encoded: Vec<(Coding, Open)>,
        cache_control: Option<&HeaderValue>,
        now: SystemTime,
    ) -> Self {
        let mut common = HeaderMap::with_capacity(10);
        let nosniff = HeaderValue::from_static("nosniff");
        common.insert(CONTENT_TYPE, HeaderValue::from_static(kind(path).name));
        common.insert(ACCEPT_RANGES, HeaderValue::from_static("bytes"));
        common.insert(X_CONTENT_TYPE_OPTIONS, nosniff);
        if let Some(value) = cache_control {
            common.insert(CACHE_CONTROL, value.clone());
        }
        if !encoded.is_empty() {
            common.insert(VARY, HeaderValue::from_static("accept-encoding"));
        }
        let now = seconds(now);
        let encoded = encoded.into_iter().map(|(coding, open)| {
            let representation = Representation::new(open, Some(coding), &common, now);
            (coding, representation)
        });
        Self {
            encoded: encoded.collect(),
            plain: Representation::new(plain, None, &common, now),
        }
    }

    /// Whether both are the same files with the same content.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        self.all()
            .map(|one| one.file.version)
            .eq(other.all().map(|one| one.file.version))
    }

    /// Whether none of the files may have changed after its version was read.
    pub(crate) fn is_settled(&self, now: SystemTime) -> bool {
        self.all().all(|one| one.file.version.is_settled(now))
    }

    pub(crate) fn weight(&self) -> Weight {
        Weight {
            files: self.all().count(),
            bytes: self.all().map(|one| one.file.memory()).sum(),
        }
    }

    /// The form of the file that fits the client best.
    pub(crate) fn choose(&self, headers: &HeaderMap) -> Whole<'_> {
        let available = self.encoded.iter().map(|(coding, _)| *coding);
        let chosen = match self.encoded.is_empty() {
            true => None,
            false => encoding::choose(headers, available),
        };
        let mut encoded = self.encoded.iter();
        let found = encoded.find(|(coding, _)| Some(*coding) == chosen);
        let chosen = found.map_or(&self.plain, |(_, representation)| representation);
        Whole {
            file: &chosen.file,
            headers: &chosen.headers,
            validators: Validators {
                etag: Some(chosen.etag.as_bytes()),
                modified: Some(chosen.modified),
            },
        }
    }

    fn all(&self) -> impl Iterator<Item = &Representation> {
        let encoded = self
            .encoded
            .iter()
            .map(|(_, representation)| representation);
        std::iter::once(&self.plain).chain(encoded)
    }
}

impl Representation {
    fn new((fd, version): Open, coding: Option<Coding>, common: &HeaderMap, now: i64) -> Self {
        let etag = version.etag(match coding {
            None => "",
            Some(Coding::Brotli) => "-br",
            Some(Coding::Gzip) => "-gzip",
        });
        let mut headers = common.clone();
        headers.insert(ETAG, etag.clone());
        headers.insert(LAST_MODIFIED, version.last_modified(now));
        headers.insert(CONTENT_LENGTH, HeaderValue::from(version.size));
        if let Some(coding) = coding {
            headers.insert(CONTENT_ENCODING, HeaderValue::from_static(coding.name()));
        }
        Self {
            file: File::new(fd, version),
            etag,
            modified: version.modified(now),
            headers,
        }
    }
}
