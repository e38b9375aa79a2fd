//! Metadata keys of a push: known, private and unknown ones, with correct and wrong lengths, with and without CRITICAL.

use crate::arena::Arena;
use crate::case::Group;
use stoker_testkit::{Request, pool_of};
use stoker_wire::{Flags, Key, Status, Type};

/// The keys that a push may have, each with a valid value.
const RIGHT: &[(u8, &[u8])] = &[
    (
        1,
        b"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
    ),
    (2, b"state"),
    (3, b"baggage"),
    (4, b"affinity"),
    (5, b"tenant"),
    (6, b"idempotent"),
    (7, b"caller"),
    (9, b"pin"),
    (15, b"origin"),
    (17, &[0, 0, 0, 0, 0, 0, 0, 1]),
    (18, b"unique"),
    (19, &[0, 3]),
    (20, &[0, 0, 0, 1, 0, 0, 0, 2]),
    (21, &[0, 0, 0, 1]),
    (22, &[0, 0, 1, 0]),
    (23, &[0, 0, 0, 0, 0, 0, 0, 1]),
    (28, &[0, 0, 255, 255, 255, 255, 255, 255]),
    (29, &[0, 2]),
    (30, b""),
    (31, b""),
    (32, &[0, 0, 0, 0, 0, 0, 1, 0]),
    (33, b"Type"),
    (34, &[0, 0, 0, 0, 0, 0, 1, 0]),
    (0x80, b"own"),
    (0xc0, b"own"),
    (0xfe, b"own"),
];

/// Unknown keys: the first and the last one, and some between them.
fn unknown() -> impl Iterator<Item = u8> {
    let all = (1..Key::APPLICATION.0).filter(|key| !Key(*key).is_known());
    let first = all.clone().next();
    first
        .into_iter()
        .chain(all.skip(1).filter(|key| key % 32 == 0 || *key == 0x7f))
}

const WIDTHS: &[usize] = &[0, 1, 2, 3, 4, 5, 7, 8, 9, 16, 201, 255, 300];

pub(crate) fn groups() -> Vec<Group> {
    let config = || pool_of("serve", "workers = 1");
    let mut critical = Group::new("A13", "metadata marked CRITICAL").config(config());
    for (key, value) in RIGHT {
        let ask = with(*key, value).flag(Flags::CRITICAL);
        critical.add(format!("known key {key} is accepted"), move |arena| {
            let answer = arena.client().request(&ask);
            assert_eq!(answer.status(), Status::OK, "{}", answer.text());
        });
    }
    for key in unknown() {
        let ask = with(key, b"x").flag(Flags::CRITICAL);
        critical.add(format!("unknown key {key} is refused"), move |arena| {
            let answer = arena.client().request(&ask);
            assert_ne!(answer.status(), Status::OK, "it can not be understood");
            assert_eq!(
                (answer.kind, answer.id),
                (Type::Res, 1),
                "the connection stays"
            );
        });
    }
    let mut widths = Group::new("A13", "metadata of a wrong width").config(config());
    for key in 1..=36_u8 {
        widths.add(
            format!("key {key} in {} widths", WIDTHS.len()),
            move |arena| {
                WIDTHS
                    .iter()
                    .for_each(|width| any_width(arena, key, *width));
            },
        );
    }
    vec![critical, widths]
}

fn with(key: u8, value: &[u8]) -> Request {
    let ask = Request::push("q", "ok").meta(Key(key), value);
    // These two keys are only valid together with a unique key.
    if matches!(key, 31 | 32) {
        ask.meta(Key::UNIQUE, format!("u{key}"))
    } else {
        ask
    }
}

/// Every value gets a typed answer, or a protocol error that names the reason.
fn any_width(arena: &mut Arena, key: u8, width: usize) {
    if key == 24 {
        return; // The queue itself, which `with` sets already.
    }
    let server = arena.app().server();
    let mut client = arena.client();
    let id = client.send(&with(key, &vec![b'1'; width]));
    let answer = client.frame().expect("there is an answer");
    assert_eq!(answer.kind, Type::Res);
    assert!(
        answer.id == id || answer.id == 0,
        "it is the answer, or a fault"
    );
    assert!(
        answer.status() == Status::OK || !answer.text().is_empty(),
        "it says why"
    );
    arena.still_serves(server);
}
