//! A queue of the memory engine.

use super::Entry;
use crate::{Counts, Holder, JobId, NewJob, Pushed, QueuePolicy, State, checksum};
use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::ops::Bound;

/// A lane of a queue: priority class and tenant.
pub(super) type LaneKey = (u8, Box<[u8]>);

/// The position of a job that waits to be handed over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Place {
    pub(super) order: u64,
    pub(super) job: JobId,
}

/// A push whose idempotency key is recognised until the given time.
#[derive(Debug)]
struct KnownPush {
    holder: Holder,
    body_checksum: u64,
    until: u64,
}

/// The job that holds a unique key, and when the hold expires.
#[derive(Debug)]
struct Unique {
    holder: Holder,
    until: u64,
}

#[derive(Debug, Default)]
struct Lane {
    waiting: VecDeque<Place>,
    loaded: u32,
    /// The order number up to which no job waits.
    cursor: u64,
}

/// Jobs of one queue.
#[derive(Debug, Default)]
pub(super) struct MemoryQueue {
    pub(super) name: String,
    pub(super) policy: QueuePolicy,
    pub(super) paused: bool,
    pub(super) settings: String,
    pub(super) counts: Counts,
    /// The counts have changed since they were last reported.
    pub(super) counts_changed: bool,
    lanes: HashMap<LaneKey, Lane>,
    /// Lanes with waiting jobs of which none is loaded. `last` is the lane that was served last.
    unloaded: BTreeSet<LaneKey>,
    last: Option<LaneKey>,
    done: BTreeMap<u64, JobId>,
    failed: BTreeMap<u64, JobId>,
    unique: HashMap<String, Unique>,
    idempotency: HashMap<Box<[u8]>, KnownPush>,
    /// Idempotency keys in the order in which they were used, with the time until which each is recognised.
    pushes: VecDeque<(u64, Box<[u8]>)>,
}

impl MemoryQueue {
    pub(super) fn new(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            counts_changed: true,
            ..Self::default()
        }
    }

    pub(super) fn adjust_count(&mut self, state: State, change: i64) {
        let counts = &mut self.counts;
        let count = match state {
            State::Ready => &mut counts.ready,
            State::Delayed | State::Retrying => &mut counts.delayed,
            State::Suspended => &mut counts.suspended,
            State::Done => &mut counts.done,
            State::Failed => &mut counts.failed,
            State::Cancelled => &mut counts.cancelled,
        };
        *count = count.saturating_add_signed(change);
        self.counts_changed = true;
    }

    /// The result of a push whose idempotency key or unique key belongs to an existing job.
    pub(super) fn find_existing(&self, new: &NewJob, now: u64) -> Option<Pushed> {
        if let Some(known) = self.find_known_push(new, now) {
            return Some(Pushed::Repeated {
                holder: known.holder.clone(),
                same_body: known.body_checksum == checksum::of_body(new.body()),
            });
        }
        if new.order.is_some() {
            return None;
        }
        let unique = new.options.as_ref()?.unique.as_ref()?;
        let taken = self.unique.get(&unique.key)?;
        (now < taken.until).then(|| Pushed::Taken(taken.holder.clone()))
    }

    /// The job that the push's idempotency key belongs to.
    pub(super) fn repeated_job(&self, new: &NewJob, now: u64) -> Option<JobId> {
        self.find_known_push(new, now).map(|known| known.holder.job)
    }

    fn find_known_push(&self, new: &NewJob, now: u64) -> Option<&KnownPush> {
        let known = self.idempotency.get(new.idempotency.as_ref()?)?;
        (now < known.until).then_some(known)
    }

    /// Whether a push with this key is still recognised as a repetition of this job.
    pub(super) fn is_recognized(&self, key: &[u8], job: JobId, now: u64) -> bool {
        let known = self.idempotency.get(key);
        known.is_some_and(|known| known.holder.job == job && now < known.until)
    }

    pub(super) fn record_keys(&mut self, entry: &Entry, now: u64) {
        if let Some(key) = &entry.idempotency {
            let until = now.saturating_add(self.policy.idempotency_ms);
            let known = KnownPush {
                holder: entry.as_holder(),
                body_checksum: checksum::of_body(entry.job.body()),
                until,
            };
            self.idempotency.insert(key.clone(), known);
            self.pushes.push_back((until, key.clone()));
        }
        self.forget_pushes(now);
        self.take_unique(entry, now);
    }

    /// Deletes expired idempotency keys. A key may outlive its job.
    fn forget_pushes(&mut self, now: u64) {
        while self.pushes.front().is_some_and(|(until, _)| *until <= now) {
            let Some((_, key)) = self.pushes.pop_front() else {
                return;
            };
            if self
                .idempotency
                .get(&key)
                .is_some_and(|known| known.until <= now)
            {
                self.idempotency.remove(&key);
            }
        }
    }

    /// Takes a job's unique key for it, unless another job holds the key.
    pub(super) fn take_unique(&mut self, entry: &Entry, now: u64) {
        let options = entry.job.options.as_ref();
        let Some(unique) = options.and_then(|options| options.unique.as_ref()) else {
            return;
        };
        let until = unique.for_ms.map_or(u64::MAX, |ms| now.saturating_add(ms));
        self.take_unique_until(entry, until, now);
    }

    pub(super) fn take_unique_until(&mut self, entry: &Entry, until: u64, now: u64) {
        let options = entry.job.options.as_ref();
        let unique = options.and_then(|options| options.unique.as_ref());
        if let Some(unique) = unique.filter(|_| self.holder(entry, now).is_none()) {
            let holder = entry.as_holder();
            self.unique
                .insert(unique.key.clone(), Unique { holder, until });
        }
    }

    /// The job that holds the unique key of `entry`, which may be `entry` itself.
    pub(super) fn holder(&self, entry: &Entry, now: u64) -> Option<Holder> {
        let unique = entry.job.options.as_ref()?.unique.as_ref()?;
        let taken = self.unique.get(&unique.key)?;
        (now < taken.until).then(|| taken.holder.clone())
    }

    /// Whether a job may be loaded at once: nothing waits before it and the window has room, or its place is
    /// among the loaded jobs.
    pub(super) fn lane_has_room(&self, lane: &LaneKey, order: u64) -> bool {
        self.lanes.get(lane).is_none_or(|lane| {
            let is_next = lane.waiting.is_empty() && lane.loaded < self.policy.window;
            is_next || order < lane.cursor
        })
    }

    pub(super) fn add_loaded(&mut self, lane: LaneKey, order: u64) {
        let lane = self.lanes.entry(lane).or_default();
        lane.loaded += 1;
        lane.cursor = lane.cursor.max(order);
    }

    /// Returns the lane if it has waiting jobs and none of them is loaded any more.
    pub(super) fn unload(&mut self, key: LaneKey) -> Option<LaneKey> {
        let lane = self.lanes.get_mut(&key)?;
        lane.loaded -= 1;
        match (lane.loaded, lane.waiting.is_empty()) {
            (0, true) => drop(self.lanes.remove(&key)),
            (0, false) => {
                lane.cursor = 0;
                self.unloaded.insert(key.clone());
                return Some(key);
            }
            _ => {}
        }
        None
    }

    /// Adds a job to its lane. Returns `true` if no job was waiting there.
    pub(super) fn add_waiting(&mut self, key: LaneKey, place: Place) -> bool {
        let lane = self.lanes.entry(key.clone()).or_default();
        let was_empty = lane.waiting.is_empty();
        match lane.waiting.back().is_none_or(|last| *last < place) {
            true => lane.waiting.push_back(place),
            false => {
                let at = lane.waiting.partition_point(|other| *other < place);
                lane.waiting.insert(at, place);
            }
        }
        lane.cursor = lane.cursor.min(place.order - 1);
        if lane.loaded == 0 {
            self.unloaded.insert(key);
        }
        was_empty
    }

    pub(super) fn take(&mut self, key: &LaneKey) -> Option<Place> {
        let lane = self.lanes.get_mut(key)?;
        let place = lane.waiting.pop_front()?;
        lane.loaded += 1;
        lane.cursor = place.order;
        self.unloaded.remove(key);
        Some(place)
    }

    pub(super) fn has_backlog(&self, key: &LaneKey) -> bool {
        self.lanes
            .get(key)
            .is_some_and(|lane| !lane.waiting.is_empty())
    }

    /// Removes a waiting job from its lane.
    pub(super) fn remove_waiting(&mut self, key: &LaneKey, place: Place) {
        let Some(lane) = self.lanes.get_mut(key) else {
            return;
        };
        if let Ok(at) = lane.waiting.binary_search(&place) {
            lane.waiting.remove(at);
        }
        if lane.waiting.is_empty() {
            self.unloaded.remove(key);
            if lane.loaded == 0 {
                self.lanes.remove(key);
            }
        }
    }

    pub(super) fn has_unloaded_lanes(&self) -> bool {
        !self.unloaded.is_empty()
    }

    /// The next lane, in round-robin order, among those of which no job is loaded.
    pub(super) fn next_unloaded_lane(&mut self) -> Option<LaneKey> {
        let after = self.last.take();
        let from = after.as_ref().map_or(Bound::Unbounded, Bound::Excluded);
        let mut later = self.unloaded.range((from, Bound::Unbounded));
        let next = later.next().or_else(|| self.unloaded.first()).cloned();
        self.last.clone_from(&next);
        next
    }

    pub(super) fn add_ended(&mut self, state: State, ended: u64, id: JobId) {
        self.adjust_count(state, 1);
        match state {
            State::Failed => self.failed.insert(ended, id),
            _ => self.done.insert(ended, id),
        };
    }

    /// Removes and returns the ended jobs that exceed the queue's retention by count or age.
    pub(super) fn take_expired(
        &mut self,
        now: u64,
        ended_ms: impl Fn(&JobId) -> u64,
    ) -> Vec<JobId> {
        let QueuePolicy {
            done,
            done_ms,
            failed,
            failed_ms,
            ..
        } = self.policy;
        let mut old = Vec::new();
        for (of_state, count, ms) in [
            (&mut self.done, done, done_ms),
            (&mut self.failed, failed, failed_ms),
        ] {
            while let Some((ended, id)) =
                of_state.first_key_value().map(|(ended, id)| (*ended, *id))
            {
                let is_old = ended_ms(&id).saturating_add(ms) <= now;
                if of_state.len() as u64 <= count && !is_old {
                    break;
                }
                of_state.remove(&ended);
                old.push(id);
            }
        }
        old
    }

    /// Removes a forgotten job from the queue.
    pub(super) fn forget(&mut self, old: &Entry) {
        self.done.remove(&old.ended);
        self.failed.remove(&old.ended);
        if old.state == State::Failed {
            self.adjust_count(State::Failed, -1);
        }
    }

    /// Removes a job that is retried from the ended jobs.
    pub(super) fn remove_retried(&mut self, entry: &Entry, now: u64) {
        self.done.remove(&entry.ended);
        self.failed.remove(&entry.ended);
        self.adjust_count(entry.state, -1);
        self.take_unique(entry, now);
    }

    /// Removes an ended job that moves to another queue.
    pub(super) fn remove_moved(&mut self, entry: &Entry) {
        self.done.remove(&entry.ended);
        self.failed.remove(&entry.ended);
        self.adjust_count(entry.state, -1);
    }

    /// Releases the job's unique key if the key is only held until the first run starts.
    pub(super) fn release_unique_at_start(&mut self, entry: &Entry) {
        let options = entry.job.options.as_ref();
        let unique = options.and_then(|options| options.unique.as_ref());
        if unique.is_some_and(|unique| unique.until_start) {
            self.release_unique(entry);
        }
    }

    /// Releases a job's unique key and returns when the hold would have expired.
    pub(super) fn release_unique(&mut self, entry: &Entry) -> Option<u64> {
        let options = entry.job.options.as_ref();
        let unique = options.and_then(|options| options.unique.as_ref())?;
        let taken = self.unique.get(&unique.key)?;
        if taken.holder.job != entry.job.id {
            return None;
        }
        self.unique.remove(&unique.key).map(|taken| taken.until)
    }
}
