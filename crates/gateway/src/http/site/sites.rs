//! The sites of the gateway, and which of them serves a request.

use super::settings::{SiteSettings, SitesSettings};
use crate::client::Level;
use crate::tls::Tls;
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;

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
}

pub(crate) struct Sites {
    endpoints: Vec<Endpoint>,
}

struct Endpoint {
    sites: Vec<Rc<Site>>,
    tls: Option<Tls>,
}

impl Sites {
    pub(crate) fn new(settings: &SitesSettings) -> io::Result<Self> {
        let sites: Vec<Rc<Site>> = settings.sites.iter().map(Site::new).map(Rc::new).collect();
        let endpoints = settings.endpoints.iter().map(|endpoint| {
            let of = endpoint.sites.iter().filter_map(|at| sites.get(*at));
            let tls = endpoint.tls.clone().map(Tls::new).transpose();
            Ok(Endpoint {
                sites: of.cloned().collect(),
                tls: tls.map_err(io::Error::other)?,
            })
        });
        Ok(Self {
            endpoints: endpoints.collect::<io::Result<_>>()?,
        })
    }

    /// TLS of the listener at this position, if it has any.
    pub(crate) fn tls(&self, endpoint: usize) -> Option<&Tls> {
        self.endpoints.get(endpoint)?.tls.as_ref()
    }

    /// Reads changed certificates again. Returns a line for the log for each change.
    pub(crate) fn refresh_certificates(&self) -> Vec<(Level, String)> {
        let all = self
            .endpoints
            .iter()
            .filter_map(|endpoint| endpoint.tls.as_ref());
        let lines = all.filter_map(|tls| match tls.refresh() {
            Ok(false) => None,
            Ok(true) => {
                let text = "reloaded the certificate, which new connections use";
                Some((Level::Info, text.to_owned()))
            }
            Err(error) => {
                let text = format!("{error}; the last valid certificate stays in use");
                Some((Level::Warn, text))
            }
        });
        lines.collect()
    }

    /// The site that a client has reached at a listener under this host name. Names are more specific than patterns,
    /// and sites without hosts serve what is left.
    pub(crate) fn find(&self, endpoint: usize, host: &str) -> Option<Rc<Site>> {
        let sites = &self.endpoints.get(endpoint)?.sites;
        let best = sites
            .iter()
            .filter_map(|site| Some((site.rank(host)?, site)));
        let best = best.max_by_key(|(rank, _)| *rank);
        best.map(|(_, site)| site.clone())
    }
}

impl Site {
    fn new(settings: &SiteSettings) -> Self {
        let root = settings.root.as_ref();
        let text = |path: std::path::PathBuf| path.to_string_lossy().into_owned();
        Self {
            call: stoker_wire::site_call(&settings.name),
            script: root.map(|root| text(root.join(&settings.index))),
            root: root.map(|root| text(root.clone())),
            settings: settings.clone(),
        }
    }

    /// How specifically the site names a host; `None` if it does not serve it.
    fn rank(&self, host: &str) -> Option<usize> {
        let hosts = &self.settings.hosts;
        if hosts.is_empty() {
            return Some(0);
        }
        let ranks = hosts.iter().filter_map(|pattern| rank(pattern, host));
        ranks.max()
    }
}

/// The length of a name that matches, plus one; for a pattern, that of what follows the asterisk.
fn rank(pattern: &str, host: &str) -> Option<usize> {
    let matches = match pattern.strip_prefix('*') {
        None => host.eq_ignore_ascii_case(pattern),
        Some(rest) => {
            let from = host
                .len()
                .checked_sub(rest.len())
                .filter(|from| *from > 0)?;
            host.get(from..)
                .is_some_and(|end| end.eq_ignore_ascii_case(rest))
        }
    };
    let exact = usize::from(!pattern.starts_with('*')) << 16;
    matches.then_some(pattern.len() + 1 + exact)
}
