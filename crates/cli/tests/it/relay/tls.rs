//! TLS: which peers are trusted, and the errors for those that are not.

use super::{admin, start, token};
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair, date_time_ymd};
use std::io::{Read, Write};
use std::net::TcpListener;
use std::path::Path;
use std::time::{Duration, Instant};
use stoker_testkit::{App, Client, Output, until};
use stoker_wire::Status;

/// A certificate authority that writes certificates into a directory.
struct Ca {
    issuer: Issuer<'static, KeyPair>,
}

impl Ca {
    /// Creates a certificate authority, and writes its certificate to `NAME.pem`.
    fn new(dir: &Path, name: &str) -> Self {
        let mut params = CertificateParams::new(Vec::new()).expect("no names");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(DnType::CommonName, name);
        let key = KeyPair::generate().expect("a key");
        let certificate = params.self_signed(&key).expect("a certificate");
        std::fs::write(dir.join(format!("{name}.pem")), certificate.pem()).expect("it is ours");
        Self {
            issuer: Issuer::new(params, key),
        }
    }

    /// Writes `FILE.pem` and `FILE.key` for a host name, valid in these years.
    fn issue(&self, dir: &Path, file: &str, host: &str, years: (i32, i32)) {
        let mut params = CertificateParams::new(vec![host.to_owned()]).expect("a name");
        params.not_before = date_time_ymd(years.0, 1, 1);
        params.not_after = date_time_ymd(years.1, 1, 1);
        let key = KeyPair::generate().expect("a key");
        let certificate = params.signed_by(&key, &self.issuer).expect("a certificate");
        let write = |name: String, text: String| std::fs::write(dir.join(name), text);
        write(format!("{file}.pem"), certificate.pem()).expect("it is ours");
        write(format!("{file}.key"), key.serialize_pem()).expect("it is ours");
    }
}

/// A server that sends its part of the handshake byte by byte would otherwise keep a command forever.
#[test]
fn the_tls_handshake_ends_at_the_time_limit_of_the_command() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!(
        "tls://{}",
        listener.local_addr().expect("it has an address")
    );
    let slow = std::thread::spawn(move || {
        let (mut socket, _) = listener.accept().expect("the command connects");
        // The beginning of a long handshake record.
        let mut bytes = [0x16, 3, 3, 0x3f, 0xff, 2, 0, 0x3f, 0xf0]
            .into_iter()
            .chain(std::iter::repeat(0));
        socket
            .set_read_timeout(Some(Duration::from_millis(20)))
            .expect("it is a socket");
        let mut end = [0; 1024];
        while socket
            .write_all(&[bytes.next().expect("it is endless")])
            .is_ok()
            && !matches!(socket.read(&mut end), Ok(0))
        {}
    });
    let app = start("");
    let ca = Ca::new(app.dir.path(), "ca");
    drop(ca);
    let url = format!("{url}?ca=ca.pem");
    let started = Instant::now();
    let called = app.cli_with(
        &[("STOKER_URL", &url)],
        &["call", "a.b", "--timeout", "50ms"],
    );
    assert!(
        called
            .stderr
            .contains("the TLS handshake was not completed"),
        "{}",
        called.stderr
    );
    // The command has 50 ms, and a second for the server's answer; a handshake without a deadline has 5 s.
    assert!(started.elapsed() < Duration::from_secs(4));
    slow.join().expect("it does not panic");
}

const VALID: (i32, i32) = (2020, 2200);

/// Starts a server with TLS. The certificate is for localhost, signed by `ca`.
#[track_caller]
fn start_with_tls(more: &str) -> (App, Ca) {
    let listen = format!(
        "workers = 1\n[listen]\naddresses = [\"127.0.0.1:0\"]\ncertificate = \"server.pem\"\nkey = \"server.key\"\n{more}"
    );
    let setup = crate::setup();
    let ca = Ca::new(setup.dir().path(), "ca");
    ca.issue(setup.dir().path(), "server", "localhost", VALID);
    (setup.config(&crate::pool_of("serve", listen)).start(), ca)
}

/// Runs `stoker queues` at an address of this server: scheme, host and options are given.
#[track_caller]
fn queues(app: &App, token: &str, scheme: &str, host: &str, options: &str) -> Output {
    let url = format!("{scheme}://{host}:{}{options}", app.relay_address().port());
    let env = [
        ("STOKER_URL", url.as_str()),
        ("STOKER_TOKEN", token),
        // No certificate of this machine is trusted.
        ("SSL_CERT_FILE", "/dev/null"),
        ("SSL_CERT_DIR", "/nonexistent"),
    ];
    app.cli_with(&env, &["queues"])
}

#[track_caller]
fn fails_with(output: &Output, code: i32, text: &str) {
    assert_eq!(output.code, code, "{}", output.stderr);
    assert!(output.stderr.contains(text), "{text:?}: {}", output.stderr);
}

#[test]
fn clients_connect_over_tls_and_mistakes_are_explained() {
    let (app, ca) = start_with_tls("");
    let admin = admin(&app);
    let query = |scheme, host, options| queues(&app, &admin, scheme, host, options);
    let right = query("tls", "localhost", "?ca=ca.pem");
    assert_eq!(right.code, 0, "{}", right.stderr);
    fails_with(&query("tls", "127.0.0.1", "?ca=ca.pem"), 69, "?name=NAME");
    assert_eq!(
        query("tls", "127.0.0.1", "?ca=ca.pem&name=localhost").code,
        0
    );
    fails_with(&query("tls", "localhost", ""), 69, "?ca=FILE");
    fails_with(
        &query("tls", "localhost", "?ca=missing.pem"),
        69,
        "missing.pem",
    );
    Ca::new(app.dir.path(), "stranger");
    fails_with(
        &query("tls", "localhost", "?ca=stranger.pem"),
        69,
        "?ca=FILE",
    );
    fails_with(&query("tcp", "localhost", ""), 1, "tls://");
    fails_with(
        &queues(&app, "no.token", "tls", "localhost", "?ca=ca.pem"),
        77,
        "token",
    );
    let mut plain = Client::connect_over_tcp(app.relay_address());
    plain.hello(&serde_json::json!({"v": [1], "role": "client", "token": admin}));
    let refused = plain.frame().expect("an answer");
    assert_eq!(refused.status(), Status::FAILED_PRECONDITION);

    // New connections use a new certificate; it is read without a restart.
    for (years, text) in [
        ((2000, 2001), "has expired"),
        ((2150, 2200), "not valid yet"),
    ] {
        ca.issue(app.dir.path(), "server", "localhost", years);
        until("the new certificate is used", || {
            let output = query("tls", "localhost", "?ca=ca.pem");
            (output.code == 69 && output.stderr.contains(text) && output.stderr.contains("clock"))
                .then_some(())
        });
    }
    app.dir.write("server.pem", "nonsense");
    app.wait_for_log("the last valid certificate stays in use");
    ca.issue(app.dir.path(), "server", "localhost", VALID);
    until("it is valid again", || {
        (query("tls", "localhost", "?ca=ca.pem").code == 0).then_some(())
    });
}

#[test]
fn a_plain_port_says_that_it_does_not_use_tls() {
    let app = start("");
    let admin = admin(&app);
    let output = queues(
        &app,
        &admin,
        "tls",
        "localhost",
        "?name=localhost&ca=/dev/null",
    );
    assert_eq!(output.code, 69, "{}", output.stderr);
    Ca::new(app.dir.path(), "ca");
    let output = queues(&app, &admin, "tls", "localhost", "?ca=ca.pem");
    fails_with(&output, 69, "tcp://");
}

#[test]
fn a_client_certificate_can_take_the_place_of_a_token() {
    let (app, ca) = start_with_tls("client_ca = \"ca.pem\"");
    let options = ["--roles", "read", "--certificate", "web-1.internal"];
    let created = token(&app, "web", &options);
    assert!(created.contains("certificate"), "{created}");
    ca.issue(app.dir.path(), "web", "web-1.internal", VALID);
    ca.issue(app.dir.path(), "other", "web-2.internal", VALID);
    ca.issue(app.dir.path(), "old", "web-1.internal", (2000, 2001));
    Ca::new(app.dir.path(), "stranger").issue(app.dir.path(), "strange", "web-1.internal", VALID);
    let query = |certificate: &str| {
        let options = format!("?ca=ca.pem&cert={certificate}.pem&key={certificate}.key");
        queues(&app, "", "tls", "localhost", &options)
    };
    let right = query("web");
    assert_eq!(right.code, 0, "{}", right.stderr);
    fails_with(&query("other"), 77, "STOKER_TOKEN");
    for wrong in ["old", "strange"] {
        let output = query(wrong);
        assert_ne!(output.code, 0);
        assert!(
            output.stderr.contains("client certificate"),
            "{wrong}: {}",
            output.stderr
        );
    }
    let without = queues(&app, "", "tls", "localhost", "?ca=ca.pem");
    assert_ne!(without.code, 0);
    assert!(
        without.stderr.contains("?cert=FILE&key=FILE"),
        "{}",
        without.stderr
    );
}

/// A configuration that would send tokens unencrypted is rejected at the start, unless the user insists.
#[test]
fn plain_tcp_beyond_loopback_must_be_asked_for() {
    let check = |more: &str| {
        let setup = crate::setup();
        let config = crate::pool_of(
            "serve",
            format!("workers = 1\n[listen]\naddresses = [\"0.0.0.0:0\"]\n{more}"),
        );
        setup.config(&config)
    };
    let app = check("insecure = true").start();
    app.wait_for_log("warn gateway relay: 0.0.0.0:* is served without TLS");
    let ended = check("").launch_without_waiting().wait_for_exit();
    assert_eq!(ended.code, 78);
    assert!(ended.log.contains("insecure = true"), "{}", ended.log);
    let ended = check("certificate = \"none.pem\"\nkey = \"none.key\"").launch_without_waiting();
    let ended = ended.wait_for_exit();
    assert_eq!(ended.code, 78);
    assert!(ended.log.contains("none.pem"), "{}", ended.log);
}
