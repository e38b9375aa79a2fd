//! What a connection between a peer and the server lets pass, in both directions.

use crate::Rejection;
use std::time::Duration;

/// Bytes that wait to be written.
#[derive(Default)]
pub struct Output {
    pub to_peer: Vec<u8>,
    pub to_server: Vec<u8>,
    /// Frames for the peer that wait until the frame that is being forwarded to it is complete.
    pub deferred: Vec<u8>,
}

/// Decides what is forwarded in each direction, and tracks the frames. `now` is the time since any fixed moment.
pub trait FrameFilter {
    /// Handles bytes that the peer has sent. An error ends the connection.
    fn on_peer_bytes(
        &mut self,
        bytes: &[u8],
        now: Duration,
        out: &mut Output,
    ) -> Result<(), Rejection>;

    /// Handles bytes that the server has sent. An error ends the connection.
    fn on_server_bytes(
        &mut self,
        bytes: &[u8],
        now: Duration,
        out: &mut Output,
    ) -> Result<(), Rejection>;

    /// Whether the bytes that were forwarded to the peer end with a complete frame.
    fn is_between_frames(&self) -> bool;

    /// Whether the server may still read after it has closed its sending side.
    fn may_half_close(&self) -> bool;
}
