//! The sites of the gateway, and which of them serves a request.

use super::files::{self, Files};
use super::hosts::{Host, Hosts};
use super::proxies::Proxies;
use super::sendfile::SendFiles;
use super::settings::{SiteSettings, SitesSettings};
use super::spool::{Limits, Spool};
use crate::client::Level;
use crate::tls::Tls;
use std::cell::RefCell;
use std::fs;
use std::io;
use std::net::SocketAddr;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::rc::Rc;

/// The files of one site that are kept open, and the bytes of small ones that are kept in memory.
const MAX_OPEN_FILES: usize = 500;
const MAX_FILE_MEMORY: usize = 8 << 20;

/// The client of a connection to a site.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SitePeer {
    pub(crate) address: SocketAddr,
    /// The position of the listener that has accepted the connection.
    pub(crate) endpoint: usize,
    /// The connection uses TLS.
    pub(crate) is_secure: bool,
}

/// A site.
pub(crate) struct Site {
    pub(crate) settings: SiteSettings,
    /// The name of the call that a request is.
    pub(crate) call: String,
    /// The absolute path of the front controller.
    pub(crate) script: Option<String>,
    /// The absolute path of the directory with the public files.
    pub(crate) root: Option<String>,
    pub(crate) proxies: Proxies,
    /// `None` if large bodies are not written to files.
    pub(crate) spool: Option<Spool>,
    hosts: Hosts,
    opened: RefCell<Rc<OpenDirectories>>,
    /// The identities of the directories that could not be opened and were reported.
    reported: RefCell<Option<Identities>>,
}

/// Device and inode of each directory; `None` for one that does not exist.
type Identities = Vec<Option<(u64, u64)>>;

/// The directories of a site. Deploys replace them, often by a symbolic link.
pub(crate) struct OpenDirectories {
    /// `None` if the site has no public files.
    pub(crate) files: Option<Files>,
    pub(crate) send_files: SendFiles,
    /// Those of the directories when they were opened; `None` if they could not be opened.
    identities: Option<Identities>,
}

pub(crate) struct Sites {
    sites: Vec<Rc<Site>>,
    endpoints: Vec<Endpoint>,
}

struct Endpoint {
    sites: Vec<Rc<Site>>,
    tls: Option<Tls>,
}

impl Sites {
    pub(crate) fn new(settings: &SitesSettings) -> io::Result<Self> {
        let spool = settings.spool.as_deref();
        let sites = settings.sites.iter();
        let sites = sites.map(|site| Ok(Rc::new(Site::new(site, spool, settings.max_spool)?)));
        let sites: Vec<Rc<Site>> = sites.collect::<io::Result<_>>()?;
        let endpoints = settings.endpoints.iter().map(|endpoint| {
            let own = endpoint.sites.iter().filter_map(|at| sites.get(*at));
            let tls = endpoint.tls.clone().map(Tls::new).transpose();
            Ok(Endpoint {
                sites: own.cloned().collect(),
                tls: tls.map_err(io::Error::other)?,
            })
        });
        Ok(Self {
            endpoints: endpoints.collect::<io::Result<_>>()?,
            sites,
        })
    }

    /// The size of all large bodies that are in files.
    pub(crate) fn spooled_bytes(&self) -> usize {
        let spools = self.sites.iter().filter_map(|site| site.spool.as_ref());
        spools.map(Spool::used).sum()
    }

    /// Removes the files of answers that did not arrive.
    pub(crate) fn remove_stale_answers(&self) {
        // All sites have the same directory.
        if let Some(spool) = self.sites.iter().find_map(|site| site.spool.as_ref()) {
            spool.remove_stale_answers();
        }
    }

    /// TLS of the listener at this position, if it has any.
    pub(crate) fn tls(&self, endpoint: usize) -> Option<&Tls> {
        self.endpoints.get(endpoint)?.tls.as_ref()
    }

    /// Reads changed certificates again, and opens directories that were replaced. Returns lines for the log.
    pub(crate) fn refresh(&self) -> Vec<(Level, String)> {
        let all = self
            .endpoints
            .iter()
            .filter_map(|endpoint| endpoint.tls.as_ref());
        let certificates = all.filter_map(Tls::refresh);
        let failures = self.sites.iter().filter_map(|site| {
            let error = site.refresh().err()?;
            let name = &site.settings.name;
            let text = format!("site {name}: {error}; until it can be opened, the site serves only the directories that were opened earlier");
            Some((Level::Warn, text))
        });
        certificates.chain(failures).collect()
    }

    /// Whether a site of the listener at this position has an access log.
    pub(crate) fn has_access_log(&self, endpoint: usize) -> bool {
        let endpoint = self.endpoints.get(endpoint);
        let mut sites = endpoint.into_iter().flat_map(|endpoint| &endpoint.sites);
        sites.any(|site| site.settings.has_access_log)
    }

    /// The site that a client has reached at a listener under this host name. `is_served` returns whether a site, given by
    /// name, has not been removed since the start.
    pub(crate) fn find(
        &self,
        endpoint: usize,
        host: &Host,
        is_served: impl Fn(&str) -> bool,
    ) -> Option<Rc<Site>> {
        let sites = &self.endpoints.get(endpoint)?.sites;
        let matching = sites
            .iter()
            .filter(|site| is_served(&site.settings.name))
            .filter_map(|site| Some((site.hosts.matches(host)?, site)));
        let best = matching.max_by_key(|(how_well, _)| *how_well);
        best.map(|(_, site)| site.clone())
    }
}

/// Checks what can be checked without opening anything.
pub fn check(settings: &SiteSettings) -> Result<(), String> {
    let in_site = |error| format!("[site.{}]: {error}", settings.name);
    Hosts::new(&settings.hosts).map_err(in_site)?;
    let proxies = Proxies::new(&settings.trusted_proxies, &settings.proxy_headers);
    proxies.map(drop).map_err(in_site)
}

impl Site {
    fn new(settings: &SiteSettings, spool: Option<&Path>, max_spool: usize) -> io::Result<Self> {
        let root = settings.root.as_ref();
        let text = |path: PathBuf| path.to_string_lossy().into_owned();
        let proxies = Proxies::new(&settings.trusted_proxies, &settings.proxy_headers);
        let limits = Limits {
            request: usize::try_from(settings.max_body).unwrap_or(usize::MAX),
            total: max_spool,
        };
        let spool = spool.filter(|_| settings.has_spool);
        let spool = spool.map(|path| Spool::open(path, limits)).transpose();
        Ok(Self {
            call: stoker_wire::site_call(&settings.name),
            script: root.map(|root| text(root.join(&settings.index))),
            root: root.map(|root| text(root.clone())),
            hosts: Hosts::new(&settings.hosts).map_err(io::Error::other)?,
            proxies: proxies.map_err(io::Error::other)?,
            spool: spool.map_err(io::Error::other)?,
            // A missing directory is reported by `refresh`, and does not stop the other sites.
            opened: RefCell::new(Rc::new(match OpenDirectories::open(settings) {
                Ok(opened) => opened,
                Err(_) => OpenDirectories::none()?,
            })),
            reported: RefCell::default(),
            settings: settings.clone(),
        })
    }

    pub(crate) fn directories(&self) -> Rc<OpenDirectories> {
        self.opened.borrow().clone()
    }

    /// Opens the directories again if they were replaced. The same failure is returned only once.
    fn refresh(&self) -> io::Result<()> {
        let identities = Some(identities(&self.settings));
        if self.opened.borrow().identities == identities {
            return Ok(());
        }
        match OpenDirectories::open(&self.settings) {
            Ok(opened) => {
                *self.opened.borrow_mut() = Rc::new(opened);
                self.reported.take();
                Ok(())
            }
            Err(_) if *self.reported.borrow() == identities => Ok(()),
            Err(error) => {
                self.reported.replace(identities);
                Err(error)
            }
        }
    }
}

impl OpenDirectories {
    fn open(settings: &SiteSettings) -> io::Result<Self> {
        let identities = identities(settings);
        let files = settings.root.as_ref().map(|root| {
            Files::open(&files::Settings {
                root: root.clone(),
                linked: settings.send_files.clone(),
                scripts: Vec::new(),
                max_age: settings.max_age,
                max_open: MAX_OPEN_FILES,
                max_memory: MAX_FILE_MEMORY,
            })
        });
        Ok(Self {
            files: files.transpose()?,
            send_files: SendFiles::open(settings.root.as_deref(), &settings.send_files)?,
            identities: Some(identities),
        })
    }

    /// The site has no directories: workers answer all requests.
    fn none() -> io::Result<Self> {
        Ok(Self {
            files: None,
            send_files: SendFiles::open(None, &[])?,
            identities: None,
        })
    }
}

fn identities(settings: &SiteSettings) -> Identities {
    let directories = settings.root.iter().chain(&settings.send_files);
    let identity = |path: &PathBuf| {
        let found = fs::metadata(path).ok()?;
        Some((found.dev(), found.ino()))
    };
    directories.map(identity).collect()
}
