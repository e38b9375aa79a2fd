//! Checks the golden vectors of `sdk/conformance/frames.json` in both directions.
//!
//! `STOKER_BLESS=1` regenerates the hex of each valid frame from its fields. The changes appear in
//! the diff and must be justified by the protocol page.

use serde::{Deserialize, Serialize};
use stoker_wire::{
    Encode, Flags, Frame, Hello, Key, MAX_FRAME, MetaBuf, Type, WireError, encode, parse,
};

const PATH: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../../sdk/conformance/frames.json"
);

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Vectors {
    valid: Vec<Valid>,
    decode_only: Vec<Valid>,
    invalid: Vec<Invalid>,
    /// Every key of the protocol page with its name. The application's own keys begin at `yours`.
    keys: Vec<(u8, String)>,
    yours: u8,
    /// CRITICAL frames, and the first unknown key of each.
    critical: Vec<Critical>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Critical {
    name: String,
    hex: String,
    unknown: Option<u8>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Valid {
    name: String,
    hex: String,
    frame: Fields,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Invalid {
    name: String,
    hex: String,
    error: String,
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Fields {
    r#type: u8,
    flags: u8,
    code: u8,
    prio: u8,
    id: u32,
    ttl: u32,
    attempt: u8,
    name: String,
    meta: Vec<(u8, String)>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    body_hex: Option<String>,
    /// Bytes and how many times they are repeated to make the body. `hex` then leaves the body out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    body_repeat: Option<(String, usize)>,
}

impl Fields {
    fn body(&self) -> Vec<u8> {
        match (&self.body_hex, &self.body_repeat) {
            (Some(hex), None) => from_hex(hex),
            (None, Some((hex, times))) => from_hex(hex).repeat(*times),
            _ => panic!("either body_hex or body_repeat"),
        }
    }

    fn encode(&self) -> Vec<u8> {
        let mut meta = MetaBuf::new();
        for (key, value) in &self.meta {
            assert!(meta.push(Key(*key), &from_hex(value)));
        }
        let kind = Type::ALL.into_iter().find(|t| *t as u8 == self.r#type);
        let mut out = Vec::new();
        let frame = Encode {
            flags: Flags(self.flags),
            code: self.code,
            prio: self.prio,
            ttl: self.ttl,
            attempt: self.attempt,
            name: &self.name,
            meta: meta.as_meta(),
            body: &self.body(),
            ..Encode::new(kind.expect("a known type"), self.id)
        };
        encode(&mut out, frame);
        out
    }

    fn assert_is(&self, frame: &Frame<'_>) {
        let meta = frame.meta.iter().map(|(key, value)| (key.0, to_hex(value)));
        let read = Self {
            r#type: frame.kind as u8,
            flags: frame.flags.0,
            code: frame.code,
            prio: frame.prio,
            id: frame.id,
            ttl: frame.ttl,
            attempt: frame.attempt,
            name: frame.name.to_owned(),
            meta: meta.collect(),
            body_hex: self.body_hex.clone(),
            body_repeat: self.body_repeat.clone(),
        };
        assert_eq!(&read, self);
        assert!(frame.body == self.body(), "another body");
    }
}

impl Valid {
    /// The whole frame: `hex`, followed by the repeated body if `hex` leaves it out.
    fn bytes(&self) -> Vec<u8> {
        let mut bytes = from_hex(&self.hex);
        if self.frame.body_repeat.is_some() {
            bytes.extend(self.frame.body());
        }
        bytes
    }

    fn bless(&mut self) {
        let bytes = self.frame.encode();
        let repeated = self.frame.body_repeat.is_some();
        let left_out = if repeated { self.frame.body().len() } else { 0 };
        self.hex = to_hex(&bytes[..bytes.len() - left_out]);
    }
}

fn from_hex(hex: &str) -> Vec<u8> {
    let pairs = hex.as_bytes().chunks(2);
    let pairs = pairs.map(|pair| std::str::from_utf8(pair).expect("ASCII"));
    pairs
        .map(|pair| u8::from_str_radix(pair, 16).expect("hex"))
        .collect()
}

fn to_hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn read() -> Vectors {
    let text = std::fs::read(PATH).expect("frames.json");
    serde_json::from_slice(&text).expect("frames.json as this test knows it")
}

/// Writes one vector per line, so that a diff shows which vectors a change touched.
fn write(vectors: &Vectors) {
    fn lines<T: Serialize>(list: &[T]) -> String {
        let line = |one| format!("    {}", serde_json::to_string(one).expect("JSON"));
        list.iter().map(line).collect::<Vec<_>>().join(",\n")
    }
    let text = format!(
        "{{\n  \"valid\": [\n{}\n  ],\n  \"decode_only\": [\n{}\n  ],\n  \"invalid\": [\n{}\n  ],\n  \"keys\": [\n{}\n  ],\n  \
         \"yours\": {},\n  \"critical\": [\n{}\n  ]\n}}\n",
        lines(&vectors.valid),
        lines(&vectors.decode_only),
        lines(&vectors.invalid),
        lines(&vectors.keys),
        vectors.yours,
        lines(&vectors.critical)
    );
    std::fs::write(PATH, text).expect("frames.json");
}

fn parse_one(bytes: &[u8]) -> Result<Frame<'_>, WireError> {
    let (frame, size) = parse(bytes, MAX_FRAME)?.expect("a whole frame");
    assert_eq!(size, bytes.len());
    if frame.kind == Type::Hello {
        Hello::parse(frame.body)?;
    }
    Ok(frame)
}

#[test]
fn valid_frames_both_ways() {
    let mut vectors = read();
    if std::env::var_os("STOKER_BLESS").is_some() {
        vectors.valid.iter_mut().for_each(Valid::bless);
        vectors.keys = keys();
        vectors.yours = Key::APPLICATION.0;
        vectors.critical = critical();
        write(&vectors);
    }
    for (list, same) in [(&vectors.valid, true), (&vectors.decode_only, false)] {
        for vector in list {
            let bytes = vector.bytes();
            let frame = parse_one(&bytes).unwrap_or_else(|e| panic!("{}: {e}", vector.name));
            vector.frame.assert_is(&frame);
            assert!((vector.frame.encode() == bytes) == same, "{}", vector.name);
        }
    }
}

#[test]
fn invalid_frames_are_rejected_with_the_expected_error() {
    for vector in read().invalid {
        match parse_one(&from_hex(&vector.hex)) {
            Ok(frame) => panic!("{} was read as {frame:?}", vector.name),
            Err(error) => assert_eq!(snake_case(error), vector.error, "{}", vector.name),
        }
    }
}

fn keys() -> Vec<(u8, String)> {
    let keys = Key::ALL.iter();
    keys.map(|(key, name)| (key.0, (*name).to_owned()))
        .collect()
}

/// A CRITICAL frame for each end of each range of keys.
fn critical() -> Vec<Critical> {
    let last = Key::ALL.iter().map(|(key, _)| key.0).max().expect("keys");
    let cases: [(&str, &[u8], Option<u8>); 6] = [
        ("without metadata", &[], None),
        (
            "every known key that may have 8 bytes",
            &[1, 17, 28, 32, 34],
            None,
        ),
        ("the application's own keys", &[0x80, 0xc0, 0xfe], None),
        ("the first unknown key", &[last + 1], Some(last + 1)),
        ("the last unknown key", &[0x7f], Some(0x7f)),
        (
            "an unknown key behind known ones",
            &[0x80, 34, 0x50],
            Some(0x50),
        ),
    ];
    let frame = |(name, keys, unknown): (&str, &[u8], Option<u8>)| {
        let mut meta = MetaBuf::new();
        keys.iter()
            .for_each(|key| assert!(meta.push(Key(*key), &[0; 8])));
        let mut bytes = Vec::new();
        let frame = Encode {
            flags: Flags::CRITICAL,
            name: "a.b",
            meta: meta.as_meta(),
            ..Encode::new(Type::Req, 1)
        };
        encode(&mut bytes, frame);
        Critical {
            name: name.to_owned(),
            hex: to_hex(&bytes),
            unknown,
        }
    };
    cases.into_iter().map(frame).collect()
}

#[test]
fn known_keys_match_the_vectors() {
    if std::env::var_os("STOKER_BLESS").is_some() {
        return;
    }
    let vectors = read();
    assert_eq!(vectors.keys, keys(), "run 'make bless'");
    assert_eq!(vectors.yours, Key::APPLICATION.0);
}

// Issue 9, A13: keys 28 to 35 and the application's own range counted as unknown.
#[test]
fn critical_frames_are_rejected_for_unknown_keys() {
    for vector in critical() {
        let bytes = from_hex(&vector.hex);
        let frame = parse_one(&bytes).expect("a frame");
        assert!(frame.flags.has(Flags::CRITICAL));
        let unknown = frame.meta.iter().find(|(key, _)| !key.is_known());
        assert_eq!(
            unknown.map(|(key, _)| key.0),
            vector.unknown,
            "{}",
            vector.name
        );
    }
}

/// The name of the error's variant: `BadMetaValue(5)` is `bad_meta_value`.
fn snake_case(error: WireError) -> String {
    let mut name = String::new();
    let debug = format!("{error:?}");
    for letter in debug.chars().take_while(char::is_ascii_alphanumeric) {
        if letter.is_ascii_uppercase() && !name.is_empty() {
            name.push('_');
        }
        name.push(letter.to_ascii_lowercase());
    }
    name
}
