//! Access control of the HTTP gateway.

use super::{on_tcp, post, start};
use crate::setup;
use serde_json::json;
use std::os::unix::fs::PermissionsExt;
use stoker_testkit::{Client, Http, HttpResponse, as_nobody, pool_of};
use stoker_wire::Status;

const TCP: &str = "listen = [\"127.0.0.1:0\"]";

#[track_caller]
fn ask(http: &mut Http, path: &str, headers: &[(&str, &str)]) -> HttpResponse {
    http.request("POST", path, headers, "ok")
        .expect("an answer")
}

#[test]
fn on_tcp_everything_except_health_needs_the_token() {
    let app = start(TCP);
    let file = std::fs::metadata(app.dir.file("stoker.token")).expect("it was made");
    assert_eq!(file.permissions().mode() & 0o777, 0o600);
    let address = app.http_address();
    let mut stranger = Http::tcp(address, None).expect("the angel listens");
    for path in ["/health", "/ready"] {
        let answer = stranger.request("GET", path, &[], "").expect("an answer");
        assert_eq!(answer.status, 200, "{path}: {}", answer.text());
    }
    for path in [
        "/call/t.run",
        "/queues/mails",
        "/admin/job/list",
        "/metrics",
        "/openapi.json",
        "/nothing",
    ] {
        for headers in [&[][..], &[("authorization", "Bearer wrong")]] {
            let answer = ask(&mut stranger, path, headers);
            assert_eq!(answer.status, 401, "{path}");
            assert_eq!(answer.header("www-authenticate"), Some("Bearer"));
            assert_eq!(answer.json()["code"], "UNAUTHENTICATED");
        }
    }
    assert_eq!(ask(&mut on_tcp(&app), "/call/t.run", &[]).status, 200);
}

#[test]
fn pages_of_other_origins_are_rejected() {
    let app = start(TCP);
    let mut http = on_tcp(&app);
    let own = format!("http://{}", app.http_address());
    for headers in [
        [("origin", "http://example.com")],
        [("origin", "null")],
        [("sec-fetch-site", "cross-site")],
        [("host", "attacker.example:80")],
    ] {
        for path in ["/call/t.run", "/admin/job/list", "/health", "/ready"] {
            let answer = ask(&mut http, path, &headers);
            assert_eq!(answer.status, 403, "{headers:?} {path}");
            assert_eq!(answer.header("access-control-allow-origin"), None);
        }
        let answer = http
            .request("OPTIONS", "/call/t.run", &headers, "")
            .expect("an answer");
        assert_eq!(answer.status, 403, "no preflight passes");
    }
    assert_eq!(
        ask(&mut http, "/call/t.run", &[("origin", &own)]).status,
        200
    );
    // Browsers can't reach the unix socket.
    assert_eq!(
        post(&app, "/call/t.run", &[("host", "any.example")], "ok").status,
        200
    );
}

#[test]
fn the_unix_socket_identifies_the_user() {
    let config = pool_of(
        "serve",
        "workers = 1\n[stoker]\nsocket_mode = \"0666\"\n[http]\nsocket = \"http.sock\"",
    );
    let app = setup().config(&config).start();
    as_nobody(|| {
        assert_eq!(post(&app, "/call/t.run", &[], "ok").status, 200);
    });
    let stats = app
        .client()
        .call_server("stoker.queue", &json!({"op": "list"}));
    assert!(stats["queues"].is_array());
}

#[test]
fn only_processes_started_by_the_angel_can_be_gateways() {
    let app = start("");
    for hello in [
        json!({"v": [1], "role": "gateway", "uid": 0}),
        json!({"v": [1], "role": "gateway", "uid": 0, "token": "0000"}),
        json!({"v": [1], "role": "gateway", "token": ""}),
    ] {
        let mut client = Client::connect_without_hello(&app.socket());
        client.hello(&hello);
        let got = client.frame().expect("an answer");
        assert_eq!(got.status(), Status::UNAUTHENTICATED, "{hello}");
    }
}

#[test]
fn a_tcp_address_beyond_this_machine_is_rejected() {
    for (address, about) in [
        ("0.0.0.0:80", "without TLS"),
        ("192.168.1.1:80", "without TLS"),
        ("[::]:80", "without TLS"),
        ("example.com:80", "expected an address and a port"),
        ("127.0.0.1", "expected an address and a port"),
    ] {
        let toml = format!("workers = 1\n[http]\nlisten = [\"{address}\"]");
        let ended = setup()
            .config(&pool_of("serve", toml))
            .launch_without_waiting()
            .wait_for_exit();
        assert_eq!(ended.code, 78, "{address}: {}", ended.log);
        assert!(
            ended.log.contains("http.listen") && ended.log.contains(about),
            "{}",
            ended.log
        );
    }
}

#[test]
fn a_token_file_that_others_can_read_is_rejected() {
    let setup = setup().config(&pool_of("serve", format!("workers = 1\n[http]\n{TCP}")));
    let path = setup.dir().write("stoker.token", "x".repeat(40));
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o644)).expect("it is ours");
    let ended = setup.launch_without_waiting().wait_for_exit();
    assert_eq!(ended.code, 78);
    assert!(
        ended.log.contains("mode 0644") && ended.log.contains("chmod 600"),
        "{}",
        ended.log
    );
}
