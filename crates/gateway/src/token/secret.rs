//! The secret of a token. Only its hash is stored.
//!
//! A peer presents `NAME.SECRET`, where SECRET is 32 random bytes in hexadecimal. It has too much entropy to be guessed,
//! so a plain SHA-256 protects it as well as a slow password hash would.

use crate::bytes_eq::constant_time_eq;
use crate::random::{hex, random_hex};
use ring::digest::{SHA256, digest};
use serde::{Deserialize, Serialize};
use std::io;

/// The number of random bytes in a secret.
const SECRET_BYTES: usize = 32;

/// The hash of a secret, and when the secret expires.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Secret {
    pub sha256: String,
    /// In Unix milliseconds. Set when the token has been rotated.
    #[serde(default)]
    pub expires_ms: Option<u64>,
}

impl Secret {
    /// Whether this is the hash of `secret`, and the secret has not expired. The comparison takes constant time.
    #[must_use]
    pub fn is_of(&self, secret: &str, now_ms: u64) -> bool {
        let is_same = constant_time_eq(hash(secret).as_bytes(), self.sha256.as_bytes());
        is_same && self.expires_ms.is_none_or(|expires| expires > now_ms)
    }
}

/// Creates a secret. Returns the string that a peer presents, and the hash to store.
pub fn new_secret(name: &str) -> io::Result<(String, Secret)> {
    let secret = random_hex::<SECRET_BYTES>()?;
    let stored = Secret {
        sha256: hash(&secret),
        expires_ms: None,
    };
    Ok((format!("{name}.{secret}"), stored))
}

/// Splits the string that a peer presents into the token's name and the secret.
#[must_use]
pub fn split_secret(presented: &str) -> Option<(&str, &str)> {
    presented.split_once('.')
}

fn hash(secret: &str) -> String {
    hex(digest(&SHA256, secret.as_bytes()).as_ref())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_hash_of_a_secret_is_stored() {
        let (presented, stored) = new_secret("web").unwrap();
        let (name, secret) = split_secret(&presented).unwrap();
        assert_eq!((name, secret.len()), ("web", 64));
        assert!(!stored.sha256.contains(secret));
        assert!(stored.is_of(secret, 0));
        assert!(!stored.is_of(&secret[1..], 0));
        assert!(!stored.is_of("", 0));
        let expiring = Secret {
            expires_ms: Some(10),
            ..stored
        };
        assert!(expiring.is_of(secret, 9));
        assert!(!expiring.is_of(secret, 10));
    }

    /// The digest of the empty string is well known.
    #[test]
    fn the_hash_is_sha_256() {
        let expected = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
        assert_eq!(hash(""), expected);
    }
}
