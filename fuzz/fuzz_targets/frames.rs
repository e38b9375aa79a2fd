//! The bytes of a peer, split in two ways: both give the same frames and the same end, within the same bounds.
#![no_main]

use libfuzzer_sys::fuzz_target;
use stoker_wire::{Encode, Frame, Splitter, WireError, encode};

const MAX: usize = 4096;

fuzz_target!(|input: &[u8]| {
    let Some((&size, bytes)) = input.split_first() else {
        return;
    };
    let whole = read(bytes, bytes.len().max(1));
    assert_eq!(whole, read(bytes, usize::from(size).max(1)));
    assert!(bytes.starts_with(&whole.0));
});

/// Feeds `bytes` in chunks of `size`. Returns the frames, encoded again, and the result.
fn read(bytes: &[u8], size: usize) -> (Vec<u8>, Result<usize, WireError>) {
    let mut splitter = Splitter::new(MAX);
    let mut written = Vec::new();
    for chunk in bytes.chunks(size) {
        let fed = splitter.feed(chunk, |frame| {
            look_at(&frame);
            write(&mut written, &frame);
            Ok(())
        });
        assert!(splitter.buffered() <= MAX + 4 && splitter.memory() <= Splitter::MAX_SPARE_CAPACITY);
        if let Err(error) = fed {
            return (written, Err(error));
        }
    }
    (written, Ok(splitter.buffered()))
}

/// Reads the metadata in every possible way.
fn look_at(frame: &Frame<'_>) {
    for (key, value) in frame.meta.iter() {
        assert_eq!(frame.meta.get(key), Some(value));
        let _ = (frame.meta.uint(key), frame.meta.text(key));
    }
}

fn write(out: &mut Vec<u8>, frame: &Frame<'_>) {
    encode(out, Encode::from(frame));
}
