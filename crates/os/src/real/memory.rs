//! Nine bytes shared by two processes, in an anonymous file that both have open.

use super::Fd;
use crate::Errno;
use rustix::fs::{MemfdFlags, memfd_create};
use rustix::io::{pread, pwrite};
use std::io;

pub fn new_memory() -> Result<Fd, Errno> {
    memfd_create("stoker-memory", MemfdFlags::CLOEXEC)
}

/// Returns another descriptor of the memory, to be passed to the other process.
pub fn share_memory(memory: &Fd) -> io::Result<Fd> {
    memory.try_clone()
}

pub fn write_memory(memory: &Fd, bytes: &[u8; 9]) -> Result<(), Errno> {
    pwrite(memory, bytes, 0).map(drop)
}

pub fn read_memory(memory: &Fd) -> Result<[u8; 9], Errno> {
    let mut bytes = [0; 9];
    pread(memory, &mut bytes, 0)?;
    Ok(bytes)
}
