//! Requests through proxies, honest and forged ones.

use super::*;
use hyper::header::HeaderValue;
use proptest::prelude::*;

const ALL: [&str; 3] = ["x-forwarded-for", "x-forwarded-proto", "x-forwarded-host"];

fn host(text: &str) -> Host {
    Host::parse(text.as_bytes()).unwrap()
}

fn direct(peer: &str) -> Origin {
    Origin {
        client: Some(peer.parse().unwrap()),
        scheme: Scheme::Http,
        host: host("inner.test"),
    }
}

fn headers(all: &[(&str, &str)]) -> HeaderMap {
    let mut headers = HeaderMap::new();
    for (name, value) in all {
        let name = HeaderName::from_bytes(name.as_bytes()).unwrap();
        headers.append(name, HeaderValue::from_bytes(value.as_bytes()).unwrap());
    }
    headers
}

fn proxies(names: &[&str]) -> Proxies {
    Proxies::new(&["loopback", "10.0.0.0/8", "fd00::/8"], names).unwrap()
}

/// The origin as a string, and the headers that are left.
fn evaluate(names: &[&str], peer: &str, all: &[(&str, &str)]) -> (String, Vec<(String, String)>) {
    let mut headers = headers(all);
    let origin = proxies(names).evaluate(direct(peer), &mut headers);
    let client = origin.client.unwrap();
    let text = format!(
        "{client} {}://{}",
        origin.scheme.name(),
        origin.host.authority()
    );
    let left = headers.iter().map(|(name, value)| {
        (
            name.to_string(),
            String::from_utf8_lossy(value.as_bytes()).into_owned(),
        )
    });
    (text, left.collect())
}

fn origin(names: &[&str], peer: &str, all: &[(&str, &str)]) -> String {
    evaluate(names, peer, all).0
}

#[test]
fn headers_of_strangers_are_removed() {
    let all = [
        ("x-forwarded-for", "10.0.0.1"),
        ("x-forwarded-proto", "https"),
        ("x-forwarded-host", "evil.test"),
        ("X-Forwarded-Prefix", "/evil"),
        ("forwarded", "for=10.0.0.1"),
        ("x-real-ip", "10.0.0.1"),
        ("x_forwarded_for", "10.0.0.1"),
        ("x-forwarded_host", "evil.test"),
        ("accept", "*/*"),
    ];
    for names in [&ALL[..], &["forwarded"], &[]] {
        let (text, left) = evaluate(names, "203.0.113.7:4711", &all);
        assert_eq!(text, "203.0.113.7:4711 http://inner.test");
        assert_eq!(left, [("accept".to_owned(), "*/*".to_owned())]);
    }
}

#[test]
fn the_list_is_followed_from_the_right() {
    let origin_for = |list: &str| origin(&ALL, "127.0.0.1:9", &[("x-forwarded-for", list)]);
    for (list, client) in [
        ("203.0.113.7", "203.0.113.7:0"),
        ("203.0.113.7:4711", "203.0.113.7:4711"),
        ("2001:db8::1", "[2001:db8::1]:0"),
        ("[2001:db8::1]", "[2001:db8::1]:0"),
        ("[2001:db8::1]:4711", "[2001:db8::1]:4711"),
        ("::ffff:203.0.113.7", "203.0.113.7:0"),
        ("1.1.1.1, 203.0.113.7", "203.0.113.7:0"),
        ("1.1.1.1, 203.0.113.7, 10.0.0.2,10.0.0.1", "203.0.113.7:0"),
        ("10.1.1.1, 203.0.113.7, fd00::1", "203.0.113.7:0"),
        // All are proxies: the first one made the request itself.
        ("10.0.0.2, 10.0.0.1", "10.0.0.2:0"),
        // The proxy before an invalid value is the last one that is known.
        ("1.1.1.1, unknown, 10.0.0.1", "10.0.0.1:0"),
        ("1.1.1.1, , 10.0.0.1", "10.0.0.1:0"),
        ("1.1.1.1, 010.0.0.5", "127.0.0.1:9"),
        ("unknown", "127.0.0.1:9"),
        ("", "127.0.0.1:9"),
        ("1.1.1.1;2.2.2.2", "127.0.0.1:9"),
        ("[1.1.1.1]", "127.0.0.1:9"),
        ("1.1.1.1:99999", "127.0.0.1:9"),
        ("fe80::1%eth0", "127.0.0.1:9"),
        ("1.1.1.1\u{e4}", "127.0.0.1:9"),
    ] {
        assert_eq!(
            origin_for(list),
            format!("{client} http://inner.test"),
            "{list}"
        );
    }
    let lines = [
        ("x-forwarded-for", "1.1.1.1"),
        ("x-forwarded-for", "203.0.113.7"),
        ("x-forwarded-for", "10.0.0.1"),
    ];
    let expected = "203.0.113.7:0 http://inner.test";
    assert_eq!(origin(&ALL, "[::ffff:127.0.0.1]:9", &lines), expected);
}

#[test]
fn scheme_and_host_are_those_of_the_clients_proxy() {
    let origin_for = |source: &str, proto: &str, host: &str| {
        let all = [
            ("x-forwarded-for", source),
            ("x-forwarded-proto", proto),
            ("x-forwarded-host", host),
        ];
        let all = all.into_iter().filter(|(_, value)| !value.is_empty());
        let origin = origin(&ALL, "10.0.0.1:9", &all.collect::<Vec<_>>());
        origin.split_once(' ').unwrap().1.to_owned()
    };
    assert_eq!(
        origin_for("1.1.1.1", "https", "Shop.test:8443"),
        "https://shop.test:8443"
    );
    assert_eq!(origin_for("", "HTTPS", "shop.test"), "https://shop.test");
    // The values that a proxy appends follow the client's own, which are ignored.
    assert_eq!(
        origin_for("1.1.1.1", "https, http", "evil.test, shop.test"),
        "http://shop.test"
    );
    // Two proxies that both add a value, and two of which the second one only passes the value on.
    assert_eq!(
        origin_for("1.1.1.1, 10.0.0.2", "https, http", "shop.test, inner"),
        "https://shop.test"
    );
    assert_eq!(
        origin_for("1.1.1.1, 10.0.0.2", "https", "shop.test"),
        "https://shop.test"
    );
    for (proto, host) in [
        ("gopher", "a b"),
        ("https://", "[::1"),
        (",", ","),
        ("https,", "a,"),
    ] {
        assert_eq!(
            origin_for("1.1.1.1", proto, host),
            "http://inner.test",
            "{proto} {host}"
        );
    }
}

#[test]
fn only_configured_headers_are_trusted() {
    let all = [
        ("x-forwarded-for", "1.1.1.1"),
        ("x-forwarded-proto", "https"),
        ("x-forwarded-host", "evil.test"),
        ("forwarded", "for=2.2.2.2;proto=https;host=other.test"),
        ("x-real-ip", "3.3.3.3"),
        ("x_real_ip", "4.4.4.4"),
        ("x-forwarded-prefix", "/app"),
    ];
    let left = |all: &[(&str, &str)]| -> Vec<(String, String)> {
        let own = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        all.iter().map(own).collect()
    };
    let (text, mut rest) = evaluate(&ALL[..2], "10.0.0.1:9", &all);
    assert_eq!(text, "1.1.1.1:0 https://inner.test");
    rest.sort();
    let expected = [
        ("x-forwarded-for", "1.1.1.1"),
        ("x-forwarded-prefix", "/app"),
        ("x-forwarded-proto", "https"),
        ("x-real-ip", "1.1.1.1"),
    ];
    assert_eq!(rest, left(&expected));
    let (text, mut rest) = evaluate(&["Forwarded"], "10.0.0.1:9", &all);
    assert_eq!(text, "2.2.2.2:0 https://other.test");
    rest.sort();
    let expected = [("x-forwarded-prefix", "/app"), ("x-real-ip", "2.2.2.2")];
    assert_eq!(rest, left(&expected));
    let (text, _) = evaluate(&[], "10.0.0.1:9", &all);
    assert_eq!(text, "10.0.0.1:9 http://inner.test");
}

#[test]
fn a_rewritten_list_has_only_the_client() {
    let all = [
        ("x-forwarded-for", "6.6.6.6"),
        ("x-forwarded-for", "1.1.1.1, 10.0.0.2"),
        ("x-forwarded-proto", "http,https,https"),
    ];
    let (_, left) = evaluate(&ALL, "10.0.0.1:9", &all);
    let left: Vec<&str> = left.iter().map(|(_, value)| value.as_str()).collect();
    assert_eq!(left, ["1.1.1.1", "https"]);
}

#[test]
fn forwarded_is_followed_from_the_right() {
    let origin_for = |lines: &[&str]| {
        let all: Vec<(&str, &str)> = lines.iter().map(|line| ("forwarded", *line)).collect();
        origin(&["forwarded"], "10.0.0.1:9", &all)
    };
    for (lines, expected) in [
        (
            &["for=1.1.1.1;proto=https;host=shop.test"][..],
            "1.1.1.1:0 https://shop.test",
        ),
        (
            &["for=\"[2001:db8::1]:47\""],
            "[2001:db8::1]:47 http://inner.test",
        ),
        (
            &["for=6.6.6.6;proto=https, for=1.1.1.1"],
            "1.1.1.1:0 http://inner.test",
        ),
        (
            &[
                "for=6.6.6.6",
                "for=1.1.1.1;proto=https, for=10.0.0.2;proto=http",
            ],
            "1.1.1.1:0 https://inner.test",
        ),
        (
            &["for=1.1.1.1, for=unknown;proto=https"],
            "10.0.0.1:9 https://inner.test",
        ),
        (
            &["for=\"6.6.6.6, for=1.1.1.1"],
            "10.0.0.1:9 http://inner.test",
        ),
        (
            &["for=6.6.6.6", "for=\"", "for=10.0.0.2"],
            "10.0.0.2:0 http://inner.test",
        ),
        (&[""], "10.0.0.1:9 http://inner.test"),
        (&[], "10.0.0.1:9 http://inner.test"),
    ] {
        assert_eq!(origin_for(lines), expected, "{lines:?}");
    }
}

#[test]
fn a_unix_socket_has_no_address() {
    let proxies = Proxies::new(&["unix", "10.0.0.0/8"], &ALL).unwrap();
    let peer = Origin {
        client: None,
        ..direct("1.1.1.1:1")
    };
    let mut given = headers(&[("x-forwarded-for", "1.1.1.1, 10.0.0.1")]);
    let origin = proxies.evaluate(peer.clone(), &mut given);
    assert_eq!(origin.client, Some("1.1.1.1:0".parse().unwrap()));
    let mut given = headers(&[("x-forwarded-for", "unknown")]);
    assert_eq!(proxies.evaluate(peer.clone(), &mut given).client, None);
    assert!(given.is_empty());
    let mut given = headers(&[("x-forwarded-for", "1.1.1.1")]);
    let origin = self::proxies(&ALL).evaluate(peer, &mut given);
    assert!(origin.client.is_none() && given.is_empty());
}

#[test]
fn a_flood_of_values_is_not_followed_to_its_end() {
    let flood = "10.0.0.2,".repeat(100_000) + "10.0.0.2";
    let all = [
        ("x-forwarded-for", flood.as_str()),
        ("x-forwarded-proto", &flood),
    ];
    assert_eq!(
        origin(&ALL, "10.0.0.1:9", &all),
        "10.0.0.2:0 http://inner.test"
    );
    let many = vec![("x-forwarded-for", "10.0.0.3"); 5_000];
    assert_eq!(
        origin(&ALL, "10.0.0.1:9", &many),
        "10.0.0.3:0 http://inner.test"
    );
    let flood = "for=10.0.0.2,".repeat(50_000) + "for=10.0.0.2";
    let all = [("forwarded", flood.as_str())];
    let expected = "10.0.0.2:0 http://inner.test";
    assert_eq!(origin(&["forwarded"], "10.0.0.1:9", &all), expected);
}

#[test]
fn invalid_configurations_are_rejected() {
    let error = |ranges: &[&str], headers: &[&str]| Proxies::new(ranges, headers).unwrap_err();
    assert!(error(&["x"], &[]).contains("\"x\""));
    assert!(error(&[], &["x-real-ip"]).contains("unknown header \"x-real-ip\""));
    let both = error(&[], &["forwarded", "x-forwarded-for"]);
    assert!(both.contains("exclude each other"), "{both}");
}

fn any_address() -> impl Strategy<Value = String> {
    let own = (0u8..4).prop_map(|last| format!("10.0.0.{last}"));
    let foreign = (0u8..4).prop_map(|last| format!("203.0.113.{last}"));
    prop_oneof![
        own,
        foreign,
        Just("unknown".to_owned()),
        Just(String::new())
    ]
}

proptest! {
    #[test]
    fn what_a_client_sends_does_not_change_its_address(
        forged in proptest::collection::vec(any_address(), 0..8),
        hops in proptest::collection::vec(0u8..4, 0..4),
    ) {
        // The client at 198.51.100.1 sends a forged list; each proxy adds the address of its own client.
        let mut list = forged;
        list.push("198.51.100.1".to_owned());
        list.extend(hops.iter().map(|hop| format!("10.1.0.{hop}")));
        let list = list.join(", ");
        let origin = origin(&ALL, "10.0.0.1:9", &[("x-forwarded-for", &list)]);
        prop_assert_eq!(origin, "198.51.100.1:0 http://inner.test");
    }

    #[test]
    fn no_header_panics(value in "[ -~]{0,60}") {
        for names in [&ALL[..], &["forwarded"]] {
            let all = [
                ("x-forwarded-for", value.as_str()), ("x-forwarded-proto", &value),
                ("x-forwarded-host", &value), ("forwarded", &value),
            ];
            evaluate(names, "10.0.0.1:9", &all);
        }
    }
}
