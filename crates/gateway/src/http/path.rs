//! Splits and decodes the path of a request.

/// The parts between slashes, with `%2F` and similar escapes decoded. `None` for a path that is not UTF-8 or is badly
/// encoded.
pub(crate) fn parts(path: &str) -> Option<Vec<String>> {
    let path = path.strip_prefix('/')?;
    path.split('/').map(decode).collect()
}

pub(crate) fn decode(part: &str) -> Option<String> {
    if !part.contains('%') {
        return Some(part.to_owned());
    }
    let mut bytes = Vec::with_capacity(part.len());
    let mut rest = part.bytes();
    while let Some(byte) = rest.next() {
        let decoded = match byte {
            b'%' => hex(rest.next()?)? << 4 | hex(rest.next()?)?,
            byte => byte,
        };
        bytes.push(decoded);
    }
    String::from_utf8(bytes).ok()
}

fn hex(digit: u8) -> Option<u8> {
    char::from(digit).to_digit(16).map(|digit| digit as u8)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_may_contain_an_encoded_slash() {
        assert_eq!(
            parts("/queues/a%2fb/batch").unwrap(),
            ["queues", "a/b", "batch"]
        );
        assert_eq!(parts("/").unwrap(), [""]);
        for wrong in ["queues", "/%", "/%2", "/%zz", "/%ff"] {
            assert_eq!(parts(wrong), None, "{wrong}");
        }
    }
}
