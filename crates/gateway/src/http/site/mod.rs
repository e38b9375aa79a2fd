//! Web sites: a listener of its own, on which public files are served directly and all other requests are answered by
//! workers.

mod answer;
mod call;
mod error;
mod message;
mod serve;
mod settings;
mod sites;

pub(crate) use serve::serve;
pub use settings::{EndpointSettings, SiteSettings, SitesSettings};
pub(crate) use sites::{SitePeer, Sites};
