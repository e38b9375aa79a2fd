use super::kinds::{UNIQUE, job_id, signed, to_json};
use super::{Batch, Effect, Writer};
use crate::{JobId, NewJob, Pushed, QueueNo, State, Trouble, Unique};
use rusqlite::{OptionalExtension, params};

const INSERT: &str = "INSERT INTO jobs (id, queue, state, class, key, ord, due, codec, marks, options, meta, \
                      body) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)";
const REPEATED: &str = "SELECT job FROM pushes WHERE queue = ?1 AND key = ?2 AND until > ?3";
const TAKEN: &str =
    "SELECT job FROM uniques WHERE queue = ?1 AND key = ?2 AND (until IS NULL OR until > ?3)";
const KEEP_PUSH: &str =
    "INSERT OR REPLACE INTO pushes (queue, key, job, until) VALUES (?1, ?2, ?3, ?4)";
// A key whose time is over is free. One that another job took meanwhile is that one's.
const TAKE: &str = "INSERT INTO uniques (queue, key, job, until) VALUES (?1, ?2, ?3, ?4) \
                    ON CONFLICT DO UPDATE SET job = excluded.job, until = excluded.until \
                    WHERE uniques.until <= ?5";

impl Writer {
    pub(super) fn push(&mut self, new: &NewJob, batch: &mut Batch) -> rusqlite::Result<Effect> {
        if self.queues.get(new.queue).is_none() {
            return Ok(Effect::Pushed(Pushed::Refused(Trouble::NotFound)));
        }
        if let Some(pushed) = self.standing_for(new, batch.now)? {
            return Ok(Effect::Pushed(pushed));
        }
        let state = match (new.suspended, new.due_ms > batch.now) {
            (true, _) => State::Suspended,
            (_, true) => State::Delayed,
            _ => State::Ready,
        };
        let id = self.ids.make(batch.now);
        self.insert(id, new, state, batch)?;
        self.keep_push(new, id, batch.now)?;
        Ok(Effect::Accepted { id, state })
    }

    /// Remembers which job answers the same push.
    pub(super) fn keep_push(&self, new: &NewJob, id: JobId, now: u64) -> rusqlite::Result<()> {
        if let Some(key) = &new.idempotency {
            let until = now.saturating_add(self.queues.keep(new.queue).idempotency_ms);
            self.expire(until);
            let mut keep = self.db.prepare_cached(KEEP_PUSH)?;
            keep.execute(params![new.queue.0, key, id.0 as i64, signed(until)])?;
        }
        Ok(())
    }

    /// The job that already stands for this push.
    fn standing_for(&self, new: &NewJob, now: u64) -> rusqlite::Result<Option<Pushed>> {
        if let Some(job) = self.repeats(new, now)? {
            return Ok(Some(Pushed::Repeated(job)));
        }
        match unique(new) {
            Some(unique) => {
                let mut taken = self.db.prepare_cached(TAKEN)?;
                let key = params![new.queue.0, unique.key, now as i64];
                Ok(taken.query_row(key, job_id).optional()?.map(Pushed::Taken))
            }
            None => Ok(None),
        }
    }

    /// The job that its idempotency key stands for.
    pub(super) fn repeats(&self, new: &NewJob, now: u64) -> rusqlite::Result<Option<JobId>> {
        let Some(key) = &new.idempotency else {
            return Ok(None);
        };
        let mut repeated = self.db.prepare_cached(REPEATED)?;
        repeated
            .query_row(params![new.queue.0, key, now as i64], job_id)
            .optional()
    }

    /// Adds a job to those that are to run.
    pub(super) fn insert(
        &mut self,
        id: JobId,
        new: &NewJob,
        state: State,
        batch: &mut Batch,
    ) -> rusqlite::Result<()> {
        let (meta, body) = new.bytes.split_at(new.meta_len);
        let due = new.due_ms.max(batch.now);
        let options = new.options.as_deref().map(to_json);
        let unique = unique(new);
        let mut insert = self.db.prepare_cached(INSERT)?;
        insert.execute(params![
            id.0 as i64,
            new.queue.0,
            state as u8,
            new.class,
            &*new.key,
            (state == State::Ready).then_some(id.0 as i64),
            signed(due),
            new.codec,
            if unique.is_some() { UNIQUE } else { 0 },
            options,
            (!meta.is_empty()).then_some(meta),
            body,
        ])?;
        if let Some(unique) = unique {
            self.take_unique(new.queue, unique, id, batch.now)?;
        }
        if state == State::Delayed {
            batch.wait_until(due);
        }
        self.queues.count(new.queue, state, 1);
        Ok(())
    }

    pub(super) fn take_unique(
        &self,
        queue: QueueNo,
        unique: &Unique,
        id: JobId,
        now: u64,
    ) -> rusqlite::Result<()> {
        let until = unique.for_ms.map(|ms| now.saturating_add(ms));
        if let Some(until) = until {
            self.expire(until);
        }
        let until = until.map(signed);
        let mut take = self.db.prepare_cached(TAKE)?;
        take.execute(params![queue.0, unique.key, id.0 as i64, until, now as i64])?;
        Ok(())
    }
}

fn unique(new: &NewJob) -> Option<&Unique> {
    new.options.as_ref()?.unique.as_ref()
}
