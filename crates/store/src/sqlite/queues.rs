//! The writer's list of queues and their counts.

use super::KnownQueue;
use super::row_checksum::QUEUES;
use crate::{Counts, QueueNo, QueuePolicy, State};
use rusqlite::{Connection, Row, params};
use std::sync::LazyLock;

/// The writer's list of all queues and their counts. Changes made during a commit are undone if the commit
/// fails.
#[derive(Default)]
pub(super) struct Queues {
    queues: Vec<Queue>,
    /// The number of queues, from the first, that have a row in the file.
    saved: usize,
    /// Queues that the current commit has changed.
    touched: Vec<QueueNo>,
}

#[derive(Debug, Default)]
pub(super) struct Queue {
    pub(super) name: String,
    pub(super) policy: QueuePolicy,
    /// The handle has opened the queue, so events may use its number.
    pub(super) is_open: bool,
    pub(super) tally: Tally,
    /// The tally in the file.
    committed: Tally,
    is_touched: bool,
    /// Ready jobs of the last commit that have not been settled yet.
    pub(super) unsettled: u64,
    /// The class and key after which the next search for lanes starts.
    pub(super) search_after: Option<(u8, Box<[u8]>)>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Tally {
    pub(super) counts: Counts,
    /// Done and cancelled jobs that are still kept.
    pub(super) kept: u64,
}

const LOAD: &str = "SELECT id, name, ready, delayed, suspended, done, cancelled, failed, retried, kept \
                    FROM queues ORDER BY id";
static ADD: LazyLock<String> = LazyLock::new(|| {
    // The defaults of a new row.
    let sum = QUEUES.sum(&[
        ("id", "?1"),
        ("name", "?2"),
        ("paused", "0"),
        ("settings", "''"),
    ]);
    format!("INSERT INTO queues (id, name, checksum) VALUES (?1, ?2, {sum})")
});
const SAVE: &str = "UPDATE queues SET ready = ?2, delayed = ?3, suspended = ?4, done = ?5, cancelled = ?6, \
                    failed = ?7, retried = ?8, kept = ?9, last = ?10, serial = ?11 WHERE id = ?1";

impl Queues {
    pub(super) fn load(db: &Connection) -> rusqlite::Result<Self> {
        let mut statement = db.prepare(LOAD)?;
        let rows = statement.query_map([], |row| Ok((row.get::<_, u32>(0)?, queue(row)?)))?;
        let mut queues = Vec::new();
        for row in rows {
            let (id, queue) = row?;
            queues.resize_with((id as usize).max(queues.len()), Queue::default);
            queues.push(queue);
        }
        Ok(Self {
            saved: queues.len(),
            queues,
            touched: Vec::new(),
        })
    }

    /// Loads the counts from the file. The file may contain a commit that was reported as failed.
    pub(super) fn reload(&mut self, db: &Connection) -> rusqlite::Result<()> {
        let loaded = Self::load(db)?;
        self.saved = loaded.saved;
        // Queues without a row, which the next commit adds, have no jobs in the file.
        let loaded = loaded.queues.iter().map(|queue| queue.tally);
        let tallies = loaded.chain(std::iter::repeat(Tally::default()));
        for (queue, tally) in self.queues.iter_mut().zip(tallies) {
            queue.tally = tally;
            queue.committed = tally;
        }
        Ok(())
    }

    pub(super) fn find(&self, name: &str) -> Option<QueueNo> {
        let at = self.queues.iter().position(|queue| queue.name == name)?;
        Some(QueueNo(at as u32))
    }

    pub(super) fn len(&self) -> u32 {
        self.queues.len() as u32
    }

    pub(super) fn add(&mut self, name: &str) -> QueueNo {
        self.queues.push(Queue {
            name: name.to_owned(),
            ..Queue::default()
        });
        QueueNo(self.len() - 1)
    }

    pub(super) fn get(&self, queue: QueueNo) -> Option<&Queue> {
        self.queues.get(queue.0 as usize)
    }

    pub(super) fn get_mut(&mut self, queue: QueueNo) -> Option<&mut Queue> {
        self.queues.get_mut(queue.0 as usize)
    }

    pub(super) fn counts(&self, queue: QueueNo) -> Counts {
        let queue = self.get(queue);
        queue.map(|queue| queue.tally.counts).unwrap_or_default()
    }

    pub(super) fn policy(&self, queue: QueueNo) -> QueuePolicy {
        self.get(queue)
            .map(|queue| queue.policy)
            .unwrap_or_default()
    }

    /// The tally of a queue, to be changed in the current commit.
    pub(super) fn tally_mut(&mut self, queue: QueueNo) -> Option<&mut Tally> {
        let entry = self.queues.get_mut(queue.0 as usize)?;
        if !std::mem::replace(&mut entry.is_touched, true) {
            self.touched.push(queue);
        }
        Some(&mut entry.tally)
    }

    /// Changes the count of a queue's jobs in a state.
    pub(super) fn adjust_count(&mut self, queue: QueueNo, state: State, change: i64) {
        let Some(Tally { counts, kept }) = self.tally_mut(queue) else {
            return;
        };
        let count = match state {
            State::Ready => &mut counts.ready,
            State::Delayed | State::Retrying => &mut counts.delayed,
            State::Suspended => &mut counts.suspended,
            State::Done => &mut counts.done,
            State::Failed => &mut counts.failed,
            State::Cancelled => &mut counts.cancelled,
        };
        *count = count.saturating_add_signed(change);
        if matches!(state, State::Done | State::Cancelled) {
            *kept = kept.saturating_add_signed(change);
        }
    }

    /// Counts ended jobs that are no longer kept. The counts of done and cancelled jobs include them.
    pub(super) fn count_forgotten(&mut self, queue: QueueNo, state: State, count: u64) {
        let Some(Tally { counts, kept }) = self.tally_mut(queue) else {
            return;
        };
        match state {
            State::Failed => counts.failed = counts.failed.saturating_sub(count),
            _ => *kept = kept.saturating_sub(count),
        }
    }

    /// Whether the current commit writes rows of queues.
    pub(super) fn are_touched(&self) -> bool {
        !self.touched.is_empty()
    }

    /// Whether there are queues without a row.
    pub(super) fn has_new(&self) -> bool {
        self.saved < self.queues.len()
    }

    /// Inserts rows for queues that have none.
    pub(super) fn save_new(&self, db: &Connection) -> rusqlite::Result<()> {
        for (id, queue) in self.queues.iter().enumerate().skip(self.saved) {
            db.prepare_cached(&ADD)?.execute(params![id, queue.name])?;
        }
        Ok(())
    }

    /// Writes the counts that have changed.
    pub(super) fn save(&self, db: &Connection, last: u64, serial: u64) -> rusqlite::Result<()> {
        let mut save = db.prepare_cached(SAVE)?;
        for queue in &self.touched {
            let Tally { counts, kept } = self.queues[queue.0 as usize].tally;
            let Counts {
                ready,
                delayed,
                suspended,
                done,
                cancelled,
                failed,
                retried,
            } = counts;
            let [ready, delayed, suspended] = [ready, delayed, suspended].map(|count| count as i64);
            let [done, cancelled, failed] = [done, cancelled, failed].map(|count| count as i64);
            let [retried, kept, last, serial] =
                [retried, kept, last, serial].map(|count| count as i64);
            save.execute(params![
                queue.0, ready, delayed, suspended, done, cancelled, failed, retried, kept, last,
                serial
            ])?;
        }
        Ok(())
    }

    /// Reports the counts of all open queues.
    pub(super) fn report_all(&self, mut report: impl FnMut(QueueNo, Counts)) {
        for (queue, entry) in (0..).map(QueueNo).zip(&self.queues) {
            if entry.is_open {
                report(queue, entry.tally.counts);
            }
        }
    }

    /// Keeps the new counts after a successful commit, and reports them.
    pub(super) fn settle(&mut self, mut report: impl FnMut(QueueNo, Counts)) {
        self.saved = self.queues.len();
        for queue in self.touched.drain(..) {
            let entry = &mut self.queues[queue.0 as usize];
            entry.is_touched = false;
            entry.committed = entry.tally;
            if entry.is_open {
                report(queue, entry.tally.counts);
            }
        }
    }

    /// Restores the previous counts after a failed commit.
    pub(super) fn undo(&mut self) {
        for queue in self.touched.drain(..) {
            let entry = &mut self.queues[queue.0 as usize];
            entry.is_touched = false;
            entry.tally = entry.committed;
            entry.unsettled = 0;
        }
    }
}

fn queue(row: &Row<'_>) -> rusqlite::Result<Queue> {
    let number = |at| row.get::<_, i64>(at).map(|number| number.max(0) as u64);
    let counts = Counts {
        ready: number(2)?,
        delayed: number(3)?,
        suspended: number(4)?,
        done: number(5)?,
        cancelled: number(6)?,
        failed: number(7)?,
        retried: number(8)?,
    };
    let tally = Tally {
        counts,
        kept: number(9)?,
    };
    Ok(Queue {
        name: row.get(1)?,
        tally,
        committed: tally,
        ..Queue::default()
    })
}

/// All queues, for the handle that opens them.
pub(super) fn load_known(db: &Connection) -> rusqlite::Result<Vec<KnownQueue>> {
    let mut rows = db.prepare("SELECT id, name, paused, settings FROM queues ORDER BY id")?;
    let mut rows = rows.query([])?;
    let mut queues = Vec::new();
    while let Some(row) = rows.next()? {
        let id: u32 = row.get(0)?;
        queues.resize_with((id as usize).max(queues.len()), KnownQueue::default);
        queues.push(KnownQueue {
            name: row.get(1)?,
            paused: row.get(2)?,
            settings: row.get(3)?,
            counts: Counts::default(),
        });
    }
    Ok(queues)
}

/// A queue's name and counts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueueDescription {
    pub name: String,
    pub paused: bool,
    pub counts: Counts,
    /// Done and cancelled jobs that are still kept.
    pub kept: u64,
}

/// All queues, for `describe`.
pub(super) fn describe_queues(db: &Connection) -> rusqlite::Result<Vec<QueueDescription>> {
    let mut paused = db.prepare("SELECT paused FROM queues ORDER BY id")?;
    let paused = paused
        .query_map([], |row| row.get(0))?
        .collect::<rusqlite::Result<Vec<bool>>>()?;
    let queues = Queues::load(db)?.queues.into_iter();
    Ok(queues
        .zip(paused)
        .map(|(Queue { name, tally, .. }, paused)| {
            let Tally { counts, kept } = tally;
            QueueDescription {
                name,
                paused,
                counts,
                kept,
            }
        })
        .collect())
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may panic")]
mod tests {
    use super::*;

    /// Simulation, seed 10390: the first commit of a queue failed, and the file was opened again.
    #[test]
    fn a_queue_without_a_row_has_no_jobs() {
        let dir = stoker_testkit::Dir::new();
        let db = crate::sqlite::schema::open(&dir.path().join("jobs.db"), 64).unwrap();
        let mut queues = Queues::load(&db).unwrap();
        let queue = queues.add("mails");
        queues.get_mut(queue).unwrap().is_open = true;
        queues.adjust_count(queue, State::Ready, 17);
        queues.reload(&db).unwrap();
        let mut events = Vec::new();
        queues.report_all(|_, counts| events.push(counts));
        assert_eq!(events, [Counts::default()]);
    }
}
