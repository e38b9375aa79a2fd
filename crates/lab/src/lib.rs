//! Measures an application under every way to run PHP: Stoker's strategies, and nginx with php-fpm. `stoker lab isolation`
//! prints the result.
//!
//! Each way has a row. In each round every row is measured once, in an order that changes from round to round, on a server
//! that is started for it and is the only one that runs. A figure of the report is the median of the rounds, with a
//! confidence interval ([`Summary`]). The null row measures the first way a second time: the difference between its two rows is
//! the noise floor, and smaller differences between other rows are to be ignored.

mod application;
mod config;
mod error;
mod folder;
mod http;
mod interrupt;
mod isolation;
mod load;
mod options;
mod prepare;
mod processes;
mod report;
mod round;
mod rounds;
mod server;
mod statistics;
mod way;

pub use error::Error;
pub use isolation::{ASPECTS, Isolation, Verdict};
pub use load::CONNECTIONS;
pub use options::{MAX_ROUNDS, MAX_SECONDS, MAX_WORKERS, MIN_SECONDS, Options};
pub use report::{
    FIGURES, Figure, HISTORY, History, Kind, Measured, Missing, Report, Row, Unit, range, shown,
};
pub use rounds::{Progress, run};
pub use statistics::{Summary, confidence};
