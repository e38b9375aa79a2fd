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
use stoker_api::pool;
use stoker_api::queue::{self, Percentiles, Queue, Queues};
use stoker_api::server::{ServerStats, Stats};
use stoker_api::worker::{State, Workers};
use stoker_wire::{Codec, Status};

/// How long to wait for the server.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(5);
const EXPOSITION_TYPE: HeaderValue =
    HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");

pub(crate) async fn serve(
    gateway: &Rc<Gateway>,
    caller: Caller,
) -> Result<Response<Answer>, Problem> {
    let mut page = Page::default();
    let known = write_server(gateway, caller, &mut page).await;
    page.family("stoker_up", Kind::Gauge, "Whether the server answers.");
    page.sample(&[], u8::from(known.is_ok()));
    write_gateway(gateway, &mut page);
    let mut response = with_body(page.into_text().into());
    response.headers_mut().insert(CONTENT_TYPE, EXPOSITION_TYPE);
    Ok(response)
}

/// Adds the server's metrics. They are missing while the server restarts.
async fn write_server(
    gateway: &Rc<Gateway>,
    caller: Caller,
    page: &mut Page,
) -> Result<(), Problem> {
    let stats: ServerStats = request::<Stats>(gateway, caller).await?;
    let queues: Queues = request::<queue::List>(gateway, caller).await?;
    let workers: Workers = request::<stoker_api::worker::List>(gateway, caller).await?;
    write_loop(&stats, page);
    write_reported_by_gateways(&stats, page);
    write_store(&stats, page);
    write_queues(&queues.queues, page);
    write_pools(&workers.pools, page);
    write_workers(&workers, page);
    Ok(())
}

async fn request<R: stoker_api::Request>(
    gateway: &Rc<Gateway>,
    caller: Caller,
) -> Result<R::Answer, Problem> {
    let body = format!("{{\"op\":\"{}\"}}", R::OP);
    let mut request = Request::new(R::METHOD, Codec::JSON, Bytes::from(body));
    request.is_repeatable = true;
    request.timeout = Some(REQUEST_TIMEOUT);
    let reply = gateway.client.request(caller.uid, &request).await?;
    if reply.status != Status::OK {
        return Err(Problem::of_reply(&reply));
    }
    let read = serde_json::from_slice(&reply.body);
    read.map_err(|error| Problem::invalid(format!("{} can't be read: {error}", R::METHOD)))
}

fn seconds(us: u64) -> f64 {
    us as f64 / 1e6
}

fn write_loop(stats: &ServerStats, page: &mut Page) {
    page.family(
        "stoker_loop_turns_total",
        Kind::Counter,
        "Iterations of the server's event loop.",
    )
    .sample(&[], stats.turns);
    page.family(
        "stoker_loop_busy_seconds_total",
        Kind::Counter,
        "Total time of all iterations of the event loop.",
    )
    .sample(&[], seconds(stats.busy_us));
    page.family(
        "stoker_loop_longest_turn_seconds",
        Kind::Gauge,
        "Longest iteration of the event loop.",
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
        "Memory used by payloads, jobs and answers.",
    )
    .sample(&[], stats.memory_bytes);
    page.family(
        "stoker_memory_limit_bytes",
        Kind::Gauge,
        "Limit of stoker_memory_bytes.",
    )
    .sample(&[], stats.max_memory_bytes);
    page.family(
        "stoker_store_memory_bytes",
        Kind::Gauge,
        "Memory used by the job store.",
    )
    .sample(&[], stats.store_bytes);
    page.family(
        "stoker_store_durable",
        Kind::Gauge,
        "Whether jobs are stored on disk.",
    )
    .sample(&[], u8::from(stats.durable));
    page.family(
        "stoker_draining",
        Kind::Gauge,
        "Whether the server is shutting down.",
    )
    .sample(&[], u8::from(stats.draining));
}

fn write_store(stats: &ServerStats, page: &mut Page) {
    page.family(
        "stoker_store_commits_total",
        Kind::Counter,
        "Commits of the job store by result.",
    )
    .sample(&[("result", "committed")], stats.store_commits)
    .sample(&[("result", "failed")], stats.store_failed_commits);
    page.family(
        "stoker_store_commit_seconds_total",
        Kind::Counter,
        "Total time of commits, including disk writes.",
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
        "Size of the job store's write-ahead log.",
    )
    .sample(&[], stats.store_journal_bytes);
}

fn kind_of(queue: &Queue) -> &'static str {
    match queue.kind {
        queue::Kind::Calls => "calls",
        _ => "jobs",
    }
}

fn write_queues(queues: &[Queue], page: &mut Page) {
    page.family(
        "stoker_queue_tasks",
        Kind::Gauge,
        "Unfinished jobs and calls by state, and stored failed jobs.",
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
            "Jobs and calls that succeeded.",
            |queue| Some(queue.done),
        ),
        (
            "stoker_queue_retried_total",
            "Runs of jobs that were retried.",
            |queue| queue.retried,
        ),
        (
            "stoker_queue_cancelled_total",
            "Jobs that were cancelled.",
            |queue| queue.cancelled,
        ),
        (
            "stoker_queue_call_errors_total",
            "Calls that failed.",
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
        "Age of the oldest waiting task.",
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
        "Waiting time of recent tasks.",
        queues,
        |queue| &queue.wait_ms,
    );
    percentiles(
        page,
        "stoker_queue_run_recent_seconds",
        "Run time of recent tasks.",
        queues,
        |queue| &queue.run_ms,
    );
}

fn percentiles(
    page: &mut Page,
    name: &'static str,
    help: &str,
    queues: &[Queue],
    percentiles_of: impl Fn(&Queue) -> &Percentiles,
) {
    page.family(name, Kind::Gauge, help);
    for queue in queues {
        let known = percentiles_of(queue);
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

fn write_pools(pools: &[pool::Pool], page: &mut Page) {
    type Of = fn(&pool::Pool) -> u64;
    let gauges: [(&'static str, &str, Of); 5] = [
        (
            "stoker_pool_min_workers",
            "Minimum number of workers of the pool.",
            |pool| pool.min.into(),
        ),
        (
            "stoker_pool_max_workers",
            "Maximum number of workers of the pool.",
            |pool| pool.max.into(),
        ),
        (
            "stoker_pool_ready_workers",
            "Workers that are ready for a task.",
            |pool| pool.ready as u64,
        ),
        (
            "stoker_pool_busy_workers",
            "Workers that run a task.",
            |pool| pool.busy as u64,
        ),
        (
            "stoker_pool_healthy",
            "Whether the pool's workers can start and its version does not crash on many tasks.",
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
        "stoker_pool_tasks_per_worker",
        Kind::Gauge,
        "Tasks that a worker currently runs before it ends.",
    );
    for pool in pools {
        if let Some(tasks) = pool.tasks_per_worker {
            page.sample(&[("pool", &pool.name)], tasks);
        }
    }
    page.family(
        "stoker_pool_restarts_total",
        Kind::Counter,
        "Workers that ended unexpectedly.",
    );
    for pool in pools {
        page.sample(&[("pool", &pool.name)], pool.restarts);
    }
}

/// Adds the metrics of workers, summed by pool. One series per worker would create more and more series, because
/// workers are replaced.
fn write_workers(workers: &Workers, page: &mut Page) {
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
        "Resident memory of the pool's workers and of their child processes.",
    );
    for (pool, bytes) in bytes {
        page.sample(&[("pool", pool)], bytes);
    }
    page.family(
        "stoker_workers_longest_run_seconds",
        Kind::Gauge,
        "Duration of the longest current run.",
    );
    for (pool, ms) in longest {
        page.sample(&[("pool", pool)], ms as f64 / 1e3);
    }
    page.family(
        "stoker_reported",
        Kind::Gauge,
        "Metrics reported by workers.",
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

fn write_reported_by_gateways(stats: &ServerStats, page: &mut Page) {
    let help = "Metrics that other gateways report.";
    page.family("stoker_gateway", Kind::Gauge, help);
    for metric in &stats.gateways {
        let labels = [("gateway", &*metric.gateway), ("name", &*metric.name)];
        page.sample(&labels, metric.value);
    }
}

fn write_gateway(gateway: &Gateway, page: &mut Page) {
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
            "Memory used by bodies of requests and responses.",
            gateway.budget.used(),
        ),
        (
            "stoker_http_server_connections",
            "Open connections to the server.",
            gateway.client.connections(),
        ),
        (
            "stoker_http_server_requests_in_flight",
            "Requests that the server has not answered yet.",
            gateway.client.in_flight(),
        ),
    ];
    for (name, help, value) in gauges {
        page.family(name, Kind::Gauge, help).sample(&[], value);
    }
    let counts = [
        (
            "stoker_http_connections_total",
            "Connections accepted.",
            own.accepted.get(),
        ),
        (
            "stoker_http_timeouts_total",
            "Connections closed because of a timeout.",
            own.timed_out.get(),
        ),
        (
            "stoker_http_received_bytes_total",
            "Bytes received.",
            own.received_bytes.get(),
        ),
        (
            "stoker_http_sent_bytes_total",
            "Bytes of response bodies sent.",
            own.sent_bytes.get(),
        ),
        (
            "stoker_http_server_requests_total",
            "Requests to the server.",
            counters.requests.get(),
        ),
        (
            "stoker_http_server_retries_total",
            "Requests sent again because the connection to the server was lost.",
            counters.retries.get(),
        ),
        (
            "stoker_http_server_lost_total",
            "Requests without an answer when the connection to the server was lost.",
            counters.lost.get(),
        ),
        (
            "stoker_http_server_connects_total",
            "Connections opened to the server.",
            counters.connects.get(),
        ),
        (
            "stoker_http_restarts_total",
            "Restarts of the gateway process.",
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
        "Requests answered.",
    );
    for (name, route) in routes.iter() {
        for (status, count) in &route.by_status {
            page.sample(&[("route", name), ("status", &status.to_string())], count);
        }
    }
    page.family(
        "stoker_http_request_duration_seconds",
        Kind::Histogram,
        "Duration of requests.",
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
