//! Where in its lane a new job goes.

use super::Writer;
use crate::id::places_after;
use crate::{JobId, NewJob};
use rusqlite::{OptionalExtension, params};

// The last place below a given one that a ready job has. A parked job keeps its own and never goes back to its lane,
// so another job may have the same place.
const LAST: &str = "SELECT ord FROM jobs INDEXED BY waiting WHERE state = 0 AND queue = ?1 AND class = ?2 \
                    AND key = ?3 AND ord < ?4 ORDER BY ord DESC LIMIT 1";

impl Writer {
    /// Mostly the end, which is the job's own number. One that was due before it was pushed goes behind those that
    /// came up to then, or were due up to then.
    pub(super) fn place_of_new(&self, new: &NewJob, id: JobId, now: u64) -> rusqlite::Result<u64> {
        if let Some(order) = new.order {
            return Ok(order);
        }
        if !new.is_overdue(now) {
            return Ok(id.0);
        }
        // A millisecond has only so many places; the next one has others.
        for ms in new.due_ms..now {
            let places = places_after(ms);
            let last = self.last_below(new, places.end)?;
            let next = last.map_or(0, |last| last + 1).max(places.start);
            if next < places.end {
                return Ok(next);
            }
        }
        Ok(id.0)
    }

    fn last_below(&self, new: &NewJob, below: u64) -> rusqlite::Result<Option<u64>> {
        let mut last = self.db.prepare_cached(LAST)?;
        let lane = params![new.queue.0, new.class, new.key, below as i64];
        last.query_row(lane, |row| row.get(0)).optional()
    }
}
