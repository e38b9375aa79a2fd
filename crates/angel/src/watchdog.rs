//! Decides whether the server makes progress, from what it reports. It does no I/O and reads no clock.

use crate::heartbeat::{Beat, Stage};
use std::time::{Duration, Instant};

/// The number of checks in a row without progress after which a serving server counts as stuck.
const MAX_MISSES: u32 = 2;
/// The time between two checks of a server that is shutting down.
const CHECK_WHILE_ENDING: Duration = Duration::from_millis(500);
/// How long a server may go without progress after `stop_grace` is over: its next turn is due at any moment.
const MAX_SILENCE_ENDING: Duration = Duration::from_secs(5);
/// How long a server may go without progress while it closes its store, which a slow disk may delay.
const MAX_SILENCE_CLOSING: Duration = Duration::from_secs(20);
/// The `stop_grace` of a server that has not reported its own.
const DEFAULT_STOP_GRACE: Duration = Duration::from_secs(10);
/// The longest time until a check. It keeps an `Instant` from overflowing.
const MAX_INTERVAL: Duration = Duration::from_secs(365 * 86_400);

/// How long a server may go without progress.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Timeouts {
    /// The limit while it serves; `None` for no limit.
    pub(crate) watchdog: Option<Duration>,
    /// The time from the drain request until the server must have ended its workers.
    pub(crate) stop_grace: Duration,
}

impl Default for Timeouts {
    fn default() -> Self {
        Self {
            watchdog: None,
            stop_grace: DEFAULT_STOP_GRACE,
        }
    }
}

/// Checks one server process after another.
#[derive(Debug)]
pub(crate) struct Watchdog {
    timeouts: Timeouts,
    last: Beat,
    misses: u32,
    /// When the next check is due; `None` if no check is needed.
    due: Option<Instant>,
    ending: Option<Ending>,
}

/// A server that was asked to drain.
#[derive(Clone, Copy, Debug)]
struct Ending {
    asked: Instant,
    /// When the server last made progress since the request; `None` if it has not yet.
    last_progress: Option<Instant>,
}

impl Watchdog {
    pub(crate) fn new() -> Self {
        Self {
            timeouts: Timeouts::default(),
            last: Beat::default(),
            misses: 0,
            due: None,
            ending: None,
        }
    }

    /// Starts watching a new server, which has reported nothing yet.
    pub(crate) fn server_started(&mut self, now: Instant) {
        self.last = Beat::default();
        self.misses = 0;
        self.schedule_check(now);
    }

    /// Sets the limits that the server has reported.
    pub(crate) fn set_timeouts(&mut self, timeouts: Timeouts, now: Instant) {
        self.timeouts = timeouts;
        self.misses = 0;
        self.schedule_check(now);
    }

    /// Switches to the limits of a server that was asked to drain.
    pub(crate) fn on_drain_request(&mut self, now: Instant) {
        let last_progress = None;
        self.ending.get_or_insert(Ending {
            asked: now,
            last_progress,
        });
        self.schedule_check(now);
    }

    /// When to call [`Self::check`] next.
    pub(crate) fn due(&self) -> Option<Instant> {
        self.due
    }

    /// Compares the server's current report with the last one. If the server has made no progress for too
    /// long and should be killed, returns for how long.
    pub(crate) fn check(&mut self, beat: Beat, now: Instant) -> Option<Duration> {
        let due = self.due.filter(|due| *due <= now)?;
        let late = now - due;
        let made_progress = beat != std::mem::replace(&mut self.last, beat);
        // A late check means that the angel itself did not run: the machine was suspended, or both processes
        // were stopped. The server could not make progress in that time either.
        let late = (late >= self.period().min(Duration::from_secs(1))).then_some(late);
        let stuck = match &mut self.ending {
            Some(ending) => ending.check(beat.stage, made_progress, late, now, self.timeouts),
            None => {
                let is_miss = beat.stage == Stage::Serving && !made_progress && late.is_none();
                self.misses = if is_miss { self.misses + 1 } else { 0 };
                (self.misses >= MAX_MISSES).then(|| self.period() * MAX_MISSES)
            }
        };
        self.schedule_check(now);
        stuck
    }

    fn period(&self) -> Duration {
        match (self.ending, self.timeouts.watchdog) {
            (None, Some(watchdog)) => watchdog / MAX_MISSES,
            _ => CHECK_WHILE_ENDING,
        }
    }

    fn schedule_check(&mut self, now: Instant) {
        let is_needed = self.ending.is_some() || self.timeouts.watchdog.is_some();
        self.due = is_needed.then(|| now + self.period().min(MAX_INTERVAL));
    }
}

impl Ending {
    fn check(
        &mut self,
        stage: Stage,
        made_progress: bool,
        late: Option<Duration>,
        now: Instant,
        timeouts: Timeouts,
    ) -> Option<Duration> {
        if let Some(late) = late {
            self.asked += late;
            self.last_progress = self.last_progress.map(|last_progress| last_progress + late);
        }
        if made_progress {
            self.last_progress = Some(now);
        }
        let is_over = now.saturating_duration_since(self.asked) >= timeouts.stop_grace;
        let max_silence = match stage {
            _ if self.last_progress.is_none() => Duration::ZERO,
            Stage::Closing => MAX_SILENCE_CLOSING,
            _ => MAX_SILENCE_ENDING,
        };
        let silent = now.saturating_duration_since(self.last_progress.unwrap_or(self.asked));
        // `stop_grace` is time for the workers. A server that is shutting down reports every second until it
        // closes its store, so the watchdog's limit applies even while the grace lasts.
        let longest = timeouts.watchdog.map(|watchdog| watchdog.max(max_silence));
        let is_stuck = longest.is_some_and(|longest| silent >= longest);
        (is_stuck || is_over && silent >= max_silence).then_some(silent)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WATCHDOG: Duration = Duration::from_secs(60);
    const GRACE: Duration = Duration::from_secs(10);

    /// A server that is checked exactly when a check is due, or later.
    struct World {
        watchdog: Watchdog,
        now: Instant,
        beat: Beat,
    }

    impl World {
        fn new(watchdog: Option<Duration>) -> Self {
            let mut world = Self {
                watchdog: Watchdog::new(),
                now: Instant::now(),
                beat: Beat::default(),
            };
            world.watchdog.server_started(world.now);
            let stop_grace = GRACE;
            let timeouts = Timeouts {
                watchdog,
                stop_grace,
            };
            world.watchdog.set_timeouts(timeouts, world.now);
            world
        }

        fn beat(&mut self, stage: Stage) {
            self.beat = Beat {
                count: self.beat.count + 1,
                stage,
            };
        }

        fn check(&mut self, late: Duration) -> Option<Duration> {
            self.now = self.watchdog.due().expect("a check is planned") + late;
            self.watchdog.check(self.beat, self.now)
        }

        /// Runs checks until the server counts as stuck, and returns how long that took.
        fn until_stuck(&mut self) -> Duration {
            let began = self.now;
            for _ in 0..1_000 {
                if self.check(Duration::ZERO).is_some() {
                    return self.now - began;
                }
            }
            panic!("it never counts as stuck");
        }
    }

    #[test]
    fn two_checks_without_progress_mean_a_stuck_server() {
        let mut world = World::new(Some(WATCHDOG));
        world.beat(Stage::Serving);
        assert_eq!(world.check(Duration::ZERO), None);
        assert_eq!(world.check(Duration::ZERO), None, "the first miss");
        assert_eq!(world.check(Duration::ZERO), Some(WATCHDOG));
    }

    #[test]
    fn progress_resets_the_count_of_misses() {
        let mut world = World::new(Some(WATCHDOG));
        for _ in 0..20 {
            world.beat(Stage::Serving);
            assert_eq!(world.check(Duration::ZERO), None);
            assert_eq!(world.check(Duration::ZERO), None);
        }
    }

    #[test]
    fn a_booting_server_is_never_stuck() {
        let mut world = World::new(Some(WATCHDOG));
        for _ in 0..100 {
            assert_eq!(world.check(Duration::ZERO), None);
        }
    }

    #[test]
    fn a_late_check_does_not_count_as_a_miss() {
        let mut world = World::new(Some(WATCHDOG));
        world.beat(Stage::Serving);
        world.check(Duration::ZERO);
        for _ in 0..5 {
            assert_eq!(world.check(Duration::ZERO), None, "the first miss");
            assert_eq!(world.check(Duration::from_secs(3_600)), None, "a suspend");
        }
        assert_eq!(world.until_stuck(), WATCHDOG);
    }

    #[test]
    fn without_a_watchdog_checks_begin_with_the_drain_request() {
        let mut world = World::new(None);
        world.beat(Stage::Serving);
        assert_eq!(world.watchdog.due(), None);
        world.watchdog.on_drain_request(world.now);
        assert_eq!(world.until_stuck(), GRACE);
    }

    #[test]
    fn a_server_that_ignores_the_drain_request_is_stuck_after_stop_grace() {
        let mut world = World::new(Some(WATCHDOG));
        world.beat(Stage::Serving);
        world.check(Duration::ZERO);
        world.watchdog.on_drain_request(world.now);
        assert_eq!(world.until_stuck(), GRACE);
    }

    #[test]
    fn a_server_that_drains_slowly_but_makes_progress_is_not_stuck() {
        let mut world = World::new(Some(WATCHDOG));
        world.watchdog.on_drain_request(world.now);
        for _ in 0..100 {
            world.beat(Stage::Draining);
            assert_eq!(world.check(Duration::ZERO), None);
        }
        assert_eq!(world.until_stuck(), MAX_SILENCE_ENDING);
        let mut world = World::new(Some(WATCHDOG));
        world.watchdog.on_drain_request(world.now);
        world.beat(Stage::Closing);
        world.check(Duration::ZERO);
        assert_eq!(world.until_stuck(), MAX_SILENCE_CLOSING);
    }

    #[test]
    fn a_long_grace_does_not_hide_a_stuck_server() {
        let mut world = World::new(Some(WATCHDOG));
        let stop_grace = Duration::from_secs(3_600);
        let watchdog = Some(WATCHDOG);
        let timeouts = Timeouts {
            watchdog,
            stop_grace,
        };
        world.watchdog.set_timeouts(timeouts, world.now);
        world.watchdog.on_drain_request(world.now);
        for _ in 0..1_000 {
            world.beat(Stage::Draining);
            assert_eq!(world.check(Duration::ZERO), None);
        }
        assert_eq!(world.until_stuck(), WATCHDOG);
    }

    #[test]
    fn a_suspend_during_a_drain_extends_stop_grace() {
        let mut world = World::new(Some(WATCHDOG));
        world.watchdog.on_drain_request(world.now);
        assert_eq!(world.check(Duration::from_secs(3_600)), None);
        assert!(world.until_stuck() >= GRACE - CHECK_WHILE_ENDING);
    }
}
