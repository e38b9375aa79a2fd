//! A disk that fails for a while: calls of some kind return an error, or the disk is full. It works again before the
//! end of the seed.

use crate::agenda::PlannedEvent;
use crate::restart::{Death, Trigger};
use crate::world::World;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use stoker_os::sim::Disk;
use stoker_os::sim::vfs::{Call, Errno, Fault, Kind, Rng};
use stoker_os::steady;

/// How the disk fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Trouble {
    /// Reads, writes and syncs fail.
    Io,
    /// Writes are incomplete.
    Torn,
    /// Syncs fail, and a later one may succeed.
    Sync,
    /// Syncs fail, and the kernel treats the unwritten data as written, as Linux does.
    Lost,
    /// The disk is full.
    Full,
}

/// How long after the disk works again the store may take to notice: it retries every five seconds.
const MAX_NOTICE_TIME: Duration = Duration::from_secs(12);
/// The disk fails in one of this many turns of the writer after a change of many jobs was requested.
const MAX_SLICES: u64 = 5;
/// The maximum free space on a full disk, in bytes.
const MAX_FREE_BYTES: u64 = 40_000;

pub(crate) struct Faults {
    inner: Arc<Mutex<Inner>>,
    /// How often the disk will still fail.
    left: u64,
    /// The disk fails soon after this moment, if it comes before the planned time.
    after: Option<Trigger>,
    /// The disk fails in this turn of the store's writer.
    at_writer_turn: Option<u64>,
    /// How the disk fails now, if it does.
    trouble: Option<Trouble>,
    /// When the disk last began to work again.
    recovered_at: Duration,
}

struct Inner {
    dice: Rng,
    trouble: Option<Trouble>,
    /// One of this many calls fails.
    fails_one_in: u64,
    /// After this number of calls the server dies, in this manner.
    kill_after: Option<(u64, Death)>,
}

impl Faults {
    pub(crate) fn new(seed: u64, left: u64, disk: Option<&Disk>) -> Self {
        let inner = Arc::new(Mutex::new(Inner {
            dice: Rng::new(seed),
            trouble: None,
            fails_one_in: 1,
            kill_after: None,
        }));
        if let Some(disk) = disk {
            let inner = inner.clone();
            disk.set_faults(move |call: &Call<'_>| lock(&inner).draw(call));
        }
        Self {
            inner,
            left,
            after: None,
            at_writer_turn: None,
            trouble: None,
            recovered_at: Duration::ZERO,
        }
    }

    pub(crate) fn kill_in_syscall(&self, calls: u64, death: Death) {
        lock(&self.inner).kill_after = Some((calls, death));
    }

    /// Whether the disk fails, or did so a short time ago.
    pub(crate) fn are_recent(&self) -> bool {
        self.trouble.is_some()
            || self.recovered_at > Duration::ZERO && steady() < self.recovered_at + MAX_NOTICE_TIME
    }

    pub(crate) fn are_over(&self) -> bool {
        self.left == 0 && !self.are_recent()
    }

    /// Reads the disk for a check of the simulation, without any faults.
    pub(crate) fn without<T>(&self, disk: &Disk, read: impl FnOnce() -> T) -> T {
        let trouble = lock(&self.inner).trouble.take();
        let kill_after = lock(&self.inner).kill_after.take();
        disk.set_capacity(None);
        let seen = read();
        if trouble == Some(Trouble::Full) {
            disk.set_capacity(Some(disk.used()));
        }
        let mut inner = lock(&self.inner);
        (inner.trouble, inner.kill_after) = (trouble, kill_after);
        seen
    }
}

impl Inner {
    fn draw(&mut self, call: &Call<'_>) -> Option<Fault> {
        match &mut self.kill_after {
            Some((0, Death::Kill)) => {
                self.kill_after = None;
                return Some(Fault::Kill);
            }
            Some((0, Death::PowerCut)) => {
                self.kill_after = None;
                return Some(Fault::PowerCut(self.dice.next_u64()));
            }
            Some((calls, _)) => *calls -= 1,
            None => {}
        }
        let trouble = self.trouble?;
        // Either all reads fail or none: a single failed read can't be distinguished from a damaged file.
        if (trouble, call.kind) == (Trouble::Io, Kind::Read) {
            return (self.fails_one_in == 1).then_some(Fault::Error(Errno::IO));
        }
        if self.dice.below(self.fails_one_in) > 0 {
            return None;
        }
        match (trouble, call.kind) {
            (Trouble::Io, Kind::Write | Kind::Sync | Kind::Truncate)
            | (Trouble::Sync, Kind::Sync) => Some(Fault::Error(Errno::IO)),
            (Trouble::Torn, Kind::Write) => Some(Fault::Torn {
                len: self.dice.below(call.len + 1),
                error: Errno::IO,
            }),
            (Trouble::Lost, Kind::Sync) => Some(Fault::Lost {
                kept: self.dice.below(4) as usize,
            }),
            _ => None,
        }
    }
}

fn lock(inner: &Mutex<Inner>) -> MutexGuard<'_, Inner> {
    inner.lock().unwrap_or_else(PoisonError::into_inner)
}

impl World {
    pub(crate) fn plan_fault(&mut self) {
        if self.faults.left > 0 {
            let max = *self.dice("faults").one_of(&[50, 1_000, 20_000]);
            let pause = self.dice("faults").millis(0, max);
            self.faults.after = match self.dice("faults").percent(60) {
                true => Some(*self.dice("faults").one_of(&Trigger::ALL)),
                false => None,
            };
            self.agenda.plan(steady() + pause, PlannedEvent::DiskFails);
        }
    }

    /// Called after an event at which the disk may fail.
    pub(crate) fn fail_after(&mut self, trigger: Trigger) {
        if self.faults.left > 0 && self.faults.after.take_if(|at| *at == trigger).is_some() {
            let soon = self.dice("faults").micros(0, 3_000);
            self.agenda.plan(steady() + soon, PlannedEvent::DiskFails);
        }
    }

    /// Jobs are being changed, many of them slice by slice: the disk may fail between two slices, or between the first
    /// change, of jobs in the store, and that of jobs in memory.
    pub(crate) fn fail_during_change(&mut self) {
        let percent = self.setup.frequencies.faults_at_changes;
        if self.faults.left > 0 && self.dice("faults").percent(percent) {
            let slices = self.dice("faults").within(2, MAX_SLICES);
            self.faults.at_writer_turn = Some(self.ledger.writer_turns + slices);
        }
    }

    /// The store's writer begins a turn, in which the disk may fail.
    pub(crate) fn fail_at_writer_turn(&mut self) {
        let turn = self.ledger.writer_turns;
        if self
            .faults
            .at_writer_turn
            .take_if(|at| *at <= turn)
            .is_some()
        {
            self.disk_fails();
        }
    }

    pub(crate) fn disk_fails(&mut self) {
        let can_fail = self.faults.left > 0 && self.faults.trouble.is_none();
        let Some(disk) = self.disk.clone().filter(|_| can_fail) else {
            return;
        };
        let all = [
            Trouble::Io,
            Trouble::Torn,
            Trouble::Sync,
            Trouble::Lost,
            Trouble::Full,
        ];
        let trouble = *self.dice("faults").one_of(&all);
        let fails_one_in = *self.dice("faults").one_of(&[1, 2, 20]);
        self.trace(|| format!("  {trouble:?}: one of {fails_one_in} calls"));
        if trouble == Trouble::Full {
            let free = self.dice("faults").below(MAX_FREE_BYTES);
            disk.set_capacity(Some(disk.used() + free));
        }
        self.faults.left -= 1;
        self.faults.trouble = Some(trouble);
        self.ledger.disk_fails();
        let mut inner = lock(&self.faults.inner);
        (inner.trouble, inner.fails_one_in) = (Some(trouble), fails_one_in);
        drop(inner);
        let max = *self.dice("faults").one_of(&[100, 3_000, 20_000]);
        let lasts = self.dice("faults").millis(20, max);
        self.agenda
            .plan(steady() + lasts, PlannedEvent::DiskRecovers);
        self.change_during_fault();
    }

    pub(crate) fn disk_recovers(&mut self) {
        if let Some(disk) = &self.disk {
            disk.set_capacity(None);
        }
        lock(&self.faults.inner).trouble = None;
        self.faults.trouble = None;
        self.faults.recovered_at = steady();
        self.ledger.disk_recovers();
        self.plan_fault();
    }
}
