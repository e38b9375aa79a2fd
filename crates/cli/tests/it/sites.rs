//! Web sites: requests that workers answer.

use crate::http::deaths::{Seen, more, requests_under_load};
use crate::{php, setup};
use serde_json::json;
use std::io;
use stoker_testkit::{
    App, Dir, Http, HttpResponse, Request, Spawn, bad_worker, procs, repository, run, until,
};
use stoker_wire::{Codec, Status};

/// Two sites at one address, and a third one at its own, all answered by one pool.
fn start(more: &str) -> App {
    let script = "calls http:shop.request,http:rest.request;serve";
    let pool = format!("[{:?}, {script:?}]", bad_worker());
    let app = setup()
        .config(&format!(
            "[pool.p]\ncommand = {pool}\nworkers = 2\ntask_timeout = \"10s\"\n\
             [site.shop]\nlisten = [\"127.0.0.1:0\"]\n{more}\n"
        ))
        .start();
    app.wait_for_log("gateway sites: listening on http://");
    app
}

fn connect(app: &App) -> Http {
    Http::tcp(app.site_address(0), None).expect("the angel listens")
}

#[track_caller]
fn request(
    app: &App,
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
    body: &str,
) -> HttpResponse {
    let answer = connect(app).request(method, path, headers, body);
    answer.expect("an answer")
}

#[track_caller]
fn get(app: &App, script: &str) -> HttpResponse {
    request(app, "GET", "/", &[("x-script", script)], "")
}

/// A reload that removes a site ends its service: its public files, too. The port is open until the restart.
#[test]
fn a_removed_site_is_no_longer_served() {
    let dir = Dir::new();
    std::fs::write(dir.file("page.txt"), "public").expect("it works");
    let root = dir.path().display().to_string();
    let port = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = port.local_addr().expect("it is bound");
    drop(port);
    let script = "calls http:shop.request,http:rest.request;serve";
    let pool = format!("[pool.p]\ncommand = [{:?}, {script:?}]\n", bad_worker());
    let site =
        |name: &str, more: &str| format!("[site.{name}]\nlisten = [\"{address}\"]\n{more}\n");
    let shop = site("shop", &format!("hosts = [\"shop.test\"]\nroot = {root:?}"));
    let rest = site("rest", "hosts = [\"rest.test\"]");
    let app = setup().config(&format!("{pool}{shop}{rest}")).start();
    app.wait_for_log("gateway sites: listening on http://");
    let get = |host: &str, path: &str| {
        let headers = [
            ("host", host),
            ("x-script", "http-raw HTTP/1.1 200 OK||made"),
        ];
        request(&app, "GET", path, &headers, "").status
    };
    assert_eq!(
        (get("shop.test", "/page.txt"), get("shop.test", "/")),
        (200, 200)
    );
    let mut open = connect(&app);
    let headers = [("host", "shop.test")];
    let answer = open.request("GET", "/page.txt", &headers, "");
    assert_eq!(answer.expect("an answer").status, 200);

    app.dir.write("stoker.toml", format!("{pool}{rest}"));
    let report = app
        .client()
        .call_server("stoker.pool", &json!({"op": "reload"}));
    assert_eq!(report["restart"], serde_json::Value::Null, "{report}");
    assert!(
        report["applied"]
            .as_array()
            .is_some_and(|keys| keys.contains(&json!("site.shop"))),
        "{report}"
    );
    until("the gateway knows", || {
        (get("shop.test", "/page.txt") == 421).then_some(())
    });
    assert_eq!(get("rest.test", "/"), 200);
    let answer = open.request("GET", "/page.txt", &headers, "");
    assert_eq!(
        answer.expect("an answer").status,
        421,
        "on an open connection, too"
    );

    // A server or gateway that is restarted knows it, too.
    procs::kill(app.server());
    until("the server is back", || {
        (get("rest.test", "/") == 200).then_some(())
    });
    assert_eq!(get("shop.test", "/page.txt"), 421);

    app.dir.write("stoker.toml", format!("{pool}{shop}{rest}"));
    app.client()
        .call_server("stoker.pool", &json!({"op": "reload"}));
    until("the site is back", || {
        (get("shop.test", "/page.txt") == 200).then_some(())
    });
}

#[test]
fn a_worker_answers_a_request() {
    let app = start("");
    let host = app.site_address(0).to_string();
    let headers = [("x-script", "http-echo"), ("cookie", "a=1")];
    let answer = request(&app, "POST", "/a%20b?c=d", &headers, "body\r\n\r\n");
    assert_eq!(answer.status, 200);
    let text = answer.text();
    let (meta, message) = text.split_once('\n').expect("two parts");
    assert!(
        meta.starts_with("127.0.0.1:") && meta.ends_with(" - -"),
        "{meta}"
    );
    assert_eq!(
        message,
        format!(
            "POST http://{host}/a%20b?c=d HTTP/1.1\r\nhost: {host}\r\nx-script: http-echo\r\ncookie: a=1\r\n\
             content-length: 8\r\n\r\nbody\r\n\r\n"
        )
    );
    let answer = get(
        &app,
        "http-raw HTTP/1.1 201|set-cookie: a=1|set-cookie: b=2||made",
    );
    assert_eq!((answer.status, answer.text().as_str()), (201, "made"));
    let cookies = answer
        .headers
        .iter()
        .filter(|(name, _)| name == "set-cookie");
    assert_eq!(cookies.count(), 2);
}

#[test]
fn chunked_bodies_are_passed_on_as_a_whole() {
    let app = start("");
    let mut http = connect(&app);
    http.raw(
        b"POST / HTTP/1.1\r\nhost: a\r\nx-script: http-echo\r\ntransfer-encoding: chunked\r\n\r\n\
          3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n",
    )
    .expect("it is sent");
    let text = http.answer().expect("an answer").text();
    assert!(text.ends_with("content-length: 5\r\n\r\nabcde"), "{text}");
}

#[test]
fn failures_have_a_status_and_reveal_nothing() {
    let app = start("timeout = \"1s\"");
    for (script, method, status) in [
        ("fail 64 secret", "GET", 500),
        ("fail 3 secret", "GET", 400),
        ("fail 14 secret", "POST", 503),
        ("ok secret", "GET", 502),
        ("http-raw secret", "GET", 502),
        ("http-raw HTTP/1.1 200|secret||", "GET", 502),
        ("exit 3", "POST", 502),
        ("silence", "GET", 504),
    ] {
        let answer = request(&app, method, "/", &[("x-script", script)], "");
        assert_eq!(answer.status, status, "{script}");
        assert!(!answer.text().contains("secret"), "{}", answer.text());
        let retry_after = answer.header("retry-after").is_some();
        assert_eq!(retry_after, status == 503, "{script}");
    }
    app.wait_for_log(
        "gateway sites: site shop: GET /: the worker's answer is invalid: its head does not end*",
    );
}

#[test]
fn a_request_that_can_be_repeated_survives_its_worker() {
    let app = start("");
    let answer = get(&app, "if died http 200 again;once died;exit 3");
    assert_eq!((answer.status, answer.text().as_str()), (200, "again"));
    let other = start("idempotent = false");
    assert_eq!(
        get(&other, "if died http 200 again;once died;exit 3").status,
        502
    );
}

#[test]
fn the_host_selects_the_site() {
    let app = start(
        "hosts = [\"shop.test\", \"*.shop.test\"]\n\
         [site.rest]\nlisten = [\"127.0.0.1:0\"]\n",
    );
    let status = |host: &str| {
        let headers = [("host", host), ("x-script", "http 200 x")];
        request(&app, "GET", "/", &headers, "").status
    };
    for host in [
        "shop.test",
        "SHOP.test:80",
        "a.shop.test",
        "a.b.shop.test:8080",
    ] {
        assert_eq!(status(host), 200, "{host}");
    }
    for host in ["other.test", "shop.test.evil", "xshop.test", "127.0.0.1"] {
        assert_eq!(status(host), 421, "{host}");
    }
    for host in ["", "a b", ".shop.test", "shop.test/x", "shop.test@evil"] {
        assert_eq!(status(host), 400, "{host}");
    }
    let mut rest = Http::tcp(app.site_address(1), None).expect("the angel listens");
    let answer = rest.request(
        "GET",
        "/",
        &[("host", "other.test"), ("x-script", "http 200 x")],
        "",
    );
    assert_eq!(answer.expect("an answer").status, 200);
}

#[test]
fn limits_and_unusual_requests() {
    let app = start("max_body = \"1KB\"");
    let big = "x".repeat(2_000);
    assert_eq!(request(&app, "POST", "/", &[], &big).status, 413);
    assert_eq!(request(&app, "TRACE", "/", &[], "").status, 405);
    let upgrade = [("connection", "upgrade"), ("upgrade", "websocket")];
    assert_eq!(request(&app, "GET", "/", &upgrade, "").status, 501);
    let head = request(
        &app,
        "HEAD",
        "/",
        &[("x-script", "http-raw HTTP/1.1 200|content-length: 0||")],
        "",
    );
    assert_eq!((head.status, head.body.len()), (200, 0));
    // What other listeners serve is an ordinary path here.
    for path in ["/admin/job/list", "/metrics", "/call/t.run", "/health"] {
        let answer = request(&app, "GET", path, &[("x-script", "http 200 site")], "");
        assert_eq!(answer.text(), "site", "{path}");
    }
}

#[test]
fn public_files_are_served_directly() {
    let dir = Dir::new();
    std::fs::create_dir(dir.file("public")).expect("the directory is new");
    dir.write("public/app.css", "body {}");
    dir.write("public/index.php", "<?php secret();");
    dir.write("private.txt", "sent");
    let (root, private) = (dir.file("public"), dir.file("private.txt"));
    let app = start(&format!(
        "root = {root:?}\nmax_age = \"1h\"\nsend_files = [{:?}]",
        dir.path()
    ));
    let css = request(&app, "GET", "/app.css", &[], "");
    assert_eq!((css.status, css.text().as_str()), (200, "body {}"));
    assert_eq!(css.header("content-type"), Some("text/css; charset=utf-8"));
    assert_eq!(css.header("cache-control"), Some("max-age=3600"));
    let etag = css.header("etag").expect("files have one");
    let again = request(&app, "GET", "/app.css", &[("if-none-match", etag)], "");
    assert_eq!(again.status, 304);
    assert_eq!(request(&app, "POST", "/app.css", &[], "").status, 405);
    // Everything else is the front controller's.
    for path in ["/", "/index.php", "/missing.css"] {
        let answer = request(&app, "GET", path, &[("x-script", "http-echo")], "");
        let meta = format!("{} {}", root.join("index.php").display(), root.display());
        assert!(answer.text().contains(&meta), "{path}: {}", answer.text());
    }
    for path in ["/../private.txt", "/%2e%2e%2fprivate.txt"] {
        assert_eq!(request(&app, "GET", path, &[], "").status, 400);
    }
    let sent = |path: &std::path::Path, range: &str| {
        let script = format!("http-raw HTTP/1.1 200|x-sendfile: {}||", path.display());
        let headers = [("x-script", script.as_str()), ("range", range)];
        request(&app, "GET", "/download", &headers, "")
    };
    assert_eq!(sent(&private, "bytes=1-2").text(), "en");
    assert_eq!(sent(&private, "").text(), "sent");
    assert_eq!(sent("/etc/passwd".as_ref(), "").status, 502);
    app.wait_for_log(
        "*cannot send \"/etc/passwd\", which a worker named in x-sendfile: it is not below *",
    );
}

/// A deploy replaces the directory, which is usually a symbolic link.
#[test]
fn a_replaced_root_is_noticed() {
    let dir = Dir::new();
    for release in ["one", "two"] {
        std::fs::create_dir(dir.file(release)).expect("the directory is new");
        dir.write(&format!("{release}/version.txt"), release);
    }
    let current = dir.file("current");
    std::os::unix::fs::symlink(dir.file("one"), &current).expect("nothing is there");
    let app = start(&format!("root = {current:?}"));
    let version = || request(&app, "GET", "/version.txt", &[], "").text();
    assert_eq!(version(), "one");
    std::os::unix::fs::symlink(dir.file("two"), dir.file("next")).expect("nothing is there");
    std::fs::rename(dir.file("next"), &current).expect("the link is replaced");
    until("the new release", || (version() == "two").then_some(()));
}

/// A missing directory stops neither the other sites nor the answers of workers.
#[test]
fn a_missing_directory_is_opened_when_it_is_back() {
    let dir = Dir::new();
    let root = dir.file("public");
    std::fs::create_dir(&root).expect("the directory is new");
    let app = start(&format!("root = {root:?}"));
    std::fs::remove_dir(&root).expect("it is empty");
    app.wait_for_log("gateway sites: site shop: cannot open the directory *");
    let from = app.log().len();
    procs::kill(app.gateway("sites"));
    app.wait_for_log_after(from, "gateway sites: listening");
    assert_eq!(get(&app, "http 200 ok").text(), "ok");
    std::fs::create_dir(&root).expect("it was removed");
    dir.write("public/a.txt", "back");
    until("the file is served", || {
        let answer = request(&app, "GET", "/a.txt", &[("x-script", "http 404 no")], "");
        (answer.text() == "back").then_some(())
    });
}

#[test]
fn large_bodies_are_passed_on_as_files() {
    let dir = Dir::new();
    let app = setup_with_spool(&dir);
    let body = "x".repeat(300_000);
    let answer = request(&app, "POST", "/", &[("x-script", "http-file")], &body);
    assert_eq!(
        answer.text(),
        "300000 bytes, content-length: 300000, then 0 bytes"
    );
    let left = std::fs::read_dir(dir.file("spool")).expect("it was created");
    assert_eq!(left.count(), 0, "the file is removed after the answer");
    let small = request(&app, "POST", "/", &[("x-script", "http-file")], "small");
    assert_eq!(small.text(), "no file");
}

fn setup_with_spool(dir: &Dir) -> App {
    start(&format!("[http]\nspool = {:?}", dir.file("spool")))
}

#[test]
fn trusted_proxies_name_the_client() {
    let app = start("trusted_proxies = [\"loopback\"]\naccess_log = true");
    let headers = [
        ("x-script", "http-echo"),
        ("x-forwarded-for", "198.51.100.7, 203.0.113.9"),
        ("x-forwarded-proto", "https"),
        ("x-forwarded-host", "evil.test"),
        ("user-agent", "a \"b\""),
    ];
    let text = request(&app, "GET", "/p?q", &headers, "").text();
    assert!(text.starts_with("203.0.113.9:0 "), "{text}");
    assert!(text.contains("\nGET https://127.0.0.1:"), "{text}");
    assert!(!text.contains("evil.test"), "{text}");
    app.wait_for_log("gateway sites: shop 203.0.113.9 GET \"/p?q\" 200 * \"a \\\"b\\\"\"");
    let direct = start("");
    let text = request(&direct, "GET", "/", &headers, "").text();
    assert!(
        text.starts_with("127.0.0.1:") && !text.contains("x-forwarded"),
        "{text}"
    );
}

#[test]
fn only_gateways_make_requests_to_sites() {
    let app = start("[http]\nsocket = \"http.sock\"");
    let mut client = app.client();
    let call = Request::call("http:shop.request", "GET / HTTP/1.1\r\n\r\n").codec(Codec::HTTP);
    let answer = client.request(&call);
    assert_eq!(
        answer.status(),
        Status::PERMISSION_DENIED,
        "{}",
        answer.text()
    );
    let answer = app
        .http()
        .request("POST", "/call/http:shop.request", &[], "x");
    assert_eq!(answer.expect("an answer").status, 400);
}

#[test]
fn a_client_that_leaves_cancels_its_request() {
    let app = start("");
    let gate = app.dir.gate("gate");
    let headers = [("x-script", "gate gate;note ran")];
    let mut first = connect(&app);
    let mut second = connect(&app);
    first.send("POST", "/", &headers, "").expect("it is sent");
    let held = gate.wait_for_worker();
    second.send("POST", "/", &headers, "").expect("it is sent");
    let _also = gate.wait_for_worker();
    let mut waiting = connect(&app);
    waiting
        .send("POST", "/", &[("x-script", "note never")], "")
        .expect("it is sent");
    let mut client = app.client();
    let ready = |client: &mut stoker_testkit::Client| client.queue("http:shop")["ready"].clone();
    until("it waits", || {
        (ready(&mut client) == json!(1)).then_some(())
    });
    drop(waiting);
    until("it is cancelled", || {
        (ready(&mut client) == json!(0)).then_some(())
    });
    drop(held);
}

/// Runs `work` under GET requests.
fn under_load(app: &App, work: impl FnOnce(&Seen)) -> Seen {
    let address = app.site_address(0);
    let connect = move || -> io::Result<Http> { Http::tcp(address, None) };
    requests_under_load(&connect, ("GET", "/"), &[("x-script", "http 200 ok")], work)
}

#[test]
fn deaths_of_workers_and_the_server_fail_no_get_request() {
    let app = start("");
    let seen = under_load(&app, |seen| {
        for _ in 0..2 {
            app.pids().into_iter().for_each(procs::kill);
            more(seen);
            let from = app.log().len();
            procs::kill(app.server());
            app.wait_for_log_after(from, "the server was restarted");
            more(seen);
        }
    });
    let failed = seen.failed.into_inner() + seen.refused.into_inner() + seen.reset.into_inner();
    assert_eq!(failed, 0);
}

/// The gateway ends after its clients have read their answers, which takes longer than the workers' end.
#[test]
fn a_download_is_completed_at_a_shutdown() {
    const SIZE: u64 = 100 << 20;
    let dir = Dir::new();
    let root = dir.file("public");
    std::fs::create_dir(&root).expect("the directory is new");
    let file = std::fs::File::create(root.join("big.bin")).expect("it is created");
    file.set_len(SIZE).expect("the file is sparse");
    let app = start(&format!("root = {root:?}"));
    let mut http = connect(&app);
    http.send("GET", "/big.bin", &[], "").expect("it is sent");
    app.term();
    let answer = http.answer().expect("the whole answer");
    assert_eq!(answer.body.len() as u64, SIZE);
    app.wait_for_exit();
}

/// A few clients that do not read their answers do not use up the memory for all.
#[test]
fn slow_readers_are_disconnected_when_memory_is_short() {
    let app = start("[http]\nmax_memory = \"4MB\"\nmax_body = \"1MB\"");
    let mut slow: Vec<Http> = (0..12).map(|_| connect(&app)).collect();
    for http in &mut slow {
        let headers = [("x-script", "http-big 8000000")];
        http.send("GET", "/", &headers, "").expect("it is sent");
    }
    // Some requests find no memory, and clients that receive an answer are disconnected in the middle of it.
    let (mut cut, mut busy) = (0, 0);
    until("another client is served", || {
        let answer = get(&app, "http 200 ok");
        busy += usize::from(answer.status == 503);
        (answer.status == 200 && busy > 0).then_some(())
    });
    for http in &mut slow {
        match http.answer() {
            Ok(answer) => assert_eq!(answer.status, 503),
            Err(_) => cut += 1,
        }
    }
    assert!(cut > 0, "no client was disconnected");
    assert_eq!(get(&app, "http 200 ok").status, 200);
}

#[test]
fn ambiguous_requests_are_rejected_and_their_connection_is_closed() {
    let app = start("");
    for (bytes, status) in [
        ("GET /a HTTP/1.1\r\nhost: a b\r\n\r\n", 400),
        ("GET a HTTP/1.1\r\nhost: a\r\n\r\n", 400),
        ("GET * HTTP/1.1\r\nhost: a\r\n\r\n", 400),
        ("GET http://a/ HTTP/1.1\r\n\r\n", 400),
        ("CONNECT a:80 HTTP/1.1\r\nhost: a\r\n\r\n", 405),
        (
            "POST / HTTP/1.1\r\nhost: a\r\ntransfer-encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
            501,
        ),
    ] {
        let mut http = connect(&app);
        let next = "GET /next HTTP/1.1\r\nhost: a\r\nx-script: http 200 next\r\n\r\n";
        http.raw(format!("{bytes}{next}").as_bytes())
            .expect("it is sent");
        assert_eq!(http.answer().expect("an answer").status, status, "{bytes}");
        assert_eq!(http.rest().expect("the end"), b"", "{bytes}");
    }
    let mut http = connect(&app);
    http.raw(b"OPTIONS * HTTP/1.1\r\nhost: a:1\r\nx-script: http-echo\r\n\r\n")
        .expect("it is sent");
    let text = http.answer().expect("an answer").text();
    assert!(
        text.contains("OPTIONS http://a:1 HTTP/1.1\r\nhost: a:1\r\n"),
        "{text}"
    );
}

#[test]
fn a_killed_gateway_refuses_no_connection() {
    let app = start("");
    let seen = under_load(&app, |seen| {
        let from = app.log().len();
        procs::kill(app.gateway("sites"));
        app.wait_for_log_after(from, "gateway sites: listening");
        more(seen);
    });
    assert_eq!(seen.refused.into_inner(), 0, "the angel listens");
    assert_eq!(seen.failed.into_inner(), 0, "one retry is enough");
}

#[test]
fn an_added_site_needs_a_restart_and_a_removed_one_does_not() {
    let app = start("");
    let path = app.dir.file("stoker.toml");
    let text = std::fs::read_to_string(&path).expect("it was written");
    app.dir
        .write("stoker.toml", text.replace("[site.shop]", "[site.other]"));
    let output = app.cli(&["reload"]);
    let expected = "stoker: applied from the configuration: site.shop\n\
                    stoker: changed in the configuration, and needs a restart: site.other\n";
    assert_eq!(output.stderr, expected);
}

/// A worker that answers only requests has nothing to do in a pool without a site. `reload` says so, and the pool keeps its
/// workers. One that has jobs too is replaced.
#[test]
fn a_reload_that_takes_a_pools_last_site_says_so() {
    if !php::is_installed() {
        return;
    }
    for (jobs, code) in [("", 1), ("->onJob('mails', fn () => null)", 0)] {
        let dir = Dir::new();
        let autoload = repository().join("sdk/php/src/autoload.php");
        let script = format!(
            "<?php require {:?}; Stoker\\Worker::create(){jobs}->onRequest(fn () => 'made')->run();",
            autoload.display().to_string()
        );
        std::fs::write(dir.file("worker.php"), script).expect("it works");
        let pool = format!(
            "[pool.p]\ncommand = [\"php\", {:?}]\nworkers = 1\n",
            dir.file("worker.php")
        );
        let site = "[site.shop]\nlisten = [\"127.0.0.1:0\"]\n";
        let app = setup().config(&format!("{pool}{site}")).start();
        let before = app.pids();
        app.dir.write("stoker.toml", &pool);
        let output = app.cli(&["reload"]);
        assert_eq!(output.code, code, "{}{}", output.stdout, output.stderr);
        assert_eq!(
            output.stderr,
            "stoker: applied from the configuration: site.shop\n"
        );
        if code == 0 {
            assert_eq!(output.stdout, "p runs version 2\n");
            continue;
        }
        let told = "p: the new version can't start; version 1 keeps running\np-";
        assert!(output.stdout.starts_with(told), "{}", output.stdout);
        let why = "did not become ready (exit code 255): PHP Fatal error:  Uncaught LogicException: onRequest(): this worker has no site.";
        assert!(output.stdout.contains(why), "{}", output.stdout);
        assert!(
            output.stdout.contains("remove the pool"),
            "{}",
            output.stdout
        );
        assert_eq!((app.pids(), &app.pool()["version"]), (before, &json!(1)));
        // Its workers are replaced by workers of the version that stays, which have the site.
        procs::kill(app.pids()[0]);
        app.wait_for_log("p-5 is ready");
    }
}

#[test]
fn mistakes_in_the_configuration_are_reported() {
    let pool = "[pool.p]\ncommand = [\"true\"]\n";
    for (text, expected) in [
        ("[site.a]\n", "site.a.listen: the site has no address"),
        (
            "[site.a]\nlisten = [\"x\"]\n",
            "expected an address and a port, found \"x\"",
        ),
        (
            "[site.a]\nlisten = [\":80\"]\nindex = \"../x.php\"\n",
            "expected a path below root",
        ),
        (
            "[site.a]\nlisten = [\"127.0.0.1:1\"]\ncertificate = \"c\"\n",
            "certificate has no effect without key",
        ),
        (
            "strategy = \"exec\"\n[site.a]\nlisten = [\"127.0.0.1:1\"]\n",
            "strategy = \"exec\" of pool p can't answer HTTP requests",
        ),
        (
            "strategy = \"cgi\"\n[queue.q]\n",
            "queue.q.pool: strategy = \"cgi\" of pool p runs calls and jobs with a script, but the pool has no task_script",
        ),
        (
            "strategy = \"fastcgi\"\naddress = \"127.0.0.1:0\"\n[service.s]\npool = \"p\"\n",
            "service.s.pool: strategy = \"fastcgi\" of pool p runs calls and jobs with a script, but",
        ),
        (
            "strategy = \"cgi\"\n[site.a]\nlisten = [\"127.0.0.1:1\"]\n",
            "site.a.root: strategy = \"cgi\" of pool p runs the front controller",
        ),
        (
            "strategy = \"cgi\"\n[site.a]\nlisten = [\"127.0.0.1:1\"]\nroot = \".\"\nindex = \"x.php\"\n",
            "site.a.index: there is no file ",
        ),
        (
            "[site.a]\nlisten = [\"127.0.0.1:1\"]\nsend_files = [\"missing\"]\n",
            "site.a.send_files: there is no directory ",
        ),
        (
            "[site.a]\nlisten = [\"127.0.0.1:1\"]\nhosts = [\"a\"]\n\
             [site.b]\nlisten = [\"127.0.0.1:1\"]\nhosts = [\"A.\"]\n",
            "has the same address and the host ",
        ),
        (
            "[site.a]\nlisten = [\"127.0.0.1:1\"]\nroot = \"missing\"\n",
            "there is no directory ",
        ),
        (
            "[site.a]\nlisten = [\"127.0.0.1:1\"]\n[site.b]\nlisten = [\"127.0.0.1:1\"]\n",
            "neither site sets hosts",
        ),
        (
            "[http]\nlisten = [\"127.0.0.1:1\"]\n[site.a]\nlisten = [\"127.0.0.1:1\"]\n",
            "is also an address of [http] listen",
        ),
        (
            "[site.a]\nlisten = [\"127.0.0.1:1\"]\n[site.b]\nlisten = [\"0.0.0.0:1\"]\n",
            "site.b.listen: 0.0.0.0:1 is also one of the addresses of 127.0.0.1:1, at which another site listens",
        ),
        (
            "[site.a]\nlisten = [\"[::]:1\", \"[::1]:2\"]\n[site.b]\nlisten = [\"127.0.0.1:1\", \"127.0.0.1:2\"]\n",
            "site.b.listen: 127.0.0.1:1 is also one of the addresses of [::]:1",
        ),
        (
            "[http]\nlisten = [\"127.0.0.1:1\"]\n[site.a]\nlisten = [\"0.0.0.0:1\"]\n",
            "0.0.0.0:1 is also an address of [http] listen",
        ),
        (
            "[service.\"http:a\"]\n",
            "does not start with stoker. or http:",
        ),
        (
            "[site.a]\nlisten = [\"127.0.0.1:1\"]\nreserve = 9\n",
            "reserve",
        ),
    ] {
        let dir = Dir::new();
        dir.write("stoker.toml", format!("{pool}{text}"));
        let spawn = Spawn::new(env!("CARGO_BIN_EXE_stoker"));
        let output = run(spawn.args(&["check"]).within(dir.path()));
        assert!(
            output.stderr.contains(expected),
            "{text}: {}",
            output.stderr
        );
    }
}

#[test]
fn a_front_controller_needs_no_configuration() {
    let setup = setup();
    let dir = setup.dir();
    std::fs::create_dir(dir.file("public")).expect("the directory is new");
    let script = "<?php echo 'php answers ', $_SERVER['REQUEST_URI'];";
    dir.write("public/index.php", script);
    dir.write("public/style.css", "body {}");
    let app = setup
        .serve(&["public/index.php", "--listen", "127.0.0.1:0"])
        .launch();
    app.wait_for_log("default-1 is ready*");
    let answer = request(&app, "GET", "/a/b?c", &[], "");
    assert_eq!(answer.text(), "php answers /a/b?c");
    assert_eq!(
        request(&app, "GET", "/style.css", &[], "").text(),
        "body {}"
    );
}

/// What a reload has changed is not lost when the server is restarted (simulation, seed 108361).
#[test]
fn a_reloaded_setting_survives_the_server() {
    let app = start("limit = 3");
    let text = std::fs::read_to_string(app.dir.file("stoker.toml")).expect("it is there");
    let text = text.replace("limit = 3", "limit = 1\nmax_age = \"1h\"");
    app.dir.write("stoker.toml", text);
    let mut client = app.client();
    let report = client.call_server("stoker.pool", &json!({"op": "reload"}));
    assert_eq!(report["applied"], json!(["site.shop.limit"]), "{report}");
    assert_eq!(report["restart"], json!(["site.shop.max_age"]), "{report}");
    let from = app.log().len();
    procs::kill(app.server());
    app.wait_for_log_after(from, "the server was restarted");
    assert_eq!(app.client().queue("http:shop")["limit"], 1);
}

/// The server rejects requests on a connection for which many bytes of answers wait, so the gateway uses several.
#[test]
fn many_large_answers_are_sent_at_once() {
    let app = start("");
    std::thread::scope(|scope| {
        for _ in 0..32 {
            scope.spawn(|| {
                let mut http = connect(&app);
                for _ in 0..5 {
                    let headers = [("x-script", "http-big 1000000")];
                    let answer = http.request("GET", "/", &headers, "").expect("an answer");
                    assert_eq!((answer.status, answer.body.len()), (200, 1_000_000));
                }
            });
        }
    });
}

#[test]
fn idle_connections_make_room_for_new_ones() {
    let app = start("[http]\nmax_connections = 2");
    let headers = [("x-script", "http 200 x")];
    let mut open: Vec<Http> = (0..2).map(|_| connect(&app)).collect();
    for http in &mut open {
        let answer = http.request("GET", "/", &headers, "").expect("an answer");
        assert_eq!(answer.status, 200);
    }
    // Without room, it would wait for `idle_timeout`, a minute.
    let start = std::time::Instant::now();
    assert_eq!(get(&app, "http 200 x").status, 200);
    assert!(start.elapsed() < std::time::Duration::from_secs(20));
}

/// Without that, the kernel would reset the connection, and the client would lose the answer.
#[test]
fn a_client_that_still_sends_its_body_gets_the_answer() {
    let app = start("max_body = \"1KB\"");
    let address = app.site_address(0);
    let mut stream = std::net::TcpStream::connect(address).expect("the angel listens");
    let head = format!("POST / HTTP/1.1\r\nhost: {address}\r\ncontent-length: 10000000\r\n\r\n");
    io::Write::write_all(&mut stream, head.as_bytes()).expect("it is read");
    io::Write::write_all(&mut stream, &[0; 1 << 20]).expect("it is read");
    let answer = io::read_to_string(&stream).expect("an answer and its end");
    assert!(answer.starts_with("HTTP/1.1 413 "), "{answer}");
    assert!(answer.contains("\r\nconnection: close\r\n"), "{answer}");
    io::Write::write_all(&mut stream, &[0; 1 << 20]).expect("it is dropped");
}

/// The visitors of a site count as one user, so they do not use up the limits of other users.
#[test]
fn each_site_has_limits_of_its_own() {
    let app = start("[site.rest]\nlisten = [\"127.0.0.1:0\"]\n[stoker]\nuser_inflight = 1");
    let gate = app.dir.gate("gate");
    let mut slow = connect(&app);
    slow.send("GET", "/", &[("x-script", "gate gate;http 200 slow")], "")
        .expect("it is sent");
    let held = gate.wait_for_worker();
    let refused = get(&app, "http 200 no");
    assert_eq!(refused.status, 503, "{}", refused.text());
    let mut rest = Http::tcp(app.site_address(1), None).expect("the angel listens");
    let answer = rest.request("GET", "/", &[("x-script", "http 200 rest")], "");
    assert_eq!(answer.expect("an answer").text(), "rest");
    drop(held);
    assert_eq!(slow.answer().expect("an answer").text(), "slow");
    assert_eq!(get(&app, "http 200 yes").text(), "yes");
}

/// Somebody else may have created the directory in `/tmp` first.
#[test]
fn a_spool_that_is_not_an_own_directory_is_rejected() {
    let dir = Dir::new();
    dir.write("file", "");
    let config = "[pool.p]\ncommand = [\"sh\"]\n[site.a]\nlisten = [\"127.0.0.1:0\"]\n[http]\nspool = \"file\"\n";
    dir.write("stoker.toml", config);
    let stoker = |command: &str| {
        let spawn = Spawn::new(env!("CARGO_BIN_EXE_stoker"));
        run(spawn.args(&[command]).within(dir.path()))
    };
    let expected = format!(
        "stoker: [http] spool: {} is not a directory: remove it, or set spool to another directory\n",
        dir.file("file").display()
    );
    // The administrator may check the configuration of another user.
    let commands = match rustix::process::geteuid().is_root() {
        true => &["serve"][..],
        false => &["serve", "check"],
    };
    for command in commands {
        let output = stoker(command);
        assert_eq!(
            (output.code, output.stderr.as_str()),
            (78, expected.as_str()),
            "{command}"
        );
    }
}

#[test]
fn the_access_log_counts_what_was_sent() {
    let dir = Dir::new();
    dir.write("file.txt", "0123456789");
    let root = dir.path();
    let app = start(&format!(
        "hosts = [\"shop.test\"]\naccess_log = true\nroot = {root:?}"
    ));
    let seen = |line: &str| app.wait_for_log(&format!("gateway sites: {line}"));
    let ask = |method: &str, path: &str, script: &str| {
        let headers = [
            ("host", "shop.test"),
            ("x-script", script),
            ("connection", "close"),
        ];
        let mut http = connect(&app);
        http.send(method, path, &headers, "").expect("it is sent");
        http.rest().expect("the end")
    };
    ask(
        "GET",
        "/parts",
        "first-part HTTP/1.1 200 OK||abc;next-part def;last-part 0 g",
    );
    seen("shop 127.0.0.1 GET \"/parts\" 200 7 *");
    ask("GET", "/file.txt", "");
    seen("shop 127.0.0.1 GET \"/file.txt\" 200 10 *");
    ask("HEAD", "/file.txt", "");
    seen("shop 127.0.0.1 HEAD \"/file.txt\" 200 0 *");
    ask("GET", "/whole", "http 404 none");
    seen("shop 127.0.0.1 GET \"/whole\" 404 4 *");
    // Requests that reach no site.
    assert_eq!(
        request(&app, "GET", "/x", &[("host", "other.test")], "").status,
        421
    );
    seen("- 127.0.0.1 GET \"/x\" 421 *");
    let large = "x".repeat(20_000);
    assert_eq!(
        request(&app, "GET", "/x", &[("x-large", &large)], "").status,
        431
    );
    seen("- 127.0.0.1 - \"-\" 431 0 *");
}

/// The program that answers may have files of its own.
#[test]
fn hostile_paths_are_rejected_without_a_root_too() {
    let app = start("");
    for path in [
        "/a/../../etc/passwd",
        "/%2e%2e/x",
        "/a%00",
        "/a/%2E%2e\\b",
        "/%zz",
    ] {
        let answer = request(&app, "GET", path, &[("x-script", "http 200 no")], "");
        assert_eq!(answer.status, 400, "{path}");
    }
    let answer = request(
        &app,
        "GET",
        "/a..b/.../c",
        &[("x-script", "http 200 yes")],
        "",
    );
    assert_eq!(answer.text(), "yes");
}
