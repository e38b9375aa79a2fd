//! `POST /call/…`

use super::{post, start};
use serde_json::{Value, json};

const JSON: (&str, &str) = ("content-type", "application/json");

#[test]
fn a_call_returns_the_response_of_the_worker() {
    let app = start("");
    let answer = post(&app, "/call/t.run", &[], "ok hello");
    assert_eq!((answer.status, answer.text().as_str()), (200, "hello"));
    assert_eq!(
        answer.header("content-type"),
        Some("application/octet-stream")
    );
    assert!(
        answer
            .header("stoker-worker")
            .is_some_and(|worker| worker.starts_with("p-"))
    );
    let answer = post(&app, "/call/t.run", &[JSON], r#"{"id":1}"#);
    assert_eq!((answer.status, answer.json()), (200, json!({"id": 1})));
    assert_eq!(answer.header("content-type"), Some("application/json"));
}

#[test]
fn options_and_trace_context_reach_the_worker() {
    let app = start("");
    let trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    let headers = [
        ("traceparent", trace),
        ("baggage", "tenant=7"),
        ("stoker-timeout", "5s"),
        ("stoker-priority", "1"),
        ("stoker-key", "tenant-7"),
        ("idempotency-key", "order-1"),
    ];
    let told: Value = post(&app, "/call/t.run", &headers, "tell").json();
    assert_eq!(told["traceparent"], trace);
    assert_eq!(told["baggage"], "tenant=7");
    assert_eq!(told["key"], "tenant-7");
    assert_eq!(told["idempotency"], "order-1");
    assert_eq!(told["prio"].as_u64().map(|prio| prio & 7), Some(1));
    let ttl = told["ttl"].as_u64().unwrap_or(0);
    assert!((1..=5_000).contains(&ttl), "{ttl}");
}

#[test]
fn errors_are_problem_documents_with_an_http_status() {
    let app = start("");
    for (script, status, code) in [
        ("fail 3 no id", 400, "INVALID_ARGUMENT"),
        ("fail 5 none", 404, "NOT_FOUND"),
        ("fail 12 none", 501, "UNIMPLEMENTED"),
        ("fail 64 boom", 500, "EXCEPTION"),
        ("kill", 502, "WORKER_DIED"),
    ] {
        let answer = post(&app, "/call/t.run", &[], script);
        let problem = answer.json();
        assert_eq!(
            (answer.status, problem["code"].as_str()),
            (status, Some(code)),
            "{script}"
        );
        assert_eq!(
            answer.header("content-type"),
            Some("application/problem+json")
        );
        assert_eq!(problem["status"], status);
    }
    let answer = post(&app, "/call/t.run", &[], "fail 64 boom");
    assert_eq!(answer.json()["detail"], "boom");
    let answer = post(&app, "/call/nobody.serves", &[], "");
    assert_eq!(
        (answer.status, answer.json()["code"].as_str()),
        (404, Some("NO_WORKER"))
    );
}

#[test]
fn an_expired_deadline_is_504() {
    let app = start("");
    let gate = app.dir.gate("gate");
    let answer = post(
        &app,
        "/call/t.run",
        &[("stoker-timeout", "50")],
        "gate gate;ok",
    );
    assert_eq!(
        (answer.status, answer.json()["code"].as_str()),
        (504, Some("DEADLINE_EXCEEDED"))
    );
    gate.open();
}

#[test]
fn an_exceeded_limit_is_answered_with_retry_after() {
    let app = start("[service.t]\nlimit = 1\nmax_waiting = 1");
    let gate = app.dir.gate("gate");
    let mut first = app.http();
    first
        .send("POST", "/call/t.run", &[], "gate gate;ok")
        .expect("it is sent");
    let held = gate.wait_for_worker();
    let mut second = app.http();
    second
        .send("POST", "/call/t.run", &[], "ok")
        .expect("it is sent");
    let waits = || {
        let queues = app
            .client()
            .call_server("stoker.queue", &json!({"op": "list"}));
        let mut queues = queues["queues"]
            .as_array()
            .cloned()
            .unwrap_or_default()
            .into_iter();
        queues.find(|queue| queue["name"] == "t" && queue["ready"] == 1)
    };
    stoker_testkit::until("the second waits", waits);
    let third = post(&app, "/call/t.run", &[], "ok");
    assert_eq!(
        (third.status, third.json()["code"].as_str()),
        (429, Some("RESOURCE_EXHAUSTED"))
    );
    let seconds = third
        .header("retry-after")
        .and_then(|text| text.parse::<u64>().ok());
    assert!(
        seconds.is_some_and(|seconds| seconds >= 1),
        "{:?}",
        third.headers
    );
    drop(held);
    assert_eq!(first.answer().expect("an answer").status, 200);
    assert_eq!(second.answer().expect("an answer").status, 200);
}

#[test]
fn invalid_requests_are_rejected_with_a_reason() {
    let app = start("");
    for (path, headers, status, about) in [
        ("/call/t", &[][..], 400, "SERVICE.METHOD"),
        ("/call/stoker.job", &[], 400, "/admin"),
        ("/call/t%", &[], 400, "percent-encoding"),
        (
            "/call/t.run",
            &[("stoker-timeout", "soon")],
            400,
            "Stoker-Timeout: \"soon\"",
        ),
        ("/call/t.run", &[("stoker-timeout", "0")], 400, "from 1ms"),
        ("/call/t.run", &[("stoker-priority", "8")], 400, "0 to 7"),
        (
            "/call/t.run",
            &[("stoker-idempotent", "yes")],
            400,
            "true or false",
        ),
        (
            "/call/t.run",
            &[("stoker-timout", "1s")],
            400,
            "did you mean 'timeout'",
        ),
        (
            "/call/t.run",
            &[("idempotency-key", "")],
            400,
            "Idempotency-Key",
        ),
        ("/calls/t.run", &[], 404, "this path does not exist"),
    ] {
        let answer = post(&app, path, headers, "ok");
        assert_eq!(answer.status, status, "{path}: {}", answer.text());
        let detail = answer.json()["detail"].to_string().replace("\\\"", "\"");
        assert!(detail.contains(about), "{path}: {detail}");
    }
    let answer = app
        .http()
        .request("GET", "/call/t.run", &[], "")
        .expect("an answer");
    assert_eq!((answer.status, answer.header("allow")), (405, Some("POST")));
}

#[test]
fn a_client_that_disconnects_cancels_its_call() {
    let app = start("");
    // Both workers are busy, so that the next call waits.
    let gates = ["first", "second"].map(|name| (name, app.dir.gate(name)));
    let mut busy = Vec::new();
    for (name, gate) in &gates {
        let mut http = app.http();
        let script = format!("gate {name};ok");
        http.send("POST", "/call/t.run", &[], &script)
            .expect("it is sent");
        busy.push((http, gate.wait_for_worker()));
    }
    let mut gone = app.http();
    gone.send("POST", "/call/t.run", &[], "note ran;ok")
        .expect("it is sent");
    let ready = |count: u64| {
        let queues = app
            .client()
            .call_server("stoker.queue", &json!({"op": "list"}));
        let mut queues = queues["queues"]
            .as_array()
            .cloned()
            .unwrap_or_default()
            .into_iter();
        queues.find(|queue| queue["name"] == "t" && queue["ready"] == count)
    };
    stoker_testkit::until("it waits", || ready(1));
    drop(gone);
    stoker_testkit::until("it is cancelled", || ready(0));
    for (mut http, held) in busy {
        drop(held);
        assert_eq!(http.answer().expect("an answer").status, 200);
    }
    assert!(app.dir.notes().is_empty(), "nobody waited for it");
}

#[test]
fn small_answers_do_not_wait_behind_large_ones() {
    let app = start("");
    let large = 3 << 20;
    for _ in 0..3 {
        let answer = post(&app, "/call/t.run", &[], &format!("big {large}"));
        assert_eq!((answer.status, answer.body.len()), (200, large));
        let answer = post(&app, "/call/t.again", &[], "ok small");
        assert_eq!(answer.text(), "small");
    }
    let body = format!("ok;{}", " ".repeat(large));
    assert_eq!(post(&app, "/call/t.run", &[], &body).status, 200);
}
