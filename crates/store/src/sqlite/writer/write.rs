//! What was asked is written in one transaction, or kept until that is possible.

use super::batch::must_last;
use super::{Batch, Effect, Writer, doubt::Doubtful};
use crate::sqlite::trouble::{broken, is_damage, is_of_the_disk, trouble};
use crate::{Ask, JobId, Told, Trouble};

// Shows whether the disk takes anything, when there is nothing else to write.
const TRY: &str = "INSERT OR REPLACE INTO store (key, value) VALUES ('tried', ?1)";

impl Writer {
    /// Writes, or keeps what may not be lost until that is possible again.
    pub(super) fn write(&mut self, asks: Vec<Ask>, now: bool) {
        self.try_to_write(asks, now, false);
    }

    /// `anew`: these are tried a second time, by a connection that has read nothing wrong yet.
    fn try_to_write(&mut self, mut asks: Vec<Ask>, now: bool, anew: bool) {
        if let Some(failing) = &self.failing
            && !now
            && !failing.pace.is_due()
        {
            let trouble = failing.trouble.clone();
            return self.put_off(asks, &trouble);
        }
        let is_well = self.failing.is_none() && !self.is_broken && !self.distrusts_log;
        if asks.is_empty() && is_well && !self.is_due() && !self.queues.has_new() {
            return;
        }
        if let Err(error) = self.reopen() {
            let trouble = self.fail(&broken(&error));
            return self.put_off(asks, &trouble);
        }
        // What turned out not to be in the file was asked before these.
        asks.splice(0..0, std::mem::take(&mut self.owed));
        let last = asks.iter().any(must_last);
        let apply = |writer: &mut Self, batch: &mut Batch| {
            batch.makes_room = true;
            batch.effects.reserve_exact(asks.len());
            writer.apply(&asks, batch)
        };
        match self.transact(last, apply) {
            Ok(batch) => {
                self.recovered();
                self.settle(asks, batch);
            }
            // It was not what was asked that failed. The commit goes without it.
            Err(error) if self.blames_a_chore(&error) => self.try_to_write(asks, now, anew),
            // A page is read wrong once in a while, and remembered so.
            Err(error) if is_damage(&error) && !anew => {
                self.is_broken = true;
                self.try_to_write(asks, now, true);
            }
            Err(error) if !is_of_the_disk(&error) && asks.len() > 1 => {
                // One of them can't be done. The others can.
                let others = asks.split_off(asks.len() / 2);
                self.try_to_write(asks, now, true);
                self.try_to_write(others, now, true);
            }
            Err(error) if !is_of_the_disk(&error) => self.give_up(asks, &error),
            Err(error) => {
                let trouble = self.fail(&error);
                match self.unknown.take() {
                    Some((batch, serial)) if self.doubt.is_none() => {
                        self.doubt(Doubtful::Asks(asks), batch, serial, trouble);
                    }
                    _ => self.put_off(asks, &trouble),
                }
            }
        }
    }

    /// What was asked before an operator's change comes before it: that a job which the scheduler has given back failed its
    /// last run must not be written over what the change made of it.
    pub(super) fn write_what_is_owed(&mut self) {
        // What became of a commit in doubt is known once the file is open again, and then it may be owed.
        if !self.owed.is_empty() || self.doubt.is_some() {
            self.write(Vec::new(), true);
        }
    }

    /// Whether a commit failed of something that nobody asked for, and that is now left for a while.
    fn blames_a_chore(&mut self, error: &rusqlite::Error) -> bool {
        let chores = [
            (
                &mut self.making_ready,
                "jobs whose time has come can't be made ready",
            ),
            (
                &mut self.making_room,
                "what need not be kept can't be forgotten",
            ),
        ];
        let blamed = chores
            .into_iter()
            .find_map(|(chore, what)| chore.take_blame().then_some(what));
        // What became of that commit must be known first.
        if let Some(what) = blamed.filter(|_| self.unknown.is_none()) {
            self.told.push(Told::Damage(format!("{what}: {error}")));
            return true;
        }
        false
    }

    /// Refuses pushes, and keeps the rest.
    pub(super) fn put_off(&mut self, asks: Vec<Ask>, trouble: &Trouble) {
        for ask in asks {
            match ask {
                Ask::Push { .. } => self.refuse(&ask, trouble),
                ask => self.owe(ask),
            }
        }
    }

    /// Keeps what is to be written later. Of what a job tells of itself again and again, the last will do.
    fn owe(&mut self, ask: Ask) {
        let same = |owed: &Ask| match (owed, &ask) {
            (Ask::Checkpoint { job, .. }, Ask::Checkpoint { job: of, .. })
            | (Ask::Progress { job, .. }, Ask::Progress { job: of, .. }) => job == of,
            (Ask::Running { .. }, Ask::Running { .. }) => true,
            _ => false,
        };
        let place = match ask {
            Ask::Checkpoint { .. } | Ask::Progress { .. } | Ask::Running { .. } => {
                self.owed.iter().position(same)
            }
            _ => None,
        };
        match place {
            Some(at) => self.owed[at] = ask,
            None => self.owed.push(ask),
        }
    }

    /// What can't be written although the disk is well would fail for ever, and hold up everything behind
    /// it. A job whose end can't be written is held on: nobody hands it over before a restart.
    fn give_up(&mut self, asks: Vec<Ask>, error: &rusqlite::Error) {
        for ask in asks {
            match ask {
                Ask::Push { .. } => self.refuse(&ask, &trouble(error)),
                Ask::End { job, told, .. } => {
                    self.tell_given_up(job, "ended", error);
                    self.told
                        .extend(told.map(|ticket| Told::GivenUp { ticket }));
                }
                Ask::Retry { job, .. } => self.tell_given_up(job, "failed a run", error),
                Ask::Crashed { jobs } => self.count_crashes_of_others(jobs),
                Ask::Pause { told, .. } | Ask::Settings { told, .. } => {
                    let trouble = trouble(error);
                    self.told.extend(told.into_iter().flat_map(|ticket| {
                        let trouble = trouble.clone();
                        [Told::InDoubt { ticket, trouble }, Told::Ended { ticket }]
                    }));
                }
                _ => {}
            }
        }
    }

    fn tell_given_up(&mut self, job: JobId, how: &str, error: &rusqlite::Error) {
        let id = self.ids.uuid(job);
        let text = format!(
            "that job {id} {how} can't be written, and it may run again after a restart: {error}"
        );
        self.told.push(Told::Damage(text));
    }

    fn apply(&mut self, asks: &[Ask], batch: &mut Batch) -> rusqlite::Result<()> {
        if self.failing.is_some() {
            self.db.prepare_cached(TRY)?.execute([batch.now as i64])?;
        }
        if self.is_due() {
            self.promote(batch)?;
        }
        let mut rest = asks;
        while let Some((first, others)) = rest.split_first() {
            // Most asks are plain, and come in rows.
            let plain = self.push_plainly(rest, batch)? + self.end_plainly(rest, batch)?;
            rest = match plain {
                0 => {
                    let effect = self.apply_one(first, batch)?;
                    batch.effects.push(effect);
                    others
                }
                plain => &rest[plain..],
            };
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
            Ask::Crashed { jobs } => self.count_crashes(jobs, batch).map(|()| Effect::None),
            Ask::Checkpoint { job, bytes } => self.checkpoint(*job, bytes),
            Ask::Progress { job, percent, text } => self.progress(*job, *percent, text),
            Ask::Output { job, bytes } => self.add_output(*job, bytes, batch),
            Ask::Note { job, what, text } => self.add_note(*job, *what, text, batch),
            Ask::Pause { queue, paused, .. } => self.pause(*queue, *paused),
            Ask::Settings {
                queue, settings, ..
            } => self.settings(*queue, settings),
            Ask::Refill { .. }
            | Ask::RefillLanes { .. }
            | Ask::Fetch { .. }
            | Ask::Look { .. }
            | Ask::Change { .. }
            | Ask::Import { .. } => Ok(Effect::None),
        }
    }
}
