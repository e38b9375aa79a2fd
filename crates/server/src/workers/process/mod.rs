//! Workers that are child processes of the angel.

mod exit;
mod last_answer;
mod output;
mod spawn;
