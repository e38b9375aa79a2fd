//! The same calls as in the real kernel, one file for each kind of object.

mod fd;
mod memory;
mod poll;
mod process;
mod random;
mod record;
mod socket;
mod time;
mod wake;

pub use fd::{AsFd, BorrowedFd, Fd};
pub use memory::{new_memory, read_memory, share_memory, write_memory};
pub use poll::Poll;
pub use process::{
    PROTECTED_USER, children, descendants, descriptor_limit, is_dead, is_descendant, own_pid,
    own_user, owner, processors, resident_bytes, signal_process, tree_proportional_bytes,
    tree_resident_bytes, wait_for_exit, was_just_forked, watch_process,
};
pub use random::random_u64;
pub(super) use record::send_with;
pub use record::{receive_record, send_record};
pub use socket::{
    accept, await_readable, path_of, peer, read, set_nonblocking, shutdown_write, write,
    write_gathered,
};
pub(super) use socket::{has_room, share_listener};
pub use time::{steady, steady_ms, wall_ms};
pub use wake::Wake;
