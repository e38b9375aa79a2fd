//! A log that can't be written for a while, as on a slow disk: lines and output of workers pile up in the server, which
//! then reads less from the workers.

use crate::agenda::PlannedEvent;
use crate::dice::Dice;
use crate::world::World;
use stoker_os::steady;

/// The stalls of a seed's log.
pub(crate) struct LogStalls {
    dice: Dice,
    /// How often the log will still stall.
    left: u64,
    /// The maximum time between two stalls, in milliseconds.
    max_pause_ms: u64,
    /// The maximum duration of a stall, in milliseconds.
    max_stall_ms: u64,
    is_stalled: bool,
    /// Lines are still pending that were logged while it was stalled.
    is_late: bool,
}

impl LogStalls {
    pub(crate) fn draw(seed: u64) -> Self {
        let mut dice = Dice::of(seed, "log stalls");
        Self {
            left: *dice.one_of(&[0, 0, 0, 4, 20, 100]),
            max_pause_ms: *dice.one_of(&[5, 50, 1_000]),
            max_stall_ms: *dice.one_of(&[1, 20, 400]),
            is_stalled: false,
            is_late: false,
            dice,
        }
    }

    pub(crate) fn is_stalled(&self) -> bool {
        self.is_stalled
    }

    /// Whether lines that are written now may have been logged much earlier.
    pub(crate) fn is_late(&self) -> bool {
        self.is_late
    }
}

impl World {
    pub(crate) fn plan_log_stall(&mut self) {
        let stalls = &mut self.log_stalls;
        if stalls.left > 0 {
            stalls.left -= 1;
            let pause = stalls.dice.micros(1, 1_000 * stalls.max_pause_ms);
            self.agenda
                .plan(steady() + pause, PlannedEvent::LogStalls(true));
        }
    }

    pub(crate) fn log_stalls(&mut self, begins: bool) {
        self.log_stalls.is_stalled = begins;
        self.ledger.log_stalls = begins;
        self.log_stalls.is_late = true;
        if begins {
            let stalls = &mut self.log_stalls;
            let lasts = stalls.dice.micros(1, 1_000 * stalls.max_stall_ms);
            self.agenda
                .plan(steady() + lasts, PlannedEvent::LogStalls(false));
            return;
        }
        self.write_log();
        self.plan_log_stall();
    }

    /// Writes the log, unless it is stalled.
    pub(crate) fn write_log(&mut self) {
        let Some(server) = &mut self.server else {
            return;
        };
        if !self.log_stalls.is_stalled {
            let lines = server.write_log();
            self.check_kills(&lines);
            self.log_stalls.is_late &= !lines.is_empty();
            self.log.extend(lines);
        }
    }
}
