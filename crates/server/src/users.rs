//! What each user has of what all users share.

use std::collections::HashMap;

/// A user in [`Users`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct UserId(u32);

/// What a user has at present.
#[derive(Clone, Debug, Default)]
pub(crate) struct User {
    pub(crate) uid: u32,
    /// Connections, those of workers that the server started apart.
    pub(crate) connections: usize,
    /// Calls that have not ended.
    pub(crate) inflight: usize,
    /// Bytes of its calls, half-read frames, and answers that it has not read.
    pub(crate) bytes: usize,
    /// Pushes that the store has not answered.
    pub(crate) pushes: usize,
    /// Queues whose names it has made up.
    pub(crate) queues: usize,
}

/// All users that have ever connected. A machine has few.
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
    fn a_user_is_one_by_its_uid() {
        let mut users = Users::default();
        let (root, web) = (users.of(0), users.of(33));
        users[web].connections += 2;
        assert_eq!(users.of(33), web);
        assert_eq!((users[web].uid, users[web].connections), (33, 2));
        assert_eq!(users[root].connections, 0);
    }
}
