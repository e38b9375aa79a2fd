//! Tests of the small functions that read the fields of a frame.

use stoker_wire::{
    Encode, Flags, Key, MAX_FRAME, Meta, MetaBuf, Status, Type, WireError, encode, parse,
    service_of,
};

#[test]
fn flags() {
    let flags = Flags::NONE.with(Flags::ONEWAY).with(Flags::CRITICAL);
    assert_eq!(flags, Flags(0x88));
    assert_eq!(flags.with(Flags::ONEWAY), flags);
    assert!(flags.has(Flags::ONEWAY) && flags.has(flags) && flags.has(Flags::NONE));
    assert!(!flags.has(Flags::SHADOW) && !flags.has(Flags::ONEWAY.with(Flags::SHADOW)));
}

#[test]
fn status_names() {
    for (status, name) in Status::ALL {
        assert_eq!(status.name(), *name);
    }
    assert_eq!(Status::EXCEPTION.name(), "EXCEPTION");
    assert_eq!(Status(255).name(), "EXCEPTION");
    assert_eq!(Status(63).name(), "UNKNOWN");
}

#[test]
fn priority_and_status_of_a_frame() {
    let mut bytes = Vec::new();
    let res = Encode {
        code: 35,
        prio: 0b1010_1110,
        ..Encode::new(Type::Res, 1)
    };
    encode(&mut bytes, res);
    let (frame, _) = parse(&bytes, MAX_FRAME).unwrap().unwrap();
    assert_eq!((frame.priority(), frame.status()), (6, Status::SHED));
}

#[test]
fn metadata_values() {
    let mut buf = MetaBuf::new();
    assert!(buf.as_meta().is_empty());
    assert!(buf.push(Key::TRIES, &[0x01, 0x02]));
    assert!(buf.push(Key::CALLER, "küche".as_bytes()));
    assert!(buf.push(Key::AFFINITY, b"\xff"));
    let meta = buf.as_meta();
    assert!(!meta.is_empty());
    assert_eq!(meta.uint(Key::TRIES), Some(0x0102));
    assert_eq!(meta.uint(Key::DELAY), None);
    assert_eq!(meta.text(Key::CALLER), Some("küche"));
    assert_eq!(meta.text(Key::AFFINITY), None);
    assert_eq!(meta.get(Key::AFFINITY), Some(&b"\xff"[..]));
    assert_eq!(Meta::EMPTY.get(Key::AFFINITY), None);
    buf.clear();
    assert_eq!(buf, MetaBuf::new());
}

#[test]
fn services() {
    assert_eq!(service_of("shop.billing.charge"), "shop.billing");
    assert_eq!(service_of("mail"), "mail");
}

#[test]
fn error_messages_name_the_invalid_value() {
    let error = |at: usize, byte: u8| {
        let mut bytes = Vec::new();
        let frame = Encode {
            name: "a.b",
            ..Encode::new(Type::Req, 1)
        };
        encode(&mut bytes, frame);
        bytes[at] = byte;
        parse(&bytes, MAX_FRAME).unwrap_err()
    };
    let (len, name, meta) = (19, 3, 9);
    assert_eq!(error(17, 9), WireError::Overrun { len, name, meta });
    assert_eq!(error(5, 0xfe), WireError::ReservedFlags(0x06));
    assert_eq!(error(4, 14).to_string(), "unknown frame type 14");
}
