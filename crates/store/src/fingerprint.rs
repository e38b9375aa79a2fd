//! One number for all failures that are the same failure.

use crate::JobError;

/// What two failures have in common if they are the same failure: class, place, and the message less what
/// changes from one to the next (numbers, ids, quoted values). FNV-1a, 64 bits.
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
    // SQLite keeps signed numbers; one bit less makes it the same number everywhere.
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
    fn what_varies_between_two_of_the_same_does_not_count() {
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
