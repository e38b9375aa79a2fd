//! The resources that each user occupies.

use std::collections::HashMap;

/// A user in [`Users`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct UserId(u32);

/// The resources that a user occupies at present.
#[derive(Clone, Debug, Default)]
pub(crate) struct User {
    pub(crate) uid: u32,
    /// Connections, except those of workers that the server started.
    pub(crate) connections: usize,
    /// Calls that have not ended.
    pub(crate) inflight: usize,
    /// Bytes of its calls, of its half-read frames, and of answers that it has not read.
    pub(crate) bytes: usize,
    /// Pushes that the store has not answered.
    pub(crate) pushes: usize,
    /// Undeclared queues that it created by pushing to a new name.
    pub(crate) queues: usize,
}

/// All users that have ever connected. Entries are never removed, since a machine has few users.
#[derive(Debug, Default)]
pub(crate) struct Users {
    all: Vec<User>,
    by_uid: HashMap<u32, UserId>,
}

impl Users {
    pub(crate) fn of(&mut self, uid: u32) -> UserId {
        *self.by_uid.entry(uid).or_insert_with(|| {
            self.all.push(User {
                uid,
                ..User::default()
            });
            UserId(self.all.len() as u32 - 1)
        })
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
    fn users_are_identified_by_uid() {
        let mut users = Users::default();
        let (root, web) = (users.of(0), users.of(33));
        users[web].connections += 2;
        assert_eq!(users.of(33), web);
        assert_eq!((users[web].uid, users[web].connections), (33, 2));
        assert_eq!(users[root].connections, 0);
    }
}
