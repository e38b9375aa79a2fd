//! Workers that are child processes of the angel.

mod exit;
mod output;
mod spawn;
