//! Reports the data plane's progress to the angel.

use crate::clock::duration;
use crate::plane::Plane;
use std::time::Duration;
use stoker_angel::{Beat, Heartbeat, Stage, ToAngel};
use stoker_core::{Span, Time};

/// Reports per watchdog period, so that a slightly late report does not look like a stuck server.
const BEATS_PER_PERIOD: u64 = 3;
/// The time between two reports of a server that is draining, for which the angel's timeout is shorter.
const SHUTDOWN_BEAT_INTERVAL: Span = Span::from_secs(1);

/// Sends progress reports, and knows when the next one is due.
pub(crate) struct HeartbeatSender {
    memory: Heartbeat,
    count: u64,
    /// When the next report is due.
    pub(crate) due: Time,
}

impl HeartbeatSender {
    pub(crate) fn new(memory: Heartbeat) -> Self {
        let (count, due) = (0, Time::ZERO);
        Self { memory, count, due }
    }

    fn beat(&mut self, stage: Stage) {
        self.count += 1;
        let count = self.count;
        // If this fails, the angel considers the server stuck. There is nothing better to do.
        self.memory.beat(Beat { count, stage }).ok();
    }
}

impl Plane {
    /// Reports progress if a report is due. In most turns this costs one comparison.
    pub(crate) fn beat_if_due(&mut self) {
        if self.now >= self.angel.heartbeat.due {
            self.beat();
        }
    }

    /// Reports progress, and schedules the next report.
    pub(crate) fn beat(&mut self) {
        let is_draining = self.core.is_draining();
        self.angel.heartbeat.beat(match is_draining {
            true => Stage::Draining,
            false => Stage::Serving,
        });
        let pause = match (is_draining, self.config.watchdog) {
            (true, _) => SHUTDOWN_BEAT_INTERVAL,
            (false, Span::FOREVER) => Span::FOREVER,
            (false, watchdog) => Span(watchdog.0 / BEATS_PER_PERIOD),
        };
        self.angel.heartbeat.due = self.now + pause;
    }

    /// Reports the closing stage: from here on the job store and slow clients determine how long a turn takes.
    pub(crate) fn beat_before_closing(&mut self) {
        self.angel.heartbeat.beat(Stage::Closing);
    }

    /// Sends the timeouts that the angel applies to this server.
    pub(crate) fn send_timeouts(&mut self) {
        let watchdog = self.config.watchdog;
        let graces = self.config.pools.iter().map(|pool| pool.core.stop_grace);
        let stop_grace = graces.max().map_or(Duration::ZERO, duration);
        self.send_to_angel(&ToAngel::Timeouts {
            watchdog: (watchdog != Span::FOREVER).then(|| duration(watchdog)),
            stop_grace,
        });
    }
}
