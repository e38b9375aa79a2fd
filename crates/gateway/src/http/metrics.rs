//! `/metrics`: the metrics of the server and of this gateway, for Prometheus.

use super::Gateway;
use super::access::Caller;
use super::exposition::{Kind, Page};
use super::problem::Problem;
use super::reply::{Answer, with_body};
use super::stats::BOUNDS;
use crate::client::Request;
use bytes::Bytes;
use hyper::Response;
use hyper::header::{CONTENT_TYPE, HeaderValue};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;
use stoker_api::queue::{self, Percentiles, Queue, Queues};
use stoker_api::server::{ServerStats, Stats};
use stoker_api::worker::{State, Workers};
use stoker_api::{Request as _, pool};
use stoker_wire::{Codec, Status};

/// How long to wait for the server.
const PATIENCE: Duration = Duration::from_secs(5);
const TYPE: HeaderValue = HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");

pub(crate) async fn serve(
    gateway: &Rc<Gateway>,
    caller: Caller,
) -> Result<Response<Answer>, Problem> {
    let mut page = Page::default();
    let known = server(gateway, caller, &mut page).await;
    page.family("stoker_up", Kind::Gauge, "Whether the server answers.");
    page.sample(&[], u8::from(known.is_ok()));
    this_gateway(gateway, &mut page);
    let mut response = with_body(page.into_text().into());
    response.headers_mut().insert(CONTENT_TYPE, TYPE);
    Ok(response)
}

/// Adds the server's metrics. They are missing while the server restarts.
async fn server(gateway: &Rc<Gateway>, caller: Caller, page: &mut Page) -> Result<(), Problem> {
    let stats: ServerStats = request::<Stats>(gateway, caller).await?;
    let queues: Queues = request::<queue::List>(gateway, caller).await?;
    let workers: Workers = request::<stoker_api::worker::List>(gateway, caller).await?;
    of_loop(&stats, page);
    of_store(&stats, page);
    of_queues(&queues.queues, page);
    of_pools(&workers.pools, page);
    of_workers(&workers, page);
    Ok(())
}

async fn request<R: stoker_api::Request>(
    gateway: &Rc<Gateway>,
    caller: Caller,
) -> Result<R::Answer, Problem> {
    let body = format!("{{\"op\":\"{}\"}}", R::OP);
    let mut request = Request::new(R::METHOD, Codec::JSON, Bytes::from(body));
    request.may_be_repeated = true;
    request.timeout = Some(PATIENCE);
    let reply = gateway.client.request(caller.uid, &request).await?;
    if reply.status != Status::OK {
        return Err(Problem::of_reply(&reply));
    }
    let read = serde_json::from_slice(&reply.body);
    read.map_err(|error| Problem::invalid(format!("{} can't be read: {error}", Stats::METHOD)))
}

fn seconds(us: u64) -> f64 {
    us as f64 / 1e6
}

fn of_loop(stats: &ServerStats, page: &mut Page) {
    page.family(
        "stoker_loop_turns_total",
        Kind::Counter,
        "Turns of the data plane.",
    )
    .sample(&[], stats.turns);
    page.family(
        "stoker_loop_busy_seconds_total",
        Kind::Counter,
        "Time that they took.",
    )
    .sample(&[], seconds(stats.busy_us));
    page.family(
        "stoker_loop_longest_turn_seconds",
        Kind::Gauge,
        "The longest of them.",
    )
    .sample(&[], seconds(stats.max_lag_us));
    page.family(
        "stoker_connections",
        Kind::Gauge,
        "Open connections of clients and workers.",
    )
    .sample(&[], stats.connections);
    page.family(
        "stoker_memory_bytes",
        Kind::Gauge,
        "Bodies, jobs and answers in memory.",
    )
    .sample(&[], stats.memory_bytes);
    page.family(
        "stoker_memory_limit_bytes",
        Kind::Gauge,
        "How much that may be.",
    )
    .sample(&[], stats.max_memory_bytes);
    page.family(
        "stoker_store_memory_bytes",
        Kind::Gauge,
        "What the job store holds in memory.",
    )
    .sample(&[], stats.store_bytes);
    page.family(
        "stoker_store_durable",
        Kind::Gauge,
        "Whether jobs are kept on disk.",
    )
    .sample(&[], u8::from(stats.durable));
    page.family(
        "stoker_draining",
        Kind::Gauge,
        "Whether the server ends and takes nothing new.",
    )
    .sample(&[], u8::from(stats.draining));
}

fn of_store(stats: &ServerStats, page: &mut Page) {
    page.family(
        "stoker_store_commits_total",
        Kind::Counter,
        "Transactions of the job store, by their result.",
    )
    .sample(&[("result", "committed")], stats.store_commits)
    .sample(&[("result", "failed")], stats.store_failed_commits);
    page.family(
        "stoker_store_commit_seconds_total",
        Kind::Counter,
        "Time that they took, the disk's part included.",
    )
    .sample(&[], seconds(stats.store_commit_us));
    page.family(
        "stoker_store_file_bytes",
        Kind::Gauge,
        "Size of the job store's file.",
    )
    .sample(&[], stats.store_file_bytes);
    page.family(
        "stoker_store_journal_bytes",
        Kind::Gauge,
        "Size of its write-ahead log.",
    )
    .sample(&[], stats.store_journal_bytes);
}

fn kind_of(queue: &Queue) -> &'static str {
    match queue.kind {
        queue::Kind::Calls => "calls",
        _ => "jobs",
    }
}

fn of_queues(queues: &[Queue], page: &mut Page) {
    page.family(
        "stoker_queue_tasks",
        Kind::Gauge,
        "Unfinished jobs and calls by state, and failed jobs that are kept.",
    );
    for queue in queues {
        let states = [
            ("ready", Some(queue.ready)),
            ("delayed", Some(queue.delayed)),
            ("running", Some(queue.running)),
            ("suspended", queue.suspended),
            (
                "failed",
                (queue.kind != queue::Kind::Calls).then_some(queue.failed),
            ),
        ];
        for (state, count) in states {
            if let Some(count) = count {
                let kind = kind_of(queue);
                page.sample(
                    &[("queue", &queue.name), ("kind", kind), ("state", state)],
                    count,
                );
            }
        }
    }
    type Of = fn(&Queue) -> Option<u64>;
    let counters: [(&'static str, &str, Of); 4] = [
        (
            "stoker_queue_done_total",
            "Jobs and calls that were done.",
            |queue| Some(queue.done),
        ),
        (
            "stoker_queue_retried_total",
            "Runs of jobs that were followed by another one.",
            |queue| queue.retried,
        ),
        (
            "stoker_queue_cancelled_total",
            "Jobs that were cancelled.",
            |queue| queue.cancelled,
        ),
        (
            "stoker_queue_call_errors_total",
            "Calls that were not answered well.",
            |queue| (queue.kind == queue::Kind::Calls).then_some(queue.failed),
        ),
    ];
    for (name, help, of) in counters {
        page.family(name, Kind::Counter, help);
        for queue in queues {
            if let Some(count) = of(queue) {
                page.sample(&[("queue", &queue.name), ("kind", kind_of(queue))], count);
            }
        }
    }
    page.family(
        "stoker_queue_paused",
        Kind::Gauge,
        "Whether the queue is paused.",
    );
    for queue in queues {
        page.sample(
            &[("queue", &queue.name), ("kind", kind_of(queue))],
            u8::from(queue.paused),
        );
    }
    page.family(
        "stoker_queue_oldest_seconds",
        Kind::Gauge,
        "How long the oldest waits.",
    );
    for queue in queues {
        if let Some(ms) = queue.oldest_ms {
            page.sample(
                &[("queue", &queue.name), ("kind", kind_of(queue))],
                ms as f64 / 1e3,
            );
        }
    }
    percentiles(
        page,
        "stoker_queue_wait_recent_seconds",
        "How long tasks of the last minutes waited.",
        queues,
        |queue| &queue.wait_ms,
    );
    percentiles(
        page,
        "stoker_queue_run_recent_seconds",
        "How long tasks of the last minutes ran.",
        queues,
        |queue| &queue.run_ms,
    );
}

fn percentiles(
    page: &mut Page,
    name: &'static str,
    help: &str,
    queues: &[Queue],
    of: impl Fn(&Queue) -> &Percentiles,
) {
    page.family(name, Kind::Gauge, help);
    for queue in queues {
        let known = of(queue);
        for (percentile, ms) in [("50", known.p50), ("99", known.p99)] {
            if let Some(ms) = ms {
                let labels = [
                    ("queue", queue.name.as_str()),
                    ("kind", kind_of(queue)),
                    ("percentile", percentile),
                ];
                page.sample(&labels, ms / 1e3);
            }
        }
    }
}

fn of_pools(pools: &[pool::Pool], page: &mut Page) {
    type Of = fn(&pool::Pool) -> u64;
    let gauges: [(&'static str, &str, Of); 5] = [
        (
            "stoker_pool_min_workers",
            "The least workers that the pool keeps.",
            |pool| pool.min.into(),
        ),
        (
            "stoker_pool_max_workers",
            "The most workers that it may have.",
            |pool| pool.max.into(),
        ),
        (
            "stoker_pool_ready_workers",
            "Workers that wait for a task.",
            |pool| pool.ready as u64,
        ),
        (
            "stoker_pool_busy_workers",
            "Workers that run one.",
            |pool| pool.busy as u64,
        ),
        (
            "stoker_pool_healthy",
            "Whether its workers can start and its version is not blamed.",
            |pool| u64::from(pool.state == pool::Health::Healthy),
        ),
    ];
    for (name, help, of) in gauges {
        page.family(name, Kind::Gauge, help);
        for pool in pools {
            page.sample(&[("pool", &pool.name)], of(pool));
        }
    }
    page.family(
        "stoker_pool_restarts_total",
        Kind::Counter,
        "Workers that ended without having been told to.",
    );
    for pool in pools {
        page.sample(&[("pool", &pool.name)], pool.restarts);
    }
}

/// Adds the metrics of workers, summed by pool. One series per worker would create more and more series, because
/// workers are replaced.
fn of_workers(workers: &Workers, page: &mut Page) {
    const STATES: [(State, &str); 5] = [
        (State::Starting, "starting"),
        (State::Ready, "ready"),
        (State::Busy, "busy"),
        (State::Draining, "draining"),
        (State::Stopping, "stopping"),
    ];
    let mut counts: BTreeMap<(&str, &str), usize> = BTreeMap::new();
    let mut bytes: BTreeMap<&str, u64> = BTreeMap::new();
    let mut longest: BTreeMap<&str, u64> = BTreeMap::new();
    for worker in &workers.workers {
        let pool = worker.pool.as_str();
        let state = STATES.iter().find(|(state, _)| *state == worker.state);
        *counts
            .entry((pool, state.map_or("unknown", |(_, name)| name)))
            .or_default() += 1;
        *bytes.entry(pool).or_default() += worker.rss_bytes.unwrap_or(0);
        let elapsed = worker.task.as_ref().map_or(0, |task| task.elapsed_ms);
        let longest = longest.entry(pool).or_default();
        *longest = elapsed.max(*longest);
    }
    page.family("stoker_workers", Kind::Gauge, "Workers by state.");
    for ((pool, state), count) in counts {
        page.sample(&[("pool", pool), ("state", state)], count);
    }
    page.family(
        "stoker_workers_resident_bytes",
        Kind::Gauge,
        "Memory of a pool's workers and of what they started.",
    );
    for (pool, bytes) in bytes {
        page.sample(&[("pool", pool)], bytes);
    }
    page.family(
        "stoker_workers_longest_run_seconds",
        Kind::Gauge,
        "How long the longest of the present runs takes so far.",
    );
    for (pool, ms) in longest {
        page.sample(&[("pool", pool)], ms as f64 / 1e3);
    }
    page.family(
        "stoker_reported",
        Kind::Gauge,
        "What workers report, by the name that they give it.",
    );
    for metric in &workers.metrics {
        let labels = metric.labels.iter().map(|(label, value)| {
            let value = value
                .as_str()
                .map_or_else(|| value.to_string(), str::to_owned);
            format!("{label}={value}")
        });
        let labels = labels.collect::<Vec<_>>().join(",");
        page.sample(
            &[
                ("pool", &metric.pool),
                ("name", &metric.name),
                ("labels", &labels),
            ],
            metric.value,
        );
    }
}

fn this_gateway(gateway: &Gateway, page: &mut Page) {
    let (own, counters) = (&gateway.stats, gateway.client.counters());
    let gauges = [
        (
            "stoker_http_connections",
            "Open connections of clients.",
            gateway.connections.len(),
        ),
        (
            "stoker_http_requests_in_flight",
            "Requests that are being served.",
            own.in_flight.get(),
        ),
        (
            "stoker_http_memory_bytes",
            "Bodies of requests and answers in memory.",
            gateway.budget.used(),
        ),
        (
            "stoker_http_server_connections",
            "Open connections to the server.",
            gateway.client.connections(),
        ),
        (
            "stoker_http_server_requests_in_flight",
            "Requests that the server has not answered.",
            gateway.client.in_flight(),
        ),
    ];
    for (name, help, value) in gauges {
        page.family(name, Kind::Gauge, help).sample(&[], value);
    }
    let counts = [
        (
            "stoker_http_connections_total",
            "Connections that were accepted.",
            own.accepted.get(),
        ),
        (
            "stoker_http_timeouts_total",
            "Connections that were ended because their clients took too long.",
            own.timed_out.get(),
        ),
        (
            "stoker_http_received_bytes_total",
            "Bytes of requests.",
            own.received_bytes.get(),
        ),
        (
            "stoker_http_sent_bytes_total",
            "Bytes of the bodies of answers.",
            own.sent_bytes.get(),
        ),
        (
            "stoker_http_server_requests_total",
            "Requests to the server.",
            counters.requests.get(),
        ),
        (
            "stoker_http_server_retries_total",
            "Requests that were sent again because their connection was lost.",
            counters.retries.get(),
        ),
        (
            "stoker_http_server_lost_total",
            "Requests that were unanswered when their connection was lost.",
            counters.lost.get(),
        ),
        (
            "stoker_http_server_connects_total",
            "Connections that were made to the server.",
            counters.connects.get(),
        ),
        (
            "stoker_http_restarts_total",
            "How often the gateway's process was started again.",
            gateway.settings.restarts,
        ),
    ];
    for (name, help, value) in counts {
        page.family(name, Kind::Counter, help).sample(&[], value);
    }
    let routes = own.routes.borrow();
    page.family(
        "stoker_http_requests_total",
        Kind::Counter,
        "Requests that were answered.",
    );
    for (name, route) in routes.iter() {
        for (status, count) in &route.by_status {
            page.sample(&[("route", name), ("status", &status.to_string())], count);
        }
    }
    page.family(
        "stoker_http_request_duration_seconds",
        Kind::Histogram,
        "How long answers took.",
    );
    for (name, route) in routes.iter() {
        let mut count = 0;
        for (at, bound) in BOUNDS.iter().enumerate() {
            count += route.buckets[at];
            page.part(
                "_bucket",
                &[("route", name), ("le", &bound.to_string())],
                count,
            );
        }
        count += route.buckets[BOUNDS.len()];
        page.part("_bucket", &[("route", name), ("le", "+Inf")], count);
        page.part("_sum", &[("route", name)], route.seconds);
        page.part("_count", &[("route", name)], count);
    }
}
