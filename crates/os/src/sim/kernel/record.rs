//! Records with descriptors: messages between the server and the angel.

use super::Fd;
use crate::sim::state::{Object, with};
use crate::{Errno, MAX_FDS};

/// Sends a whole record or nothing.
///
/// # Panics
///
/// If there are more than [`MAX_FDS`] descriptors.
pub fn send_record(socket: &Fd, bytes: &[u8], fds: &[Fd]) -> Result<(), Errno> {
    assert!(
        fds.len() <= MAX_FDS,
        "a record carries at most {MAX_FDS} descriptors"
    );
    assert!(
        fds.is_empty(),
        "the data plane must not send descriptors; a simulated angel sends them with `world::send_with`"
    );
    with(|state| {
        state.calls += 1;
        let Some(Object::Records(records)) = state.get(socket.no) else {
            return Err(Errno::BADF);
        };
        let (peer_closed, other) = (records.peer_closed, records.other);
        if peer_closed {
            return Err(Errno::PIPE);
        }
        if !state.accepts_records(other) {
            return Err(Errno::AGAIN);
        }
        if let Some(Object::Records(other)) = state.get(other) {
            other.inbox.push_back((bytes.to_vec(), Vec::new()));
        }
        Ok(())
    })
}

/// Sends a record with descriptors, which then belong to the receiver.
pub(in crate::sim) fn send_with(socket: &Fd, bytes: &[u8], fds: Vec<Fd>) -> Result<(), Errno> {
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

/// Receives a record. Returns its length, which is 0 at the end of the stream, and its descriptors.
pub fn receive_record(socket: &Fd, buffer: &mut [u8]) -> Result<(usize, Vec<Fd>), Errno> {
    with(|state| {
        state.calls += 1;
        let Some(Object::Records(records)) = state.get(socket.no) else {
            return Err(Errno::BADF);
        };
        let Some((bytes, fds)) = records.inbox.pop_front() else {
            return match records.peer_closed {
                true => Ok((0, Vec::new())),
                false => Err(Errno::AGAIN),
            };
        };
        let count = bytes.len().min(buffer.len());
        buffer[..count].copy_from_slice(&bytes[..count]);
        Ok((count, fds.into_iter().map(Fd::of).collect()))
    })
}
