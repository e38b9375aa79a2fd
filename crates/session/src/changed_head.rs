//! Changes the head of a frame whose body is forwarded unchanged.

use stoker_wire::{Encode, Frame, Meta, encode_head};

/// The head of a frame with other metadata, which must not be longer than before, and another ttl in milliseconds. `head`
/// is the original one. `None` if `head` is incomplete.
pub(crate) fn changed_head(
    frame: &Frame<'_>,
    head: &[u8],
    meta: Meta<'_>,
    ttl: u32,
) -> Option<Vec<u8>> {
    let mut changed = Vec::with_capacity(head.len());
    let changed_frame = Encode {
        meta,
        ttl,
        body: &[],
        ..Encode::from(frame)
    };
    encode_head(&mut changed, &changed_frame);
    // The body, which follows unchanged, belongs to the length.
    let length: &[u8; 4] = head.first_chunk()?;
    let removed = head.len() - changed.len();
    let length = u32::from_be_bytes(*length) - removed as u32;
    changed[..4].copy_from_slice(&length.to_be_bytes());
    Some(changed)
}
