//! Accepting jobs.

use super::multi_row::{MultiRowStatement, Parameters};
use super::{Batch, Effect, Writer};
use crate::sqlite::kinds::{DELAY, UNIQUE, owner, signed, to_json};
use crate::sqlite::row_checksum::{self, JOBS, PUSHES, UNIQUES};
use crate::{
    Holder, JobId, NewJob, Pushed, QueueNo, State, StoreRequest, Trouble, Unique, checksum,
};
use rusqlite::types::ValueRef;
use rusqlite::{OptionalExtension, Row, params};
use std::sync::LazyLock;

// OR FAIL: an error undoes the whole transaction anyway, so SQLite need not be able to undo half of a
// statement.
static INSERT: LazyLock<MultiRowStatement<15>> = LazyLock::new(|| {
    MultiRowStatement::new(|rows| {
        format!(
            "INSERT OR FAIL INTO jobs (id, queue, state, class, key, ord, due, codec, marks, options, owner, \
             meta, body, checksum, payload_checksum) {rows}"
        )
    })
});
static REPEATED: LazyLock<String> = LazyLock::new(|| {
    format!(
        "SELECT job, owner, {}, body_checksum FROM pushes WHERE queue = ?1 AND key = ?2 AND until > ?3",
        PUSHES.damaged_sql()
    )
});
static TAKEN: LazyLock<String> = LazyLock::new(|| {
    format!(
        "SELECT job, (SELECT owner FROM jobs WHERE id = uniques.job), {} FROM uniques \
         WHERE queue = ?1 AND key = ?2 AND (until IS NULL OR until > ?3)",
        UNIQUES.damaged_sql()
    )
});
static KEEP_PUSH: LazyLock<String> =
    LazyLock::new(|| PUSHES.insert("INSERT OR REPLACE", &["?1", "?2", "?3", "?4", "?5", "?6"]));
// A key that has expired is free. A key that another job took in the meantime stays with that job.
static TAKE: LazyLock<String> = LazyLock::new(|| {
    let insert = UNIQUES.insert("INSERT", &["?1", "?2", "?3", "?4"]);
    format!(
        "{insert} ON CONFLICT DO UPDATE SET job = excluded.job, until = excluded.until, \
         checksum = excluded.checksum WHERE uniques.until <= ?5"
    )
});

impl Writer {
    /// Accepts the leading requests that are pushes without idempotency or unique keys, using few statements.
    /// Returns their number.
    pub(super) fn push_plain_jobs(
        &mut self,
        requests: &[StoreRequest],
        batch: &mut Batch,
    ) -> rusqlite::Result<usize> {
        let (queues, now) = (self.queues.len(), batch.now);
        let plain = |request: &StoreRequest| match request {
            StoreRequest::Push { job, .. } => job.queue.0 < queues && is_plain(job, now),
            _ => false,
        };
        let count = requests.iter().take_while(|request| plain(request)).count();
        INSERT.execute(&self.db, requests[..count].iter(), |request, parameters| {
            if let StoreRequest::Push { job: new, .. } = request {
                let (id, state) = (self.ids.make(now), state_of(new, now));
                bind_row(parameters, id, new, state, id.0, batch)?;
                self.queues.adjust_count(new.queue, state, 1);
                batch.effects.push(Effect::Accepted {
                    id,
                    state,
                    order: id.0,
                });
            }
            Ok(())
        })?;
        Ok(count)
    }

    pub(super) fn push(&mut self, new: &NewJob, batch: &mut Batch) -> rusqlite::Result<Effect> {
        if self.queues.get(new.queue).is_none() {
            return Ok(Effect::Pushed(Pushed::Rejected(Trouble::NotFound)));
        }
        if let Some(pushed) = self.find_existing(new, batch.now)? {
            return Ok(Effect::Pushed(pushed));
        }
        let (id, state) = (self.ids.make(batch.now), state_of(new, batch.now));
        let order = self.insert(id, new, state, batch)?;
        self.record_push(new, id, batch.now)?;
        Ok(Effect::Accepted { id, state, order })
    }

    /// Records the push's idempotency key, so that a repeated push is recognised.
    pub(super) fn record_push(&self, new: &NewJob, id: JobId, now: u64) -> rusqlite::Result<()> {
        if let Some(key) = &new.idempotency {
            let until = now.saturating_add(self.queues.policy(new.queue).idempotency_ms);
            self.schedule_expiry(until);
            let mut statement = self.db.prepare_cached(&KEEP_PUSH)?;
            let body = checksum::of_body(new.body()) as i64;
            let owner = new.owner.as_deref();
            statement.execute(params![
                new.queue.0,
                key,
                id.0 as i64,
                signed(until),
                owner,
                body
            ])?;
        }
        Ok(())
    }

    /// The result of a push whose idempotency key or unique key belongs to an existing job.
    fn find_existing(&self, new: &NewJob, now: u64) -> rusqlite::Result<Option<Pushed>> {
        if let Some((holder, same_body)) = self.find_repeated_push(new, now)? {
            return Ok(Some(Pushed::Repeated { holder, same_body }));
        }
        match unique(new).filter(|_| new.order.is_none()) {
            Some(unique) => {
                let holder = self.holder(new.queue, unique, now)?;
                Ok(holder.map(Pushed::Taken))
            }
            None => Ok(None),
        }
    }

    /// The job that the push's idempotency key belongs to, and whether that job's push had the same body.
    pub(super) fn find_repeated_push(
        &self,
        new: &NewJob,
        now: u64,
    ) -> rusqlite::Result<Option<(Holder, bool)>> {
        let Some(key) = &new.idempotency else {
            return Ok(None);
        };
        let mut repeated = self.db.prepare_cached(&REPEATED)?;
        repeated
            .query_row(params![new.queue.0, key, now as i64], |row| {
                let body: Option<i64> = row.get(3)?;
                let same = |body| body == checksum::of_body(new.body()) as i64;
                Ok((holder(row)?, body.is_none_or(same)))
            })
            .optional()
    }

    /// Inserts an unfinished job. Returns its place in its lane.
    pub(super) fn insert(
        &mut self,
        id: JobId,
        new: &NewJob,
        state: State,
        batch: &mut Batch,
    ) -> rusqlite::Result<u64> {
        let order = match state {
            State::Ready => self.place_of_new(new, id, batch.now)?,
            _ => 0,
        };
        INSERT.execute(&self.db, std::iter::once(id), |id, parameters| {
            bind_row(parameters, id, new, state, order, batch)
        })?;
        if let Some(unique) = unique(new) {
            self.take_unique(new.queue, unique, id, batch.now)?;
        }
        self.queues.adjust_count(new.queue, state, 1);
        Ok(order)
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
            self.schedule_expiry(until);
        }
        self.take_unique_until(queue, &unique.key, id, until.map(signed), now)
    }

    pub(super) fn take_unique_until(
        &self,
        queue: QueueNo,
        key: &str,
        id: JobId,
        until: Option<i64>,
        now: u64,
    ) -> rusqlite::Result<()> {
        let mut take = self.db.prepare_cached(&TAKE)?;
        take.execute(params![queue.0, key, id.0 as i64, until, now as i64])?;
        Ok(())
    }

    /// The unfinished job that holds a unique key.
    pub(super) fn holder(
        &self,
        queue: QueueNo,
        unique: &Unique,
        now: u64,
    ) -> rusqlite::Result<Option<Holder>> {
        let mut taken = self.db.prepare_cached(&TAKEN)?;
        let key = params![queue.0, unique.key, now as i64];
        taken.query_row(key, holder).optional()
    }
}

fn holder(row: &Row<'_>) -> rusqlite::Result<Holder> {
    if row.get(2)? {
        return Err(row_checksum::checksum_error("uniques or pushes"));
    }
    Ok(Holder {
        job: JobId(row.get(0)?),
        owner: owner(row, 1)?,
    })
}

fn bind_row(
    parameters: &mut Parameters<'_, '_, 15>,
    id: JobId,
    new: &NewJob,
    state: State,
    order: u64,
    batch: &mut Batch,
) -> rusqlite::Result<()> {
    let (meta, body) = new.bytes.split_at(new.meta_len);
    let is_delay = new.delay_ms > 0;
    let due = new.due(batch.now, batch.steady);
    let number = |number: i64| ValueRef::Integer(number);
    let (id, zero) = (number(id.0 as i64), number(0));
    let (queue, class, codec) = (
        number(new.queue.0.into()),
        number(new.class.into()),
        number(new.codec.into()),
    );
    let (key, state_no, due_at) = (
        ValueRef::Blob(&new.key),
        number(state as i64),
        number(signed(due)),
    );
    let ord = match state {
        State::Ready => number(order as i64),
        _ => ValueRef::Null,
    };
    let has = |is_set: bool, mark: u8| if is_set { mark } else { 0 };
    let is_delayed = is_delay && state == State::Delayed;
    let marks = has(unique(new).is_some(), UNIQUE) | has(is_delayed, DELAY);
    let marks = number(marks.into());
    let options = new.options.as_deref().map(to_json);
    let (options, owner) = (text(options.as_deref()), text(new.owner.as_deref()));
    let meta = match meta {
        [] => ValueRef::Null,
        meta => ValueRef::Blob(meta),
    };
    let body = ValueRef::Blob(body);
    let checksum = JOBS.of(&[
        id,
        queue,
        state_no,
        class,
        key,
        zero,
        zero,
        zero,
        zero,
        due_at,
        options,
        ValueRef::Null,
        ValueRef::Null,
        owner,
        codec,
        marks,
        zero,
        ord,
    ]);
    let payload = row_checksum::payload_checksum_of(id.as_i64().unwrap_or_default(), meta, body);
    parameters.bind([
        id,
        queue,
        state_no,
        class,
        key,
        ord,
        due_at,
        codec,
        marks,
        options,
        owner,
        meta,
        body,
        number(checksum),
        number(payload),
    ])?;
    if state == State::Delayed {
        batch.wait_until(due, is_delay);
    }
    Ok(())
}

fn text(text: Option<&str>) -> ValueRef<'_> {
    text.map_or(ValueRef::Null, |text| ValueRef::Text(text.as_bytes()))
}

/// The initial state of a new job.
pub(super) fn state_of(new: &NewJob, now: u64) -> State {
    match (new.suspended, new.delay_ms > 0 || new.due_ms > now) {
        (true, _) => State::Suspended,
        (_, true) => State::Delayed,
        _ => State::Ready,
    }
}

/// Whether a push has no keys that could belong to another job, and goes behind all other jobs of its lane.
fn is_plain(new: &NewJob, now: u64) -> bool {
    new.idempotency.is_none()
        && unique(new).is_none()
        && new.order.is_none()
        && !new.is_overdue(now)
}

fn unique(new: &NewJob) -> Option<&Unique> {
    new.options.as_ref()?.unique.as_ref()
}
