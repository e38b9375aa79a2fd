//! Tokens, by which peers on other machines authenticate, and what each token permits.
//!
//! All tokens are in one file, which `stoker token` edits ([`file`]) and the relay gateway reads. It contains only hashes
//! of the secrets ([`secret`]).

mod file;
mod pattern;
mod role;
mod secret;

pub use file::{FileError, create_for, edit, read};
pub use pattern::matches;
pub use role::Role;
pub use secret::{Secret, new_secret, split_secret};

use serde::{Deserialize, Serialize};
use std::fmt;

/// The maximum length of a token's name, so that the owner `token:NAME` has at most 100 bytes.
const MAX_NAME: usize = 64;
/// The maximum number of patterns of one kind.
const MAX_PATTERNS: usize = 100;
/// The maximum length of a pattern or of the name in a certificate.
const MAX_PATTERN: usize = 255;

/// A token, and what it permits.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Token {
    pub name: String,
    pub roles: Vec<Role>,
    /// Patterns of the queues to push to or to work on.
    #[serde(default)]
    pub queues: Vec<String>,
    /// Patterns of the services to call or to serve.
    #[serde(default)]
    pub services: Vec<String>,
    /// The valid secrets: usually one, two during the overlap after a rotation, and none with a certificate.
    #[serde(default)]
    pub secrets: Vec<Secret>,
    /// A client certificate for this name authenticates a peer with this token, without a secret.
    #[serde(default)]
    pub certificate: Option<String>,
    /// When the token was created, in Unix milliseconds.
    pub created_ms: u64,
    /// When the token expires, in Unix milliseconds.
    #[serde(default)]
    pub expires_ms: Option<u64>,
    /// The maximum number of open connections.
    #[serde(default)]
    pub connections: Option<u32>,
    /// The maximum number of unanswered requests on all connections.
    #[serde(default)]
    pub inflight: Option<u32>,
    /// The maximum number of pushes per second.
    #[serde(default)]
    pub pushes_per_second: Option<u32>,
}

/// Why a token can't be stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InvalidToken(String);

impl fmt::Display for InvalidToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for InvalidToken {}

impl Token {
    #[must_use]
    pub fn has(&self, role: Role) -> bool {
        self.roles.contains(&role)
    }

    /// Whether the token has this role for a queue.
    #[must_use]
    pub fn permits_queue(&self, role: Role, queue: &str) -> bool {
        let is_matched = || self.queues.iter().any(|pattern| matches(pattern, queue));
        self.has(Role::Admin) || self.has(role) && is_matched()
    }

    /// Whether the token has this role for a method, `service.method`.
    #[must_use]
    pub fn permits_method(&self, role: Role, method: &str) -> bool {
        let service = stoker_wire::service_of(method);
        let names = [method, service];
        let is_matched = |pattern: &String| names.iter().any(|name| matches(pattern, name));
        self.has(Role::Admin) || self.has(role) && self.services.iter().any(is_matched)
    }

    /// Whether this version lacks roles or patterns that another version of the token has.
    #[must_use]
    pub fn permits_less_than(&self, other: &Self) -> bool {
        let lacks =
            |these: &[String], others: &[String]| others.iter().any(|one| !these.contains(one));
        other.roles.iter().any(|role| !self.has(*role))
            || lacks(&self.queues, &other.queues)
            || lacks(&self.services, &other.services)
    }

    #[must_use]
    pub fn is_expired(&self, now_ms: u64) -> bool {
        self.expires_ms.is_some_and(|expires| expires <= now_ms)
    }

    /// Removes the secrets of a token that is bound to a certificate. A leaked secret must not open what is meant to
    /// require a private key.
    pub fn drop_unused_secrets(&mut self) {
        if self.certificate.is_some() {
            self.secrets.clear();
        }
    }

    /// Checks what the types of the fields do not ensure.
    pub fn check(&self) -> Result<(), InvalidToken> {
        let invalid = |text: String| Err(InvalidToken(text));
        if !is_name(&self.name) {
            return invalid(format!(
                "invalid token name \"{}\": expected 1 to {MAX_NAME} characters from A-Z a-z 0-9 _ -",
                self.name
            ));
        }
        if self.roles.is_empty() {
            return invalid(format!(
                "token '{}' has no role: expected at least one of {}",
                self.name,
                Role::names()
            ));
        }
        for (what, patterns) in [("queues", &self.queues), ("services", &self.services)] {
            if patterns.len() > MAX_PATTERNS {
                return invalid(format!("{what}: expected at most {MAX_PATTERNS} patterns"));
            }
            let mut patterns = patterns.iter();
            if let Some(pattern) = patterns.find(|pattern| !pattern::is_valid(pattern)) {
                return invalid(format!(
                    "invalid pattern \"{pattern}\" in {what}: expected a name, in which * matches any characters"
                ));
            }
        }
        let is_invalid = |name: &String| name.is_empty() || name.len() > MAX_PATTERN;
        if self.certificate.as_ref().is_some_and(is_invalid) {
            return invalid(format!(
                "invalid certificate name: expected 1 to {MAX_PATTERN} characters"
            ));
        }
        Ok(())
    }
}

fn is_name(name: &str) -> bool {
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
    (1..=MAX_NAME).contains(&name.len()) && name.bytes().all(is_allowed)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn token(roles: &[Role], queues: &[&str], services: &[&str]) -> Token {
        let texts = |all: &[&str]| all.iter().map(|text| (*text).to_owned()).collect();
        Token {
            name: "web".to_owned(),
            roles: roles.to_vec(),
            queues: texts(queues),
            services: texts(services),
            ..Token::default()
        }
    }

    #[test]
    fn a_role_is_limited_to_its_patterns() {
        let push = token(&[Role::Push], &["mail-*", "reports"], &["*"]);
        assert!(push.permits_queue(Role::Push, "mail-fast"));
        assert!(push.permits_queue(Role::Push, "reports"));
        assert!(!push.permits_queue(Role::Push, "reports-2"));
        assert!(!push.permits_queue(Role::Work, "reports"));
        assert!(!push.permits_method(Role::Call, "users.get"));
        let call = token(&[Role::Call], &["*"], &["users", "shop.*", "a.b.get"]);
        assert!(call.permits_method(Role::Call, "users.get"));
        assert!(call.permits_method(Role::Call, "shop.cart.add"));
        assert!(call.permits_method(Role::Call, "a.b.get"));
        assert!(!call.permits_method(Role::Call, "a.b.set"));
        assert!(!call.permits_method(Role::Call, "users2.get"));
        assert!(!call.permits_queue(Role::Push, "any"));
        let admin = token(&[Role::Admin], &[], &[]);
        assert!(admin.permits_queue(Role::Push, "any"));
        assert!(admin.permits_method(Role::Work, "a.b"));
    }

    #[test]
    fn invalid_tokens_are_rejected() {
        let valid = token(&[Role::Push], &["*"], &[]);
        assert_eq!(valid.check(), Ok(()));
        let rejected = |change: fn(&mut Token)| {
            let mut token = valid.clone();
            change(&mut token);
            assert!(token.check().is_err(), "{token:?}");
        };
        rejected(|token| token.name = String::new());
        rejected(|token| token.name = "a.b".to_owned());
        rejected(|token| token.name = "a".repeat(65));
        rejected(|token| token.roles.clear());
        rejected(|token| token.queues = vec![String::new()]);
        rejected(|token| token.queues = vec!["a b".to_owned()]);
        rejected(|token| token.queues = vec!["a".to_owned(); 101]);
        rejected(|token| token.certificate = Some(String::new()));
    }
}
