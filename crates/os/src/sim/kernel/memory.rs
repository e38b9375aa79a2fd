//! Memory shared by two processes.

use super::Fd;
use crate::Errno;
use crate::sim::state::{Object, State, with};
use std::cell::Cell;
use std::io;
use std::rc::Rc;

/// Creates nine bytes of memory to be shared with another process.
pub fn new_memory() -> Result<Fd, Errno> {
    Ok(with(|state| {
        Fd::of(state.add(Object::Memory(Rc::default())))
    }))
}

/// Returns another descriptor of the memory, to be passed to the other process.
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
