//! The tables that have checksums, and the columns that these cover.

use std::fmt;

/// A table and the columns that its checksum covers, in the order in which rows are read and written.
#[derive(Debug)]
pub(in crate::sqlite) struct Table {
    pub(in crate::sqlite) name: &'static str,
    pub(in crate::sqlite) columns: &'static [Column],
    /// The columns that identify a row.
    pub(in crate::sqlite) key: &'static [&'static str],
    pub(in crate::sqlite) has_payload: bool,
}

/// A column and its mark, which makes equal values of different columns count differently. A column has the
/// same mark in every table, so that a row can be moved without reading the columns that stay the same.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(in crate::sqlite) struct Column {
    pub(in crate::sqlite) name: &'static str,
    pub(super) mark: u64,
}

impl fmt::Debug for Column {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name)
    }
}

impl Table {
    /// A pseudo-column with the table's name. Its value is 0 in each row, so that a row's checksum is not
    /// valid in another table.
    pub(super) const fn pseudo_column(&self) -> Column {
        column(self.name)
    }
}

const fn column(name: &'static str) -> Column {
    Column {
        name,
        mark: mark(name),
    }
}

/// FNV-1a, because it can be computed at compile time.
pub(super) const fn mark(name: &str) -> u64 {
    let (bytes, mut at, mut hash) = (name.as_bytes(), 0, 0xcbf2_9ce4_8422_2325_u64);
    while at < bytes.len() {
        hash = (hash ^ bytes[at] as u64).wrapping_mul(0x0000_0100_0000_01b3);
        at += 1;
    }
    hash
}

pub(in crate::sqlite) const fn columns<const N: usize>(names: [&'static str; N]) -> [Column; N] {
    let mut columns = [column(""); N];
    let mut at = 0;
    while at < N {
        columns[at] = column(names[at]);
        at += 1;
    }
    columns
}

/// The columns of a table that holds jobs: the common ones, then the table's own.
const fn of_job<const N: usize>(common: &[&'static str], own: &[&'static str]) -> [Column; N] {
    let mut names = [""; N];
    let mut at = 0;
    while at < N {
        names[at] = match at < common.len() {
            true => common[at],
            false => own[at - common.len()],
        };
        at += 1;
    }
    columns(names)
}

/// The columns that every table of jobs has.
const COMMON_COLUMNS: [&str; 14] = [
    "id",
    "queue",
    "state",
    "class",
    "key",
    "attempt",
    "exceptions",
    "crashes",
    "ran",
    "due",
    "options",
    "error",
    "progress",
    "owner",
];

pub(in crate::sqlite) const JOBS: Table = Table {
    name: "jobs",
    columns: &of_job::<18>(&COMMON_COLUMNS, &["codec", "marks", "notes", "ord"]),
    key: &["id"],
    has_payload: true,
};

pub(in crate::sqlite) const ENDED: Table = Table {
    name: "ended",
    columns: &of_job::<19>(
        &COMMON_COLUMNS,
        &["codec", "marks", "notes", "ended", "fingerprint"],
    ),
    key: &["queue", "state", "id"],
    has_payload: true,
};

pub(in crate::sqlite) const REMAINS: Table = Table {
    name: "remains",
    columns: &of_job::<16>(&COMMON_COLUMNS, &["ended", "until"]),
    key: &["id"],
    has_payload: false,
};

pub(in crate::sqlite) const KEPT: Table = Table {
    name: "kept",
    columns: &columns(["job", "kind", "until", "codec", "bytes"]),
    key: &["job", "kind"],
    has_payload: false,
};

pub(in crate::sqlite) const HISTORY: Table = Table {
    name: "history",
    columns: &columns(["job", "no", "at", "what", "text"]),
    key: &["job", "no"],
    has_payload: false,
};

pub(in crate::sqlite) const UNIQUES: Table = Table {
    name: "uniques",
    columns: &columns(["queue", "key", "job", "until"]),
    key: &["queue", "key"],
    has_payload: false,
};

pub(in crate::sqlite) const PUSHES: Table = Table {
    name: "pushes",
    columns: &columns(["queue", "key", "job", "until", "owner", "body_checksum"]),
    key: &["queue", "key"],
    has_payload: false,
};

/// The counters are not covered: they are written with every commit, and can be recounted from the rows.
pub(in crate::sqlite) const QUEUES: Table = Table {
    name: "queues",
    columns: &columns(["id", "name", "paused", "settings"]),
    key: &["id"],
    has_payload: false,
};

pub(in crate::sqlite) const ALL: [&Table; 8] = [
    &JOBS, &ENDED, &REMAINS, &KEPT, &HISTORY, &UNIQUES, &PUSHES, &QUEUES,
];
