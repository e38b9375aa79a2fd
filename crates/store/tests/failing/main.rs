//! Every system call with which a store writes fails once, in a run of its own, and in several manners.
//!
//! A child (this program again, with `failing.c` preloaded) opens a store and does the same every time: pushes of
//! every sort, outcomes, retries, changes, an import, forgetting, closing and opening. What it asked and was told
//! stands in its ledger. A run without failures counts the calls. Then there is one run for each call and manner:
//! an I/O error or a full disk, once, three times, or until the child ends it, and half a write. The child sees to
//! it that trouble is told as such, that the store goes on by itself once it is over, and that every job that is
//! ready reaches a scheduler; `failing.c`, that nothing a failed sync lost is taken for safe. Afterwards the file is
//! opened without the library, checked, and held against the ledger: what was accepted is there as was told, and
//! nothing that was refused.
//!
//! All of it is some 9,000 runs, seven minutes on two cores. So by default a few are taken, always the same, evenly
//! from all; `STOKER_EVERY=1 cargo test -p stoker-store --test failing -- --nocapture` does every one and tells
//! the figures. A run with a fault keeps its directory, and says where.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod child;
mod every;
mod fold;
mod hand;
mod ledger;
mod made;
mod query;
mod requests;
mod runs;
mod script;
mod sync;
mod verdict;
