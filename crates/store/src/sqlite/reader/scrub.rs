//! Reads all records again and again, so that damage is found before a record is needed: for one second when
//! the store is opened, and then for at most a hundredth of the time.

use crate::sqlite::mailbox::{Damaged, Item};
use crate::sqlite::row_checksum::{ALL, ENDED, Table};
use crate::{JobId, QueueNo, StoreEvent};
use rusqlite::types::Value;
use rusqlite::{Connection, OptionalExtension, params_from_iter};
use std::collections::HashSet;
use std::time::Duration;
use stoker_os::steady;

/// How long the first scrub runs when the store is opened.
const FIRST_SLICE: Duration = Duration::from_secs(1);
/// How long a scrub runs in each minute: a hundredth of it.
const SLICE: Duration = Duration::from_millis(600);
const SLICE_PAUSE: Duration = Duration::from_secs(60);
/// The pause between two rounds over all tables.
const ROUND_PAUSE: Duration = Duration::from_secs(3_600);
/// The number of rows read at a time; a query waits for at most that many.
const ROWS_PER_READ: usize = 64;
/// The maximum number of damaged rows that are reported from tables other than the two with payloads. The
/// command `stoker store check` lists more.
const MAX_REPORTED: usize = 100;

pub(super) struct Scrub {
    /// The current table, and the key of its last row that was read.
    at: usize,
    after: Option<Vec<Value>>,
    /// The last row of the table when the scrub of it started. Later rows were written just now and need no
    /// check.
    upto: Option<Vec<Value>>,
    next: Duration,
    /// The writer has opened the file, so reading it is safe.
    is_allowed: bool,
    /// When the current slice ends.
    until: Option<Duration>,
    reported: HashSet<String>,
}

/// The results of one read.
#[derive(Default)]
pub(super) struct ScrubResult {
    pub(super) items: Vec<Item>,
    pub(super) events: Vec<StoreEvent>,
}

impl Scrub {
    pub(super) fn new() -> Self {
        Self {
            at: 0,
            after: None,
            upto: None,
            next: steady(),
            is_allowed: false,
            until: None,
            reported: HashSet::new(),
        }
    }

    /// The time until there is something to read; `None` while reading is not allowed.
    pub(super) fn time_left(&self) -> Option<Duration> {
        let left = || self.next.saturating_sub(steady());
        self.is_allowed.then(left)
    }

    /// Allows reading, because the writer has opened the file.
    pub(super) fn allow(&mut self) {
        self.is_allowed = true;
        if self.at == 0 && self.after.is_none() {
            self.next = steady();
            self.until = Some(self.next + FIRST_SLICE);
        }
    }

    /// Forbids reading, because the file is being closed.
    pub(super) fn disallow(&mut self) {
        self.is_allowed = false;
    }

    /// Reads some rows if the current slice has time left, and schedules the next read.
    pub(super) fn scrub_slice(&mut self, db: &Connection) -> rusqlite::Result<ScrubResult> {
        let mut found = ScrubResult::default();
        let now = steady();
        let until = *self.until.get_or_insert(now + SLICE);
        let table = ALL[self.at];
        let is_over = match self.read(db, table, &mut found) {
            Ok(is_over) => is_over,
            Err(error) => {
                // A page that SQLite can't read is reported by the request that needs it. The rest of the
                // table is skipped in this round.
                self.pause(SLICE_PAUSE);
                self.next_table();
                return Err(error);
            }
        };
        if is_over && self.next_table() {
            self.pause(ROUND_PAUSE);
        } else if steady() >= until {
            self.pause(SLICE_PAUSE);
        }
        Ok(found)
    }

    /// Moves to the next table. Returns whether all tables have been read.
    fn next_table(&mut self) -> bool {
        self.at = (self.at + 1) % ALL.len();
        (self.after, self.upto) = (None, None);
        self.at == 0
    }

    fn pause(&mut self, pause: Duration) {
        self.next = steady() + pause;
        self.until = None;
    }

    /// Reads the next rows of a table. Returns whether there are no more.
    fn read(
        &mut self,
        db: &Connection,
        table: &Table,
        found: &mut ScrubResult,
    ) -> rusqlite::Result<bool> {
        let key = table.key.join(", ");
        let Some(upto) = self.last_of(db, table)? else {
            return Ok(true);
        };
        let count = table.key.len();
        let places = |from: usize| {
            let places: Vec<String> = (from..from + count).map(|at| format!("?{at}")).collect();
            places.join(", ")
        };
        let mut behind = format!("WHERE ({key}) <= ({})", places(1));
        if self.after.is_some() {
            behind.push_str(&format!(" AND ({key}) > ({})", places(1 + count)));
        }
        let sql = format!(
            "SELECT {}, {key} FROM {} {behind} ORDER BY {key} LIMIT {ROWS_PER_READ}",
            table.damaged_sql(),
            table.name
        );
        let mut statement = db.prepare_cached(&sql)?;
        let after = self.after.take().unwrap_or_default();
        let mut rows = statement.query(params_from_iter(upto.iter().chain(&after)))?;
        let (mut count, mut last) = (0, after);
        while let Some(row) = rows.next()? {
            last = (1..=table.key.len())
                .map(|at| row.get(at))
                .collect::<rusqlite::Result<_>>()?;
            if row.get(0)? {
                self.found(table, &last, found);
            }
            count += 1;
        }
        self.after = (!last.is_empty()).then_some(last);
        Ok(count < ROWS_PER_READ)
    }

    /// The last row of the current table, as it was when its scrub started.
    fn last_of(&mut self, db: &Connection, table: &Table) -> rusqlite::Result<Option<Vec<Value>>> {
        if self.upto.is_none() {
            let columns = |order: &str| {
                let columns = table.key.iter().map(|column| format!("{column}{order}"));
                columns.collect::<Vec<_>>().join(", ")
            };
            let sql = format!(
                "SELECT {} FROM {} ORDER BY {} LIMIT 1",
                columns(""),
                table.name,
                columns(" DESC")
            );
            let last = db.prepare_cached(&sql)?.query_row([], |row| {
                (0..table.key.len()).map(|at| row.get(at)).collect()
            });
            self.upto = last.optional()?;
        }
        Ok(self.upto.clone())
    }

    fn found(&mut self, table: &Table, key: &[Value], found: &mut ScrubResult) {
        let numbers: Vec<i64> = key.iter().filter_map(number).collect();
        let damaged = match numbers[..] {
            [job] if table.name == "jobs" => Damaged::Job(JobId(job as u64)),
            [queue, state, job] if table.name == ENDED.name => Damaged::Ended {
                queue: QueueNo(queue as u32),
                state: state as u8,
                job: JobId(job as u64),
            },
            _ => {
                let what = format!("{} {key:?}", table.name);
                if self.reported.len() < MAX_REPORTED && self.reported.insert(what) {
                    let what = format!(
                        "a row of table {} is damaged (its checksum is wrong): {}. See `stoker store check`",
                        table.name,
                        table
                            .key
                            .iter()
                            .zip(key)
                            .map(column_as_text)
                            .collect::<Vec<_>>()
                            .join(", ")
                    );
                    found.events.push(StoreEvent::Damage(what));
                }
                return;
            }
        };
        found.items.push(Item::Damaged(damaged));
    }
}

fn number(value: &Value) -> Option<i64> {
    match value {
        Value::Integer(number) => Some(*number),
        _ => None,
    }
}

fn column_as_text((column, value): (&&str, &Value)) -> String {
    match value {
        Value::Integer(number) => format!("{column} {number}"),
        Value::Text(text) => format!("{column} {text}"),
        Value::Blob(bytes) => format!("{column} {}", crate::lossless_text(bytes)),
        _ => format!("{column} unknown"),
    }
}
