//! Records with descriptors, over a `SOCK_SEQPACKET`.

use super::{AsFd, BorrowedFd, Fd};
use crate::{Errno, MAX_FDS};
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};
use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;

/// Sends a whole record or nothing.
///
/// # Panics
///
/// If there are more than [`MAX_FDS`] descriptors.
pub fn send_record(socket: &Fd, bytes: &[u8], fds: &[Fd]) -> Result<(), Errno> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_FDS))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    let borrowed: Vec<BorrowedFd<'_>> = fds.iter().map(AsFd::as_fd).collect();
    if !borrowed.is_empty() {
        let fits = control.push(SendAncillaryMessage::ScmRights(&borrowed));
        assert!(fits, "a record carries at most {MAX_FDS} descriptors");
    }
    let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
    sendmsg(socket, &[IoSlice::new(bytes)], &mut control, flags).map(drop)
}

/// Receives a record. Returns its length, which is 0 at the end of the stream, and its descriptors.
pub fn receive_record(socket: &Fd, buffer: &mut [u8]) -> Result<(usize, Vec<Fd>), Errno> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_FDS))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let parts = &mut [IoSliceMut::new(buffer)];
    let received = recvmsg(socket, parts, &mut control, RecvFlags::CMSG_CLOEXEC)?;
    let fds = control.drain().flat_map(|message| match message {
        RecvAncillaryMessage::ScmRights(fds) => fds.collect(),
        _ => Vec::new(),
    });
    Ok((received.bytes, fds.collect()))
}
