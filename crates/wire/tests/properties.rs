//! Properties that hold for all frames and for all bytes, sampled from a fixed seed.

use proptest::collection::{btree_map, vec};
use proptest::prelude::*;
use proptest::sample::{Index, select};
use proptest::test_runner::RngSeed;
use stoker_wire::{
    Encode, EventKind, Flags, Frame, Key, MAX_FRAME, Meta, MetaBuf, Splitter, Type, WireError,
    encode, parse,
};

fn config() -> ProptestConfig {
    ProptestConfig {
        cases: 1000,
        rng_seed: RngSeed::Fixed(0x5708e5),
        failure_persistence: None,
        ..ProptestConfig::default()
    }
}

fn bytes_of(frame: &Frame<'_>) -> Vec<u8> {
    let mut out = Vec::new();
    encode(&mut out, Encode::from(frame));
    out
}

/// Metadata that is valid by the protocol page: the drawn entries that are valid on their own.
fn meta() -> impl Strategy<Value = MetaBuf> {
    let sizes = select(vec![0, 1, 2, 4, 8, 16, 55, 200, 201, 254, 255, 256, 700]);
    let value = (sizes, any::<u8>()).prop_map(|(size, byte)| vec![byte; size]);
    btree_map(any::<u8>(), value, 0..8).prop_map(|entries| {
        let mut meta = MetaBuf::new();
        for (key, value) in entries {
            let mut alone = MetaBuf::new();
            assert!(alone.push(Key(key), &value));
            if Meta::parse(alone.as_meta().bytes()).is_ok() {
                assert!(meta.push(Key(key), &value));
            }
        }
        meta
    })
}

prop_compose! {
    /// The bytes of a frame of any type that is valid by the protocol page.
    fn frame()(
        kind in select(Type::ALL.to_vec()),
        flags in any::<u8>(),
        [code, prio, attempt] in any::<[u8; 3]>(),
        (id, ttl) in (1u32.., any::<u32>()),
        name in "[A-Za-z0-9_.:/@-]{1,255}",
        meta in meta(),
        body in vec(any::<u8>(), 0..600),
    ) -> Vec<u8> {
        let of_connection = matches!(kind, Type::Hello | Type::Welcome | Type::Goaway | Type::Ready);
        let id = if of_connection { 0 } else { id };
        let ttl = if kind == Type::Ready { ttl % 2 } else { ttl };
        let mut frame = Encode {
            flags: Flags(flags & 0xf8),
            ttl,
            meta: meta.as_meta(),
            body: &body,
            ..Encode::new(kind, id)
        };
        match kind {
            Type::Req => {
                (frame.code, frame.prio, frame.attempt) = (code, prio, attempt);
                frame.name = &name;
            }
            Type::Res => (frame.code, frame.prio) = (code, prio),
            Type::Event => {
                frame.code = code % 6;
                frame.prio = if EventKind(frame.code) == EventKind::LOG { prio } else { 0 };
            }
            _ => {}
        }
        let mut out = Vec::new();
        encode(&mut out, frame);
        out
    }
}

/// Bytes that no correct peer sends: random bytes, random bytes after a plausible header, and frames in
/// which some bytes were changed, inserted or removed.
fn hostile() -> impl Strategy<Value = Vec<u8>> {
    let noise = vec(any::<u8>(), 0..300);
    let headed = (16u32..200, vec(0u8..20, 16), vec(any::<u8>(), 0..300))
        .prop_map(|(len, header, rest)| [len.to_be_bytes().to_vec(), header, rest].concat());
    let edit = (any::<Index>(), any::<u8>(), 0..3);
    let edited = (vec(frame(), 1..4), vec(edit, 1..6)).prop_map(|(frames, edits)| {
        let mut bytes = frames.concat();
        for (at, byte, kind) in edits {
            let at = at.index(bytes.len());
            match kind {
                0 => bytes[at] = byte,
                1 => bytes.insert(at, byte),
                _ => drop(bytes.remove(at)),
            }
        }
        bytes
    });
    prop_oneof![noise, headed, edited]
}

/// Feeds `bytes` in chunks of these sizes, repeated in turn, and returns the bytes of each frame. Also
/// checks that the splitter stays within its bounds.
fn split(bytes: &[u8], sizes: &[usize], max: usize) -> (Vec<Vec<u8>>, Result<usize, WireError>) {
    let mut splitter = Splitter::new(max);
    let mut frames = Vec::new();
    let mut rest = bytes;
    for size in sizes.iter().cycle() {
        let (chunk, tail) = rest.split_at(rest.len().min(*size));
        rest = tail;
        let fed = splitter.feed(chunk, |frame| {
            frames.push(bytes_of(&frame));
            Ok(())
        });
        assert!(splitter.buffered() <= max + 4);
        assert!(splitter.memory() <= Splitter::MAX_SPARE_CAPACITY.max(2 * splitter.buffered()));
        if let Err(error) = fed {
            return (frames, Err(error));
        }
        if rest.is_empty() {
            break;
        }
    }
    (frames, Ok(splitter.buffered()))
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn parsed_frames_encode_to_the_same_bytes(bytes in frame()) {
        let (frame, size) = parse(&bytes, MAX_FRAME)?.expect("a whole frame");
        prop_assert_eq!(size, bytes.len());
        prop_assert_eq!(&bytes_of(&frame), &bytes);
        let len = bytes.len() - 4;
        prop_assert!(parse(&bytes, len).is_ok());
        prop_assert_eq!(parse(&bytes, len - 1), Err(WireError::TooLong { len, max: len - 1 }));
        prop_assert_eq!(parse(&bytes[..size - 1], MAX_FRAME), Ok(None));
    }

    #[test]
    fn any_split_gives_the_same_frames(frames in vec(frame(), 1..6), sizes in vec(1usize..900, 1..5)) {
        let bytes = frames.concat();
        let whole = (frames, Ok(0));
        prop_assert_eq!(&split(&bytes, &[bytes.len()], MAX_FRAME), &whole);
        prop_assert_eq!(&split(&bytes, &sizes, MAX_FRAME), &whole);
        prop_assert_eq!(&split(&bytes, &[1], MAX_FRAME), &whole);
    }

    #[test]
    fn invalid_bytes_have_the_same_result_however_split(
        bytes in hostile(), sizes in vec(1usize..90, 1..5), max in 0usize..2000,
    ) {
        let whole = split(&bytes, &[bytes.len().max(1)], max);
        prop_assert_eq!(&split(&bytes, &sizes, max), &whole);
        prop_assert_eq!(&split(&bytes, &[1], max), &whole);
        // The accepted frames are exactly the bytes that arrived: nothing is lost, invented or
        // reordered.
        let accepted = whole.0.concat();
        prop_assert!(bytes.starts_with(&accepted));
        if let Ok(buffered) = whole.1 {
            prop_assert_eq!(accepted.len() + buffered, bytes.len());
        }
    }

    #[test]
    fn metadata_round_trip(meta in meta()) {
        let read = Meta::parse(meta.as_meta().bytes())?;
        let mut again = MetaBuf::new();
        for (key, value) in read.iter() {
            prop_assert_eq!(read.get(key), Some(value));
            prop_assert!(again.push(key, value));
        }
        prop_assert_eq!(again, meta);
    }

    #[test]
    fn invalid_metadata_is_rejected_or_parsed_completely(bytes in vec(prop_oneof![0u8..30, any::<u8>()], 0..40)) {
        if let Ok(meta) = Meta::parse(&bytes) {
            let entries: Vec<_> = meta.iter().collect();
            let value_bytes: usize = entries.iter().map(|(_, value)| value.len()).sum();
            prop_assert!(value_bytes + 2 * entries.len() <= bytes.len());
            for (key, _) in entries {
                let _ = (meta.uint(key), meta.text(key));
            }
        }
    }
}
