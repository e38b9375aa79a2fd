//! Encodes frames.

use crate::{COUNTED_HEADER, Flags, Frame, HEADER, MAX_FRAME, Meta, Type};

/// The fields of a frame to be written.
#[derive(Clone, Copy, Debug)]
pub struct Encode<'a> {
    pub kind: Type,
    pub flags: Flags,
    pub code: u8,
    pub prio: u8,
    pub id: u32,
    pub ttl: u32,
    pub attempt: u8,
    pub name: &'a str,
    pub meta: Meta<'a>,
    pub body: &'a [u8],
}

impl<'a> From<&Frame<'a>> for Encode<'a> {
    /// The same frame again.
    fn from(frame: &Frame<'a>) -> Self {
        Self {
            kind: frame.kind,
            flags: frame.flags,
            code: frame.code,
            prio: frame.prio,
            id: frame.id,
            ttl: frame.ttl,
            attempt: frame.attempt,
            name: frame.name,
            meta: frame.meta,
            body: frame.body,
        }
    }
}

impl Encode<'_> {
    /// A frame with this type and id. All other fields are zero or empty.
    pub fn new(kind: Type, id: u32) -> Self {
        Self {
            kind,
            flags: Flags::NONE,
            code: 0,
            prio: 0,
            id,
            ttl: 0,
            attempt: 0,
            name: "",
            meta: Meta::EMPTY,
            body: &[],
        }
    }
}

/// Appends a frame to `out`. The caller must bound the name, metadata and body: a frame above
/// [`MAX_FRAME`] is a bug of the caller and panics.
pub fn encode(out: &mut Vec<u8>, frame: Encode<'_>) {
    let meta = frame.meta.bytes();
    out.reserve(HEADER + frame.name.len() + meta.len() + frame.body.len());
    encode_head(out, &frame);
    out.extend_from_slice(frame.body);
}

/// Appends a frame without its body, which the caller must write right after it.
pub fn encode_head(out: &mut Vec<u8>, frame: &Encode<'_>) {
    let meta = frame.meta.bytes();
    let len = COUNTED_HEADER + frame.name.len() + meta.len() + frame.body.len();
    assert!(
        len <= MAX_FRAME,
        "a frame of {len} bytes exceeds the maximum"
    );
    assert!(frame.name.len() <= usize::from(u8::MAX) && meta.len() <= usize::from(u16::MAX));
    let mut header = [0u8; HEADER];
    header[0..4].copy_from_slice(&(len as u32).to_be_bytes());
    header[4] = frame.kind as u8;
    header[5] = frame.flags.0;
    header[6] = frame.code;
    header[7] = frame.prio;
    header[8..12].copy_from_slice(&frame.id.to_be_bytes());
    header[12..16].copy_from_slice(&frame.ttl.to_be_bytes());
    header[16..18].copy_from_slice(&(meta.len() as u16).to_be_bytes());
    header[18] = frame.name.len() as u8;
    header[19] = frame.attempt;
    out.extend_from_slice(&header);
    out.extend_from_slice(frame.name.as_bytes());
    out.extend_from_slice(meta);
}
