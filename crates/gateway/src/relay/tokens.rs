//! The tokens in the file, with the current usage of each.

use super::usage::Usage;
use crate::token::{FileError, Secret, Token, read, split_secret};
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::rc::Rc;
use std::time::{SystemTime, UNIX_EPOCH};
use stoker_session::Rejection;
use stoker_wire::Status;

/// A token with the current usage of its peers.
#[derive(Clone)]
pub(super) struct ActiveToken {
    pub(super) token: Rc<Token>,
    pub(super) usage: Rc<Usage>,
}

/// By what a peer was authenticated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Proof {
    /// The hash of the secret.
    Secret(String),
    /// The name in the client certificate.
    Certificate(String),
}

/// Inode, times and size of the file, from which a change is recognized. `None` if the file can't be read.
type Version = Option<(u64, i64, i64, i64, i64, u64)>;

pub(super) struct Tokens {
    path: PathBuf,
    by_name: RefCell<HashMap<String, ActiveToken>>,
    version: Cell<Version>,
}

impl Tokens {
    pub(super) fn new(path: PathBuf) -> Result<Self, FileError> {
        let tokens = Self {
            path,
            by_name: RefCell::default(),
            version: Cell::new(None),
        };
        tokens.load()?;
        Ok(tokens)
    }

    /// Reads the file again if it has changed since the last call, and returns whether it had.
    pub(super) fn refresh(&self) -> Result<bool, FileError> {
        if self.current_version() == self.version.get() {
            return Ok(false);
        }
        self.load()?;
        Ok(true)
    }

    fn current_version(&self) -> Version {
        let file = fs::metadata(&self.path).ok()?;
        let (changed, changed_ns) = (file.ctime(), file.ctime_nsec());
        Some((
            file.ino(),
            file.mtime(),
            file.mtime_nsec(),
            changed,
            changed_ns,
            file.size(),
        ))
    }

    fn load(&self) -> Result<(), FileError> {
        // The version is set before the file is read, so that the next call notices a change in the meantime; and even
        // if reading fails, so that an invalid file is reported only once.
        self.version.set(self.current_version());
        let tokens = read(&self.path)?;
        let mut by_name = self.by_name.borrow_mut();
        let mut previous = std::mem::take(&mut *by_name);
        for token in tokens {
            let usage = previous.remove(&token.name).map(|active| active.usage);
            let active = ActiveToken {
                usage: usage.unwrap_or_default(),
                token: Rc::new(token),
            };
            by_name.insert(active.token.name.clone(), active);
        }
        Ok(())
    }

    /// Finds the token of a peer by the secret that it presents, or by the name in its certificate.
    pub(super) fn authenticate(
        &self,
        presented: Option<&str>,
        has_certificate_for: impl Fn(&str) -> bool,
    ) -> Result<(ActiveToken, Proof), Rejection> {
        let now = now_ms();
        let found = match presented {
            Some(presented) => self.find_by_secret(presented, now),
            None => self.find_by_certificate(has_certificate_for),
        };
        let Some((active, proof)) = found else {
            let text = match presented {
                Some(_) => {
                    "the token is invalid: it was mistyped or revoked, or has expired; 'stoker token list' on the \
                     server shows all tokens"
                }
                None => {
                    "a token is required: set STOKER_TOKEN; 'stoker token create' on the server creates one"
                }
            };
            return Err(Rejection::new(Status::UNAUTHENTICATED, text));
        };
        if active.token.is_expired(now) {
            let text = format!(
                "token '{}' has expired; 'stoker token set {0} --expires' on the server extends it",
                active.token.name
            );
            return Err(Rejection::new(Status::UNAUTHENTICATED, text));
        }
        Ok((active, proof))
    }

    fn find_by_secret(&self, presented: &str, now: u64) -> Option<(ActiveToken, Proof)> {
        let (name, secret) = split_secret(presented)?;
        let by_name = self.by_name.borrow();
        let Some(active) = by_name.get(name) else {
            // Compare with a dummy, so that the time does not reveal which names exist.
            let dummy = Secret {
                sha256: "0".repeat(64),
                expires_ms: None,
            };
            return dummy.is_of(secret, now).then_some(None)?;
        };
        let mut secrets = active.token.secrets.iter();
        let found = secrets.find(|stored| stored.is_of(secret, now))?;
        Some((active.clone(), Proof::Secret(found.sha256.clone())))
    }

    fn find_by_certificate(&self, is_for: impl Fn(&str) -> bool) -> Option<(ActiveToken, Proof)> {
        let by_name = self.by_name.borrow();
        let mut found = by_name.values().filter_map(|active| {
            let name = active.token.certificate.as_deref()?;
            is_for(name).then(|| (active.clone(), Proof::Certificate(name.to_owned())))
        });
        found.next()
    }

    /// The current version of a token that a peer was authenticated with; `None` if it is no longer valid.
    pub(super) fn current(&self, name: &str, proof: &Proof) -> Option<Rc<Token>> {
        let now = now_ms();
        let by_name = self.by_name.borrow();
        let token = &by_name.get(name)?.token;
        let is_proof = match proof {
            Proof::Certificate(name) => token.certificate.as_ref() == Some(name),
            Proof::Secret(hash) => token.secrets.iter().any(|secret| {
                let is_valid = secret.expires_ms.is_none_or(|expires| expires > now);
                secret.sha256 == *hash && is_valid
            }),
        };
        (is_proof && !token.is_expired(now)).then(|| token.clone())
    }
}

fn now_ms() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.map_or(0, |now| now.as_millis() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::token::{Role, edit, new_secret};

    #[test]
    fn changes_to_the_file_take_effect() {
        let path = std::env::temp_dir().join(format!("stoker-active-{}", std::process::id()));
        let tokens = Tokens::new(path.clone()).unwrap();
        assert!(tokens.authenticate(Some("web.x"), |_| false).is_err());
        let (presented, secret) = new_secret("web").unwrap();
        let web = Token {
            name: "web".to_owned(),
            roles: vec![Role::Push],
            secrets: vec![secret],
            ..Token::default()
        };
        let bound = Token {
            name: "bound".to_owned(),
            secrets: Vec::new(),
            certificate: Some("web.internal".to_owned()),
            ..web.clone()
        };
        let add = |all: &mut Vec<Token>| {
            all.extend([web, bound]);
            Ok(())
        };
        edit(&path, add).unwrap();
        tokens.load().unwrap();
        let (active, proof) = tokens.authenticate(Some(&presented), |_| false).unwrap();
        assert_eq!(active.token.name, "web");
        assert!(tokens.current("web", &proof).is_some());
        let by_certificate = || tokens.authenticate(None, |name| name == "web.internal");
        let (_, certificate) = by_certificate().unwrap();
        let wrong = [
            None,
            Some("web"),
            Some("web."),
            Some("other.x"),
            Some(&presented[..60]),
        ];
        for presented in wrong {
            let rejected = tokens.authenticate(presented, |_| false);
            assert_eq!(rejected.err().unwrap().status, Status::UNAUTHENTICATED);
        }
        let (before, _) = by_certificate().unwrap();
        before.usage.connect(&before.token).unwrap();
        // A rotation without overlap: the old secret becomes invalid, and the usage is kept.
        let (_, secret) = new_secret("web").unwrap();
        edit(&path, |all| {
            all[0].secrets = vec![secret];
            all[1].connections = Some(1);
            Ok(())
        })
        .unwrap();
        tokens.load().unwrap();
        assert!(tokens.current("web", &proof).is_none());
        // A rotation with overlap: the old secret is valid until its time, also for those who are connected.
        let (presented, mut secret) = new_secret("web").unwrap();
        secret.expires_ms = Some(now_ms() + 60_000);
        edit(&path, |all| {
            all[0].secrets.push(secret);
            Ok(())
        })
        .unwrap();
        tokens.load().unwrap();
        let (_, proof) = tokens.authenticate(Some(&presented), |_| false).unwrap();
        assert!(tokens.current("web", &proof).is_some());
        edit(&path, |all| {
            all[0].secrets[1].expires_ms = Some(now_ms() - 1);
            Ok(())
        })
        .unwrap();
        tokens.load().unwrap();
        assert!(tokens.current("web", &proof).is_none());
        let now = tokens.current("bound", &certificate).unwrap();
        let (active, _) = by_certificate().unwrap();
        assert!(active.usage.connect(&now).is_err());
        edit(&path, |all| {
            all[1].expires_ms = Some(1);
            Ok(())
        })
        .unwrap();
        tokens.load().unwrap();
        let expired = by_certificate().err().unwrap();
        assert!(expired.text.contains("expired"), "{}", expired.text);
        std::fs::remove_file(&path).unwrap();
    }
}
