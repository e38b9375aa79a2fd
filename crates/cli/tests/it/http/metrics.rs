//! `/metrics`

use super::{post, start};
use std::collections::{BTreeMap, HashSet};
use stoker_testkit::{App, HttpResponse, procs, until};

#[track_caller]
fn scrape(app: &App) -> HttpResponse {
    app.http()
        .request("GET", "/metrics", &[], "")
        .expect("an answer")
}

/// Parses the page strictly; returns all samples by series.
#[track_caller]
fn read(page: &str) -> BTreeMap<String, f64> {
    let mut samples = BTreeMap::new();
    let mut families = HashSet::new();
    let (mut family, mut kind) = (String::new(), String::new());
    assert!(page.ends_with('\n'));
    for line in page.lines() {
        if let Some(rest) = line.strip_prefix("# HELP ") {
            let (name, help) = rest.split_once(' ').expect("a help text");
            assert!(is_name(name) && !help.is_empty(), "{line}");
            assert!(families.insert(name.to_owned()), "{name} is one family");
            family = name.to_owned();
        } else if let Some(rest) = line.strip_prefix("# TYPE ") {
            let (name, family_kind) = rest.split_once(' ').expect("a type");
            assert_eq!(name, family, "TYPE follows HELP");
            assert!(
                ["counter", "gauge", "histogram"].contains(&family_kind),
                "{line}"
            );
            assert_eq!(family_kind == "counter", name.ends_with("_total"), "{line}");
            kind = family_kind.to_owned();
        } else {
            let (series, value) = line.rsplit_once(' ').expect("a value");
            let value: f64 = value
                .parse()
                .unwrap_or_else(|_| panic!("no number: {line}"));
            assert!(value.is_finite(), "{line}");
            assert!(kind == "gauge" || value >= 0.0, "{line}");
            let (name, labels) = series.split_once('{').unwrap_or((series, "}"));
            check_labels(labels, &kind, line);
            let end = name
                .strip_prefix(&family)
                .unwrap_or_else(|| panic!("{line} is not of {family}"));
            let ends: &[&str] = if kind == "histogram" {
                &["_bucket", "_sum", "_count"]
            } else {
                &[""]
            };
            assert!(ends.contains(&end), "{line}");
            assert!(
                samples.insert(series.to_owned(), value).is_none(),
                "twice: {series}"
            );
        }
    }
    samples
}

fn is_name(name: &str) -> bool {
    let first = name
        .bytes()
        .next()
        .is_some_and(|byte| byte.is_ascii_lowercase());
    first
        && name
            .bytes()
            .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_')
}

/// Checks labels such as `a="b",c="d"}`, with quotes and backslashes escaped.
#[track_caller]
fn check_labels(labels: &str, kind: &str, line: &str) {
    let mut rest = labels
        .strip_suffix('}')
        .unwrap_or_else(|| panic!("no brace: {line}"));
    let mut seen = HashSet::new();
    while !rest.is_empty() {
        let (name, value) = rest
            .split_once("=\"")
            .unwrap_or_else(|| panic!("no label: {line}"));
        assert!(is_name(name) && seen.insert(name), "{line}");
        let is_reserved = name == "quantile" || (name == "le" && kind != "histogram");
        assert!(!is_reserved, "{line}");
        let mut is_escaped = false;
        let end = value.find(|c| {
            let ends = c == '"' && !is_escaped;
            is_escaped = c == '\\' && !is_escaped;
            ends
        });
        let end = end.unwrap_or_else(|| panic!("no end: {line}"));
        rest = &value[end + 1..];
        rest = rest.strip_prefix(',').unwrap_or(rest);
    }
}

#[test]
fn metrics_cover_the_server_and_the_gateway() {
    let app = start("");
    for _ in 0..3 {
        post(&app, "/call/t.run", &[], "ok");
    }
    post(&app, "/call/t.run", &[], "fail 64 boom");
    post(&app, "/queues/mails", &[("stoker-delay", "1h")], "1");
    let answer = scrape(&app);
    assert_eq!(
        answer.header("content-type"),
        Some("text/plain; version=0.0.4; charset=utf-8")
    );
    let samples = read(&answer.text());
    let of = |series: &str| {
        *samples
            .get(series)
            .unwrap_or_else(|| panic!("{series}: {}", answer.text()))
    };
    assert_eq!(of("stoker_up"), 1.0);
    assert_eq!(
        of("stoker_queue_done_total{queue=\"t\",kind=\"calls\"}"),
        3.0
    );
    assert_eq!(
        of("stoker_queue_call_errors_total{queue=\"t\",kind=\"calls\"}"),
        1.0
    );
    assert_eq!(
        of("stoker_queue_tasks{queue=\"mails\",kind=\"jobs\",state=\"delayed\"}"),
        1.0
    );
    assert_eq!(of("stoker_pool_ready_workers{pool=\"p\"}"), 2.0);
    assert_eq!(of("stoker_pool_healthy{pool=\"p\"}"), 1.0);
    assert_eq!(of("stoker_workers{pool=\"p\",state=\"ready\"}"), 2.0);
    assert!(of("stoker_workers_resident_bytes{pool=\"p\"}") > 1e6);
    assert!(of("stoker_loop_turns_total") > 1.0 && of("stoker_loop_busy_seconds_total") > 0.0);
    assert_eq!(of("stoker_store_durable"), 1.0);
    assert!(of("stoker_store_commits_total{result=\"committed\"}") >= 1.0);
    assert_eq!(of("stoker_store_commits_total{result=\"failed\"}"), 0.0);
    assert!(of("stoker_store_commit_seconds_total") > 0.0);
    assert!(of("stoker_store_file_bytes") > 0.0 && of("stoker_store_journal_bytes") > 0.0);
    assert_eq!(
        of("stoker_http_requests_total{route=\"call\",status=\"200\"}"),
        3.0
    );
    assert_eq!(
        of("stoker_http_requests_total{route=\"call\",status=\"500\"}"),
        1.0
    );
    assert_eq!(
        of("stoker_http_requests_total{route=\"push\",status=\"201\"}"),
        1.0
    );
    assert_eq!(
        of("stoker_http_request_duration_seconds_count{route=\"call\"}"),
        4.0
    );
    assert_eq!(
        of("stoker_http_request_duration_seconds_bucket{route=\"call\",le=\"+Inf\"}"),
        4.0
    );
    assert_eq!(of("stoker_http_requests_in_flight"), 1.0, "this one");
    assert_eq!(of("stoker_http_restarts_total"), 0.0);
}

#[test]
fn histogram_buckets_are_cumulative() {
    let app = start("");
    post(&app, "/call/t.run", &[], "sleep 30;ok");
    let samples = read(&scrape(&app).text());
    let bucket = |le: &str| {
        let series =
            format!("stoker_http_request_duration_seconds_bucket{{route=\"call\",le=\"{le}\"}}");
        *samples.get(&series).unwrap_or_else(|| panic!("{series}"))
    };
    assert_eq!(
        (bucket("0.025"), bucket("10"), bucket("+Inf")),
        (0.0, 1.0, 1.0)
    );
    assert!(samples["stoker_http_request_duration_seconds_sum{route=\"call\"}"] >= 0.03);
}

#[test]
fn worker_deaths_are_counted() {
    let app = start("");
    let from = app.log().len();
    procs::kill(app.gateway("http"));
    app.wait_for_log_after(from, "gateway http: listening");
    until("the restart is counted", || {
        (read(&scrape(&app).text())["stoker_http_restarts_total"] == 1.0).then_some(())
    });
    let from = app.log().len();
    procs::kill(app.server());
    app.wait_for_log_after(from, "the server was restarted");
    let samples = read(&scrape(&app).text());
    assert_eq!(samples["stoker_up"], 1.0);
    assert!(samples["stoker_http_server_connects_total"] >= 2.0);
}
