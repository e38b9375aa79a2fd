//! Tests of the bounds of memory and work, each at its edge.

use stoker_wire::{
    Encode, Frame, HEADER, Key, MAX_FRAME, Meta, MetaBuf, Splitter, Type, WireError, encode, parse,
};

#[test]
fn a_frame_received_byte_by_byte_is_copied_only_a_few_times() {
    let body = vec![b'x'; 1 << 20];
    let mut bytes = Vec::new();
    let ping = Encode {
        body: &body,
        ..Encode::new(Type::Ping, 0)
    };
    encode(&mut bytes, ping);
    let (mut splitter, mut growths, mut frames) = (Splitter::new(MAX_FRAME), 0, 0);
    for byte in &bytes {
        let before = splitter.memory();
        let fed: Result<(), WireError> = splitter.feed(std::slice::from_ref(byte), |_| {
            frames += 1;
            Ok(())
        });
        assert_eq!(fed, Ok(()));
        growths += u32::from(splitter.memory() > before);
        assert!(splitter.memory() <= bytes.len());
    }
    assert_eq!((frames, splitter.buffered()), (1, 0));
    assert!(
        (1..=22).contains(&growths),
        "{growths} copies of 2^20 bytes"
    );
    assert!(splitter.memory() <= Splitter::MAX_SPARE_CAPACITY);
}

#[test]
fn an_announced_length_reserves_nothing() {
    let mut splitter = Splitter::new(usize::MAX);
    let mut feed = |bytes: &[u8]| splitter.feed(bytes, |_| Ok::<(), WireError>(()));
    assert_eq!(feed(&[0, 255, 255, 255, 7]), Ok(()));
    assert!(splitter.memory() < HEADER);
}

#[test]
fn a_limit_above_the_maximum_of_the_format_has_no_effect() {
    let too_long = WireError::TooLong {
        len: MAX_FRAME + 1,
        max: MAX_FRAME,
    };
    assert_eq!(parse(&[1, 0, 0, 0], usize::MAX), Err(too_long));
}

#[test]
fn metadata_takes_all_65535_bytes() {
    let mut meta = MetaBuf::new();
    assert!(!meta.push(Key(0x80), &[0; 65_532]));
    assert!(meta.push(Key(0x80), &[0; 65_531 - 2]));
    assert!(!meta.push(Key(0x81), &[0]));
    assert!(meta.push(Key(0x81), &[]));
    assert_eq!(meta.as_meta().bytes().len(), 65_535);
    assert!(Meta::parse(meta.as_meta().bytes()).is_ok());
}

/// However the bytes are split, exactly one frame is skipped.
#[test]
fn frames_after_a_skipped_frame_are_parsed() {
    let (mut stream, mut next) = (Vec::new(), Vec::new());
    let body = vec![7; 5_000];
    let large = Encode {
        name: "t.run",
        body: &body,
        ..Encode::new(Type::Req, 9)
    };
    encode(&mut stream, large);
    let size = stream.len();
    encode(&mut next, Encode::new(Type::Ping, 10));
    stream.extend_from_slice(&next);
    for buffered in 0..size {
        for chunk in [1, 700, 10_000] {
            let mut splitter = Splitter::new(MAX_FRAME);
            let mut seen = Vec::new();
            let mut feed = |splitter: &mut Splitter, bytes: &[u8]| {
                let each = |frame: Frame<'_>| {
                    seen.push(frame.id);
                    Ok::<(), WireError>(())
                };
                splitter.feed(bytes, each).expect("these are frames");
            };
            feed(&mut splitter, &stream[..buffered]);
            let skipped = splitter.skip();
            assert_eq!(
                skipped.is_some(),
                buffered >= HEADER,
                "after {buffered} bytes"
            );
            assert!(skipped.is_none_or(|begun| (begun.kind, begun.id) == (Type::Req, 9)));
            assert!(skipped.is_none() || splitter.memory() == 0);
            // Small chunks are slow, so they are used at only one position in 97.
            let rest = &stream[buffered..];
            rest.chunks(if buffered % 97 == 0 { chunk } else { 10_000 })
                .for_each(|bytes| feed(&mut splitter, bytes));
            let expected: &[u32] = if skipped.is_some() { &[10] } else { &[9, 10] };
            assert_eq!(seen, expected, "after {buffered} bytes");
        }
    }
}
