//! The writer's loop.

use super::Writer;
use super::unread::Unread;
use crate::sqlite::post::Item;
use crate::sqlite::reader::{Message, Question};
use crate::{Ask, Change, Import, Ticket, Told, Trouble, Which};
use std::io;
use std::sync::mpsc::SyncSender;
use std::time::Duration;

/// Asks that go into one commit at the most.
const GROUP: usize = 4_096;

/// The longest sleep: the wall clock may be set.
const LONGEST_SLEEP: Duration = Duration::from_secs(30);

/// Something other than a write that was asked.
enum Other {
    Read(Unread),
    Look(Question),
    Change(Ticket, Which, Change),
    Import(Ticket, Vec<Import>),
}

impl Writer {
    /// How long there is nothing to do unless something is asked.
    pub(in crate::sqlite) fn time_to_wait(&self) -> Duration {
        match self.todo.is_empty() && self.is_idle() {
            true => self.sleep(),
            false => Duration::ZERO,
        }
    }

    /// Waits so long at the most for something to do, and does it. Returns whether it goes on after that.
    pub(in crate::sqlite) fn work(&mut self, wait: Duration) -> bool {
        let post = self.post.clone();
        post.receive(&mut self.todo, wait);
        if self.post.is_abandoned() {
            return false;
        }
        let close = self.turn();
        let closed = close.map(|reply| (reply, self.close()));
        self.tell();
        match closed {
            None => true,
            Some((reply, closed)) => {
                // Whoever closes may have given up waiting.
                reply.send(closed).ok();
                false
            }
        }
    }

    /// The file is let go of only when nobody works on it any more.
    pub(in crate::sqlite) fn leave(mut self) {
        if let Some(folding) = self.folding.take() {
            folding.wait();
        }
    }

    /// Tells what there is to tell.
    fn tell(&mut self) {
        self.post.tell(&mut self.told);
        self.handing.set(0);
    }

    /// Nothing goes on in slices, and nothing is left to be written that can be.
    fn is_idle(&self) -> bool {
        let is_written = self.failing.is_some() || (self.owed.is_empty() && !self.is_broken);
        self.long.is_empty() && self.searches.is_empty() && is_written
    }

    /// How long nothing becomes due.
    fn sleep(&self) -> Duration {
        let (again, due, tidy) = match &self.failing {
            Some(failing) => (Some(failing.pace.time_left()), None, None),
            None if self.is_broken || self.distrusts_log => (Some(Duration::ZERO), None, None),
            None => (None, self.time_to_due(), Some(self.time_to_tidy())),
        };
        [
            again,
            due,
            tidy,
            self.time_to_read(),
            self.time_to_tell_doubt(),
        ]
        .into_iter()
        .flatten()
        .fold(LONGEST_SLEEP, Duration::min)
    }

    /// Does what was asked, a bounded share of it. Returns who asked to close.
    fn turn(&mut self) -> Option<SyncSender<io::Result<()>>> {
        let mut writes = std::mem::take(&mut self.owed);
        writes.reserve(self.todo.len().min(GROUP));
        let mut others = Vec::new();
        let mut close = None;
        for _ in 0..GROUP {
            match self.todo.pop_front() {
                Some(Item::Ask(ask)) => self.sort(ask, &mut writes, &mut others),
                Some(Item::Open { name, keep }) => self.open_queue(&name, keep),
                Some(Item::Damaged(damaged)) => self.found_damaged(damaged),
                Some(Item::Close { reply }) => {
                    close = Some(reply);
                    break;
                }
                None => break,
            }
        }
        self.write(writes, close.is_some());
        self.tell_doubt();
        let (looks, others): (Vec<Other>, Vec<Other>) = others
            .into_iter()
            .partition(|other| matches!(other, Other::Look(_)));
        for other in others {
            self.other(other);
        }
        self.read_parked();
        self.search();
        self.set_aside();
        self.go_on();
        self.tidy();
        self.fold();
        // Last, because whoever looks wants to see what they asked for before, and to have been told of it.
        self.tell();
        for look in looks {
            self.other(look);
        }
        close
    }

    fn sort(&mut self, ask: Ask, writes: &mut Vec<Ask>, others: &mut Vec<Other>) {
        match ask {
            Ask::Refill {
                queue,
                class,
                key,
                limit,
            } => others.push(Other::Read(Unread::Refill {
                queue,
                class,
                key,
                limit,
            })),
            Ask::Fetch { job } => others.push(Other::Read(Unread::Fetch(job))),
            Ask::RefillLanes {
                queue,
                lanes,
                limit,
            } => self.start_search(queue, lanes, limit),
            Ask::Look { ticket, look } => others.push(Other::Look(Question { ticket, look })),
            Ask::Change {
                ticket,
                which,
                change,
            } => others.push(Other::Change(ticket, which, change)),
            Ask::Import { ticket, jobs } => others.push(Other::Import(ticket, jobs)),
            // Only the last one counts.
            Ask::Running { .. } => {
                writes.retain(|ask| !matches!(ask, Ask::Running { .. }));
                writes.push(ask);
            }
            ask => writes.push(ask),
        }
    }

    fn other(&mut self, other: Other) {
        match other {
            Other::Read(unread) => self.read_or_park(unread),
            Other::Look(question) => self.pass_on(question),
            Other::Change(ticket, which, change) => self.start_change(ticket, which, change),
            Other::Import(ticket, jobs) => self.start_import(ticket, jobs),
        }
    }

    /// The file is open, and may be read in the background.
    pub(in crate::sqlite) fn allow_scrub(&self) {
        if !self.is_broken {
            // It fails if the reader is gone, and then nobody reads.
            self.reader.send(Message::Scrub).ok();
        }
    }

    /// Looking is the reader's. It comes by here so that it sees what was asked before.
    fn pass_on(&mut self, question: Question) {
        let ticket = question.ticket;
        if self.reader.send(Message::Look(question)).is_err() {
            let found = Err(Trouble::Io("the thread that reads has ended".to_owned()));
            self.told.push(Told::Found { ticket, found });
        }
    }
}
