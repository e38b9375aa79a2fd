//! The attributes of a call or job that its code gets, besides the payload. Their names are the same in the environment of a program
//! (`STOKER_CREATED_AT`), in the variables of a script, and in the header of a request (`stoker-created-at`).

use super::Task;
use std::fmt::Write;
use stoker_wire::Key;

/// An attribute of a task. The name is the name of the variable without its prefix.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Attribute {
    name: String,
    pub(crate) value: String,
}

/// The prefix of the names of these headers. A visitor of a site can't send such a header to an upstream server.
pub(crate) const HEADER_PREFIX: &str = "stoker-";
/// The prefix of the names of these environment variables.
const VARIABLE_PREFIX: &str = "STOKER_";

/// The variables that not every task has. A variable of the adapter's own environment must not be mistaken for one of them.
pub(crate) const VARIABLES: [&str; 8] = [
    "STOKER_NAME",
    "STOKER_ID",
    "STOKER_ATTEMPT",
    "STOKER_TRIES",
    "STOKER_CRASHES",
    "STOKER_TIMEOUT",
    "STOKER_CREATED_AT",
    "STOKER_KEY",
];

impl Attribute {
    fn new(name: &str, value: impl ToString) -> Self {
        Self {
            name: name.to_owned(),
            value: value.to_string(),
        }
    }

    pub(crate) fn variable(&self) -> String {
        format!("{VARIABLE_PREFIX}{}", self.name)
    }

    pub(crate) fn header(&self) -> String {
        let name = self.name.to_ascii_lowercase().replace('_', "-");
        format!("{HEADER_PREFIX}{name}")
    }
}

/// Everything that is known about a task. The id of a call is empty.
pub(crate) fn attributes(task: &Task) -> Vec<Attribute> {
    let mut all = vec![
        Attribute::new("NAME", &task.name),
        Attribute::new("ID", &task.label),
        Attribute::new("ATTEMPT", task.attempt),
    ];
    let meta = task.meta();
    for (name, key) in [
        ("TRIES", Key::TRIES),
        ("CRASHES", Key::CRASHES),
        ("CREATED_AT", Key::CREATED_AT),
    ] {
        all.extend(meta.uint(key).map(|number| Attribute::new(name, number)));
    }
    let timeout = task.time_left.map(u64::from);
    let timeout = timeout.or_else(|| meta.uint(Key::TIMEOUT));
    all.extend(timeout.map(|ms| Attribute::new("TIMEOUT", format_args!("{ms}ms"))));
    all.extend(
        meta.get(Key::FAIRNESS)
            .map(|key| Attribute::new("KEY", encoded(key))),
    );
    let own = meta.iter().filter(|(key, _)| key.0 >= Key::APPLICATION.0);
    all.extend(own.map(|(key, value)| Attribute::new(&format!("META_{}", key.0), encoded(value))));
    all
}

/// A string that every header and variable can contain: other bytes than visible ASCII characters, and `%`, become `%41`.
pub(crate) fn encoded(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    for byte in bytes {
        match byte {
            b'!'..=b'~' if *byte != b'%' => text.push(char::from(*byte)),
            // Writing to a string does not fail.
            _ => drop(write!(text, "%{byte:02X}")),
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::adapter::task::tests::task_of;
    use stoker_wire::{Encode, MetaBuf, Type};

    fn texts(frame: Encode<'_>) -> Vec<String> {
        let all = attributes(&task_of(frame));
        let text = |attribute: &Attribute| format!("{}={}", attribute.variable(), attribute.value);
        all.iter().map(text).collect()
    }

    #[test]
    fn a_job_has_its_options_and_the_metadata_of_its_producer() {
        let mut meta = MetaBuf::new();
        let id = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16];
        meta.push(Key::JOB_ID, &id);
        meta.push(Key::TRIES, &3u16.to_be_bytes());
        meta.push(Key::CREATED_AT, &1_795_324_468_586u64.to_be_bytes());
        meta.push(Key::CRASHES, &[1]);
        meta.push(Key::TIMEOUT, &60_000u32.to_be_bytes());
        meta.push(Key::FAIRNESS, b"tenant 42%");
        meta.push(Key(0x81), b"a\r\nb: \xff");
        let all = texts(Encode {
            name: "mails",
            attempt: 2,
            meta: meta.as_meta(),
            ..Encode::new(Type::Req, 1)
        });
        let expected = [
            "STOKER_NAME=mails",
            "STOKER_ID=01020304-0506-0708-090a-0b0c0d0e0f10",
            "STOKER_ATTEMPT=2",
            "STOKER_TRIES=3",
            "STOKER_CRASHES=1",
            "STOKER_CREATED_AT=1795324468586",
            "STOKER_TIMEOUT=60000ms",
            "STOKER_KEY=tenant%2042%25",
            "STOKER_META_129=a%0D%0Ab:%20%FF",
        ];
        assert_eq!(all, expected);
    }

    #[test]
    fn a_call_has_a_deadline_and_no_id() {
        let call = Encode {
            name: "users.get",
            ttl: 1500,
            ..Encode::new(Type::Req, 1)
        };
        let all = texts(call);
        let expected = [
            "STOKER_NAME=users.get",
            "STOKER_ID=",
            "STOKER_ATTEMPT=0",
            "STOKER_TIMEOUT=1500ms",
        ];
        assert_eq!(all, expected);
    }

    #[test]
    fn a_header_is_named_like_its_variable() {
        let attribute = Attribute::new("CREATED_AT", 1);
        let names = (attribute.variable(), attribute.header());
        let expected = ("STOKER_CREATED_AT", "stoker-created-at");
        assert_eq!((names.0.as_str(), names.1.as_str()), expected);
        assert!(VARIABLES.contains(&expected.0));
    }
}
