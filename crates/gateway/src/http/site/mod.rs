//! Web sites: a listener of its own, on which public files are served directly and all other requests are answered by
//! workers.

mod access_log;
mod answer;
mod call;
mod checks;
mod error;
mod files;
mod hosts;
mod message;
mod pace;
mod parts;
mod proxies;
mod receive;
mod record;
mod sendfile;
mod serve;
mod settings;
mod sites;
mod spool;
#[cfg(test)]
mod test_dir;

pub(crate) use serve::{reject, serve};
pub use settings::{EndpointSettings, SiteSettings, SitesSettings};
pub use sites::check;
pub(crate) use sites::{SitePeer, Sites};
pub use spool::check_spool;
