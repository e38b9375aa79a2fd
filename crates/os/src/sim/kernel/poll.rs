//! Readiness of descriptors for reading and writing.

use super::{AsFd, Fd};
use crate::sim::state::{Interest, Object, Readiness, with};
use crate::{Errno, Ready};
use std::io;
use std::time::Duration;

/// A set of descriptors and the readiness that each one waits for.
#[derive(Debug)]
pub struct Poll(Fd);

impl Poll {
    pub fn new() -> io::Result<Self> {
        let no = with(|state| state.add(Object::Poll(Vec::new())));
        Ok(Self(Fd::of(no)))
    }

    /// Adds a descriptor and waits for it to become readable.
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

    /// Sets what to wait for. With neither `read` nor `write`, the end of the peer's stream is not
    /// reported either.
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

    /// Lists what is ready. This never waits, because the simulation knows when the next turn is
    /// due.
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
                let Readiness {
                    read,
                    write,
                    hung_up,
                } = state.readiness(interest.object);
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
            // Closed descriptors are dropped from the list, as epoll drops them.
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
