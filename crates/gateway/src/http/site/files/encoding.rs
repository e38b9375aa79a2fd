//! Chooses between a file and its compressed siblings by `Accept-Encoding` (RFC 9110, section 12.5.3).

use hyper::header::{ACCEPT_ENCODING, HeaderMap};

/// A compressed form of a file, which is in a file beside it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Coding {
    Brotli,
    Gzip,
}

impl Coding {
    /// All codings; the one that makes files smallest comes first.
    pub(crate) const ALL: [Self; 2] = [Self::Brotli, Self::Gzip];

    /// The name in headers.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Brotli => "br",
            Self::Gzip => "gzip",
        }
    }

    /// The suffix of the names of such files.
    pub(crate) const fn suffix(self) -> &'static str {
        match self {
            Self::Brotli => ".br",
            Self::Gzip => ".gz",
        }
    }
}

/// The weights that a client gives to codings, in thousandths. `None` for codings that it does not name.
#[derive(Clone, Copy, Debug, Default)]
struct Weights {
    brotli: Option<u16>,
    gzip: Option<u16>,
    identity: Option<u16>,
    other: Option<u16>,
}

/// Chooses one of the available codings, or none of them. The first one wins if a client likes several equally. A file
/// without a coding is sent even to a client that refuses it, because an error would help nobody.
pub(crate) fn choose(
    headers: &HeaderMap,
    available: impl IntoIterator<Item = Coding>,
) -> Option<Coding> {
    let weights = weights(headers)?;
    // A client that names a coding prefers it to none, unless it says otherwise.
    let mut best = (weights.identity.unwrap_or(0), None);
    for coding in available {
        let own = match coding {
            Coding::Brotli => weights.brotli,
            Coding::Gzip => weights.gzip,
        };
        let weight = own.or(weights.other).unwrap_or(0);
        let is_better = match best.1 {
            None => weight > 0 && weight >= best.0,
            Some(_) => weight > best.0,
        };
        if is_better {
            best = (weight, Some(coding));
        }
    }
    best.1
}

fn weights(headers: &HeaderMap) -> Option<Weights> {
    let mut weights = Weights::default();
    let mut is_given = false;
    for value in headers.get_all(ACCEPT_ENCODING) {
        is_given = true;
        for element in value.as_bytes().split(|byte| *byte == b',') {
            let mut parts = element.split(|byte| *byte == b';');
            let name = parts.next().unwrap_or_default().trim_ascii();
            let weight = match parts.next() {
                None => Some(1_000),
                Some(parameter) => weight(parameter.trim_ascii()),
            };
            let Some(weight) = weight else {
                continue;
            };
            let is = |known: &[u8]| name.eq_ignore_ascii_case(known);
            if is(b"br") {
                weights.brotli = Some(weight);
            } else if is(b"gzip") || is(b"x-gzip") {
                weights.gzip = Some(weight);
            } else if is(b"identity") {
                weights.identity = Some(weight);
            } else if name == b"*" {
                weights.other = Some(weight);
            }
        }
    }
    is_given.then_some(weights)
}

/// Parses `q=0.5`. `None` if it is anything else.
fn weight(parameter: &[u8]) -> Option<u16> {
    let (b'q' | b'Q', rest) = parameter.split_first()? else {
        return None;
    };
    let rest = rest.trim_ascii_start().strip_prefix(b"=")?;
    let (whole, decimals) = rest.trim_ascii_start().split_first()?;
    let decimals = match decimals {
        [] => decimals,
        [b'.', decimals @ ..] if decimals.len() <= 3 => decimals,
        _ => return None,
    };
    let mut thousandths = 0;
    for at in 0..3 {
        let digit = decimals.get(at).unwrap_or(&b'0');
        thousandths = thousandths * 10 + digit.is_ascii_digit().then(|| u16::from(digit - b'0'))?;
    }
    match whole {
        b'0' => Some(thousandths),
        b'1' if thousandths == 0 => Some(1_000),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hyper::header::HeaderValue;
    use proptest::prelude::*;

    fn chosen(values: &[&[u8]], available: &[Coding]) -> Option<&'static str> {
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append(ACCEPT_ENCODING, HeaderValue::from_bytes(value).unwrap());
        }
        choose(&headers, available.iter().copied()).map(Coding::name)
    }

    #[test]
    fn the_best_accepted_coding_is_chosen() {
        for (value, expected) in [
            ("", None),
            ("gzip, deflate, br, zstd", Some("br")),
            ("GZIP", Some("gzip")),
            ("x-gzip", Some("gzip")),
            ("gzip;q=1.0, br;q=0.999", Some("gzip")),
            ("gzip;q=0.5, br;q=0.5", Some("br")),
            ("br;q=0, gzip;q=0", None),
            ("br;q=0, *", Some("gzip")),
            ("*", Some("br")),
            ("*;q=0", None),
            ("*;q=0, gzip", Some("gzip")),
            ("identity", None),
            ("identity;q=0.5, gzip;q=0.4", None),
            ("identity;q=0.5, gzip;q=0.5", Some("gzip")),
            ("identity;q=0", None),
            ("gzip;q=0.001", Some("gzip")),
            ("br ; q = 0.3 , gzip ;q=0.2", Some("br")),
            ("deflate", None),
        ] {
            assert_eq!(
                chosen(&[value.as_bytes()], &Coding::ALL),
                expected,
                "{value}"
            );
        }
        assert_eq!(chosen(&[], &Coding::ALL), None);
        assert_eq!(chosen(&[b"br", b"gzip"], &[Coding::Gzip]), Some("gzip"));
        assert_eq!(chosen(&[b"br, gzip"], &[]), None);
    }

    #[test]
    fn codings_with_an_invalid_weight_are_ignored() {
        for value in [
            "gzip;q=",
            "gzip;q=2",
            "gzip;q=1.5",
            "gzip;q=-1",
            "gzip;q=0.1234",
            "gzip;q=a",
            "gzip;level=9",
            "gzip;",
            "gz ip",
            "gzip;q=0,5x",
            "gzip;q=.5",
            "gzip;q=10",
        ] {
            assert_eq!(chosen(&[value.as_bytes()], &Coding::ALL), None, "{value}");
        }
        assert_eq!(chosen(&[b"gzip\xff, br"], &Coding::ALL), Some("br"));
    }

    proptest! {
        #[test]
        fn every_valid_weight_is_parsed(thousandths in 0u16..=1_000) {
            let text = format!("q={}.{:03}", thousandths / 1_000, thousandths % 1_000);
            prop_assert_eq!(weight(text.as_bytes()), Some(thousandths));
        }

        #[test]
        fn no_header_panics(value in "[ -~]{0,60}") {
            chosen(&[value.as_bytes()], &Coding::ALL);
        }
    }
}
