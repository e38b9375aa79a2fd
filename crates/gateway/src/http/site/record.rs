//! The access log entry of a request, as far as it is known before its response is sent.

use super::access_log::{self, Access};
use super::sites::Site;
use crate::client::Level;
use crate::http::Gateway;
use hyper::header::{HeaderValue, USER_AGENT};
use hyper::http::request::Parts;
use hyper::{Method, StatusCode, Uri};
use std::net::IpAddr;
use std::rc::Rc;
use std::time::Instant;

/// A request that will be logged.
pub(super) struct Record {
    /// `None` if the request has reached no site.
    pub(super) site: Option<Rc<Site>>,
    pub(super) client: Option<IpAddr>,
    /// `None` if the head could not be read.
    head: Option<(Method, Uri)>,
    agent: Option<HeaderValue>,
    began: Instant,
}

impl Record {
    /// A request with this head that arrived at `began`.
    pub(super) fn of(head: &Parts, client: Option<IpAddr>, began: Instant) -> Self {
        Self {
            site: None,
            client,
            head: Some((head.method.clone(), head.uri.clone())),
            agent: head.headers.get(USER_AGENT).cloned(),
            began,
        }
    }

    /// A request whose head could not be read.
    pub(super) fn unreadable(client: IpAddr) -> Self {
        Self {
            site: None,
            client: Some(client),
            head: None,
            agent: None,
            began: Instant::now(),
        }
    }

    /// Writes the line, after `bytes` of the response's body were sent.
    pub(super) fn log(&self, gateway: &Gateway, status: StatusCode, bytes: u64) {
        let (method, target) = match &self.head {
            Some((method, uri)) => {
                let target = uri.path_and_query();
                (
                    method.as_str(),
                    target.map_or("/", |target| target.as_str()),
                )
            }
            None => ("-", "-"),
        };
        let line = access_log::text(&Access {
            site: self.site.as_ref().map_or("-", |site| &site.settings.name),
            client: self.client,
            method,
            target: target.as_bytes(),
            status: status.as_u16(),
            bytes,
            duration: self.began.elapsed(),
            user_agent: self.agent.as_ref().map(HeaderValue::as_bytes),
        });
        gateway.client.log(Level::Info, line);
    }
}
