//! Rows as they appear in query results.

use crate::job::truncate_text;
use crate::sqlite::kinds::{BODY, CHECKPOINT, META, OUTPUT, RESULT, owner};
use crate::sqlite::row_checksum::{
    self, ENDED, HISTORY as HISTORY_ROWS, JOBS, KEPT as KEPT_ROWS, REMAINS, Table,
};
use crate::{
    Bytes, HistoryEntry, HistoryKind, JobDetails, JobId, QueueNo, RunCounters, State, View,
};
use rusqlite::{Connection, OptionalExtension, Row, params};
use std::sync::LazyLock;

/// The columns of a view. Their first columns are the same in all three tables.
pub(in crate::sqlite) static SELECT_JOBS: LazyLock<String> = LazyLock::new(|| select_all(&JOBS));
pub(in crate::sqlite) static SELECT_ENDED: LazyLock<String> = LazyLock::new(|| select_all(&ENDED));
pub(in crate::sqlite) static SELECT_REMAINS: LazyLock<String> =
    LazyLock::new(|| select_all(&REMAINS));

fn select_all(table: &Table) -> String {
    format!("SELECT {}, checksum FROM {}", table.list(), table.name)
}

const PAYLOAD: &str = "SELECT codec, meta, body, payload_checksum FROM jobs WHERE id = ?1";
const PAYLOAD_OF_ENDED: &str = "SELECT codec, meta, body, payload_checksum FROM ended \
                                WHERE queue = ?2 AND state = ?3 AND id = ?1";
static KEPT: LazyLock<String> = LazyLock::new(|| {
    format!(
        "SELECT codec, bytes, {} FROM kept WHERE job = ?1 AND kind = ?2 AND (until IS NULL OR until > ?3)",
        KEPT_ROWS.damaged_sql()
    )
});
const PUSH: &str = "SELECT key FROM pushes WHERE job = ?1 AND queue = ?2 AND until > ?3";
static HISTORY: LazyLock<String> = LazyLock::new(|| {
    format!(
        "SELECT at, what, text, {} FROM history WHERE job = ?1 ORDER BY no",
        HISTORY_ROWS.damaged_sql()
    )
});
static HISTORY_ENTRY: LazyLock<String> =
    LazyLock::new(|| format!("{} LIMIT 1 OFFSET ?2", *HISTORY));

/// Converts a row that one of the statements above returned. Fails if the row is damaged.
pub(super) fn view(row: &Row<'_>, table: &Table) -> rusqlite::Result<View> {
    table.check(row)?;
    let options: Option<&str> = row.get_ref(10)?.as_str_or_null()?;
    let error: Option<&str> = row.get_ref(11)?.as_str_or_null()?;
    let progress: Option<&str> = row.get_ref(12)?.as_str_or_null()?;
    let ended = table
        .columns
        .iter()
        .position(|column| column.name == "ended");
    Ok(View {
        id: JobId(row.get(0)?),
        queue: QueueNo(row.get(1)?),
        state: State::from_code(row.get(2)?).unwrap_or(State::Ready),
        class: row.get(3)?,
        key: row.get_ref(4)?.as_blob()?.into(),
        counters: RunCounters {
            attempt: row.get(5)?,
            exceptions: row.get(6)?,
            crashes: row.get(7)?,
            ran_us: row.get(8)?,
        },
        created_ms: JobId(row.get(0)?).created_ms(),
        due_ms: row.get(9)?,
        ended_ms: ended.map(|at| row.get(at)).transpose()?,
        options: options.and_then(|text| serde_json::from_str(text).ok()),
        error: error.and_then(|text| serde_json::from_str(text).ok()),
        progress: progress.and_then(|text| serde_json::from_str(text).ok()),
        owner: owner(row, 13)?,
        whole: None,
    })
}

/// The details of a job that are not part of its row.
pub(super) fn whole(db: &Connection, view: &View, now: u64) -> rusqlite::Result<JobDetails> {
    let (meta, body) = match view.state {
        State::Done => {
            let meta = read_kept(db, view.id, META, now)?;
            (
                meta.map(|meta| meta.bytes),
                read_kept(db, view.id, BODY, now)?,
            )
        }
        state => payload(db, view, state)?,
    };
    Ok(JobDetails {
        meta: meta.unwrap_or_default(),
        body,
        result: read_kept(db, view.id, RESULT, now)?,
        output: read_kept(db, view.id, OUTPUT, now)?.map(|output| output.bytes),
        checkpoint: read_kept(db, view.id, CHECKPOINT, now)?.map(|checkpoint| checkpoint.bytes),
        idempotency: idempotency(db, view, now)?,
        history: history(db, view.id)?,
    })
}

fn idempotency(db: &Connection, view: &View, now: u64) -> rusqlite::Result<Option<Vec<u8>>> {
    let mut push = db.prepare_cached(PUSH)?;
    let row = params![view.id.0 as i64, view.queue.0, now as i64];
    let push = push.query_row(row, |row| row.get(0));
    push.optional()
}

type Payload = (Option<Vec<u8>>, Option<Bytes>);

fn payload(db: &Connection, view: &View, state: State) -> rusqlite::Result<Payload> {
    let read = |row: &Row<'_>| {
        let payload: Option<i64> = row.get(3)?;
        let id = view.id.0 as i64;
        let payload_checksum_of =
            row_checksum::payload_checksum_of(id, row.get_ref(1)?, row.get_ref(2)?);
        if payload.is_some_and(|payload| payload != payload_checksum_of) {
            return Err(row_checksum::checksum_error("jobs or ended"));
        }
        let body: Option<Vec<u8>> = row.get(2)?;
        let codec = row.get(0)?;
        Ok((row.get(1)?, body.map(|bytes| Bytes { codec, bytes })))
    };
    let id = view.id.0 as i64;
    let payload = match state.is_final() {
        true => {
            let mut ended = db.prepare_cached(PAYLOAD_OF_ENDED)?;
            ended.query_row(params![id, view.queue.0, state as u8], read)
        }
        false => db.prepare_cached(PAYLOAD)?.query_row([id], read),
    };
    // The job may have ended between the two queries.
    Ok(payload.optional()?.unwrap_or_default())
}

fn read_kept(db: &Connection, job: JobId, kind: u8, now: u64) -> rusqlite::Result<Option<Bytes>> {
    let mut kept = db.prepare_cached(&KEPT)?;
    let bytes = kept.query_row(params![job.0 as i64, kind, now as i64], |row| {
        if row.get(2)? {
            return Err(row_checksum::checksum_error("kept"));
        }
        Ok(Bytes {
            codec: row.get(0)?,
            bytes: row.get(1)?,
        })
    });
    bytes.optional()
}

/// One entry of a job's history, if it exists.
pub(super) fn history_entry(
    db: &Connection,
    job: JobId,
    number: u64,
) -> rusqlite::Result<JobDetails> {
    let mut history_entry = db.prepare_cached(&HISTORY_ENTRY)?;
    let before = i64::try_from(number.saturating_sub(1)).unwrap_or(i64::MAX);
    let whole = |text: &str| (text.to_owned(), 0);
    let history_entry = history_entry.query_row([job.0 as i64, before], |row| note(row, whole));
    Ok(JobDetails {
        history: history_entry.optional()?.into_iter().collect(),
        ..JobDetails::default()
    })
}

fn history(db: &Connection, job: JobId) -> rusqlite::Result<Vec<HistoryEntry>> {
    let mut history = db.prepare_cached(&HISTORY)?;
    let notes = history.query_map([job.0 as i64], |row| note(row, truncate_text))?;
    notes.collect()
}

fn note(row: &Row<'_>, read: impl Fn(&str) -> (String, usize)) -> rusqlite::Result<HistoryEntry> {
    if row.get(3)? {
        return Err(row_checksum::checksum_error("history"));
    }
    // Only a newer version of Stoker writes unknown codes, and its file would have been rejected.
    let what = HistoryKind::from_code(row.get(1)?).unwrap_or(HistoryKind::Retried);
    let (text, cut) = read(row.get_ref(2)?.as_str()?);
    Ok(HistoryEntry {
        at_ms: row.get(0)?,
        what,
        text,
        cut,
    })
}
