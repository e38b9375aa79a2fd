//! Groups failures that have the same cause under one number.

use crate::JobError;

/// A hash of the parts that repeated failures share: the error's class, its place, and the first line of its
/// message without the words that vary (numbers, ids, quoted values). FNV-1a, 64 bits.
#[must_use]
pub fn fingerprint(error: &JobError) -> u64 {
    let mut hash = Fnv(0xcbf2_9ce4_8422_2325);
    hash.add(error.class.as_bytes());
    hash.add(b"\0");
    hash.add(error.place.as_deref().unwrap_or_default().as_bytes());
    hash.add(b"\0");
    let first = error.message.lines().next().unwrap_or_default();
    for word in first.split_whitespace() {
        let varies = word
            .bytes()
            .any(|byte| byte.is_ascii_digit() || matches!(byte, b'"' | b'\''));
        hash.add(if varies { b"#" } else { word.as_bytes() });
        hash.add(b" ");
    }
    // SQLite integers are signed, so one bit is dropped to give the same number everywhere.
    hash.0 >> 1
}

struct Fnv(u64);

impl Fnv {
    fn add(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(class: &str, message: &str) -> JobError {
        JobError {
            class: class.into(),
            message: message.into(),
            place: None,
            at_ms: 0,
        }
    }

    #[test]
    fn words_that_vary_do_not_change_the_fingerprint() {
        let one = error(
            "PDOException",
            "Deadlock found, row 17 of 'mails'\n#0 stack",
        );
        let same = error(
            "PDOException",
            "Deadlock found, row 93 of 'users'\n#0 other stack",
        );
        assert_eq!(fingerprint(&one), fingerprint(&same));
        assert_ne!(
            fingerprint(&one),
            fingerprint(&error(
                "RuntimeException",
                "Deadlock found, row 17 of 'mails'"
            ))
        );
        assert_ne!(
            fingerprint(&one),
            fingerprint(&error("PDOException", "Gone away, row 17 of 'mails'"))
        );
    }
}
