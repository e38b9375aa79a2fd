//! Compares secrets.

/// Whether two byte strings are equal. The time does not depend on where they differ.
pub(crate) fn constant_time_eq(one: &[u8], other: &[u8]) -> bool {
    let differences = one.iter().zip(other).fold(0, |all, (a, b)| all | (a ^ b));
    one.len() == other.len() && differences == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn constant_time_eq_compares_all_bytes() {
        assert!(constant_time_eq(b"abc", b"abc"));
        assert!(
            !constant_time_eq(b"abc", b"abd")
                && !constant_time_eq(b"abc", b"ab")
                && !constant_time_eq(b"", b"a")
        );
    }
}
