//! The real operating system.

mod chance;
mod file;
mod memory;
mod poll;
mod process;
mod record;
mod socket;
mod thread;
mod time;
mod wake;

pub use chance::chance;
pub use file::{
    File, lock_file, open_file, read_at, read_exact_at, read_file, stat, stat_file, sync_file,
    sync_folder_of, truncate, vfs, write_all_at,
};
pub use memory::{new_memory, read_memory, share_memory, write_memory};
pub use poll::Poll;
pub use process::{
    children, descendants, descends, descriptor_limit, ends_within, is_dead, is_young, own_pid,
    own_user, owner, processors, signal_process, tree_proportional_bytes, tree_resident_bytes,
    watch_process,
};
pub use record::{receive_record, send_record};
pub use rustix::fd::{AsFd, BorrowedFd, OwnedFd as Fd};
pub use socket::{
    accept, await_readable, end_writing, never_block, path_of, peer, read, write, write_gathered,
};
pub use thread::{Thread, spawn};
pub use time::{steady, steady_ms, wall_ms};
pub use wake::Wake;
