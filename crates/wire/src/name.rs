//! Names of calls, services and queues.

use crate::WireError;

/// The longest name, in bytes.
pub const MAX_NAME: usize = 255;

/// The prefix of the name of a site's service. Its calls are HTTP requests, which only gateways may send.
pub const SITE_PREFIX: &str = "http:";

const ALLOWED: [bool; 256] = {
    let mut allowed = [false; 256];
    let bytes = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.:/@-";
    let mut at = 0;
    while at < bytes.len() {
        allowed[bytes[at] as usize] = true;
        at += 1;
    }
    allowed
};

/// Checks the name of a call, a queue or a method: 1 to 255 bytes of `A-Z a-z 0-9 _ . : / @ -`.
pub fn check_name(name: &[u8]) -> Result<&str, WireError> {
    // There is no branch per byte, because this check runs for every request.
    let good = name
        .iter()
        .fold(true, |good, byte| good & ALLOWED[usize::from(*byte)]);
    if name.is_empty() || name.len() > MAX_NAME || !good {
        return Err(WireError::BadName);
    }
    std::str::from_utf8(name).map_err(|_| WireError::BadName)
}

/// The call that is a request to a site.
#[must_use]
pub fn site_call(site: &str) -> String {
    format!("{SITE_PREFIX}{site}.request")
}

/// The service of a call: everything before the last dot. A name without a dot is its own service.
pub fn service_of(call: &str) -> &str {
    call.rsplit_once('.').map_or(call, |(service, _)| service)
}
