//! The bounds of memory and work, each at its edge.

use stoker_wire::{
    Encode, HEADER, Key, MAX_FRAME, Meta, MetaBuf, Splitter, Type, WireError, encode, parse,
};

#[test]
fn a_long_frame_by_single_bytes_is_copied_few_times() {
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
    assert_eq!((frames, splitter.held()), (1, 0));
    assert!(
        (1..=22).contains(&growths),
        "{growths} copies of 2^20 bytes"
    );
    assert!(splitter.memory() <= Splitter::KEPT);
}

#[test]
fn an_announced_length_reserves_nothing() {
    let mut splitter = Splitter::new(usize::MAX);
    let mut feed = |bytes: &[u8]| splitter.feed(bytes, |_| Ok::<(), WireError>(()));
    assert_eq!(feed(&[0, 255, 255, 255, 7]), Ok(()));
    assert!(splitter.memory() < HEADER);
}

#[test]
fn no_limit_goes_above_that_of_the_format() {
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
