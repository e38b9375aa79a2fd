//! The reader: it answers queries on its own connection, so that a long list never delays a commit.

mod filter;
mod groups;
mod merged;
mod scrub;
#[cfg(feature = "sim")]
mod stepped;
mod view;

pub(super) use filter::{Order, Scan, Source, sources};
pub(super) use merged::{Merged, Next};
#[cfg(feature = "sim")]
pub(super) use stepped::ToReader;
pub(super) use view::{SELECT_ENDED, SELECT_JOBS, SELECT_REMAINS};

use super::kinds::signed;
use super::mailbox::Mailbox;
use super::row_checksum::{ENDED, JOBS, REMAINS};
use super::schema;
use crate::job::MAX_LIST_BYTES;
use crate::{Filter, Found, JobDetails, JobId, Query, State, StoreEvent, Ticket, Trouble, View};
use rusqlite::{Connection, OptionalExtension, params};
use scrub::Scrub;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::SyncSender;
use std::time::Duration;

pub(super) struct PendingQuery {
    pub(super) ticket: Ticket,
    pub(super) query: Query,
}

pub(super) enum Message {
    Query(PendingQuery),
    /// Close the file and reply. It is opened again for the next query.
    Close(SyncSender<()>),
    /// The writer has opened the file, so the scrub may read it.
    Scrub,
}

/// The writer's channel to the reader.
#[cfg(not(feature = "sim"))]
pub(super) type ToReader = SyncSender<Message>;

pub(super) struct Reader {
    path: PathBuf,
    mailbox: Arc<Mailbox>,
    clock: crate::Clock,
    db: Option<Connection>,
    scrub: Scrub,
}

/// A connection and a clock, for answering a query.
struct Lookup<'a> {
    db: &'a Connection,
    clock: &'a crate::Clock,
}

/// The number of rows that a list reads of a source at a time.
const PAGE: usize = 256;

impl Reader {
    pub(super) fn new(path: PathBuf, mailbox: Arc<Mailbox>, clock: crate::Clock) -> Self {
        Self {
            path,
            mailbox,
            clock,
            db: None,
            scrub: Scrub::new(),
        }
    }

    pub(super) fn handle(&mut self, message: Message) {
        match message {
            Message::Query(PendingQuery { ticket, query }) => {
                let found = self.query(&query);
                self.mailbox.queries.fetch_sub(1, Ordering::Relaxed);
                self.mailbox
                    .publish(&mut vec![StoreEvent::Found { ticket, found }]);
            }
            Message::Scrub => self.scrub.allow(),
            Message::Close(done) => {
                self.scrub.disallow();
                self.db = None;
                // The writer may have stopped waiting.
                done.send(()).ok();
            }
        }
    }

    /// The time until the scrub has something to read, if it has.
    pub(super) fn time_to_scrub(&self) -> Option<Duration> {
        self.scrub.time_left()
    }

    pub(super) fn scrub(&mut self) {
        // An error that prevents reading is reported by the next query.
        self.connection().ok();
        let scrubbed = self.db.as_ref().map(|db| self.scrub.scrub_slice(db));
        let mut found = scrubbed.and_then(Result::ok).unwrap_or_default();
        if !found.items.is_empty() {
            self.mailbox.send(&mut found.items);
        }
        self.mailbox.publish(&mut found.events);
    }

    fn connection(&mut self) -> Result<&Connection, Trouble> {
        match &mut self.db {
            Some(db) => Ok(db),
            db => {
                let opened = schema::open_to_read(&self.path);
                Ok(db.insert(opened.map_err(|error| Trouble::Io(error.to_string()))?))
            }
        }
    }

    fn query(&mut self, query: &Query) -> Result<Found, Trouble> {
        let clock = self.clock.clone();
        let lookup = Lookup {
            db: self.connection()?,
            clock: &clock,
        };
        lookup
            .query(query)
            .map_err(|error| Trouble::Io(error.to_string()))
    }
}

impl Lookup<'_> {
    fn query(&self, query: &Query) -> rusqlite::Result<Found> {
        match query {
            Query::One(id) => {
                let whole = |view: &View| view::whole(self.db, view, (self.clock)());
                self.one(*id, whole).map(Found::One)
            }
            Query::HistoryEntry { job, number } => {
                let history_entry = |_: &View| view::history_entry(self.db, *job, *number);
                self.one(*job, history_entry).map(Found::One)
            }
            Query::List {
                filter,
                after,
                limit,
                newest,
                whole,
            } => {
                let order = match (*newest, after) {
                    (true, after) => Order::Newest(after.map(|after| after.0)),
                    (false, after) => Order::Oldest(after.map_or(0, |after| after.0)),
                };
                self.list(filter, order, *limit, *whole)
            }
            Query::Count(filter) => self.count(filter).map(Found::Count),
            Query::Groups { filter, limit } => self.groups(filter, *limit).map(Found::Groups),
        }
    }

    fn queues(&self) -> rusqlite::Result<u32> {
        self.db
            .prepare_cached("SELECT count(*) FROM queues")?
            .query_row([], |row| row.get(0))
    }

    fn one(
        &self,
        id: JobId,
        whole: impl Fn(&View) -> rusqlite::Result<JobDetails>,
    ) -> rusqlite::Result<Option<Box<View>>> {
        // Uses one snapshot, because the job could end between the queries of the two tables.
        let snapshot = self.db.unchecked_transaction()?;
        let Some(mut view) = find(self.db, id)?.or(self.remains(id)?) else {
            return Ok(None);
        };
        view.whole = Some(Box::new(whole(&view)?));
        snapshot.finish()?;
        Ok(Some(Box::new(view)))
    }

    /// What is left of a forgotten job, if any of it is still kept.
    fn remains(&self, id: JobId) -> rusqlite::Result<Option<View>> {
        let remains = format!("{} WHERE id = ?1 AND until > ?2", *SELECT_REMAINS);
        let row = params![id.0 as i64, (self.clock)() as i64];
        let mut remains = self.db.prepare_cached(&remains)?;
        remains
            .query_row(row, |row| view::view(row, &REMAINS))
            .optional()
    }

    fn list(
        &self,
        filter: &Filter,
        order: Order,
        limit: usize,
        whole: bool,
    ) -> rusqlite::Result<Found> {
        let sources = sources(filter, self.queues()?);
        let mut merged = Merged::new(sources, order, PAGE.min(limit + 1));
        // No commit waits for this thread, so the number of reads is not limited.
        let (mut jobs, mut reads_left) = (Vec::new(), usize::MAX);
        while jobs.len() <= limit {
            match merged.next(self.db, filter, &mut reads_left)? {
                Next::Job(view) => jobs.push(*view),
                Next::Later | Next::Over => break,
            }
        }
        let more = jobs.len() > limit;
        jobs.truncate(limit);
        let cut = match whole {
            true => self.add_payloads(&mut jobs)?,
            false => false,
        };
        let more = more || cut;
        Ok(Found::List { jobs, more })
    }

    /// Adds the payloads, which most lists don't need, and truncates the list if they become too large.
    /// Returns whether it was truncated.
    fn add_payloads(&self, jobs: &mut Vec<View>) -> rusqlite::Result<bool> {
        let now = (self.clock)();
        let mut bytes = 0;
        for at in 0..jobs.len() {
            if bytes >= MAX_LIST_BYTES {
                jobs.truncate(at);
                return Ok(true);
            }
            let whole = view::whole(self.db, &jobs[at], now)?;
            bytes += whole.size();
            jobs[at].whole = Some(Box::new(whole));
        }
        Ok(false)
    }

    fn count(&self, filter: &Filter) -> rusqlite::Result<u64> {
        if let Some(count) = self.count_from_counters(filter)? {
            return Ok(count);
        }
        let mut count = 0;
        for source in sources(filter, self.queues()?) {
            let mut scan = Scan::new(source, Order::Oldest(0));
            while !scan.is_over() {
                count += scan.count(self.db, filter)?;
            }
        }
        Ok(count)
    }

    /// The count from the queues' counters, if these have it without reading any job.
    fn count_from_counters(&self, filter: &Filter) -> rusqlite::Result<Option<u64>> {
        let column = match filter.states.single() {
            Some(State::Ready) => "ready",
            Some(State::Suspended) => "suspended",
            Some(State::Failed) => "failed",
            _ => return Ok(None),
        };
        let plain = Filter {
            queue: filter.queue,
            states: filter.states,
            ..Filter::default()
        };
        if *filter != plain {
            return Ok(None);
        }
        let sql =
            format!("SELECT ifnull(sum({column}), 0) FROM queues WHERE ?1 IS NULL OR id = ?1");
        let queue = filter.queue.map(|queue| queue.0);
        self.db
            .prepare_cached(&sql)?
            .query_row([queue], |row| row.get(0))
            .map(Some)
    }
}

/// Finds a job among the unfinished and the ended ones.
pub(super) fn find(db: &Connection, id: JobId) -> rusqlite::Result<Option<View>> {
    let unfinished = format!("{} WHERE id = ?1", *SELECT_JOBS);
    let job = db
        .prepare_cached(&unfinished)?
        .query_row([id.0 as i64], |row| view::view(row, &JOBS))
        .optional()?;
    if job.is_some() {
        return Ok(job);
    }
    let ended = format!(
        "{} WHERE queue IN (SELECT id FROM queues) AND state IN (4, 5, 6) AND id = ?1",
        *SELECT_ENDED
    );
    db.prepare_cached(&ended)?
        .query_row([id.0 as i64], |row| view::view(row, &ENDED))
        .optional()
}
