//! Reads every record again and again, so that damage is known before somebody needs it: for a second when the store
//! is opened, and then for a hundredth of the time at the most.

use crate::sqlite::mailbox::{Damaged, Item};
use crate::sqlite::seal::{ALL, ENDED, Table};
use crate::{JobId, QueueNo, StoreEvent};
use rusqlite::types::Value;
use rusqlite::{Connection, OptionalExtension, params_from_iter};
use std::collections::HashSet;
use std::time::Duration;
use stoker_os::steady;

/// How long it reads when the store is opened.
const FIRST: Duration = Duration::from_secs(1);
/// One share of a minute, which is a hundredth of it.
const SHARE: Duration = Duration::from_millis(600);
const PAUSE: Duration = Duration::from_secs(60);
/// From the end of one round to the next.
const ROUND: Duration = Duration::from_secs(3_600);
/// Questions wait for so many rows at the most.
const ROWS: usize = 64;
/// Rows of other tables than jobs that are named; more are found by a check.
const NAMED: usize = 100;

pub(super) struct Scrub {
    /// The table, and the last row of it that was read.
    at: usize,
    after: Option<Vec<Value>>,
    /// The last row that the table had when it was begun: what comes later was written just now.
    upto: Option<Vec<Value>>,
    next: Duration,
    /// The writer has the file open as well, and does not mind.
    is_allowed: bool,
    /// Until when the share under way lasts.
    until: Option<Duration>,
    named: HashSet<String>,
}

/// What a slice has found.
#[derive(Default)]
pub(super) struct Found {
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
            named: HashSet::new(),
        }
    }

    /// How long until there is something to read, if there is.
    pub(super) fn time_left(&self) -> Option<Duration> {
        let left = || self.next.saturating_sub(steady());
        self.is_allowed.then(left)
    }

    /// The file is open, from now on.
    pub(super) fn allow(&mut self) {
        self.is_allowed = true;
        if self.at == 0 && self.after.is_none() {
            self.next = steady();
            self.until = Some(self.next + FIRST);
        }
    }

    /// The file is let go of.
    pub(super) fn forbid(&mut self) {
        self.is_allowed = false;
    }

    /// Reads some rows, if it is time to.
    pub(super) fn go_on(&mut self, db: &Connection) -> rusqlite::Result<Found> {
        let mut found = Found::default();
        let now = steady();
        let until = *self.until.get_or_insert(now + SHARE);
        let table = ALL[self.at];
        let is_over = match self.read(db, table, &mut found) {
            Ok(is_over) => is_over,
            Err(error) => {
                // What SQLite itself can't read is told by whoever needs it. The rest of the table waits.
                self.pause(PAUSE);
                self.next_table();
                return Err(error);
            }
        };
        if is_over && self.next_table() {
            self.pause(ROUND);
        } else if steady() >= until {
            self.pause(PAUSE);
        }
        Ok(found)
    }

    /// Returns whether that was the last one.
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
        found: &mut Found,
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
            "SELECT {}, {key} FROM {} {behind} ORDER BY {key} LIMIT {ROWS}",
            table.is_bad(),
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
        Ok(count < ROWS)
    }

    /// The last row of the table under way, as it was when that was begun.
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

    fn found(&mut self, table: &Table, key: &[Value], found: &mut Found) {
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
                if self.named.len() < NAMED && self.named.insert(what) {
                    let what = format!(
                        "a row of table {} is damaged (its checksum is wrong): {}. See `stoker store check`",
                        table.name,
                        table
                            .key
                            .iter()
                            .zip(key)
                            .map(shown)
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

fn shown((column, value): (&&str, &Value)) -> String {
    match value {
        Value::Integer(number) => format!("{column} {number}"),
        Value::Text(text) => format!("{column} {text}"),
        Value::Blob(bytes) => format!("{column} {}", crate::lossless(bytes)),
        _ => format!("{column} unknown"),
    }
}
