//! The parts of a site that need no connection to the server: its files, its host names, the proxies in front of it, its
//! access log, and the files that hold large request bodies.

pub(crate) mod access_log;
pub(crate) mod files;
pub(crate) mod hosts;
pub(crate) mod proxies;
pub(crate) mod sendfile;
pub(crate) mod spool;
#[cfg(test)]
mod test_dir;
