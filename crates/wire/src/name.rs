use crate::WireError;

/// The longest name, in bytes.
pub const MAX_NAME: usize = 255;

/// Checks the name of a call, a queue or a method: 1 to 255 bytes of `A-Z a-z 0-9 _ . : / @ -`.
pub fn check_name(name: &[u8]) -> Result<&str, WireError> {
    let allowed = |b: &u8| matches!(b, b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'_' | b'.' | b':' | b'/' | b'@' | b'-');
    if name.is_empty() || name.len() > MAX_NAME || !name.iter().all(allowed) {
        return Err(WireError::BadName);
    }
    std::str::from_utf8(name).map_err(|_| WireError::BadName)
}

/// The service of a call: all before the last dot. A name without one is its own service.
pub fn service_of(call: &str) -> &str {
    call.rsplit_once('.').map_or(call, |(service, _)| service)
}
