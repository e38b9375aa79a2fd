//! `/admin/…` and `/openapi.json`

use super::{post, start};
use serde_json::{Value, json};
use stoker_testkit::{App, HttpResponse};

#[track_caller]
fn get(app: &App, path: &str) -> HttpResponse {
    app.http().request("GET", path, &[], "").expect("an answer")
}

#[test]
fn lists_have_pages() {
    let app = start("");
    for number in 0..5 {
        post(
            &app,
            "/queues/mails",
            &[("stoker-delay", "1h")],
            &number.to_string(),
        );
    }
    let mut path = "/admin/job/list?queue=mails&limit=2&states=delayed,ready".to_owned();
    let mut seen = 0;
    loop {
        let answer = get(&app, &path);
        assert_eq!(answer.status, 200, "{}", answer.text());
        let page = answer.json();
        seen += page["jobs"].as_array().expect("a list").len();
        let Some(next) = page["next"].as_str() else {
            break;
        };
        path = format!("/admin/job/list?queue=mails&limit=2&states=delayed,ready&after={next}");
    }
    assert_eq!(seen, 5);
}

#[test]
fn operator_requests_take_effect() {
    let app = start("");
    let paused = post(
        &app,
        "/admin/queue/pause",
        &[],
        "{\"queue\":\"mails\",\"create\":true}",
    );
    assert_eq!(paused.json(), json!({"queue": "mails", "paused": true}));
    post(&app, "/queues/mails", &[], "1");
    let cancelled = post(&app, "/admin/job/cancel", &[], "{\"queue\":\"mails\"}");
    assert_eq!(cancelled.json()["count"], 1, "{}", cancelled.text());
    let scaled = post(
        &app,
        "/admin/pool/scale",
        &[],
        "{\"pool\":\"p\",\"min\":1,\"max\":3}",
    );
    assert_eq!(
        (&scaled.json()["min"], &scaled.json()["max"]),
        (&json!(1), &json!(3))
    );
    let stats = get(&app, "/admin/server/stats").json();
    assert!(
        stats["turns"].as_u64() > Some(0) && stats["busy_us"].as_u64() > Some(0),
        "{stats}"
    );
    assert_eq!(stats["durable"], true);
    assert_eq!(stats["draining"], false);
}

#[test]
fn invalid_requests_are_rejected_with_a_reason() {
    let app = start("");
    for (method, path, body, status, about) in [
        ("GET", "/admin/queue/pause?queue=mails", "", 405, "use POST"),
        ("PUT", "/admin/job/list", "", 405, "use GET, HEAD, POST"),
        ("POST", "/admin/jobs/list", "", 404, "did you mean 'job'"),
        ("POST", "/admin/job/lst", "", 404, "did you mean 'list'"),
        ("POST", "/admin/job", "", 404, "this path does not exist"),
        (
            "POST",
            "/admin/job/list",
            "[]",
            400,
            "expected a JSON object",
        ),
        (
            "POST",
            "/admin/job/list",
            "{\"limit\":\"ten\"}",
            400,
            "expected a whole number",
        ),
        ("POST", "/admin/job/list", "{\"op\":\"cancel\"}", 400, "op"),
        ("POST", "/admin/job/list", "{\"limit\":1", 400, "JSON"),
        (
            "GET",
            "/admin/job/list?limit=ten",
            "",
            400,
            "expected a whole number",
        ),
        (
            "GET",
            "/admin/job/list?limt=1",
            "",
            400,
            "did you mean 'limit'",
        ),
        ("POST", "/admin/job/list?limit=1", "", 400, "in its body"),
        ("POST", "/admin/job/cancel", "{}", 400, "all"),
        (
            "POST",
            "/admin/job/show",
            "{\"id\":\"00000000-0000-7000-8000-000000000000\"}",
            404,
            "job",
        ),
    ] {
        let answer = app
            .http()
            .request(method, path, &[], body)
            .expect("an answer");
        let detail = answer.json()["detail"]
            .as_str()
            .unwrap_or_default()
            .to_owned();
        assert_eq!(answer.status, status, "{method} {path} {body}: {detail}");
        assert!(detail.contains(about), "{method} {path} {body}: {detail}");
    }
}

/// Each operation in the description exists, and its response has fields of its schema.
#[test]
fn the_openapi_description_matches_the_answers() {
    let app = start("");
    post(&app, "/queues/mails", &[("stoker-delay", "1h")], "1");
    let described = get(&app, "/openapi.json").json();
    assert_eq!(described["openapi"], "3.1.0");
    let mut asked = 0;
    for (path, item) in described["paths"].as_object().expect("paths") {
        let Some(get_item) = item.get("get") else {
            continue;
        };
        let parameters = get_item["parameters"].as_array();
        if parameters.is_some_and(|all| all.iter().any(|one| one["required"] == true)) {
            continue;
        }
        let answer = get(&app, path);
        // Some operations require a filter.
        assert!(
            matches!(answer.status, 200 | 400),
            "{path}: {}",
            answer.text()
        );
        let schema = &get_item["responses"]["200"]["content"]["application/json"]["schema"]["$ref"];
        if let (200, Some(schema)) = (answer.status, schema.as_str()) {
            check(&described, schema, &answer.json(), path);
            asked += 1;
        }
    }
    assert!(asked >= 7, "{asked}");
}

/// The response has no field that its schema lacks, if the schema names any.
#[track_caller]
fn check(described: &Value, schema: &str, answer: &Value, path: &str) {
    let pointer = schema.trim_start_matches('#');
    let schema = described
        .pointer(pointer)
        .unwrap_or_else(|| panic!("there is no {schema}"));
    let known = schema["properties"].as_object().expect("an object");
    for field in answer.as_object().expect("an object").keys() {
        assert!(
            known.contains_key(field),
            "{path}: {field} is not described"
        );
    }
}
