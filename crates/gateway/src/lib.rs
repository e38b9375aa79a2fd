//! Gateways: sources of tasks that need libraries, such as HTTP or TLS.
//!
//! A gateway is an ordinary client of the wire protocol that runs on tokio. It is a process of its own, which the angel
//! starts and supervises, or a thread of a program that can't have many processes. [`client`] implements the wire
//! protocol. Each external protocol has its own module, which does not depend on the others: [`http`], and [`relay`] for
//! the wire protocol itself over TCP and TLS, with [`token`]s.
#![forbid(unsafe_code)]

mod bytes_eq;
pub mod client;
#[cfg(feature = "http")]
pub mod http;
mod random;
#[cfg(feature = "relay")]
pub mod relay;
mod run;
pub mod tls;
#[cfg(feature = "relay")]
pub mod token;
