//! Handlers of the events, one file for each verb.

mod announce;
mod answer;
mod arrive;
mod boots;
mod cancel;
mod claim;
mod control;
mod death;
mod defer;
mod dispatch;
mod finish;
mod life;
mod order;
mod reconfigure;
mod refill;
mod size;
mod tick;
mod window;

pub use announce::ServedByOtherPool;
