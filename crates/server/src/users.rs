//! The resources that each user occupies.

use std::collections::HashMap;
use std::fmt;
use stoker_store::Owner;

/// A user in [`Users`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct UserId(u32);

/// Who a user is. The text form is for error messages.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Identity {
    /// A user of this machine, as reported by the kernel; `u32::MAX` if the kernel does not report one.
    Uid(u32),
    /// A peer on another machine, as reported by a gateway, such as `token:web`.
    Remote(Box<str>),
    /// The visitors of a site.
    Site(Box<str>),
}

impl Identity {
    /// The owner of the jobs that this user pushes; `None` if the user is not known.
    pub(crate) fn owner(&self) -> Option<Owner> {
        match self {
            Self::Uid(u32::MAX) | Self::Site(_) => None,
            Self::Uid(uid) => Some(format!("uid:{uid}").into()),
            Self::Remote(name) => Some((**name).into()),
        }
    }
}

impl fmt::Display for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Uid(uid) => write!(f, "user {uid}"),
            Self::Remote(name) => write!(f, "{}", name.replacen(':', " ", 1)),
            Self::Site(name) => write!(f, "site {name}"),
        }
    }
}

/// The resources that a user occupies at present.
#[derive(Clone, Debug)]
pub(crate) struct User {
    pub(crate) identity: Identity,
    /// Connections, except those of workers that the server started.
    pub(crate) connections: usize,
    /// Calls that have not ended, including cancelled ones that a worker still runs.
    pub(crate) inflight: usize,
    /// The maximum of `inflight` that a gateway has stated for this user. The maximum in the configuration applies too.
    pub(crate) max_inflight: Option<u32>,
    /// Bytes of its calls, of its half-read frames, and of answers that it has not read.
    pub(crate) bytes: usize,
    /// Pushes that the store has not answered.
    pub(crate) pushes: usize,
    /// Undeclared queues that it created by pushing to a new name.
    pub(crate) queues: usize,
}

/// All users that have ever connected. Entries are never removed, since a machine has few users and a gateway few tokens.
#[derive(Debug, Default)]
pub(crate) struct Users {
    all: Vec<User>,
    by_identity: HashMap<Identity, UserId>,
    /// The sites by name, so that a request needs no [`Identity`] to be found.
    by_site: HashMap<Box<str>, UserId>,
}

impl Users {
    pub(crate) fn find_or_insert(&mut self, identity: Identity) -> UserId {
        let all = &mut self.all;
        *self
            .by_identity
            .entry(identity)
            .or_insert_with_key(|identity| {
                all.push(User::new(identity.clone()));
                UserId(all.len() as u32 - 1)
            })
    }

    /// The visitors of a site, who share limits of their own.
    pub(crate) fn find_or_insert_site(&mut self, name: &str) -> UserId {
        if let Some(user) = self.by_site.get(name) {
            return *user;
        }
        let user = self.find_or_insert(Identity::Site(name.into()));
        self.by_site.insert(name.into(), user);
        user
    }
}

impl User {
    fn new(identity: Identity) -> Self {
        Self {
            identity,
            connections: 0,
            inflight: 0,
            max_inflight: None,
            bytes: 0,
            pushes: 0,
            queues: 0,
        }
    }
}

#[cfg(feature = "sim")]
impl Users {
    pub(crate) fn iter(&self) -> impl Iterator<Item = &User> {
        self.all.iter()
    }
}

impl std::ops::Index<UserId> for Users {
    type Output = User;

    fn index(&self, id: UserId) -> &User {
        &self.all[id.0 as usize]
    }
}

impl std::ops::IndexMut<UserId> for Users {
    fn index_mut(&mut self, id: UserId) -> &mut User {
        &mut self.all[id.0 as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_are_identified_by_uid_or_by_the_name_that_a_gateway_reports() {
        let mut users = Users::default();
        let (root, web) = (
            users.find_or_insert(Identity::Uid(0)),
            users.find_or_insert(Identity::Uid(33)),
        );
        let token = users.find_or_insert(Identity::Remote("token:33".into()));
        users[web].connections += 2;
        assert_eq!(users.find_or_insert(Identity::Uid(33)), web);
        assert_eq!(users[web].connections, 2);
        assert_eq!(users[root].connections, 0);
        assert_eq!(users[token].connections, 0);
        assert_eq!(users[web].identity.to_string(), "user 33");
        assert_eq!(users[token].identity.to_string(), "token 33");
        let owner = |user: UserId| users[user].identity.owner().map(|owner| owner.to_string());
        assert_eq!(owner(web).as_deref(), Some("uid:33"));
        assert_eq!(owner(token).as_deref(), Some("token:33"));
        assert_eq!(Identity::Uid(u32::MAX).owner(), None);
    }
}
