//! The addresses of trusted proxies.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// A set of addresses.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Ranges {
    all: Vec<Range>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Range {
    /// The address of a network in its high bits, and the number of these bits.
    V4(u32, u32),
    V6(u128, u32),
    Loopback,
    Private,
    /// Clients of a Unix socket, which have no address.
    Unix,
}

impl Ranges {
    /// Parses addresses (`192.0.2.7`, `2001:db8::7`), networks (`10.0.0.0/8`, `2001:db8::/32`) and the words `loopback`,
    /// `private` (RFC 1918 and RFC 4193) and `unix`. The error says which one is invalid.
    pub(crate) fn new<S: AsRef<str>>(ranges: &[S]) -> Result<Self, String> {
        let all = ranges.iter().map(|range| parse(range.as_ref()));
        Ok(Self {
            all: all.collect::<Result<_, _>>()?,
        })
    }

    /// Whether an address belongs to the set; `None` stands for the client of a Unix socket.
    pub(crate) fn contains(&self, address: Option<IpAddr>) -> bool {
        let Some(address) = address else {
            return self.all.contains(&Range::Unix);
        };
        // A socket for both versions of IP reports IPv4 addresses as `::ffff:192.0.2.7`.
        let address = address.to_canonical();
        self.all.iter().any(|range| range.contains(address))
    }
}

impl Range {
    fn contains(&self, address: IpAddr) -> bool {
        match (self, address) {
            (Self::V4(network, bits), IpAddr::V4(address)) => {
                *network == address.to_bits() & mask_v4(*bits)
            }
            (Self::V6(network, bits), IpAddr::V6(address)) => {
                *network == address.to_bits() & mask_v6(*bits)
            }
            (Self::Loopback, address) => address.is_loopback(),
            (Self::Private, IpAddr::V4(address)) => address.is_private(),
            (Self::Private, IpAddr::V6(address)) => address.is_unique_local(),
            _ => false,
        }
    }
}

fn parse(text: &str) -> Result<Range, String> {
    let invalid = |reason: &str| format!("invalid address of a trusted proxy {text:?}: {reason}");
    match text {
        "loopback" => return Ok(Range::Loopback),
        "private" => return Ok(Range::Private),
        "unix" => return Ok(Range::Unix),
        _ => {}
    }
    let (address, bits) = match text.split_once('/') {
        Some((address, bits)) => (address, Some(bits)),
        None => (text, None),
    };
    let expected = "expected an address, a network such as \"10.0.0.0/8\", \"loopback\", \"private\" or \"unix\"";
    let address: IpAddr = address.parse().map_err(|_| invalid(expected))?;
    if address.to_canonical() != address {
        return Err(invalid("expected the IPv4 address or network itself"));
    }
    let max = if address.is_ipv4() { 32 } else { 128 };
    let bits = match bits {
        None => max,
        Some(bits) => {
            let is_number = bits.bytes().all(|byte| byte.is_ascii_digit());
            let bits = bits.parse().ok().filter(|bits| is_number && *bits <= max);
            bits.ok_or_else(|| invalid(&format!("expected a number from 0 to {max} after \"/\"")))?
        }
    };
    let (range, network) = match address {
        IpAddr::V4(address) => {
            let network = address.to_bits() & mask_v4(bits);
            (
                Range::V4(network, bits),
                IpAddr::V4(Ipv4Addr::from_bits(network)),
            )
        }
        IpAddr::V6(address) => {
            let network = address.to_bits() & mask_v6(bits);
            (
                Range::V6(network, bits),
                IpAddr::V6(Ipv6Addr::from_bits(network)),
            )
        }
    };
    match network == address {
        true => Ok(range),
        false => Err(invalid(&format!("the network is \"{network}/{bits}\""))),
    }
}

fn mask_v4(bits: u32) -> u32 {
    u32::MAX.checked_shl(32 - bits).unwrap_or(0)
}

fn mask_v6(bits: u32) -> u128 {
    u128::MAX.checked_shl(128 - bits).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn contains(ranges: &[&str], address: &str) -> bool {
        let ranges = Ranges::new(ranges).unwrap();
        ranges.contains(Some(address.parse().unwrap()))
    }

    #[test]
    fn addresses_are_matched_with_networks_and_words() {
        for (range, inside, outside) in [
            ("10.0.0.0/8", "10.255.0.1", "11.0.0.0"),
            ("192.0.2.7", "192.0.2.7", "192.0.2.8"),
            ("192.0.2.7", "::ffff:192.0.2.7", "::192.0.2.7"),
            ("0.0.0.0/0", "255.1.2.3", "::1"),
            ("::/0", "2001:db8::1", "1.2.3.4"),
            ("2001:db8::/32", "2001:db8:ffff::1", "2001:db9::1"),
            ("2001:db8::1/128", "2001:db8::1", "2001:db8::2"),
            ("192.0.2.128/25", "192.0.2.255", "192.0.2.127"),
            ("loopback", "127.9.9.9", "10.0.0.1"),
            ("loopback", "::1", "::2"),
            ("private", "192.168.1.1", "192.169.1.1"),
            ("private", "172.31.255.255", "172.32.0.0"),
            ("private", "fd00::1", "fe80::1"),
            ("private", "::ffff:10.0.0.1", "127.0.0.1"),
        ] {
            assert!(contains(&[range], inside), "{range} {inside}");
            assert!(!contains(&[range], outside), "{range} {outside}");
        }
        assert!(!contains(&[], "127.0.0.1"));
        assert!(contains(&["10.0.0.0/8", "loopback"], "127.0.0.1"));
        assert!(Ranges::new(&["unix"]).unwrap().contains(None));
        assert!(
            !Ranges::new(&["loopback", "0.0.0.0/0"])
                .unwrap()
                .contains(None)
        );
    }

    #[test]
    fn invalid_ranges_are_rejected() {
        for (range, part) in [
            ("", "expected an address"),
            ("*", "expected an address"),
            ("Loopback", "expected an address"),
            ("example.com", "expected an address"),
            ("10.0.0.0/33", "0 to 32"),
            ("::/129", "0 to 128"),
            ("10.0.0.0/", "0 to 32"),
            ("10.0.0.0/+8", "0 to 32"),
            ("10.0.0.0/8/8", "0 to 32"),
            ("10.0.0.1/8", "the network is \"10.0.0.0/8\""),
            ("2001:db8::1/32", "the network is \"2001:db8::/32\""),
            ("::ffff:10.0.0.1", "IPv4 address"),
            ("10.0.0.1:80", "expected an address"),
        ] {
            let error = Ranges::new(&[range]).unwrap_err();
            assert!(
                error.contains(part) && error.contains(&format!("{range:?}")),
                "{error}"
            );
        }
    }

    proptest! {
        #[test]
        fn a_network_contains_exactly_the_addresses_with_its_bits(
            network: u32, bits in 0u32..=32, address: u32,
        ) {
            let network = network & mask_v4(bits);
            let text = format!("{}/{bits}", Ipv4Addr::from_bits(network));
            let ranges = Ranges::new(&[text]).unwrap();
            let same_bits = (network ^ address).leading_zeros() >= bits;
            let address = IpAddr::V4(Ipv4Addr::from_bits(address));
            prop_assert_eq!(ranges.contains(Some(address)), same_bits);
            let inside = IpAddr::V4(Ipv4Addr::from_bits(network | !mask_v4(bits)));
            prop_assert!(ranges.contains(Some(inside)));
        }
    }
}
