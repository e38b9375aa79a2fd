//! Decides whether the server makes progress, from what it reports. It does no I/O and reads no clock.

use crate::heartbeat::{Beat, Stage};
use std::time::{Duration, Instant};

/// The number of checks in a row without progress after which a serving server counts as stuck.
const MISSES: u32 = 2;
/// The time between two checks of a server that is shutting down.
const LOOK_WHILE_ENDING: Duration = Duration::from_millis(500);
/// How long a server may go without progress after `stop_grace` is over: its next turn is due at any moment.
const END_SILENCE: Duration = Duration::from_secs(5);
/// How long a server may go without progress while it closes its store, which a slow disk may delay.
const CLOSE_SILENCE: Duration = Duration::from_secs(20);
/// The `stop_grace` of a server that has not reported its own.
const DEFAULT_GRACE: Duration = Duration::from_secs(10);
/// The longest time until a check. It keeps an `Instant` from overflowing.
const LONGEST: Duration = Duration::from_secs(365 * 86_400);

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
            stop_grace: DEFAULT_GRACE,
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
    moved: Option<Instant>,
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
        self.plan(now);
    }

    /// Sets the limits that the server has reported.
    pub(crate) fn set_timeouts(&mut self, timeouts: Timeouts, now: Instant) {
        self.timeouts = timeouts;
        self.misses = 0;
        self.plan(now);
    }

    /// Switches to the limits of a server that was asked to drain.
    pub(crate) fn on_drain_request(&mut self, now: Instant) {
        let moved = None;
        self.ending.get_or_insert(Ending { asked: now, moved });
        self.plan(now);
    }

    /// When to call [`Self::look`] next.
    pub(crate) fn due(&self) -> Option<Instant> {
        self.due
    }

    /// Compares the server's present report with the last one. If the server has made no progress for too
    /// long and should be killed, returns for how long.
    pub(crate) fn look(&mut self, beat: Beat, now: Instant) -> Option<Duration> {
        let due = self.due.filter(|due| *due <= now)?;
        let late = now - due;
        let has_moved = beat != std::mem::replace(&mut self.last, beat);
        // A late check means that the angel itself did not run: the machine was suspended, or both processes
        // were stopped. The server could not make progress in that time either.
        let late = (late >= self.period().min(Duration::from_secs(1))).then_some(late);
        let stuck = match &mut self.ending {
            Some(ending) => ending.look(beat.stage, has_moved, late, now, self.timeouts),
            None => {
                let is_miss = beat.stage == Stage::Serving && !has_moved && late.is_none();
                self.misses = if is_miss { self.misses + 1 } else { 0 };
                (self.misses >= MISSES).then(|| self.period() * MISSES)
            }
        };
        self.plan(now);
        stuck
    }

    fn period(&self) -> Duration {
        match (self.ending, self.timeouts.watchdog) {
            (None, Some(watchdog)) => watchdog / MISSES,
            _ => LOOK_WHILE_ENDING,
        }
    }

    fn plan(&mut self, now: Instant) {
        let is_needed = self.ending.is_some() || self.timeouts.watchdog.is_some();
        self.due = is_needed.then(|| now + self.period().min(LONGEST));
    }
}

impl Ending {
    fn look(
        &mut self,
        stage: Stage,
        has_moved: bool,
        late: Option<Duration>,
        now: Instant,
        timeouts: Timeouts,
    ) -> Option<Duration> {
        if let Some(late) = late {
            self.asked += late;
            self.moved = self.moved.map(|moved| moved + late);
        }
        if has_moved {
            self.moved = Some(now);
        }
        let is_over = now.saturating_duration_since(self.asked) >= timeouts.stop_grace;
        let patience = match stage {
            _ if self.moved.is_none() => Duration::ZERO,
            Stage::Closing => CLOSE_SILENCE,
            _ => END_SILENCE,
        };
        let silent = now.saturating_duration_since(self.moved.unwrap_or(self.asked));
        // `stop_grace` is time for the workers. A server that is shutting down reports every second until it
        // closes its store, so the watchdog's limit applies even while the grace lasts.
        let longest = timeouts.watchdog.map(|watchdog| watchdog.max(patience));
        let is_stuck = longest.is_some_and(|longest| silent >= longest);
        (is_stuck || is_over && silent >= patience).then_some(silent)
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

        fn look(&mut self, late: Duration) -> Option<Duration> {
            self.now = self.watchdog.due().expect("a look is planned") + late;
            self.watchdog.look(self.beat, self.now)
        }

        /// Runs checks until the server counts as stuck, and returns how long that took.
        fn until_stuck(&mut self) -> Duration {
            let began = self.now;
            for _ in 0..1_000 {
                if self.look(Duration::ZERO).is_some() {
                    return self.now - began;
                }
            }
            panic!("it never counts as stuck");
        }
    }

    #[test]
    fn two_missed_looks_are_a_stuck_server() {
        let mut world = World::new(Some(WATCHDOG));
        world.beat(Stage::Serving);
        assert_eq!(world.look(Duration::ZERO), None);
        assert_eq!(world.look(Duration::ZERO), None, "the first miss");
        assert_eq!(world.look(Duration::ZERO), Some(WATCHDOG));
    }

    #[test]
    fn progress_between_two_misses_starts_the_count_anew() {
        let mut world = World::new(Some(WATCHDOG));
        for _ in 0..20 {
            world.beat(Stage::Serving);
            assert_eq!(world.look(Duration::ZERO), None);
            assert_eq!(world.look(Duration::ZERO), None);
        }
    }

    #[test]
    fn a_server_that_boots_may_take_its_time() {
        let mut world = World::new(Some(WATCHDOG));
        for _ in 0..100 {
            assert_eq!(world.look(Duration::ZERO), None);
        }
    }

    #[test]
    fn the_angels_own_lateness_is_not_the_servers() {
        let mut world = World::new(Some(WATCHDOG));
        world.beat(Stage::Serving);
        world.look(Duration::ZERO);
        for _ in 0..5 {
            assert_eq!(world.look(Duration::ZERO), None, "the first miss");
            assert_eq!(world.look(Duration::from_secs(3_600)), None, "a suspend");
        }
        assert_eq!(world.until_stuck(), WATCHDOG);
    }

    #[test]
    fn without_a_watchdog_nothing_is_looked_at_before_the_end() {
        let mut world = World::new(None);
        world.beat(Stage::Serving);
        assert_eq!(world.watchdog.due(), None);
        world.watchdog.on_drain_request(world.now);
        assert_eq!(world.until_stuck(), GRACE);
    }

    #[test]
    fn a_server_that_ignores_the_request_to_end_has_the_grace() {
        let mut world = World::new(Some(WATCHDOG));
        world.beat(Stage::Serving);
        world.look(Duration::ZERO);
        world.watchdog.on_drain_request(world.now);
        assert_eq!(world.until_stuck(), GRACE);
    }

    #[test]
    fn a_server_that_ends_slowly_but_moves_is_left_alone() {
        let mut world = World::new(Some(WATCHDOG));
        world.watchdog.on_drain_request(world.now);
        for _ in 0..100 {
            world.beat(Stage::Draining);
            assert_eq!(world.look(Duration::ZERO), None);
        }
        assert_eq!(world.until_stuck(), END_SILENCE);
        let mut world = World::new(Some(WATCHDOG));
        world.watchdog.on_drain_request(world.now);
        world.beat(Stage::Closing);
        world.look(Duration::ZERO);
        assert_eq!(world.until_stuck(), CLOSE_SILENCE);
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
            assert_eq!(world.look(Duration::ZERO), None);
        }
        assert_eq!(world.until_stuck(), WATCHDOG);
    }

    #[test]
    fn a_suspend_while_it_ends_lengthens_the_grace() {
        let mut world = World::new(Some(WATCHDOG));
        world.watchdog.on_drain_request(world.now);
        assert_eq!(world.look(Duration::from_secs(3_600)), None);
        assert!(world.until_stuck() >= GRACE - LOOK_WHILE_ENDING);
    }
}
