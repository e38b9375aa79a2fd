use super::commit::trouble;
use super::{Batch, Effect, Writer, batch::must_last};
use crate::sqlite::post::Item;
use crate::sqlite::reader::Question;
use crate::{Ask, Change, Import, Keep, Opened, QueueNo, Ticket, Told, Trouble, Which};
use rusqlite::params;
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
        loop {
            let wait = match self.todo.is_empty() && self.long.is_empty() {
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
                let _ = reply.send(closed).is_ok();
                return;
            }
            post.tell(&mut self.told);
        }
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
                    others.push(Other::Open { name, keep, reply })
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
        self.go_on();
        self.tidy();
        // Last, because whoever looks wants to see what they asked for before.
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

    /// Writes, or keeps what may not be lost until that is possible again.
    fn write(&mut self, asks: Vec<Ask>, now: bool) {
        let trouble = match &self.failing {
            Some(failing) if !now && Instant::now() < failing.again => failing.trouble.clone(),
            _ => {
                if asks.is_empty() && !self.is_due() && self.failing.is_none() {
                    return;
                }
                let last = asks.iter().any(must_last);
                match self.transact(last, |writer, batch| writer.apply(&asks, batch)) {
                    Ok(batch) => {
                        self.recovered();
                        self.settle(asks, batch);
                        return;
                    }
                    Err(error) => self.fail(&error),
                }
            }
        };
        for ask in asks {
            match ask {
                Ask::Push { .. } => self.refuse(&ask, &trouble),
                ask => self.owed.push(ask),
            }
        }
    }

    fn apply(&mut self, asks: &[Ask], batch: &mut Batch) -> rusqlite::Result<()> {
        if self.is_due() {
            self.promote(batch)?;
            self.look_for_due()?;
        }
        for ask in asks {
            let effect = self.apply_one(ask, batch)?;
            batch.effects.push(effect);
        }
        Ok(())
    }

    fn apply_one(&mut self, ask: &Ask, batch: &mut Batch) -> rusqlite::Result<Effect> {
        match ask {
            Ask::Push { job, .. } => self.push(job, batch),
            Ask::End {
                job,
                run,
                ending,
                output,
                ..
            } => self.end(*job, *run, ending, output.as_deref(), batch),
            Ask::Retry {
                job,
                run,
                due_ms,
                error,
                output,
                hold,
            } => self.retry(*job, *run, *due_ms, error, output.as_deref(), *hold, batch),
            Ask::Started { job } => self.started(*job),
            Ask::Running { jobs } => self.running(jobs),
            Ask::Checkpoint { job, bytes } => self.checkpoint(*job, bytes),
            Ask::Progress { job, percent, text } => self.progress(*job, *percent, text),
            Ask::Note { job, what, text } => self.add_note(*job, *what, text, batch),
            Ask::Pause { queue, paused } => self.pause(*queue, *paused),
            Ask::Settings { queue, settings } => self.settings(*queue, settings),
            Ask::Refill { .. }
            | Ask::RefillLanes { .. }
            | Ask::Look { .. }
            | Ask::Change { .. }
            | Ask::Import { .. } => Ok(Effect::None),
        }
    }

    fn other(&mut self, other: Other) {
        match other {
            Other::Refill(ask) => {
                if let Err(error) = self.hand_over(&ask) {
                    // It is asked again once the disk can be read.
                    self.fail(&error);
                    self.todo.push_back(Item::Ask(ask));
                }
            }
            Other::Open { name, keep, reply } => {
                let opened = self
                    .open_queue(&name, keep)
                    .map_err(|error| io::Error::other(trouble(&error)));
                // Whoever opens may have given up waiting.
                let _ = reply.send(opened).is_ok();
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
            } => self.refill_lanes(*queue, *lanes, *limit),
            _ => Ok(()),
        }
    }

    /// Looking is the reader's. It comes by here so that it sees what was asked before.
    fn pass_on(&mut self, question: Question) {
        let ticket = question.ticket;
        if self.reader.send(question).is_err() {
            let found = Err(Trouble::Io("the thread that reads has ended".to_owned()));
            self.told.push(Told::Found { ticket, found });
        }
    }

    fn open_queue(&mut self, name: &str, keep: Keep) -> rusqlite::Result<Opened> {
        let queue = match self.queues.find(name) {
            Some(queue) => queue,
            None => {
                let id = self.queues.len();
                self.transact(true, |writer, _| {
                    let insert = "INSERT INTO queues (id, name) VALUES (?1, ?2)";
                    writer.db.execute(insert, params![id, name]).map(drop)
                })?;
                self.queues.add(name)
            }
        };
        self.resume(queue, keep)?;
        let opened = "SELECT paused, settings FROM queues WHERE id = ?1";
        self.db.query_row(opened, [queue.0], |row| {
            Ok(Opened {
                queue,
                paused: row.get(0)?,
                settings: row.get(1)?,
            })
        })
    }

    fn resume(&mut self, queue: QueueNo, keep: Keep) -> rusqlite::Result<()> {
        let Some(of_queue) = self.queues.get_mut(queue) else {
            return Ok(());
        };
        of_queue.keep = keep;
        // Less may be kept than before.
        self.tidy_at.set(0);
        let (was_open, counts) = (of_queue.is_open, of_queue.tally.counts);
        if !was_open {
            self.resume_resting(queue, keep.ordered)?;
            self.told.push(Told::Counts { queue, counts });
        }
        if let Some(of_queue) = self.queues.get_mut(queue) {
            of_queue.is_open = true;
        }
        if !keep.ordered {
            self.look_for_due()?;
        }
        Ok(())
    }

    fn close(&mut self) -> io::Result<()> {
        while !self.long.is_empty() {
            self.go_on();
        }
        let done = self.transact(true, |writer, _| writer.running(&[]).map(drop));
        done.map_err(|error| io::Error::other(trouble(&error)))?;
        if !self.owed.is_empty() {
            return Err(io::Error::other(format!(
                "{} outcomes could not be written",
                self.owed.len()
            )));
        }
        let checkpoint = "PRAGMA wal_checkpoint(TRUNCATE)";
        // Somebody may be reading; the log then stays, and is as good.
        let _ = self.db.query_row(checkpoint, [], |_| Ok(())).is_ok();
        Ok(())
    }
}
