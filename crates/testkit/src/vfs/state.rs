//! The state of a disk, behind its mutex.

use super::fault::Effect;
use super::inode::Inode;
use super::names::Names;
use super::trace::Trace;
use super::{Call, Fault, Faults, Kind, Mode, Rng, Time, cut};
use rustix::io::Errno;
use std::collections::BTreeMap;

pub(super) struct State {
    pub(super) inodes: BTreeMap<u64, Inode>,
    pub(super) names: Names,
    /// The last number given to a file or an open file.
    next: u64,
    /// The capacity of the disk in bytes.
    pub(super) capacity: Option<u64>,
    /// The number of the current process. All calls of earlier processes fail.
    pub(super) process: u64,
    /// Whether the process is dead and no other one was started.
    pub(super) is_down: bool,
    pub(super) faults: Option<Box<dyn Faults>>,
    pub(super) trace: Trace,
    pub(super) time: Time,
    /// The source of randomness for SQLite.
    pub(super) rng: Rng,
}

impl State {
    pub(super) fn new(seed: u64, time: Time) -> Self {
        Self {
            inodes: BTreeMap::new(),
            names: Names::default(),
            next: 1,
            capacity: None,
            process: 0,
            is_down: false,
            faults: None,
            trace: Trace::default(),
            time,
            rng: Rng::new(seed),
        }
    }

    /// Whether a process may make calls.
    pub(super) fn is_alive(&self, process: u64) -> bool {
        !self.is_down && self.process == process
    }

    /// Begins a call of the live process: counts it, and decides its outcome.
    pub(super) fn begin(
        &mut self,
        kind: Kind,
        file: &str,
        offset: u64,
        len: u64,
    ) -> Result<Effect, Errno> {
        if self.is_down {
            return Err(Errno::IO);
        }
        self.trace.calls += 1;
        let call = Call {
            number: self.trace.calls,
            kind,
            file,
            offset,
            len,
        };
        let fault = self.faults.as_mut().and_then(|faults| faults.draw(&call));
        self.trace.note(&call, fault);
        match fault {
            None => Ok(Effect::Whole),
            Some(Fault::Error(error)) => Err(error),
            Some(Fault::Torn { len, error }) => Ok(Effect::Torn { len, error }),
            Some(Fault::Lost { kept }) => Ok(Effect::Lost { kept }),
            Some(Fault::Slow(micros)) => {
                self.time.advance(micros);
                Ok(Effect::Whole)
            }
            Some(Fault::Kill) => {
                self.kill();
                Err(Errno::IO)
            }
            Some(Fault::PowerCut(seed)) => {
                self.power_cut(&mut Rng::new(seed));
                Err(Errno::IO)
            }
        }
    }

    /// Begins a call that either does all of its work or fails.
    pub(super) fn check_fault(&mut self, kind: Kind, file: &str) -> Result<(), Errno> {
        self.begin(kind, file, 0, 0)?.whole()
    }

    /// Returns the numbers of the file and of the open file.
    pub(super) fn open(&mut self, path: &str, mode: Mode) -> Result<(u64, u64), Errno> {
        self.check_fault(Kind::Open, path)?;
        let inode = match (self.names.find(path), mode) {
            (Ok(_), Mode::CreateNew) => return Err(Errno::EXIST),
            (Ok(inode), _) => inode,
            (Err(_), Mode::Create | Mode::CreateNew) => {
                let inode = self.next_number();
                self.names.link(path, inode);
                inode
            }
            (Err(error), _) => return Err(error),
        };
        Ok((inode, self.opened(inode)))
    }

    /// Opens a file that has no name.
    pub(super) fn open_nameless(&mut self, called: &str) -> Result<(u64, u64), Errno> {
        self.check_fault(Kind::Open, called)?;
        let inode = self.next_number();
        Ok((inode, self.opened(inode)))
    }

    fn opened(&mut self, inode: u64) -> u64 {
        self.inodes.entry(inode).or_default().opens += 1;
        self.next_number()
    }

    fn next_number(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    /// Releases everything that an open file has.
    pub(super) fn close(&mut self, inode: u64, handle: u64) {
        let Some(file) = self.inodes.get_mut(&inode) else {
            return;
        };
        file.opens -= 1;
        file.locks.unlock(handle, super::lock::Level::None);
        if file.flock == Some(handle) {
            file.flock = None;
        }
        if file.opens == 0 {
            self.forget_unreachable();
        }
    }

    /// Removes files that can't be read any more.
    pub(super) fn forget_unreachable(&mut self) {
        let reachable = self.names.reachable();
        self.inodes
            .retain(|number, file| file.opens > 0 || reachable.contains(number));
    }

    /// The number of bytes in use. A removed file frees its bytes once no process has it open.
    pub(super) fn used(&self) -> u64 {
        let visible = self.names.visible();
        let counts = |number, file: &Inode| file.opens > 0 || visible.contains(number);
        let files = self.inodes.iter();
        files
            .filter(|(number, file)| counts(number, file))
            .map(|(_, file)| file.bytes())
            .sum()
    }

    pub(super) fn free(&self) -> u64 {
        self.capacity
            .map_or(u64::MAX, |capacity| capacity.saturating_sub(self.used()))
    }

    pub(super) fn kill(&mut self) {
        self.is_down = true;
        self.process += 1;
        self.inodes.values_mut().for_each(Inode::abandon);
        self.forget_unreachable();
    }

    pub(super) fn power_cut(&mut self, rng: &mut Rng) {
        self.kill();
        self.names.power_cut(rng);
        for file in self.inodes.values_mut() {
            let survivors = cut::content(file.content.unsynced(), rng);
            file.content.survive(&survivors);
        }
        self.forget_unreachable();
    }
}
