//! A row of `jobs` with its payload, to be verified and handed over. Each value is fetched only once, because
//! for most values fetching takes longer than computing their part of the checksum.

use crate::sqlite::kinds::KEPT;
use crate::sqlite::row_checksum::{self, JOBS};
use crate::{Job, JobId, Owner, QueueNo, RunCounters};
use rusqlite::Row;
use rusqlite::types::{FromSql, ValueRef};
use std::sync::LazyLock;

/// The columns to select.
pub(super) static COLUMNS: LazyLock<String> =
    LazyLock::new(|| format!("{}, checksum, payload_checksum, meta, body", JOBS.list()));

/// The positions of columns in the selection, which starts with the columns of [`JOBS`].
const ORD: usize = 17;
const CHECKSUM: usize = JOBS.columns.len();
const PAYLOAD_CHECKSUM: usize = CHECKSUM + 1;
const META: usize = PAYLOAD_CHECKSUM + 1;
const BODY: usize = META + 1;

pub(super) struct JobRow<'r> {
    pub(super) id: JobId,
    values: [ValueRef<'r>; BODY + 1],
}

impl<'r> JobRow<'r> {
    pub(super) fn of(row: &'r Row<'_>) -> rusqlite::Result<Self> {
        let mut values = [ValueRef::Null; BODY + 1];
        for (at, value) in values.iter_mut().enumerate() {
            *value = row.get_ref(at)?;
        }
        let id = u64::column_result(values[0])?;
        Ok(Self {
            id: JobId(id),
            values,
        })
    }

    /// Whether the row's checksums are correct. Rows written by other programs have none and count as intact.
    pub(super) fn is_intact(&self) -> rusqlite::Result<bool> {
        let (checksum, payload): (Option<i64>, Option<i64>) =
            (self.get(CHECKSUM)?, self.get(PAYLOAD_CHECKSUM)?);
        let id = self.id.0 as i64;
        let payload_checksum_of =
            || row_checksum::payload_checksum_of(id, self.values[META], self.values[BODY]);
        Ok(
            checksum.is_none_or(|checksum| checksum == JOBS.of(&self.values[..CHECKSUM]))
                && payload.is_none_or(|payload| payload == payload_checksum_of()),
        )
    }

    pub(super) fn queue(&self) -> rusqlite::Result<QueueNo> {
        self.get(1).map(QueueNo)
    }

    pub(super) fn class(&self) -> rusqlite::Result<u8> {
        self.get(3)
    }

    pub(super) fn key(&self) -> rusqlite::Result<Box<[u8]>> {
        self.get::<Vec<u8>>(4).map(Vec::into_boxed_slice)
    }

    /// The job's place in its lane.
    pub(super) fn order(&self) -> rusqlite::Result<u64> {
        Ok(self.get::<Option<u64>>(ORD)?.unwrap_or_default())
    }

    pub(super) fn has_checkpoint(&self) -> rusqlite::Result<bool> {
        Ok(self.get::<u8>(15)? & KEPT != 0)
    }

    /// The job, without its checkpoint.
    pub(super) fn job(&self, queue: QueueNo, class: u8, key: Box<[u8]>) -> rusqlite::Result<Job> {
        let options = self.values[10].as_str_or_null()?;
        let owner = self.values[13].as_str_or_null()?;
        let meta = self.values[META].as_blob_or_null()?.unwrap_or_default();
        let body = self.values[BODY].as_blob_or_null()?.unwrap_or_default();
        Ok(Job {
            id: self.id,
            queue,
            class,
            key,
            order: self.order()?,
            codec: self.get(14)?,
            bytes: match meta.is_empty() {
                true => body.into(),
                false => [meta, body].concat().into(),
            },
            meta_len: meta.len(),
            options: options.and_then(|text| serde_json::from_str(text).ok()),
            counters: RunCounters {
                attempt: self.get(5)?,
                exceptions: self.get(6)?,
                crashes: self.get(7)?,
                ran_us: self.get(8)?,
            },
            due_ms: self.get(9)?,
            checkpoint: None,
            owner: owner.map(Owner::from),
        })
    }

    fn get<T: FromSql>(&self, at: usize) -> rusqlite::Result<T> {
        Ok(T::column_result(self.values[at])?)
    }
}
