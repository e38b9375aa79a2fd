//! The same calls as of the real one.

use super::state::{Can, Interest, Object, State, with};
use crate::{Errno, MAX_FDS, Peer, Ready, Signal};
use std::cell::Cell;
use std::io::{self, IoSlice};
use std::marker::PhantomData;
use std::path::PathBuf;
use std::rc::Rc;
use std::time::Duration;

/// A descriptor. What it stands for is closed with it.
#[derive(Debug)]
pub struct Fd {
    no: u32,
}

impl Fd {
    pub(super) fn of(no: u32) -> Self {
        Self { no }
    }

    pub(super) fn no(&self) -> u32 {
        self.no
    }

    /// Gives the number away: nothing is closed.
    fn into_no(self) -> u32 {
        let no = self.no;
        std::mem::forget(self);
        no
    }
}

impl Drop for Fd {
    fn drop(&mut self) {
        with(|state| state.close(self.no));
    }
}

#[derive(Clone, Copy, Debug)]
pub struct BorrowedFd<'fd> {
    no: u32,
    of: PhantomData<&'fd Fd>,
}

pub trait AsFd {
    fn as_fd(&self) -> BorrowedFd<'_>;
}

impl AsFd for Fd {
    fn as_fd(&self) -> BorrowedFd<'_> {
        BorrowedFd {
            no: self.no,
            of: PhantomData,
        }
    }
}

impl AsFd for BorrowedFd<'_> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        *self
    }
}

impl<T: AsFd> AsFd for &T {
    fn as_fd(&self) -> BorrowedFd<'_> {
        (**self).as_fd()
    }
}

/// Returns 0 at the end of the stream.
pub fn read(from: &Fd, buffer: &mut [u8]) -> Result<usize, Errno> {
    with(|state| {
        state.calls += 1;
        let most = state.share(buffer.len());
        let stream = state.stream(from.no).ok_or(Errno::BADF)?;
        if stream.inbox.is_empty() {
            return if stream.ended {
                Ok(0)
            } else {
                Err(Errno::AGAIN)
            };
        }
        let count = stream.inbox.len().min(most);
        for (to, byte) in buffer.iter_mut().zip(stream.inbox.drain(..count)) {
            *to = byte;
        }
        Ok(count)
    })
}

pub fn write(to: &Fd, bytes: &[u8]) -> Result<usize, Errno> {
    with(|state| {
        state.calls += 1;
        let most = state.share(bytes.len());
        let stream = state.stream(to.no).ok_or(Errno::BADF)?;
        if stream.gone || stream.silent {
            return Err(Errno::PIPE);
        }
        let other = stream.other;
        let count = state.room_at(other).min(most);
        if count == 0 && !bytes.is_empty() {
            return Err(Errno::AGAIN);
        }
        let other = state.stream(other).ok_or(Errno::PIPE)?;
        other.inbox.extend(&bytes[..count]);
        Ok(count)
    })
}

/// A short write of one part is a short write of all.
pub fn write_gathered(to: &Fd, parts: &[IoSlice<'_>]) -> Result<usize, Errno> {
    let mut written = 0;
    for part in parts.iter().filter(|part| !part.is_empty()) {
        match write(to, part) {
            Ok(count) => {
                written += count;
                if count < part.len() {
                    break;
                }
            }
            Err(_) if written > 0 => break,
            Err(error) => return Err(error),
        }
    }
    Ok(written)
}

/// Says that nothing more will be written.
pub fn end_writing(socket: &Fd) {
    with(|state| {
        state.calls += 1;
        let Some(stream) = state.stream(socket.no) else {
            return;
        };
        stream.silent = true;
        let other = stream.other;
        if let Some(other) = state.stream(other) {
            other.ended = true;
        }
    });
}

/// The next connection that waits at a listening socket.
pub fn accept(listener: &Fd) -> Result<Fd, Errno> {
    with(|state| {
        state.calls += 1;
        let is_full = state.is_full();
        let Some(Object::Listener(listener)) = state.get(listener.no) else {
            return Err(Errno::BADF);
        };
        let waiting = &mut listener.borrow_mut().waiting;
        if waiting.is_empty() {
            return Err(Errno::AGAIN);
        }
        if is_full {
            return Err(Errno::MFILE);
        }
        let next = waiting.pop_front();
        next.map(Fd::of).ok_or(Errno::AGAIN)
    })
}

/// Nothing here ever blocks.
pub fn never_block(_socket: &Fd) -> Result<(), Errno> {
    Ok(())
}

/// `None` where the kernel does not say.
pub fn peer(socket: &Fd) -> Option<Peer> {
    with(|state| state.stream(socket.no)?.peer)
}

/// The path that a socket listens at.
pub fn path_of(listener: BorrowedFd<'_>) -> Option<PathBuf> {
    with(|state| match state.get(listener.no)? {
        Object::Listener(listener) => Some(listener.borrow().path.clone()),
        _ => None,
    })
}

/// There must be something: nobody else could write it meanwhile.
pub fn await_readable(fd: impl AsFd) -> Result<(), Errno> {
    let no = fd.as_fd().no;
    match with(|state| state.can(no).read) {
        true => Ok(()),
        false => Err(Errno::DEADLK),
    }
}

pub(super) fn has_room(fd: &Fd) -> bool {
    with(|state| state.can(fd.no).write)
}

/// Sends a record, or nothing.
///
/// # Panics
///
/// With more than [`MAX_FDS`] descriptors.
pub fn send_record(socket: &Fd, bytes: &[u8], fds: &[Fd]) -> Result<(), Errno> {
    assert!(
        fds.len() <= MAX_FDS,
        "a record carries at most {MAX_FDS} descriptors"
    );
    assert!(
        fds.is_empty(),
        "the data plane sends no descriptors: see `world::send_with` for the angel's"
    );
    with(|state| {
        state.calls += 1;
        let Some(Object::Records(records)) = state.get(socket.no) else {
            return Err(Errno::BADF);
        };
        let (gone, other) = (records.gone, records.other);
        if gone {
            return Err(Errno::PIPE);
        }
        if !state.takes_records(other) {
            return Err(Errno::AGAIN);
        }
        if let Some(Object::Records(other)) = state.get(other) {
            other.inbox.push_back((bytes.to_vec(), Vec::new()));
        }
        Ok(())
    })
}

/// The same with descriptors, which are given away.
pub(super) fn send_with(socket: &Fd, bytes: &[u8], fds: Vec<Fd>) -> Result<(), Errno> {
    send_record(socket, bytes, &[])?;
    let fds = fds.into_iter().map(Fd::into_no).collect();
    with(|state| {
        let Some(Object::Records(records)) = state.get(socket.no) else {
            return;
        };
        let other = records.other;
        if let Some(Object::Records(other)) = state.get(other)
            && let Some(last) = other.inbox.back_mut()
        {
            last.1 = fds;
        }
    });
    Ok(())
}

/// Receives a record: how long it is, 0 at the end of the stream, and its descriptors.
pub fn receive_record(socket: &Fd, buffer: &mut [u8]) -> Result<(usize, Vec<Fd>), Errno> {
    with(|state| {
        state.calls += 1;
        let Some(Object::Records(records)) = state.get(socket.no) else {
            return Err(Errno::BADF);
        };
        let Some((bytes, fds)) = records.inbox.pop_front() else {
            return match records.gone {
                true => Ok((0, Vec::new())),
                false => Err(Errno::AGAIN),
            };
        };
        let count = bytes.len().min(buffer.len());
        buffer[..count].copy_from_slice(&bytes[..count]);
        Ok((count, fds.into_iter().map(Fd::of).collect()))
    })
}

/// What is ready to be read or written.
#[derive(Debug)]
pub struct Poll(Fd);

impl Poll {
    pub fn new() -> io::Result<Self> {
        let no = with(|state| state.add(Object::Poll(Vec::new())));
        Ok(Self(Fd::of(no)))
    }

    /// Waits for something to read.
    pub fn add(&self, fd: impl AsFd, token: u64) -> io::Result<()> {
        let object = fd.as_fd().no;
        self.with(|all| {
            if all.iter().any(|interest| interest.object == object) {
                return Err(Errno::EXIST.into());
            }
            all.push(Interest {
                object,
                token,
                read: true,
                write: false,
            });
            Ok(())
        })
    }

    /// What to wait for from now on. With neither, an end of the stream is not reported either.
    pub fn set(&self, fd: impl AsFd, token: u64, read: bool, write: bool) {
        let object = fd.as_fd().no;
        self.with(|all| {
            let found = all.iter_mut().find(|interest| interest.object == object);
            if let Some(interest) = found {
                (interest.token, interest.read, interest.write) = (token, read, write);
            }
        });
    }

    pub fn remove(&self, fd: impl AsFd) {
        let object = fd.as_fd().no;
        self.with(|all| all.retain(|interest| interest.object != object));
    }

    /// Lists what is ready. It never waits: whoever simulates knows when the next turn is due.
    pub fn wait(
        &mut self,
        _timeout: Option<Duration>,
    ) -> io::Result<impl Iterator<Item = Ready> + '_> {
        Ok(self.ready().into_iter())
    }

    pub fn ready(&self) -> Vec<Ready> {
        with(|state| {
            state.calls += 1;
            let all = match state.get(self.0.no) {
                Some(Object::Poll(all)) => std::mem::take(all),
                _ => return Vec::new(),
            };
            let ready = all.iter().filter_map(|interest| {
                let Can {
                    read,
                    write,
                    hung_up,
                } = state.can(interest.object);
                let readable = interest.read && read || hung_up;
                let writable = interest.write && write;
                (readable || writable).then_some(Ready {
                    token: interest.token,
                    readable,
                    writable,
                })
            });
            let ready = ready.collect();
            if let Some(Object::Poll(place)) = state.get(self.0.no) {
                *place = all;
            }
            ready
        })
    }

    fn with<T>(&self, act: impl FnOnce(&mut Vec<Interest>) -> T) -> T {
        with(|state| {
            state.calls += 1;
            // What was closed is not listed any more, as a closed descriptor leaves its epoll.
            let Some(Object::Poll(all)) = state.get(self.0.no) else {
                return act(&mut Vec::new());
            };
            let mut all = std::mem::take(all);
            all.retain(|interest| state.get(interest.object).is_some());
            let result = act(&mut all);
            if let Some(Object::Poll(place)) = state.get(self.0.no) {
                *place = all;
            }
            result
        })
    }
}

/// Makes a poll return.
#[derive(Debug)]
pub struct Wake(Fd);

impl Wake {
    pub fn new() -> io::Result<Self> {
        let no = with(|state| state.add(Object::Wake(false)));
        Ok(Self(Fd::of(no)))
    }

    /// It is readable from now on.
    pub fn ring(&self) {
        self.set(true);
    }

    /// It is not, until it rings again.
    pub fn clear(&self) {
        self.set(false);
    }

    fn set(&self, to: bool) {
        with(|state| {
            state.calls += 1;
            if let Some(Object::Wake(is_set)) = state.get(self.0.no) {
                *is_set = to;
            }
        });
    }
}

impl AsFd for Wake {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// Nine bytes that two processes share.
pub fn new_memory() -> Result<Fd, Errno> {
    Ok(with(|state| {
        Fd::of(state.add(Object::Memory(Rc::default())))
    }))
}

/// Another descriptor of a listening socket, as a process inherits it.
pub(super) fn share_listener(listener: &Fd) -> Result<Fd, Errno> {
    with(|state| match state.get(listener.no) {
        Some(Object::Listener(listener)) => {
            let same = listener.clone();
            Ok(Fd::of(state.add(Object::Listener(same))))
        }
        _ => Err(Errno::BADF),
    })
}

/// Another descriptor of it, to be passed on.
pub fn share_memory(memory: &Fd) -> io::Result<Fd> {
    with(|state| {
        let bytes = bytes_of(state, memory)?;
        Ok(Fd::of(state.add(Object::Memory(bytes))))
    })
}

pub fn write_memory(memory: &Fd, bytes: &[u8; 9]) -> Result<(), Errno> {
    with(|state| {
        state.calls += 1;
        bytes_of(state, memory).map(|place| place.set(*bytes))
    })
}

pub fn read_memory(memory: &Fd) -> Result<[u8; 9], Errno> {
    with(|state| bytes_of(state, memory).map(|place| place.get()))
}

fn bytes_of(state: &mut State, memory: &Fd) -> Result<Rc<Cell<[u8; 9]>>, Errno> {
    match state.get(memory.no) {
        Some(Object::Memory(bytes)) => Ok(bytes.clone()),
        _ => Err(Errno::BADF),
    }
}

/// The same in every simulation.
pub fn chance() -> u64 {
    0x5eed
}

/// Since the beginning.
pub fn steady() -> Duration {
    with(|state| state.now)
}

/// What the wall showed at the beginning, and as many milliseconds more as have passed.
pub fn steady_ms() -> u64 {
    with(|state| state.began_ms + state.now.as_millis() as u64)
}

/// Milliseconds since 1970.
pub fn wall_ms() -> u64 {
    with(|state| state.wall_ms)
}

/// The number of this process.
pub fn own_pid() -> u32 {
    2
}

/// The effective user of this process.
pub fn own_user() -> u32 {
    0
}

/// How many descriptors this process may have; `None` for as many as it likes.
pub fn descriptor_limit() -> Option<u64> {
    with(|state| state.limit.map(|limit| limit as u64))
}

/// A descriptor that becomes readable when the process ends.
pub fn watch_process(pid: i32) -> Option<Fd> {
    with(|state| {
        let is_there = state.processes.contains_key(&pid);
        is_there.then(|| Fd::of(state.add(Object::Process(pid))))
    })
}

/// Returns whether that could be done.
pub fn signal_process(process: &Fd, signal: Signal) -> bool {
    with(|state| {
        state.calls += 1;
        let Some(Object::Process(pid)) = state.get(process.no) else {
            return false;
        };
        let pid = *pid;
        match state.processes.get_mut(&pid) {
            Some(process) if !process.ended => {
                process.signals.push(signal);
                true
            }
            _ => false,
        }
    })
}

/// Whether a process has ended: nothing happens while somebody waits.
pub fn ends_within(process: &Fd, _time: Duration) -> bool {
    with(|state| match state.get(process.no) {
        Some(Object::Process(pid)) => {
            let pid = *pid;
            state.has_ended(pid)
        }
        _ => true,
    })
}

/// The effective user of a process.
pub fn owner(pid: i32) -> Option<u32> {
    with(|state| state.processes.get(&pid).map(|process| process.user))
}

/// Whether a process descends from another one.
pub fn descends(pid: i32, ancestor: i32) -> bool {
    with(|state| {
        let parent = |pid: &i32| state.processes.get(pid).map(|process| process.parent);
        let mut ancestors = std::iter::successors(parent(&pid), parent).take(100);
        ancestors.any(|pid| pid == ancestor)
    })
}

/// The children of a process.
pub fn children(pid: i32) -> Vec<i32> {
    with(|state| {
        let all = state.processes.iter();
        all.filter(|(_, process)| process.parent == pid && !process.ended)
            .map(|(pid, _)| *pid)
            .collect()
    })
}

/// All that descend from a process, itself excluded, parents first.
pub fn descendants(pid: i32) -> Vec<i32> {
    let mut found = children(pid);
    let mut next = 0;
    while next < found.len() {
        found.extend(children(found[next]));
        next += 1;
    }
    found
}

/// Whether a process has ended, or never was.
pub fn is_dead(pid: i32) -> bool {
    with(|state| state.has_ended(pid))
}

/// Nobody asks that here but the angel.
pub fn is_young(_pid: i32) -> bool {
    false
}

/// Resident bytes of a process and all that descends from it, and how many processes those are.
pub fn tree_resident_bytes(pid: i32) -> Option<(u64, usize)> {
    let below = descendants(pid);
    with(|state| {
        state.calls += 1;
        let bytes = |pid: &i32| state.processes.get(pid).map(|process| process.bytes);
        let own = bytes(&pid).filter(|_| !state.has_ended(pid))?;
        let sum: u64 = below.iter().filter_map(bytes).sum();
        Some((own + sum, 1 + below.len()))
    })
}

/// The same: nothing is shared here.
pub fn tree_proportional_bytes(pid: i32) -> Option<u64> {
    tree_resident_bytes(pid).map(|(bytes, _)| bytes)
}
