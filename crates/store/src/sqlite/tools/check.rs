//! `stoker store check`.

use super::open;
use crate::sqlite::StoreError;
use crate::sqlite::row_checksum::{self, Table};
use rusqlite::Connection;
use std::path::Path;

/// The result of a check.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CheckReport {
    /// The number of jobs that were checked.
    pub jobs: u64,
    /// Problems, in sentences; empty if the store is intact.
    pub problems: Vec<String>,
    /// Other findings that are not damage, in sentences.
    pub notes: Vec<String>,
}

/// The maximum number of problems of one kind that are listed; the rest are only counted.
const MAX_REPORTED: usize = 10;

/// Queries that must return no rows, and the problem that a returned row means. The first column names the
/// affected queue, job or key.
const RULES: [(&str, &str); 13] = [
    (
        "SELECT name FROM queues WHERE ready != (SELECT count(*) FROM jobs WHERE queue = queues.id AND \
         state = 0)",
        "its count of ready jobs is wrong",
    ),
    (
        "SELECT name FROM queues WHERE delayed != (SELECT count(*) FROM jobs WHERE queue = queues.id AND \
         state IN (1, 2))",
        "its count of delayed jobs is wrong",
    ),
    (
        "SELECT name FROM queues WHERE suspended != (SELECT count(*) FROM jobs WHERE queue = queues.id AND \
         state = 3)",
        "its count of suspended jobs is wrong",
    ),
    (
        "SELECT name FROM queues WHERE failed != (SELECT count(*) FROM ended WHERE queue = queues.id AND \
         state = 5)",
        "its count of failed jobs is wrong",
    ),
    (
        "SELECT name FROM queues WHERE kept != (SELECT count(*) FROM ended WHERE queue = queues.id AND \
         state IN (4, 6))",
        "its count of kept jobs is wrong",
    ),
    (
        "SELECT id FROM jobs WHERE (state = 0 AND ord IS NULL) OR (state IN (1, 3) AND ord IS NOT NULL) OR \
         state NOT IN (0, 1, 2, 3)",
        "the job's position in its queue does not match its state",
    ),
    (
        "SELECT min(id) FROM jobs WHERE state = 0 GROUP BY queue, class, key, ord HAVING count(*) > 1",
        "another job has the same position in the queue",
    ),
    (
        "SELECT id FROM jobs WHERE queue NOT IN (SELECT id FROM queues) UNION ALL \
         SELECT id FROM ended WHERE queue NOT IN (SELECT id FROM queues)",
        "the job is in a queue that does not exist",
    ),
    (
        "SELECT id FROM ended WHERE state NOT IN (4, 5, 6) OR id IN (SELECT id FROM jobs)",
        "the job is both ended and unfinished",
    ),
    (
        "SELECT key FROM uniques WHERE until IS NULL AND NOT EXISTS (SELECT 1 FROM jobs WHERE id = job AND \
         jobs.queue = uniques.queue)",
        "the unique key is held by no unfinished job",
    ),
    (
        "SELECT DISTINCT job FROM history WHERE job NOT IN (SELECT id FROM jobs) AND job NOT IN \
         (SELECT id FROM ended) AND job NOT IN (SELECT id FROM damaged)",
        "the history belongs to no job",
    ),
    (
        "SELECT DISTINCT job FROM kept WHERE job NOT IN (SELECT id FROM jobs) AND job NOT IN \
         (SELECT id FROM ended) AND job NOT IN (SELECT id FROM remains) AND job NOT IN (SELECT id FROM damaged)",
        "kept data belongs to no job",
    ),
    (
        "SELECT id FROM damaged",
        "the job was found damaged and set aside in the table `damaged`; that table has its readable data",
    ),
];

/// Checks a store for damage and for inconsistent rows. The check only reads, and it may run while a server
/// uses the store. It reads every page.
pub fn check(path: &Path) -> Result<CheckReport, StoreError> {
    let error = |error: rusqlite::Error| StoreError::sqlite(path, &error);
    let db = open(path)?;
    // Uses one snapshot, because changes during the check would look like problems.
    let snapshot = db.unchecked_transaction().map_err(error)?;
    let mut problems = integrity(&db).map_err(error)?;
    let mut notes = Vec::new();
    // In a damaged file these rules would find many consequential problems.
    if problems.is_empty() {
        for table in row_checksum::ALL {
            problems.extend(damaged(&db, table).map_err(error)?);
            notes.extend(foreign(&db, table).map_err(error)?);
        }
        for (rule, meaning) in RULES {
            problems.extend(rule_violations(&db, rule, meaning).map_err(error)?);
        }
    }
    let jobs = "SELECT (SELECT count(*) FROM jobs) + (SELECT count(*) FROM ended)";
    let jobs = db.query_row(jobs, [], |row| row.get(0)).unwrap_or(0);
    snapshot.finish().map_err(error)?;
    Ok(CheckReport {
        jobs,
        problems,
        notes,
    })
}

fn integrity(db: &Connection) -> rusqlite::Result<Vec<String>> {
    let mut check = db.prepare("PRAGMA integrity_check")?;
    let lines = check.query_map([], |row| row.get::<_, String>(0))?;
    let mut problems = Vec::new();
    for line in lines {
        match line {
            Ok(line) if line == "ok" => {}
            Ok(line) => problems.push(line),
            Err(error) => {
                problems.push(error.to_string());
                break;
            }
        }
    }
    Ok(problems)
}

/// Rows with wrong checksums.
fn damaged(db: &Connection, table: &Table) -> rusqlite::Result<Vec<String>> {
    let (name, bad) = (table.name, table.damaged_sql());
    let key = table
        .key
        .iter()
        .map(|column| format!("'{column} ' || {}", column_as_text(column)));
    let key = key.collect::<Vec<_>>().join(" || ', ' || ");
    let rule = format!("SELECT {key} FROM {name} WHERE {bad}");
    rule_violations(
        db,
        &rule,
        &format!("the row of table {name} is damaged: its checksum is wrong"),
    )
}

/// The SQL expression that shows a column of a key as text.
fn column_as_text(column: &str) -> String {
    format!("iif(typeof({column}) = 'blob', '0x' || lower(hex({column})), {column})")
}

/// Rows that another program has written.
fn foreign(db: &Connection, table: &Table) -> rusqlite::Result<Option<String>> {
    let (name, key) = (table.name, table.key[table.key.len() - 1]);
    let sql = format!(
        "SELECT count(*), CAST(min({key}) AS TEXT) FROM {name} WHERE {}",
        table.foreign_sql()
    );
    let (count, first): (u64, Option<String>) =
        db.query_row(&sql, [], |row| Ok((row.get(0)?, row.get(1)?)))?;
    Ok(first.map(|first| {
        let rows = if count == 1 { "row" } else { "rows" };
        format!(
            "{name}: {count} {rows} ({key} {first} first) written by another program than Stoker, and so without a \
             checksum: damage in them can't be detected"
        )
    }))
}

fn rule_violations(db: &Connection, rule: &str, meaning: &str) -> rusqlite::Result<Vec<String>> {
    let mut statement = db.prepare(rule)?;
    let mut rows = statement.query([])?;
    let (mut problems, mut more) = (Vec::new(), 0);
    while let Some(row) = rows.next()? {
        if problems.len() == MAX_REPORTED {
            more += 1;
            continue;
        }
        let what = match row.get_ref(0)? {
            rusqlite::types::ValueRef::Text(text) => String::from_utf8_lossy(text).into_owned(),
            _ => row.get::<_, i64>(0)?.to_string(),
        };
        problems.push(format!("{what}: {meaning}"));
    }
    if more > 0 {
        problems.push(format!("{more} more: {meaning}"));
    }
    Ok(problems)
}
