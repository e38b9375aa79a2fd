//! Workers as processes of the angel.

mod exit;
mod output;
mod spawn;
