//! Finds the frames in a stream of bytes without buffering their bodies.

use stoker_wire::{Frame, HEADER, MAX_FRAME, WireError, parse_head};

/// The maximum number of bytes before the body of a frame.
const MAX_HEAD: usize = HEADER + u8::MAX as usize + u16::MAX as usize;

/// A part of a frame, in the order of the stream.
pub enum Part<'a> {
    /// Header, name and metadata. `frame` has an empty body, and `body` is the number of bytes that follow.
    Head {
        frame: Frame<'a>,
        bytes: &'a [u8],
        body: usize,
    },
    /// Bytes of the body, and the number of bytes of it that have not arrived.
    Body { bytes: &'a [u8], left: usize },
}

#[derive(Default)]
pub struct Scanner {
    /// The beginning of a head that has not arrived completely.
    partial: Vec<u8>,
    /// The number of bytes of the current body that have not arrived.
    left: usize,
}

impl Scanner {
    /// Passes every part of the frames in `bytes` to `each`.
    pub fn scan<E: From<WireError>>(
        &mut self,
        mut bytes: &[u8],
        mut each: impl FnMut(Part<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        while !bytes.is_empty() {
            if self.left > 0 {
                let (body, rest) = bytes.split_at(self.left.min(bytes.len()));
                self.left -= body.len();
                bytes = rest;
                each(Part::Body {
                    bytes: body,
                    left: self.left,
                })?;
                continue;
            }
            let mut partial = std::mem::take(&mut self.partial);
            let before = partial.len();
            let whole = match before {
                0 => bytes,
                _ => {
                    partial.extend_from_slice(&bytes[..bytes.len().min(MAX_HEAD - before)]);
                    &partial
                }
            };
            let Some((frame, head, body)) = parse_head(whole, MAX_FRAME)? else {
                if before == 0 {
                    partial.extend_from_slice(bytes);
                }
                self.partial = partial;
                return Ok(());
            };
            self.left = body;
            bytes = &bytes[head - before..];
            each(Part::Head {
                frame,
                bytes: &whole[..head],
                body,
            })?;
        }
        Ok(())
    }

    /// Whether the stream is between two frames.
    pub fn is_between_frames(&self) -> bool {
        self.left == 0 && self.partial.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use stoker_wire::{Encode, Type, encode};

    fn stream(bodies: &[usize]) -> Vec<u8> {
        let mut stream = Vec::new();
        for (number, len) in bodies.iter().enumerate() {
            let body = vec![number as u8; *len];
            encode(
                &mut stream,
                Encode {
                    name: "users.get",
                    body: &body,
                    ..Encode::new(Type::Req, number as u32 + 1)
                },
            );
        }
        stream
    }

    proptest! {
        /// However the stream is split, its parts join to the same stream, and every frame is reported once.
        #[test]
        fn parts_add_up_to_the_stream(
            bodies in prop::collection::vec(0usize..90, 0..8),
            cuts in prop::collection::vec(1usize..50, 1..60),
        ) {
            let stream = stream(&bodies);
            let mut scanner = Scanner::default();
            let (mut seen, mut ids, mut rest) = (Vec::new(), Vec::new(), stream.as_slice());
            for cut in cuts.iter().chain([&usize::MAX]) {
                let (chunk, tail) = rest.split_at((*cut).min(rest.len()));
                rest = tail;
                scanner.scan(chunk, |part| {
                    match part {
                        Part::Head { frame, bytes, .. } => {
                            ids.push(frame.id);
                            seen.extend_from_slice(bytes);
                        }
                        Part::Body { bytes, .. } => seen.extend_from_slice(bytes),
                    }
                    Ok::<(), WireError>(())
                }).unwrap();
            }
            prop_assert!(scanner.is_between_frames());
            prop_assert_eq!(seen, stream);
            let expected: Vec<u32> = (1..=bodies.len() as u32).collect();
            prop_assert_eq!(ids, expected);
        }
    }
}
