//! What each event does, one file a verb.

mod answer;
mod arrive;
mod cancel;
mod control;
mod death;
mod dispatch;
mod finish;
mod life;
mod refill;
mod size;
mod tick;
mod window;
