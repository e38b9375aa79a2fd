//! Sets aside jobs whose rows have wrong checksums: they are moved to a table of their own and reported.

use super::Writer;
use crate::sqlite::mailbox::Damaged;
use crate::sqlite::row_checksum::{ENDED, JOBS, PAYLOAD_SUM, Table};
use crate::{JobId, QueueNo, State, StoreEvent};
use rusqlite::{OptionalExtension, params};
use std::sync::LazyLock;

/// The maximum number of jobs that wait to be set aside. Damaged jobs beyond that are found again later.
const MAX_PENDING: usize = 10_000;

/// A statement that copies a damaged row unchanged.
fn copy(table: &Table, condition: &str) -> String {
    // Every column of the two tables has a column of the same name in `damaged`.
    let all = table.list();
    let columns = all.trim_start_matches("id, ");
    format!(
        "INSERT OR REPLACE INTO damaged (id, at, origin, part, {columns}, meta, body) \
         SELECT id, ?1, '{}', iif(ifnull(payload_checksum <> {PAYLOAD_SUM}, 0), 'payload', 'record'), {columns}, \
         meta, body FROM {} WHERE {condition} AND {}",
        table.name,
        table.name,
        table.damaged_sql()
    )
}

static COPY_JOB: LazyLock<String> = LazyLock::new(|| copy(&JOBS, "id = ?2"));
static COPY_ENDED: LazyLock<String> =
    LazyLock::new(|| copy(&ENDED, "queue = ?2 AND state = ?3 AND id = ?4"));
const DELETE_JOB: &str = "DELETE FROM jobs WHERE id = ?1";
const DELETE_ENDED: &str = "DELETE FROM ended WHERE queue = ?1 AND state = ?2 AND id = ?3";
const FREE_KEYS: &str = "DELETE FROM uniques WHERE queue = ?1 AND job = ?2";
const LOCATION: &str = "SELECT queue, state FROM jobs WHERE id = ?1";
const PART: &str = "SELECT part FROM damaged WHERE id = ?1";

impl Writer {
    /// Records a damaged row, which is set aside in the next turn.
    pub(super) fn record_damaged(&self, damaged: Damaged) {
        let mut all = self.damaged.borrow_mut();
        if all.len() < MAX_PENDING && !all.contains(&damaged) {
            all.push(damaged);
        }
    }

    /// Sets the recorded jobs aside, each in its own transaction, because the damage may make one of them
    /// fail.
    pub(super) fn set_aside(&mut self) {
        if self.failing.is_some() || self.is_broken {
            return;
        }
        for damaged in self.damaged.take() {
            let mut was_damaged = None;
            let done = self.transact(true, |writer, batch| {
                was_damaged = writer.set_aside_job(damaged, batch.now)?;
                Ok(())
            });
            let id = self.ids.uuid(damaged.job());
            match (done, was_damaged) {
                (Ok(_), Some((queue, part))) => {
                    self.unload(damaged.job());
                    let name = self.queues.get(queue).map(|queue| queue.name.as_str());
                    let name = name.unwrap_or("an unknown queue");
                    self.events.push(StoreEvent::Damage(format!(
                        "job {id} of {name} is damaged (the checksum of its {part} is wrong) and was set aside; it \
                         does not run. See `stoker store check`"
                    )));
                }
                (Ok(_), None) => {}
                (Err(error), _) => self.events.push(StoreEvent::Damage(format!(
                    "job {id} is damaged and can't be set aside; it does not run: {error}"
                ))),
            }
        }
    }

    /// Sets a job aside. Returns its queue and the damaged part of its row, or `None` if the row is not
    /// damaged.
    fn set_aside_job(
        &mut self,
        damaged: Damaged,
        now: u64,
    ) -> rusqlite::Result<Option<(QueueNo, String)>> {
        let job = damaged.job().0 as i64;
        let (queue, state) = match damaged {
            Damaged::Job(_) => {
                let was = self.db.query_row(LOCATION, [job], |row| {
                    Ok((row.get::<_, u32>(0)?, row.get::<_, u8>(1)?))
                });
                let Some(was) = was.optional()? else {
                    return Ok(None);
                };
                let mut copy = self.db.prepare_cached(&COPY_JOB)?;
                if copy.execute(params![now as i64, job])? == 0 {
                    return Ok(None);
                }
                self.db.execute(DELETE_JOB, [job])?;
                was
            }
            Damaged::Ended { queue, state, .. } => {
                let row = params![now as i64, queue.0, state, job];
                if self.db.prepare_cached(&COPY_ENDED)?.execute(row)? == 0 {
                    return Ok(None);
                }
                self.db
                    .execute(DELETE_ENDED, params![queue.0, state, job])?;
                (queue.0, state)
            }
        };
        let queue = QueueNo(queue);
        self.db.execute(FREE_KEYS, params![queue.0, job])?;
        match State::from_code(state) {
            Some(state) if state.is_final() => self.queues.count_forgotten(queue, state, 1),
            Some(state) => self.queues.adjust_count(queue, state, -1),
            None => {}
        }
        let part = self.db.query_row(PART, [job], |row| row.get(0))?;
        Ok(Some((queue, part)))
    }
}

impl Damaged {
    fn job(self) -> JobId {
        match self {
            Self::Job(job) | Self::Ended { job, .. } => job,
        }
    }
}
