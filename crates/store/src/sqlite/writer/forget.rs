//! Deletes expired data: a little with every commit, the rest in slices in between.

use super::{Batch, Writer};
use crate::sqlite::kinds::signed;
use crate::sqlite::row_checksum::{ENDED, REMAINS};
use crate::sqlite::trouble::trouble;
use crate::{JobId, QueueNo, State, StoreEvent, Trouble};
use rusqlite::types::Value;
use rusqlite::{OptionalExtension, Statement, params};
use std::sync::LazyLock;
use std::time::Duration;

/// The maximum number of rows of each kind that one slice deletes.
const SLICE: usize = stoker_os::limit(256, 3);

/// The number of jobs above the retention limit at which commits start to delete them.
const MIN_EXCESS: u64 = 128;

/// The minimum time between two passes, milliseconds, so that keys that expire one after another are deleted
/// together.
const MIN_PASS_INTERVAL_MS: u64 = 1_000;

const OLDEST: &str =
    "SELECT no, at, ids FROM ages WHERE queue = ?1 AND kind = ?2 ORDER BY no LIMIT 1";
const OLDEST_ENDED_AT: &str =
    "SELECT at FROM ages WHERE queue = ?1 AND kind = ?2 ORDER BY no LIMIT 1";
const DROP_AGE: &str = "DELETE FROM ages WHERE queue = ?1 AND kind = ?2 AND no = ?3";
const CUT_AGE: &str = "UPDATE ages SET ids = ?4 WHERE queue = ?1 AND kind = ?2 AND no = ?3";
// A job that ended again after a retry has a later entry in `ages`, and so has a job that added to `history`
// or `kept` after its end: those rows are deleted with the later entry. KEPT is 2.
const FORGET: &str = "DELETE FROM ended WHERE queue = ?1 AND state = ?2 AND id = ?3 AND ended <= ?4 \
                      AND (?5 OR (notes = 0 AND marks & 2 = 0))";
const KEPT_UNTIL: &str = "SELECT max(until) FROM kept WHERE job = ?1 AND until > ?2";
static COPY_TO_REMAINS: LazyLock<String> = LazyLock::new(|| {
    ENDED.copy(
        "INSERT OR REPLACE",
        &REMAINS,
        &[("until", "?4")],
        &[],
        "queue = ?1 AND state = ?2 AND id = ?3 AND ended <= ?5",
    )
});
const FORGET_NOT_KEPT: &str = "DELETE FROM kept WHERE job = ?1 AND (until IS NULL OR until <= ?2)";
// Queries for expired rows, each with the statement that deletes one of them. As a single statement, SQLite
// would scan whole queues.
const EXPIRED: [(&str, &str); 4] = [
    (
        "SELECT queue, key FROM pushes WHERE until <= ?1 ORDER BY until LIMIT ?2",
        "DELETE FROM pushes WHERE queue = ?1 AND key = ?2",
    ),
    (
        "SELECT job, kind FROM kept WHERE until IS NOT NULL AND until <= ?1 ORDER BY until LIMIT ?2",
        "DELETE FROM kept WHERE job = ?1 AND kind = ?2",
    ),
    // Rows of `remains` go after the rows of `kept` that they are for, because the server may die between two
    // slices.
    (
        "SELECT id, until FROM remains WHERE until <= ?1 AND NOT EXISTS (SELECT 1 FROM kept WHERE job = id) \
         ORDER BY until LIMIT ?2",
        "DELETE FROM remains WHERE id = ?1 AND until = ?2",
    ),
    (
        "SELECT queue, key FROM uniques WHERE until IS NOT NULL AND until <= ?1 ORDER BY until LIMIT ?2",
        "DELETE FROM uniques WHERE queue = ?1 AND key = ?2",
    ),
];
const NEXT_EXPIRY: &str = "SELECT min(a, b, c, d) FROM (SELECT \
     ifnull((SELECT min(until) FROM remains), ?1) AS d, \
     ifnull((SELECT min(until) FROM pushes), ?1) AS a, \
     ifnull((SELECT min(until) FROM kept WHERE until IS NOT NULL), ?1) AS b, \
     ifnull((SELECT min(until) FROM uniques WHERE until IS NOT NULL), ?1) AS c)";

/// The highest bit of an entry in `ages`: the job has rows in `history` or `kept`.
const EVENTFUL: u64 = 1 << 63;

const STATES: [&[State]; 2] = [&[State::Done, State::Cancelled], &[State::Failed]];

impl Writer {
    /// Deletes about as many jobs as this commit added, so that nothing accumulates under load. Up to `MIN_EXCESS`
    /// jobs too many stay until there is time.
    pub(super) fn trim_excess(&mut self, batch: &Batch) -> rusqlite::Result<()> {
        let ended: Vec<(QueueNo, u8, usize)> = batch
            .ended
            .iter()
            .map(|((queue, kind), ids)| (*queue, *kind, ids.len() / 8))
            .collect();
        for (queue, kind, count) in ended {
            let (excess, keep_ms) = self.retention_of(queue, kind);
            let too_many = if excess > 0 {
                MIN_PASS_INTERVAL_MS
            } else {
                u64::MAX
            };
            self.schedule_expiry(batch.now.saturating_add(keep_ms.min(too_many)));
            if batch.trims_excess && excess >= MIN_EXCESS && self.trim_chore.is_due() {
                let done = self.forget_excess(queue, kind, 2 * count + SLICE, batch.now);
                self.trim_chore.record(done)?;
            }
        }
        Ok(())
    }

    /// The time until something expires.
    pub(super) fn time_to_expiry(&self) -> Duration {
        let wait = self.expiry_at.get().saturating_sub((self.clock)());
        Duration::from_millis(wait).max(self.expire_chore.time_left())
    }

    /// Makes sure that a pass is due by this time.
    pub(super) fn schedule_expiry(&self, at: u64) {
        self.expiry_at.set(self.expiry_at.get().min(at));
    }

    /// Deletes a slice of the expired data, if a pass is due.
    pub(super) fn delete_expired(&mut self) {
        if self.failing.is_some() || !self.time_to_expiry().is_zero() {
            return;
        }
        let mut next = 0;
        let done = self.transact(false, |writer, batch| {
            next = writer.forget(batch)?;
            Ok(())
        });
        match self.expire_chore.record(done) {
            Ok(_) => self.expiry_at.set(next),
            Err(error)
                if self.is_broken
                    || matches!(trouble(&error), Trouble::Full(_) | Trouble::Replaced(_)) =>
            {
                self.fail(&error);
            }
            Err(error) => {
                let text = format!("expired data can't be deleted: {error}");
                self.events.push(StoreEvent::Damage(text));
            }
        }
    }

    /// Returns when the next pass is due.
    fn forget(&mut self, batch: &mut Batch) -> rusqlite::Result<u64> {
        let now = batch.now;
        let mut budget = SLICE;
        for queue in (0..self.queues.len()).map(QueueNo) {
            for kind in 0..2 {
                budget -= self.forget_ended(queue, kind, budget, now)?;
            }
        }
        let mut is_over = budget > 0;
        for (expired, forget) in EXPIRED {
            is_over &= self.forget_expired(expired, forget, now)? < SLICE;
        }
        match is_over {
            true => self.next_expiry(now),
            false => Ok(now),
        }
    }

    fn forget_expired(&self, expired: &str, forget: &str, now: u64) -> rusqlite::Result<usize> {
        let mut expired = self.db.prepare_cached(expired)?;
        let keys = expired.query_map(params![now as i64, SLICE as i64], |row| {
            Ok((row.get::<_, Value>(0)?, row.get::<_, Value>(1)?))
        })?;
        let keys = keys.collect::<rusqlite::Result<Vec<_>>>()?;
        let mut forget = self.db.prepare_cached(forget)?;
        for (one, other) in &keys {
            forget.execute([one, other])?;
        }
        Ok(keys.len())
    }

    /// When something expires next.
    fn next_expiry(&self, now: u64) -> rusqlite::Result<u64> {
        let mut expires = self.db.prepare_cached(NEXT_EXPIRY)?;
        let mut first: u64 = expires.query_row([i64::MAX], |row| row.get(0))?;
        for queue in (0..self.queues.len()).map(QueueNo) {
            for kind in 0..2 {
                let (_, keep_ms) = self.retention_of(queue, kind);
                if let Some(at) = self.oldest_at(queue, kind)? {
                    first = first.min(at.saturating_add(keep_ms));
                }
            }
        }
        Ok(first.max(now + MIN_PASS_INTERVAL_MS))
    }

    fn oldest_at(&self, queue: QueueNo, kind: u8) -> rusqlite::Result<Option<u64>> {
        let mut oldest = self.db.prepare_cached(OLDEST_ENDED_AT)?;
        oldest
            .query_row(params![queue.0, kind], |row| row.get(0))
            .optional()
    }

    /// The number of jobs above the retention limit, and the retention time. The retention of a queue that
    /// has not been opened is unknown, so nothing of it is deleted.
    fn retention_of(&self, queue: QueueNo, kind: u8) -> (u64, u64) {
        let Some(of_queue) = self.queues.get(queue).filter(|of_queue| of_queue.is_open) else {
            return (0, u64::MAX);
        };
        let (tally, policy) = (&of_queue.tally, &of_queue.policy);
        match kind {
            0 => (tally.kept.saturating_sub(policy.done), policy.done_ms),
            _ => (
                tally.counts.failed.saturating_sub(policy.failed),
                policy.failed_ms,
            ),
        }
    }

    /// Deletes the oldest jobs that exceed the retention by count or age, examining at most `budget` entries.
    /// Returns the number of entries examined.
    fn forget_ended(
        &mut self,
        queue: QueueNo,
        kind: u8,
        budget: usize,
        now: u64,
    ) -> rusqlite::Result<usize> {
        let mut examined = self.forget_excess(queue, kind, budget, now)?;
        let (_, keep_ms) = self.retention_of(queue, kind);
        while examined < budget && keep_ms < u64::MAX {
            let oldest = self.oldest(queue, kind)?;
            let Some(oldest) = oldest.filter(|oldest| oldest.at.saturating_add(keep_ms) <= now)
            else {
                break;
            };
            let take = (oldest.ids.len() / 8).min(budget - examined);
            self.forget_some(queue, kind, &oldest, take, now)?;
            examined += take;
        }
        Ok(examined)
    }

    /// Like `forget_ended`, but by count only.
    fn forget_excess(
        &mut self,
        queue: QueueNo,
        kind: u8,
        budget: usize,
        now: u64,
    ) -> rusqlite::Result<usize> {
        let mut examined = 0;
        while examined < budget {
            let (excess, _) = self.retention_of(queue, kind);
            let Some(oldest) = (excess > 0)
                .then(|| self.oldest(queue, kind))
                .transpose()?
                .flatten()
            else {
                break;
            };
            let excess = usize::try_from(excess).unwrap_or(usize::MAX);
            let take = (oldest.ids.len() / 8).min(budget - examined).min(excess);
            self.forget_some(queue, kind, &oldest, take, now)?;
            examined += take;
        }
        Ok(examined)
    }

    fn oldest(&self, queue: QueueNo, kind: u8) -> rusqlite::Result<Option<Oldest>> {
        let mut oldest = self.db.prepare_cached(OLDEST)?;
        let row = oldest.query_row(params![queue.0, kind], |row| {
            Ok(Oldest {
                no: row.get(0)?,
                at: row.get(1)?,
                ids: row.get(2)?,
            })
        });
        row.optional()
    }

    /// Deletes the first `count` jobs of a row of `ages`.
    fn forget_some(
        &mut self,
        queue: QueueNo,
        kind: u8,
        oldest: &Oldest,
        count: usize,
        now: u64,
    ) -> rusqlite::Result<()> {
        let (ids, rest) = oldest.ids.split_at(count * 8);
        let mut forgotten = 0;
        // The statement is prepared once, because a lookup for each job would be a significant part of the
        // work.
        let mut forget = self.db.prepare_cached(FORGET)?;
        for entry in ids.chunks_exact(8).filter_map(|id| id.try_into().ok()) {
            let entry = u64::from_le_bytes(entry);
            let is_gone = self.forget_one(&mut forget, queue, kind, entry, oldest.at, now)?;
            forgotten += u64::from(is_gone);
        }
        drop(forget);
        self.queues
            .count_forgotten(queue, STATES[usize::from(kind)][0], forgotten);
        let no = oldest.no;
        match rest.is_empty() {
            true => self
                .db
                .prepare_cached(DROP_AGE)?
                .execute(params![queue.0, kind, no])?,
            false => self
                .db
                .prepare_cached(CUT_AGE)?
                .execute(params![queue.0, kind, no, rest])?,
        };
        Ok(())
    }

    /// Deletes the job of an entry in `ages`, if the job has not been retried or moved since.
    fn forget_one(
        &self,
        forget: &mut Statement<'_>,
        queue: QueueNo,
        kind: u8,
        entry: u64,
        at: u64,
        now: u64,
    ) -> rusqlite::Result<bool> {
        let (job, eventful) = (JobId(entry & !EVENTFUL), entry & EVENTFUL != 0);
        let until = match eventful {
            true => self.kept_until(job, now)?,
            false => None,
        };
        let mut is_gone = false;
        // Nearly all jobs of the first kind are done, so that state is tried before cancelled.
        for state in STATES[usize::from(kind)] {
            let (state, id, at) = (*state as u8, job.0 as i64, at as i64);
            if let Some(until) = until {
                let row = params![queue.0, state, id, signed(until), at];
                self.db.prepare_cached(&COPY_TO_REMAINS)?.execute(row)?;
            }
            is_gone = forget.execute(params![queue.0, state, id, at, eventful])? > 0;
            if is_gone {
                break;
            }
        }
        // If the job is elsewhere now, its other rows are kept.
        if eventful && (is_gone || !self.exists(job)?) {
            self.forget_not_kept(job, now)?;
        }
        Ok(is_gone)
    }

    fn exists(&self, job: JobId) -> rusqlite::Result<bool> {
        crate::sqlite::reader::find(&self.db, job).map(|view| view.is_some())
    }

    /// When the last of an ended job's data in `kept` expires.
    fn kept_until(&self, job: JobId, now: u64) -> rusqlite::Result<Option<u64>> {
        let mut kept_until = self.db.prepare_cached(KEPT_UNTIL)?;
        kept_until.query_row(params![job.0 as i64, now as i64], |row| row.get(0))
    }

    /// Deletes a job's history, and its rows in `kept` that have expired or have no expiry time.
    fn forget_not_kept(&self, job: JobId, now: u64) -> rusqlite::Result<()> {
        let row = params![job.0 as i64, now as i64];
        self.db.prepare_cached(FORGET_NOT_KEPT)?.execute(row)?;
        self.forget_history(job)
    }
}

/// The row of `ages` with the jobs of a queue that ended first.
struct Oldest {
    no: i64,
    at: u64,
    ids: Vec<u8>,
}
