//! File descriptors.

use crate::sim::state::with;
use std::marker::PhantomData;

/// A file descriptor. Dropping it closes the object.
#[derive(Debug)]
pub struct Fd {
    pub(super) no: u32,
}

impl Fd {
    pub(in crate::sim) fn of(no: u32) -> Self {
        Self { no }
    }

    pub(in crate::sim) fn no(&self) -> u32 {
        self.no
    }

    /// Takes the number out without closing the object.
    pub(super) fn into_no(self) -> u32 {
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
    pub(super) no: u32,
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
