//! The server's own stats.

use super::{Answered, Caller, Handle};
use crate::plane::Plane;
use stoker_api::server::{GatewayMetric, ServerStats, Stats};

impl Handle for Stats {
    fn handle(self, plane: &mut Plane, _: Caller) -> Answered<ServerStats> {
        let store = plane.jobs.store.stats();
        let gateways = plane.stats.gateway_metrics.list().into_iter();
        let gateways = gateways.map(|metric| GatewayMetric {
            gateway: metric.pool,
            name: metric.name,
            value: metric.value,
        });
        Ok(Some(ServerStats {
            turns: plane.stats.turns,
            busy_us: plane.stats.busy_us,
            max_lag_us: plane.stats.max_lag_us,
            connections: plane.peers.conns.ids().len(),
            memory_bytes: plane.bytes_held(),
            max_memory_bytes: plane.config.max_memory,
            store_bytes: plane.jobs.store.bytes(),
            store_commits: store.commits,
            store_failed_commits: store.failed_commits,
            store_commit_us: store.commit_us,
            store_file_bytes: store.file_bytes,
            store_journal_bytes: store.journal_bytes,
            durable: plane.jobs.store.capabilities().durable,
            draining: plane.core.is_draining(),
            gateways: gateways.collect(),
        }))
    }
}
