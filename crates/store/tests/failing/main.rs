//! Every system call with which a store writes fails once, in a separate run for each, and in several ways.
//!
//! A child process (this program again, with `failing.c` preloaded) opens a store and always makes the same
//! requests: all kinds of pushes, ends, retries, changes, an import, expiry, closing and opening. It writes
//! its requests and their answers to a ledger. A run without failures counts the calls. Then there is one run
//! for each call and each kind of failure: an I/O error or a full disk (once, three times, or until the child
//! ends it), and a partial write. The child checks that trouble is reported correctly, that the store
//! recovers on its own once the trouble is over, and that every ready job reaches a scheduler. `failing.c`
//! checks that no data lost by a failed sync is treated as safe. Afterwards the file is opened without the
//! library, checked, and compared with the ledger: accepted jobs exist in the reported state, and rejected
//! jobs do not.
//!
//! All of this is about 9,000 runs, which take seven minutes on two cores. So by default only a few are run,
//! always the same ones, selected evenly.
//! `STOKER_EVERY=1 cargo test -p stoker-store --test failing -- --nocapture` runs all of them and prints
//! statistics. A run with a fault keeps its directory and prints its path.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod child;
mod every;
mod ledger;
mod new_store;
mod query;
mod requests;
mod runs;
mod script;
mod sync;
mod user;
mod verdict;
mod wal;
