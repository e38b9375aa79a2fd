//! `POST /queues/…`

use super::{post, start};
use crate::{pool_of, setup};
use serde_json::{Value, json};
use stoker_testkit::{App, as_nobody, procs, until};

const JSON: (&str, &str) = ("content-type", "application/json");

#[track_caller]
fn shown(app: &App, id: &Value) -> Value {
    app.client()
        .call_server("stoker.job", &json!({"op": "show", "id": id}))
}

#[test]
fn a_push_returns_the_job_id() {
    let app = start("");
    let answer = post(&app, "/queues/mails", &[JSON], "\"ok\"");
    assert_eq!(answer.status, 201, "{}", answer.text());
    let id = answer.json()["id"].clone();
    assert_eq!(shown(&app, &id)["queue"], "mails");
    until("it is done", || {
        (shown(&app, &id)["state"] == "done").then_some(())
    });
}

#[test]
fn every_push_option_is_a_header() {
    let app = start("");
    let headers = [
        JSON,
        ("stoker-delay", "1h"),
        ("stoker-priority", "5"),
        ("stoker-key", "tenant-7"),
        ("stoker-unique-key", "order-1"),
        ("stoker-unique-for", "2h"),
        ("stoker-unique-until-start", "true"),
        ("stoker-tries", "4"),
        ("stoker-backoff", "1s, 2s,1m"),
        ("stoker-timeout", "20s"),
        ("stoker-fail-on-timeout", "true"),
        ("stoker-max-exceptions", "2"),
        ("stoker-retry-until", "4102444800000"),
        ("stoker-type", "Welcome"),
        ("stoker-keep-result", "1h"),
        ("stoker-cost", "2"),
    ];
    let answer = post(&app, "/queues/mails", &headers, "{}");
    assert_eq!(answer.status, 201, "{}", answer.text());
    let job = shown(&app, &answer.json()["id"]);
    assert_eq!(
        (&job["state"], &job["priority"], &job["key"]),
        (&json!("delayed"), &json!(5), &json!("tenant-7"))
    );
    let options = json!({
        "tries": 4, "backoff_ms": [1_000, 2_000, 60_000], "timeout_ms": 20_000, "fail_on_timeout": true,
        "max_exceptions": 2, "retry_until_ms": 4_102_444_800_000_u64, "type": "Welcome", "keep_result_ms": 3_600_000,
        "unique": {"key": "order-1", "until_start": true, "for_ms": 7_200_000},
    });
    assert_eq!(job["options"], options);
    let again = post(&app, "/queues/mails", &headers, "{}");
    assert_eq!(
        (again.status, again.json()["code"].as_str()),
        (409, Some("ALREADY_EXISTS"))
    );
    assert_eq!(again.json()["job"], answer.json()["id"]);
}

#[test]
fn pushes_with_the_same_idempotency_key_are_one_job() {
    let app = start("");
    let headers = [JSON, ("idempotency-key", "order-1")];
    let first = post(&app, "/queues/mails", &headers, "\"ok\"").json();
    let again = post(&app, "/queues/mails", &headers, "\"ok\"").json();
    assert_eq!(first["id"], again["id"]);
    let other = post(&app, "/queues/mails", &headers, "\"ok other\"");
    assert_eq!(other.status, 400, "{}", other.text());
}

#[test]
fn many_jobs_are_pushed_at_once() {
    let app = start("");
    let jobs: Vec<Value> = (0..1_000)
        .map(|number| json!({"payload": {"n": number}, "delay_ms": 3_600_000}))
        .collect();
    let answer = post(
        &app,
        "/queues/mails/batch",
        &[JSON],
        &json!({"jobs": jobs}).to_string(),
    );
    assert_eq!(answer.status, 201, "{:.300}", answer.text());
    let answered = answer.json();
    let ids = answered["jobs"].as_array().expect("a list");
    assert_eq!(ids.len(), 1_000);
    assert_eq!(
        shown(&app, &ids[999]["id"])["body"],
        "{\"n\":999}",
        "in their order"
    );
    let count = app.client().call_server(
        "stoker.job",
        &json!({"op": "count", "queue": "mails", "state": "delayed"}),
    );
    assert_eq!(count["count"], 1_000);
}

#[test]
fn a_batch_reports_the_outcome_of_each_job() {
    let app = start("");
    let body = r#"{"jobs":[{"payload":1.50,"unique_key":"a","delay_ms":60000},{"payload":2,"unique_key":"a"},
        {"payload":"ok","idempotency_key":"k","priority":7,"tries":2,"backoff_ms":[1,2]}]}"#;
    let answer = post(&app, "/queues/mails/batch", &[], body);
    assert_eq!(answer.status, 207, "{}", answer.text());
    let jobs = answer.json()["jobs"].clone();
    assert_eq!(
        shown(&app, &jobs[0]["id"])["body"],
        "1.50",
        "a payload stays as it was written"
    );
    assert_eq!(
        (&jobs[1]["status"], &jobs[1]["code"]),
        (&json!(409), &json!("ALREADY_EXISTS"))
    );
    assert!(jobs[2]["id"].is_string());
}

#[test]
fn invalid_options_are_named() {
    let app = start("");
    for (headers, about) in [
        (
            ("stoker-delay", "soon"),
            "Stoker-Delay: \"soon\": expected a duration",
        ),
        (("stoker-tries", "many"), "Stoker-Tries"),
        (("stoker-delai", "1s"), "did you mean 'delay'"),
    ] {
        let answer = post(&app, "/queues/mails", &[headers], "1");
        assert_eq!(answer.status, 400);
        assert!(
            answer.json()["detail"]
                .as_str()
                .unwrap_or_default()
                .contains(about),
            "{}",
            answer.text()
        );
    }
    for (body, about) in [
        ("[]", "expected {\"jobs\""),
        ("{\"jobs\":[]}", "1 to 1000 jobs"),
        (
            "{\"jobs\":[{\"payload\":1},{\"delay_ms\":1}]}",
            "job 2: missing field \"payload\"",
        ),
        (
            "{\"jobs\":[{\"payload\":1,\"delay\":1}]}",
            "job 1: unknown field \"delay\": expected one of: delay_ms",
        ),
        (
            "{\"jobs\":[{\"payload\":1,\"delay_ms\":\"1s\"}]}",
            "job 1: invalid \"delay_ms\": \"1s\": expected a whole number",
        ),
    ] {
        let answer = post(&app, "/queues/mails/batch", &[JSON], body);
        assert_eq!(answer.status, 400, "{}", answer.text());
        assert!(
            answer.json()["detail"]
                .as_str()
                .unwrap_or_default()
                .contains(about),
            "{}",
            answer.text()
        );
    }
    let name = post(&app, "/queues/no%20name", &[], "1");
    assert_eq!(name.status, 400, "{}", name.text());
}

#[test]
fn a_job_belongs_to_the_connected_user() {
    let config = pool_of(
        "serve",
        "workers = 1\n[stoker]\nsocket_mode = \"0666\"\n[http]\nsocket = \"http.sock\"",
    );
    let app = setup().config(&config).start();
    let own = post(&app, "/queues/mails", &[("stoker-delay", "1h")], "1").json()["id"].clone();
    as_nobody(|| {
        let id = post(&app, "/queues/mails", &[("stoker-delay", "1h")], "1").json()["id"].clone();
        let show = |id: &Value| post(&app, "/admin/job/show", &[], &json!({"id": id}).to_string());
        assert_eq!(show(&id).json()["queue"], "mails");
        let refused = show(&own);
        assert_eq!(
            (refused.status, refused.json()["code"].as_str()),
            (403, Some("PERMISSION_DENIED"))
        );
        let refused = post(&app, "/admin/queue/pause", &[], "{\"queue\":\"mails\"}");
        assert_eq!(refused.status, 403, "{}", refused.text());
        assert_eq!(post(&app, "/admin/queue/list", &[], "").status, 200);
    });
}

#[test]
fn pushes_with_a_key_survive_a_killed_server() {
    let app = start("");
    procs::kill(app.server());
    let headers = [JSON, ("idempotency-key", "order-1"), ("stoker-delay", "1h")];
    let answer = post(&app, "/queues/mails", &headers, "1");
    assert_eq!(answer.status, 201, "{}", answer.text());
    let again = post(&app, "/queues/mails", &headers, "1");
    assert_eq!(answer.json()["id"], again.json()["id"]);
}
