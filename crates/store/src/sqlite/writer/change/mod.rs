//! Changes by operators. Changes of many jobs are made in slices, so that they do not delay other commits.

mod edit;
mod import;
mod retry;

use super::bulk::{BulkChange, Slice, Work};
use super::doubt::InDoubtWork;
use super::{Batch, Writer};
use crate::sqlite::reader::{Merged, Next, Order, Source, find, sources};
use crate::sqlite::trouble::{is_disk_error, trouble};
use crate::{
    Change, Changed, Ending, Holder, Import, JobId, Selection, State, StoreEvent, Ticket, Trouble,
    View,
};
use std::sync::atomic::Ordering;

/// The maximum number of jobs that one slice examines, in one transaction.
const SLICE: usize = stoker_os::limit(256, 3);

/// The maximum number of reads per slice, because a filter may match nothing for a long time.
const MAX_READS: usize = 4;

/// The number of rows that are read at a time from one source.
const PAGE: usize = stoker_os::limit(64, 4);

impl Writer {
    pub(super) fn start_change(&mut self, ticket: Ticket, which: Selection, change: Change) {
        let work = match which {
            Selection::One(id) => Work::One(id, change),
            Selection::Loaded(jobs) => Work::Loaded {
                jobs: jobs.into(),
                change,
                slice: Vec::new(),
                returned: Vec::new(),
            },
            Selection::Many(filter) => {
                let meant = sources(&filter, self.queues.len()).into_iter();
                let sources = meant.filter(|source| may_apply(&change, *source));
                let jobs = Merged::new(sources, Order::Oldest(0), PAGE);
                Work::Many {
                    filter,
                    change,
                    jobs,
                    upto: self.ids.last(),
                }
            }
        };
        self.bulk_changes.push_back(BulkChange {
            ticket,
            work,
            changed: Changed::default(),
            committed_count: 0,
        });
    }

    pub(super) fn start_import(&mut self, ticket: Ticket, jobs: Vec<Import>) {
        let work = Work::Import(jobs.into());
        self.bulk_changes.push_back(BulkChange {
            ticket,
            work,
            changed: Changed::default(),
            committed_count: 0,
        });
    }

    /// Runs a slice of the first change in the list.
    pub(super) fn run_bulk_slice(&mut self) {
        if self.bulk_changes.is_empty() {
            return;
        }
        self.flush_pending_writes();
        let Some(mut bulk) = self.bulk_changes.pop_front() else {
            return;
        };
        if let (false, Some(failing)) = (self.pending_writes.is_empty(), &self.failing) {
            let trouble = failing.trouble.clone();
            return self.abort_bulk_change(bulk, trouble);
        }
        let mut over = Ok(false);
        let done = self.transact(true, |writer, batch| {
            over = writer.slice(&mut bulk, batch)?;
            Ok(())
        });
        let error = match done {
            Ok(batch) => {
                self.end_trouble();
                return self.settle_slice(Slice { bulk, over }, batch);
            }
            Err(error) => error,
        };
        if !is_disk_error(&error) {
            // A page that can't be read affects only this change.
            return self.abort_bulk_change(bulk, trouble(&error));
        }
        let trouble = self.fail(&error);
        match self.unknown.take() {
            // Whether the slice was committed is reported once it is known.
            Some((batch, serial)) if self.doubt.is_none() => {
                let slice = InDoubtWork::Slice(Box::new(Slice { bulk, over }));
                self.record_doubt(slice, batch, serial, trouble);
            }
            _ => self.abort_bulk_change(bulk, trouble),
        }
    }

    /// Aborts a change after a slice failed, possibly after others were committed. Repeating the request does
    /// the rest. For loaded jobs, the answer says which ones stay loaded, and why.
    pub(super) fn abort_bulk_change(&mut self, mut bulk: BulkChange, trouble: Trouble) {
        bulk.changed.count = bulk.committed_count;
        let result = match (&mut bulk.work, bulk.committed_count) {
            (Work::Loaded { jobs, slice, .. }, 1..) => {
                let left = slice.drain(..).chain(jobs.drain(..));
                bulk.changed.loaded.extend(left);
                bulk.changed.trouble = Some(trouble);
                Ok(std::mem::take(&mut bulk.changed))
            }
            _ => Err(trouble),
        };
        self.answer_change(bulk, result);
    }

    /// Publishes the effects of a slice that was committed.
    pub(super) fn settle_slice(&mut self, slice: Slice, batch: Batch) {
        let Slice { mut bulk, over } = slice;
        let over = match over {
            Ok(over) => over,
            Err(trouble) => return self.answer_change(bulk, Err(trouble)),
        };
        if let Work::Loaded {
            slice, returned, ..
        } = &mut bulk.work
        {
            slice.clear();
            returned.drain(..).for_each(|job| self.unload(job));
        }
        bulk.committed_count = bulk.changed.count;
        for (queue, class, key) in batch.lanes_left {
            self.update_backlog(queue, class, &key);
        }
        for ((queue, class, key), order) in batch.woken {
            self.wake(queue, class, key, order);
        }
        if !over {
            return self.bulk_changes.push_front(bulk);
        }
        let changed = std::mem::take(&mut bulk.changed);
        self.answer_change(bulk, Ok(changed));
    }

    pub(super) fn answer_change(&mut self, bulk: BulkChange, result: Result<Changed, Trouble>) {
        self.mailbox.queries.fetch_sub(1, Ordering::Relaxed);
        self.events.push(StoreEvent::Changed {
            ticket: bulk.ticket,
            result,
        });
    }

    /// Runs a slice. Returns whether it was the last one, or why the change could not be made.
    fn slice(
        &mut self,
        bulk: &mut BulkChange,
        batch: &mut Batch,
    ) -> rusqlite::Result<Result<bool, Trouble>> {
        let changed = &mut bulk.changed;
        match &mut bulk.work {
            Work::One(job, change) => self.change_one(*job, change, changed, batch),
            Work::Many {
                filter,
                change,
                jobs,
                upto,
            } => {
                let mut reads_left = MAX_READS;
                for _ in 0..SLICE {
                    let view = match jobs.next(&self.db, filter, &mut reads_left)? {
                        Next::Job(view) if view.id.0 <= *upto => view,
                        Next::Later => break,
                        Next::Job(_) | Next::Over => return Ok(Ok(true)),
                    };
                    // The job may have changed since its page was read.
                    if let Some(view) =
                        find(&self.db, view.id)?.filter(|view| applies(change, view))
                        && self.conflicting_holder(&view, change, batch.now)?.is_none()
                    {
                        self.change_not_loaded(&view, change, changed, batch)?;
                    }
                }
                Ok(Ok(false))
            }
            Work::Loaded {
                jobs,
                change,
                slice,
                returned,
            } => {
                slice.extend(jobs.drain(..SLICE.min(jobs.len())));
                for job in slice.iter().copied() {
                    let Some(view) = find(&self.db, job)?.filter(|view| applies(change, view))
                    else {
                        continue;
                    };
                    // Another job may have taken the unique key since the request.
                    match self.conflicting_holder(&view, change, batch.now)? {
                        Some(_) => changed.loaded.push(job),
                        None => {
                            self.change(&view, change, changed, batch)?;
                            returned.push(job);
                        }
                    }
                }
                Ok(Ok(jobs.is_empty()))
            }
            Work::Import(jobs) => {
                for job in jobs.drain(..SLICE.min(jobs.len())) {
                    changed.count += u64::from(self.import(job, batch)?);
                }
                Ok(Ok(jobs.is_empty()))
            }
        }
    }

    fn change_one(
        &mut self,
        job: JobId,
        change: &Change,
        changed: &mut Changed,
        batch: &mut Batch,
    ) -> rusqlite::Result<Result<bool, Trouble>> {
        let Some(view) = find(&self.db, job)? else {
            return Ok(Err(Trouble::NotFound));
        };
        if !change.applies_to(view.state) {
            return Ok(Err(Trouble::State(view.state)));
        }
        if let Some(holder) = self.conflicting_holder(&view, change, batch.now)? {
            return Ok(Err(Trouble::Taken(holder)));
        }
        if applies(change, &view) {
            self.change_not_loaded(&view, change, changed, batch)?;
        }
        Ok(Ok(true))
    }

    /// The job whose unique key prevents the change: a job can't be retried while another job holds its key,
    /// and a job that holds its key can't move to a queue where another job holds the same key.
    fn conflicting_holder(
        &self,
        view: &View,
        change: &Change,
        now: u64,
    ) -> rusqlite::Result<Option<Holder>> {
        let options = view.options.as_ref();
        let Some(unique) = options.and_then(|options| options.unique.as_ref()) else {
            return Ok(None);
        };
        match change {
            Change::Retry { .. } => self.holder(view.queue, unique, now),
            Change::Move { to } if *to != view.queue => {
                let holder = self.holder(view.queue, unique, now)?;
                let holds = holder.is_some_and(|holder| holder.job == view.id);
                let there = holds.then(|| self.holder(*to, unique, now));
                Ok(there.transpose()?.flatten())
            }
            _ => Ok(None),
        }
    }

    /// Changes a job unless it is loaded. A loaded job belongs to the scheduler, which ends or releases it.
    fn change_not_loaded(
        &mut self,
        view: &View,
        change: &Change,
        changed: &mut Changed,
        batch: &mut Batch,
    ) -> rusqlite::Result<()> {
        if self.lanes.is_loaded(view.id) {
            changed.loaded.push(view.id);
            return Ok(());
        }
        self.change(view, change, changed, batch)
    }

    fn change(
        &mut self,
        view: &View,
        change: &Change,
        changed: &mut Changed,
        batch: &mut Batch,
    ) -> rusqlite::Result<()> {
        if view.state == State::Ready {
            batch.record_lane_left(view.queue, view.class, &view.key);
        }
        match change {
            Change::Retry { per_second } => {
                let wait =
                    per_second.map_or(0, |rate| changed.count * 1_000 / u64::from(rate.max(1)));
                self.retry_ended(view, wait, batch)?;
            }
            Change::Cancel => {
                if let Some(summary) = self.job_summary(view.id)? {
                    self.finish(summary, None, &Ending::Cancelled, batch)?;
                }
            }
            Change::Discard => self.discard(view)?,
            Change::Move { to } => self.move_to(view, *to, batch)?,
            Change::Edit { body } => self.edit(view, body, batch)?,
            Change::Suspend => self.suspend(view, batch)?,
            Change::Release => self.release(view, batch)?,
        }
        changed.count += 1;
        Ok(())
    }
}

fn applies(change: &Change, view: &View) -> bool {
    // Jobs that are already in the target queue are not moved.
    let is_there = matches!(change, Change::Move { to } if *to == view.queue);
    change.applies_to(view.state) && !is_there
}

/// Whether a source can contain jobs that a change applies to.
fn may_apply(change: &Change, source: Source) -> bool {
    match (change, source) {
        // Otherwise the change would find the jobs that it has just moved there.
        (Change::Move { to }, Source::Ended(queue, _)) if *to == queue => false,
        (change, Source::Ended(_, state)) => change.applies_to(state),
        (change, Source::Jobs) => State::ALL
            .iter()
            .any(|state| !state.is_final() && change.applies_to(*state)),
    }
}
