//! Filters as SQL, and scans in short reads: a reader that keeps a snapshot for long prevents the WAL from
//! being reset.

use super::view::{SELECT_ENDED, SELECT_JOBS, view};
use crate::sqlite::row_checksum::{ENDED, JOBS};
use crate::sqlite::trouble::is_damage;
use crate::{Filter, QueueNo, State, View, fingerprint};
use rusqlite::types::Value;
use rusqlite::{Connection, ToSql, params_from_iter};

/// The maximum number of rows that one read examines.
const ROWS_PER_READ: i64 = 4_096;

/// A table, or a part of one, in which jobs are ordered by their ids.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::sqlite) enum Source {
    Jobs,
    Ended(QueueNo, State),
}

/// SQL conditions and their values.
struct Terms {
    sql: String,
    values: Vec<Value>,
}

impl Terms {
    fn add(&mut self, condition: &str, value: impl Into<Value>) {
        self.values.push(value.into());
        let number = self.values.len();
        self.sql.push_str(" AND ");
        self.sql
            .push_str(&condition.replace('?', &format!("?{number}")));
    }

    fn add_number(&mut self, condition: &str, value: u64) {
        self.add(condition, super::signed(value));
    }
}

fn terms(filter: &Filter, source: Source) -> Terms {
    let mut terms = Terms {
        sql: " WHERE true".to_owned(),
        values: Vec::new(),
    };
    match source {
        Source::Jobs => {
            if let Some(queue) = filter.queue {
                terms.add("queue = ?", queue.0);
            }
            if let Some(state) = filter.states.single() {
                terms.add("state = ?", state as u8);
            } else {
                let others = unfinished().filter(|state| !filter.states.contains(*state));
                others.for_each(|state| terms.add("state <> ?", state as u8));
            }
            if let Some(before) = filter.before_ms {
                terms.add_number("id < ? << 15", before.min(u64::MAX >> 17));
            }
        }
        Source::Ended(queue, state) => {
            terms.add("queue = ?", queue.0);
            terms.add("state = ?", state as u8);
            if let Some(before) = filter.before_ms {
                terms.add_number("ended < ?", before);
            }
            if let Some(print) = filter.fingerprint.filter(|_| state == State::Failed) {
                terms.add_number("fingerprint = ?", print);
            }
        }
    }
    if let Some(kind) = &filter.kind {
        terms.add("options ->> '$.type' = ?", kind.clone());
    }
    if let Some(class) = &filter.error {
        terms.add("error ->> '$.class' = ?", class.clone());
    }
    if let Some(key) = &filter.key {
        terms.add("key = ?", key.to_vec());
    }
    if let Some(owner) = &filter.owner {
        terms.add("owner = ?", owner.to_string());
    }
    terms
}

fn unfinished() -> impl Iterator<Item = State> {
    State::ALL.into_iter().filter(|state| !state.is_final())
}

/// The sources that may have jobs that match a filter.
pub(in crate::sqlite) fn sources(filter: &Filter, queues: u32) -> Vec<Source> {
    let mut sources = Vec::new();
    if unfinished().any(|state| filter.states.contains(state)) {
        sources.push(Source::Jobs);
    }
    for queue in (0..queues)
        .map(QueueNo)
        .filter(|queue| filter.queue.is_none_or(|one| one == *queue))
    {
        let ended = [State::Done, State::Failed, State::Cancelled].into_iter();
        let wanted = ended.filter(|state| filter.states.contains(*state));
        sources.extend(wanted.map(|state| Source::Ended(queue, state)));
    }
    sources
}

/// The order in which jobs are read by their ids, and the id after which reading starts.
#[derive(Clone, Copy, Debug)]
pub(in crate::sqlite) enum Order {
    Oldest(u64),
    /// `None` starts at the newest job.
    Newest(Option<u64>),
}

impl Order {
    pub(super) fn is_newest_first(self) -> bool {
        matches!(self, Self::Newest(_))
    }

    fn start_id(self) -> i64 {
        match self {
            Self::Oldest(after) => super::signed(after),
            Self::Newest(after) => after.map_or(i64::MAX, super::signed),
        }
    }

    /// The same order, starting after another id.
    fn from(self, id: u64) -> Self {
        match self {
            Self::Oldest(_) => Self::Oldest(id),
            Self::Newest(_) => Self::Newest(Some(id)),
        }
    }

    /// The SQL operators for "after an id" and "up to an id", and the SQL keyword for the order.
    fn operators(self) -> (&'static str, &'static str, &'static str) {
        match self {
            Self::Oldest(_) => (">", "<=", "ASC"),
            Self::Newest(_) => ("<", ">=", "DESC"),
        }
    }
}

/// The jobs of one source that match a filter, in order of their ids, with a limited number of rows per read.
#[derive(Debug)]
pub(in crate::sqlite) struct Scan {
    source: Source,
    /// The position up to which all rows have been examined; `None` at the end.
    order: Option<Order>,
}

impl Scan {
    pub(in crate::sqlite) fn new(source: Source, order: Order) -> Self {
        Self {
            source,
            order: Some(order),
        }
    }

    pub(in crate::sqlite) fn is_over(&self) -> bool {
        self.order.is_none()
    }

    /// The next matching jobs, at most `limit`. The result may be empty although more jobs follow.
    pub(in crate::sqlite) fn next(
        &mut self,
        db: &Connection,
        filter: &Filter,
        limit: usize,
    ) -> rusqlite::Result<Vec<View>> {
        let Some(order) = self.order else {
            return Ok(Vec::new());
        };
        let (mut terms, upto) = self.next_range(db, filter, order)?;
        let (.., direction) = order.operators();
        let (from, table) = match self.source {
            Source::Jobs => (&*SELECT_JOBS, &JOBS),
            Source::Ended(..) => (&*SELECT_ENDED, &ENDED),
        };
        terms.values.push(super::signed(limit as u64).into());
        let sql = format!(
            "{from}{} ORDER BY id {direction} LIMIT ?{}",
            terms.sql,
            terms.values.len()
        );
        let mut statement = db.prepare_cached(&sql)?;
        let mut rows = statement.query(params_from_iter(&terms.values))?;
        let (mut views, mut count, mut last) = (Vec::new(), 0, None);
        while let Some(row) = rows.next()? {
            count += 1;
            last = Some(row.get(0)?);
            match view(row, table) {
                Ok(view) => views.push(view),
                // A damaged job is reported by the scrub, and is not listed.
                Err(error) if is_damage(&error) => {}
                Err(error) => return Err(error),
            }
        }
        // A full result means that there may be more matches in this range.
        self.order = match last.filter(|_| count == limit) {
            Some(last) => Some(order.from(last)),
            None => upto,
        };
        views.retain(|view| has_fingerprint(filter, view));
        Ok(views)
    }

    /// The number of matching jobs in the next range of ids.
    pub(super) fn count(&mut self, db: &Connection, filter: &Filter) -> rusqlite::Result<u64> {
        if filter.fingerprint.is_some() {
            return Ok(self.next(db, filter, ROWS_PER_READ as usize)?.len() as u64);
        }
        let Some(order) = self.order else {
            return Ok(0);
        };
        let (terms, upto) = self.next_range(db, filter, order)?;
        let sql = format!("SELECT count(*) FROM {}{}", self.table(), terms.sql);
        self.order = upto;
        db.prepare_cached(&sql)?
            .query_row(params_from_iter(&terms.values), |row| row.get(0))
    }

    /// The conditions for the next range of ids, and the position after it: `None` if it is the last one.
    fn next_range(
        &self,
        db: &Connection,
        filter: &Filter,
        order: Order,
    ) -> rusqlite::Result<(Terms, Option<Order>)> {
        let (behind, upto, direction) = order.operators();
        let after = order.start_id();
        let end: Option<i64> = match self.source {
            Source::Jobs => {
                let end = format!(
                    "SELECT id FROM jobs WHERE id {behind} ?1 ORDER BY id {direction} LIMIT 1 OFFSET ?2"
                );
                query(db, &end, &[&after, &ROWS_PER_READ])?
            }
            Source::Ended(queue, state) => {
                let end = format!(
                    "SELECT id FROM ended WHERE queue = ?1 AND state = ?2 AND id {behind} ?3 \
                     ORDER BY id {direction} LIMIT 1 OFFSET ?4"
                );
                query(
                    db,
                    &end,
                    &[&queue.0, &(state as u8), &after, &ROWS_PER_READ],
                )?
            }
        };
        let mut terms = terms(filter, self.source);
        terms.add(&format!("id {behind} ?"), after);
        if let Some(end) = end {
            terms.add(&format!("id {upto} ?"), end);
        }
        Ok((terms, end.map(|end| order.from(end as u64))))
    }

    fn table(&self) -> &'static str {
        match self.source {
            Source::Jobs => "jobs",
            Source::Ended(..) => "ended",
        }
    }
}

fn query(db: &Connection, sql: &str, values: &[&dyn ToSql]) -> rusqlite::Result<Option<i64>> {
    let mut statement = db.prepare_cached(sql)?;
    let mut rows = statement.query(values)?;
    rows.next()?.map(|row| row.get(0)).transpose()
}

/// Checks the fingerprint of jobs that are not filtered by the column `fingerprint`, which only failed jobs
/// have.
fn has_fingerprint(filter: &Filter, view: &View) -> bool {
    filter.fingerprint.is_none_or(|print| {
        view.error
            .as_ref()
            .is_some_and(|error| fingerprint(error) == print)
    })
}
