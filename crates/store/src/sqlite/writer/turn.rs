//! The writer's loop.

use super::Writer;
use super::deferred_reads::PendingRead;
use crate::sqlite::mailbox::Item;
use crate::sqlite::reader::{Message, PendingQuery};
use crate::{Change, Import, Selection, StoreEvent, StoreRequest, Ticket, Trouble};
use std::io;
use std::sync::mpsc::SyncSender;
use std::time::Duration;

/// The maximum number of requests in one commit.
const MAX_GROUP: usize = 4_096;

/// The longest sleep. It is limited because the wall clock may be set.
const MAX_SLEEP: Duration = Duration::from_secs(30);

/// A request that is not written in the common transaction.
enum Other {
    Read(PendingRead),
    Query(PendingQuery),
    Change(Ticket, Selection, Change),
    Import(Ticket, Vec<Import>),
}

impl Writer {
    /// How long the writer can sleep if no request comes.
    pub(in crate::sqlite) fn time_to_wait(&self) -> Duration {
        match self.todo.is_empty() && self.is_idle() {
            true => self.time_to_next_work(),
            false => Duration::ZERO,
        }
    }

    /// Waits for requests for at most `wait`, then does one turn. Returns whether the writer continues.
    pub(in crate::sqlite) fn work(&mut self, wait: Duration) -> bool {
        let mailbox = self.mailbox.clone();
        mailbox.receive(&mut self.todo, wait);
        if self.mailbox.is_abandoned() {
            return false;
        }
        let close = self.turn();
        let closed = close.map(|reply| (reply, self.close()));
        self.publish();
        match closed {
            None => true,
            Some((reply, closed)) => {
                // The thread that closes the store may have stopped waiting.
                reply.send(closed).ok();
                false
            }
        }
    }

    /// Closes the file after the checkpoint thread has ended.
    pub(in crate::sqlite) fn shut_down(mut self) {
        if let Some(wal_checkpoint) = self.wal_checkpoint.take() {
            wal_checkpoint.wait();
        }
    }

    /// Publishes the events.
    fn publish(&mut self) {
        self.mailbox.publish(&mut self.events);
        self.handed_bytes.set(0);
    }

    /// Whether no work is in progress in slices, and everything that can be written has been.
    fn is_idle(&self) -> bool {
        let is_written =
            self.failing.is_some() || (self.pending_writes.is_empty() && !self.is_broken);
        self.bulk_changes.is_empty() && self.searches.is_empty() && is_written
    }

    /// The time until something is due.
    fn time_to_next_work(&self) -> Duration {
        let (again, due, expiry) = match &self.failing {
            Some(failing) => (Some(failing.backoff.time_left()), None, None),
            None if self.is_broken || self.must_rewrite_wal => (Some(Duration::ZERO), None, None),
            None => (None, self.time_to_due(), Some(self.time_to_expiry())),
        };
        [
            again,
            due,
            expiry,
            self.time_to_read(),
            self.time_to_report_doubt(),
        ]
        .into_iter()
        .flatten()
        .fold(MAX_SLEEP, Duration::min)
    }

    /// Executes a bounded number of requests. Returns the reply channel if the store is to be closed.
    fn turn(&mut self) -> Option<SyncSender<io::Result<()>>> {
        let mut writes = std::mem::take(&mut self.pending_writes);
        writes.reserve(self.todo.len().min(MAX_GROUP));
        let mut others = Vec::new();
        let mut close = None;
        for _ in 0..MAX_GROUP {
            match self.todo.pop_front() {
                Some(Item::Request(request)) => {
                    self.sort_request(request, &mut writes, &mut others);
                }
                Some(Item::Open { name, policy }) => self.open_queue(&name, policy),
                Some(Item::Damaged(damaged)) => self.record_damaged(damaged),
                Some(Item::Close { reply }) => {
                    close = Some(reply);
                    break;
                }
                None => break,
            }
        }
        self.write(writes, close.is_some());
        self.report_doubt();
        let (queries, others): (Vec<Other>, Vec<Other>) = others
            .into_iter()
            .partition(|other| matches!(other, Other::Query(_)));
        for other in others {
            self.handle_other(other);
        }
        self.read_deferred();
        self.search();
        self.set_aside();
        self.run_bulk_slice();
        self.delete_expired();
        self.checkpoint_wal_if_long();
        // Queries come last, so that they see the effects and events of the requests before them.
        self.publish();
        for query in queries {
            self.handle_other(query);
        }
        close
    }

    fn sort_request(
        &mut self,
        request: StoreRequest,
        writes: &mut Vec<StoreRequest>,
        others: &mut Vec<Other>,
    ) {
        match request {
            StoreRequest::Refill {
                queue,
                class,
                key,
                limit,
            } => others.push(Other::Read(PendingRead::Refill {
                queue,
                class,
                key,
                limit,
            })),
            StoreRequest::Fetch { job } => others.push(Other::Read(PendingRead::Fetch(job))),
            StoreRequest::RefillLanes {
                queue,
                lanes,
                limit,
            } => self.start_search(queue, lanes, limit),
            StoreRequest::Query { ticket, query } => {
                others.push(Other::Query(PendingQuery { ticket, query }));
            }
            StoreRequest::Change {
                ticket,
                which,
                change,
            } => others.push(Other::Change(ticket, which, change)),
            StoreRequest::Import { ticket, jobs } => others.push(Other::Import(ticket, jobs)),
            // Only the latest list of running jobs counts.
            StoreRequest::Running { .. } => {
                writes.retain(|request| !matches!(request, StoreRequest::Running { .. }));
                writes.push(request);
            }
            request => writes.push(request),
        }
    }

    fn handle_other(&mut self, other: Other) {
        match other {
            Other::Read(unread) => self.read_or_defer(unread),
            Other::Query(query) => self.send_to_reader(query),
            Other::Change(ticket, which, change) => self.start_change(ticket, which, change),
            Other::Import(ticket, jobs) => self.start_import(ticket, jobs),
        }
    }

    /// Allows the reader to scrub the file, which is open.
    pub(in crate::sqlite) fn allow_scrub(&self) {
        if !self.is_broken {
            // Fails if the reader has ended, and then nothing is scrubbed.
            self.reader.send(Message::Scrub).ok();
        }
    }

    /// Passes a query to the reader. Queries go through the writer so that they see the effects of earlier
    /// requests.
    fn send_to_reader(&mut self, query: PendingQuery) {
        let ticket = query.ticket;
        if self.reader.send(Message::Query(query)).is_err() {
            let found = Err(Trouble::Io("the thread that reads has ended".to_owned()));
            self.events.push(StoreEvent::Found { ticket, found });
        }
    }
}
