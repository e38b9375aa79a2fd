//! A disk that fails for a while: calls of some kind return an error, or the disk is full. It works again before the
//! end of the seed.

use crate::agenda::What;
use crate::restart::{Death, Moment};
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
    /// Syncs fail, and the kernel regards data as written that was not, as Linux does.
    Lost,
    /// The disk is full.
    Full,
}

/// How long after the disk works again the store may take to notice: it retries every five seconds.
const NOTICED: Duration = Duration::from_secs(12);
/// The maximum free space on a full disk, in bytes.
const FREE: u64 = 40_000;

pub(crate) struct Faults {
    inner: Arc<Mutex<Inner>>,
    /// How often the disk will still fail.
    left: u64,
    /// The disk fails soon after this moment, if it comes before the planned time.
    after: Option<Moment>,
    /// How the disk fails now, if it does.
    trouble: Option<Trouble>,
    /// When the disk last began to work again.
    healed: Duration,
}

struct Inner {
    dice: Rng,
    trouble: Option<Trouble>,
    /// One of this many calls fails.
    one_of: u64,
    /// After this number of calls the server dies, in this manner.
    armed: Option<(u64, Death)>,
}

impl Faults {
    pub(crate) fn new(seed: u64, left: u64, disk: Option<&Disk>) -> Self {
        let inner = Arc::new(Mutex::new(Inner {
            dice: Rng::new(seed),
            trouble: None,
            one_of: 1,
            armed: None,
        }));
        if let Some(disk) = disk {
            let inner = inner.clone();
            disk.set_faults(move |call: &Call<'_>| lock(&inner).draw(call));
        }
        Self {
            inner,
            left,
            after: None,
            trouble: None,
            healed: Duration::ZERO,
        }
    }

    pub(crate) fn arm(&self, calls: u64, death: Death) {
        lock(&self.inner).armed = Some((calls, death));
    }

    /// Whether the disk fails, or did so a short time ago.
    pub(crate) fn are_felt(&self) -> bool {
        self.trouble.is_some() || self.healed > Duration::ZERO && steady() < self.healed + NOTICED
    }

    pub(crate) fn are_over(&self) -> bool {
        self.left == 0 && !self.are_felt()
    }

    /// Reads the disk for a check of the simulation, without any faults.
    pub(crate) fn without<T>(&self, disk: &Disk, look: impl FnOnce() -> T) -> T {
        let trouble = lock(&self.inner).trouble.take();
        let armed = lock(&self.inner).armed.take();
        disk.set_capacity(None);
        let seen = look();
        if trouble == Some(Trouble::Full) {
            disk.set_capacity(Some(disk.used()));
        }
        let mut inner = lock(&self.inner);
        (inner.trouble, inner.armed) = (trouble, armed);
        seen
    }
}

impl Inner {
    fn draw(&mut self, call: &Call<'_>) -> Option<Fault> {
        match &mut self.armed {
            Some((0, Death::Kill)) => {
                self.armed = None;
                return Some(Fault::Kill);
            }
            Some((0, Death::PowerCut)) => {
                self.armed = None;
                return Some(Fault::PowerCut(self.dice.next_u64()));
            }
            Some((calls, _)) => *calls -= 1,
            None => {}
        }
        let trouble = self.trouble?;
        // Either all reads fail or none: a single failed read can't be distinguished from a damaged file.
        if (trouble, call.kind) == (Trouble::Io, Kind::Read) {
            return (self.one_of == 1).then_some(Fault::Error(Errno::IO));
        }
        if self.dice.below(self.one_of) > 0 {
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
            let most = *self.dice("faults").of_all(&[50, 1_000, 20_000]);
            let pause = self.dice("faults").millis(0, most);
            self.faults.after = match self.dice("faults").percent(60) {
                true => Some(*self.dice("faults").of_all(&Moment::ALL)),
                false => None,
            };
            self.agenda.plan(steady() + pause, What::DiskFails);
        }
    }

    /// A moment has come after which the disk may fail.
    pub(crate) fn fail_at(&mut self, moment: Moment) {
        if self.faults.left > 0 && self.faults.after.take_if(|at| *at == moment).is_some() {
            let soon = self.dice("faults").micros(0, 3_000);
            self.agenda.plan(steady() + soon, What::DiskFails);
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
        let trouble = *self.dice("faults").of_all(&all);
        let one_of = *self.dice("faults").of_all(&[1, 2, 20]);
        self.note(|| format!("  {trouble:?}: one of {one_of} calls"));
        if trouble == Trouble::Full {
            let free = self.dice("faults").below(FREE);
            disk.set_capacity(Some(disk.used() + free));
        }
        self.faults.left -= 1;
        self.faults.trouble = Some(trouble);
        self.ledger.disk_fails();
        let mut inner = lock(&self.faults.inner);
        (inner.trouble, inner.one_of) = (Some(trouble), one_of);
        drop(inner);
        let most = *self.dice("faults").of_all(&[100, 3_000, 20_000]);
        let lasts = self.dice("faults").millis(20, most);
        self.agenda.plan(steady() + lasts, What::DiskHeals);
        self.change_meets_fault();
    }

    pub(crate) fn disk_heals(&mut self) {
        if let Some(disk) = &self.disk {
            disk.set_capacity(None);
        }
        lock(&self.faults.inner).trouble = None;
        self.faults.trouble = None;
        self.faults.healed = steady();
        self.ledger.disk_heals();
        self.plan_fault();
    }
}
