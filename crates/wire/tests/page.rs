//! Checks that this crate agrees with the tables of `docs/reference/protocol.md`, so that neither
//! changes without the other.

use std::collections::BTreeSet;
use stoker_wire::{
    Codec, EventKind, Flags, HEADER, Hello, Key, MAX_FRAME, MAX_HELLO, MAX_NAME, Meta, MetaBuf,
    Relayed, Status, Type,
};

const PAGE: &str = include_str!("../../../docs/reference/protocol.md");

/// The text of a section, from its heading to the next heading.
fn section(number: u8) -> &'static str {
    let start = PAGE.find(&format!("\n## {number}. ")).expect("a section") + 1;
    PAGE[start..].split("\n## ").next().expect("text")
}

/// The cells of a section's first table, without its header row.
fn table(number: u8) -> Vec<Vec<&'static str>> {
    let lines = section(number).lines();
    let rows = lines
        .skip_while(|line| !line.starts_with('|'))
        .take_while(|line| line.starts_with('|'))
        .map(|line| line.trim_matches('|').split('|').map(str::trim).collect());
    rows.skip(2).collect()
}

/// The rows whose first cell is a number, as that number and the remaining cells.
fn numbered(number: u8) -> Vec<(u8, Vec<&'static str>)> {
    let number_of = |cell: &str| match cell.strip_prefix("0x") {
        Some(hex) => u8::from_str_radix(hex, 16).ok(),
        None => cell.parse().ok(),
    };
    let rows = table(number).into_iter();
    rows.filter_map(|row| Some((number_of(row[0])?, row[1..].to_vec())))
        .collect()
}

fn sorted<T: Ord>(items: impl IntoIterator<Item = T>) -> Vec<T> {
    let mut items: Vec<T> = items.into_iter().collect();
    items.sort();
    items
}

#[test]
fn header_and_limits() {
    let fields = table(1)
        .into_iter()
        .filter_map(|row| row[1].parse::<usize>().ok());
    assert_eq!(fields.sum::<usize>(), HEADER);
    assert!(section(1).contains("at most `max_frame` (16,777,215 "));
    assert_eq!(MAX_FRAME, 16_777_215);
    assert!(section(1).contains("1 to 255 bytes of `A-Z a-z 0-9 _ . : / @ -`"));
    assert_eq!(MAX_NAME, 255);
    assert!(section(7).contains("HELLO carries JSON, at most 64 KiB"));
    assert_eq!(MAX_HELLO, 64 << 10);
}

#[test]
fn types() {
    let page = numbered(2).into_iter().map(|(n, row)| (n, row[0].into()));
    let crate_ = Type::ALL.map(|t| (t as u8, format!("{t:?}").to_uppercase()));
    assert_eq!(sorted(page), sorted(crate_));
}

#[test]
fn flags() {
    let page = numbered(3).into_iter().map(|(n, row)| (n, row[0]));
    assert_eq!(
        sorted(page),
        sorted(Flags::ALL.iter().map(|(f, name)| (f.0, *name)))
    );
}

#[test]
fn codecs() {
    let line = section(3).lines().find_map(|l| l.strip_prefix("Codecs: "));
    let page = line.expect("the codecs").trim_end_matches('.').split(", ");
    let page = page.map(|codec| codec.split(" (").next().expect("a codec").to_owned());
    let crate_ = Codec::ALL.iter().map(|(c, name)| format!("{} {name}", c.0));
    assert_eq!(sorted(page), sorted(crate_));
}

#[test]
fn statuses() {
    let page = numbered(5).into_iter().map(|(n, row)| {
        let end = row[0].find(|c: char| !c.is_ascii_uppercase() && c != '_');
        (n, &row[0][..end.unwrap_or(row[0].len())])
    });
    assert_eq!(
        sorted(page),
        sorted(Status::ALL.iter().map(|(s, name)| (s.0, *name)))
    );
    assert!(section(5).contains("\n| 64 and up |"));
    assert_eq!(Status::EXCEPTION, Status(64));
}

#[test]
fn events() {
    let page = numbered(6).into_iter().map(|(n, row)| (n, row[0]));
    assert_eq!(
        sorted(page),
        sorted(EventKind::ALL.iter().map(|(e, name)| (e.0, *name)))
    );
}

/// The keys of the page, with their names and the text that describes their bytes. A row for "2, 3"
/// stands for two keys.
fn keys() -> Vec<(u8, &'static str, &'static str)> {
    let mut keys = Vec::new();
    for row in table(4) {
        let name = row[1].split(" (").next().expect("a name");
        for (key, name) in row[0].split(", ").zip(name.split(", ")) {
            if let Ok(key) = key.parse() {
                keys.push((key, name, row[2]));
            }
        }
    }
    keys
}

#[test]
fn keys_and_their_widths() {
    assert_eq!(
        sorted(keys().into_iter().map(|(key, name, _)| (key, name))),
        sorted(Key::ALL.iter().map(|(key, name)| (key.0, *name)))
    );
    for (key, name, bytes) in keys() {
        let accepted = |len: usize| {
            let mut meta = MetaBuf::new();
            assert!(meta.push(Key(key), &vec![b'x'; len]));
            Meta::parse(meta.as_meta().bytes()).is_ok()
        };
        // The tested lengths are chosen so that they tell the widths of the page apart. Every length
        // that the page does not allow must be rejected.
        let widths: &[usize] = match bytes.split([':', ',', ' ']).next().expect("a word") {
            "u8" => &[1],
            "u16" => &[2],
            "u32" => &[4],
            "u64" => &[8],
            "16" => &[16],
            "n" => &[4, 8, 16, 200],
            "1" => &[1, 2, 3, 4, 8, 15, 16, 17, 200],
            "0" => &[],
            "up" | "text" | "bytes" => &[1, 2, 3, 4, 8, 15, 16, 17, 200, 201],
            other => panic!("{name}: a width that this test does not know: {other}"),
        };
        for len in [1, 2, 3, 4, 8, 15, 16, 17, 200, 201] {
            assert_eq!(accepted(len), widths.contains(&len), "{name}, {len} bytes");
        }
    }
}

#[test]
fn fields_of_hello() {
    let page = table(7).into_iter().map(|row| row[0].trim_matches('`'));
    let all = |name: &str| vec![name.to_owned()];
    let hello = serde_json::to_value(Hello {
        pid: Some(1),
        worker: Some("web-1".into()),
        calls: all("a.b"),
        idempotent: all("a.b"),
        jobs: all("*"),
        slots: Some(1),
        soft_cancel: true,
        pull: true,
        pool: Some("web".into()),
        token: Some("secret".into()),
        uid: Some(33),
        tasks: Some(1),
        relayed: Some(Relayed::default()),
        session: Some("s".into()),
        held: vec![1],
        ..Hello::default()
    });
    let hello = hello.expect("JSON");
    let fields = hello.as_object().expect("an object").keys();
    assert_eq!(
        page.collect::<BTreeSet<_>>(),
        fields.map(String::as_str).collect()
    );
}
