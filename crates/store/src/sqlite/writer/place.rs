//! Determines a new job's place in its lane.

use super::Writer;
use crate::id::places_after;
use crate::{JobId, NewJob};
use rusqlite::{OptionalExtension, params};

// The highest order number below a given one among the ready jobs of a lane. A parked job keeps its order
// number and never returns to its lane, so another job may have the same number.
const LAST: &str = "SELECT ord FROM jobs INDEXED BY waiting WHERE state = 0 AND queue = ?1 AND class = ?2 \
                    AND key = ?3 AND ord < ?4 ORDER BY ord DESC LIMIT 1";

impl Writer {
    /// The order number of a new job. Usually that is the job's id, which is the end of its lane. A job that
    /// was already due when it was pushed goes behind the jobs that came, or were due, up to its due time.
    pub(super) fn place_of_new(&self, new: &NewJob, id: JobId, now: u64) -> rusqlite::Result<u64> {
        if let Some(order) = new.order {
            return Ok(order);
        }
        if !new.is_overdue(now) {
            return Ok(id.0);
        }
        // Each millisecond has a limited number of places. If they are taken, the next millisecond is used.
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
