use super::Writer;
use super::commit::trouble;
use crate::sqlite::post::Item;
use crate::sqlite::reader::{Message, Question};
use crate::{Ask, Change, Import, Keep, Opened, Ticket, Told, Trouble, Which};
use std::io;
use std::sync::mpsc::SyncSender;
use std::time::{Duration, Instant};

/// Asks that go into one commit at the most.
const GROUP: usize = 4_096;

/// The longest sleep: the wall clock may be set.
const LONGEST_SLEEP: Duration = Duration::from_secs(30);

/// Something other than a write that was asked.
enum Other {
    Refill(Ask),
    Open {
        name: String,
        keep: Keep,
        reply: SyncSender<io::Result<Opened>>,
    },
    Look(Question),
    Change(Ticket, Which, Change),
    Import(Ticket, Vec<Import>),
}

impl Writer {
    pub(in crate::sqlite) fn run(mut self) {
        self.turn_until_the_end();
        // The file is let go of only when nobody works on it any more.
        if let Some(folding) = self.folding.take() {
            folding.wait();
        }
    }

    fn turn_until_the_end(&mut self) {
        loop {
            let wait = match self.todo.is_empty() && self.is_idle() {
                true => self.sleep(),
                false => Duration::ZERO,
            };
            let post = self.post.clone();
            post.receive(&mut self.todo, wait);
            if self.post.is_abandoned() {
                return;
            }
            if let Some(reply) = self.turn() {
                let closed = self.close();
                post.tell(&mut self.told);
                // Whoever closes may have given up waiting.
                reply.send(closed).ok();
                return;
            }
            post.tell(&mut self.told);
        }
    }

    /// Nothing goes on in slices.
    fn is_idle(&self) -> bool {
        self.long.is_empty() && (self.searches.is_empty() || self.failing.is_some())
    }

    /// How long there is nothing to do unless something is asked.
    fn sleep(&self) -> Duration {
        let failing = self.failing.as_ref().map(|failing| failing.again);
        let again = failing.map(|again| again.saturating_duration_since(Instant::now()));
        let due = self
            .next_due
            .filter(|_| failing.is_none())
            .map(|due| Duration::from_millis(due.saturating_sub((self.clock)())));
        let tidy = match self.failing {
            None => Some(Duration::from_millis(
                self.tidy_at.get().saturating_sub((self.clock)()),
            )),
            Some(_) => None,
        };
        [again, due, tidy]
            .into_iter()
            .flatten()
            .fold(LONGEST_SLEEP, Duration::min)
    }

    /// Does what was asked, a bounded share of it. Returns who asked to close.
    fn turn(&mut self) -> Option<SyncSender<io::Result<()>>> {
        let mut writes = std::mem::take(&mut self.owed);
        let mut others = Vec::new();
        let mut close = None;
        for _ in 0..GROUP {
            match self.todo.pop_front() {
                Some(Item::Ask(ask)) => self.sort(ask, &mut writes, &mut others),
                Some(Item::Open { name, keep, reply }) => {
                    others.push(Other::Open { name, keep, reply });
                }
                Some(Item::Close { reply }) => {
                    close = Some(reply);
                    break;
                }
                None => break,
            }
        }
        self.write(writes, close.is_some());
        let (looks, others): (Vec<Other>, Vec<Other>) = others
            .into_iter()
            .partition(|other| matches!(other, Other::Look(_)));
        for other in others {
            self.other(other);
        }
        if let Err(error) = self.search() {
            // It goes on once the disk can be read.
            self.fail(&error);
        }
        self.go_on();
        self.tidy();
        self.fold();
        // Last, because whoever looks wants to see what they asked for before, and to have been told of it.
        self.post.tell(&mut self.told);
        for look in looks {
            self.other(look);
        }
        close
    }

    fn sort(&mut self, ask: Ask, writes: &mut Vec<Ask>, others: &mut Vec<Other>) {
        match ask {
            Ask::Refill { .. } | Ask::RefillLanes { .. } => others.push(Other::Refill(ask)),
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
            Other::Refill(ask) => {
                // While the file is let go of there is nothing to read in. It is asked again once there is.
                if self.is_broken {
                    self.unread.push(ask);
                } else if let Err(error) = self.hand_over(&ask) {
                    self.fail(&error);
                    self.unread.push(ask);
                }
            }
            Other::Open { name, keep, reply } => {
                let opened = self
                    .open_queue(&name, keep)
                    .map_err(|error| io::Error::other(trouble(&error)));
                // Whoever opens may have given up waiting.
                reply.send(opened).ok();
            }
            Other::Look(question) => self.pass_on(question),
            Other::Change(ticket, which, change) => self.start_change(ticket, which, change),
            Other::Import(ticket, jobs) => self.start_import(ticket, jobs),
        }
    }

    fn hand_over(&mut self, ask: &Ask) -> rusqlite::Result<()> {
        match ask {
            Ask::Refill {
                queue,
                class,
                key,
                limit,
            } => self.refill(*queue, *class, key, *limit),
            Ask::RefillLanes {
                queue,
                lanes,
                limit,
            } => {
                self.start_search(*queue, *lanes, *limit);
                Ok(())
            }
            _ => Ok(()),
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
