//! The real operating system.

mod file;
mod memory;
mod poll;
mod process;
mod random;
mod record;
mod socket;
mod thread;
mod time;
mod wake;

pub use file::{
    File, lock_file, open_file, read_at, read_exact_at, read_file, stat, stat_file, sync_file,
    sync_parent_dir, truncate, vfs, write_all_at,
};
pub use memory::{new_memory, read_memory, share_memory, write_memory};
pub use poll::Poll;
pub use process::{
    Birth, birth, children, descendants, descriptor_limit, is_dead, is_descendant, own_pid,
    own_user, owner, processors, resident_bytes, signal_process, tree_proportional_bytes,
    tree_resident_bytes, wait_for_exit, was_just_forked, watch_process,
};
pub use random::random_u64;
pub use record::{receive_record, send_record};
pub use rustix::fd::{AsFd, BorrowedFd, OwnedFd as Fd};
pub use socket::{
    accept, await_readable, path_of, peer, read, set_nonblocking, shutdown_write, write,
    write_gathered,
};
pub use thread::{Thread, spawn};
pub use time::{steady, steady_ms, wall_ms};
pub use wake::Wake;
