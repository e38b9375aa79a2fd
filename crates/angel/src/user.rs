//! Users and groups, from `/etc/passwd` and `/etc/group`.

use std::{fs, io};

/// A user's ids, name and home directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Account {
    pub(crate) uid: u32,
    pub(crate) gid: u32,
    pub(crate) name: String,
    pub(crate) home: String,
}

/// The uid and gid of a user given as a name from `/etc/passwd`, as `uid`, or as `uid:gid`.
pub fn resolve_user(user: &str) -> io::Result<(u32, u32)> {
    let account = find_account(user)?;
    Ok((account.uid, account.gid))
}

/// The account of a user, given as for [`resolve_user`]. A user without an entry has the number as
/// name and `/` as home.
pub(crate) fn find_account(user: &str) -> io::Result<Account> {
    let passwd = fs::read_to_string("/etc/passwd");
    let unnamed = |uid: u32, gid: u32| Account {
        uid,
        gid,
        name: uid.to_string(),
        home: "/".to_owned(),
    };
    let unknown = || unknown("user", user);
    if let Some((uid, gid)) = user.split_once(':') {
        let pair: Option<(u32, u32)> = uid.parse().ok().zip(gid.parse().ok());
        let (uid, gid) = pair.ok_or_else(unknown)?;
        let entry = passwd
            .ok()
            .and_then(|passwd| find(&passwd, &uid.to_string()));
        let account = entry.unwrap_or_else(|| unnamed(uid, gid));
        return Ok(Account { gid, ..account });
    }
    let number = || Some(unnamed(user.parse().ok()?, user.parse().ok()?));
    find(&passwd?, user).or_else(number).ok_or_else(unknown)
}

/// The gid of a group given as a name from `/etc/group` or as a number.
pub fn resolve_group(group: &str) -> io::Result<u32> {
    if let Ok(gid) = group.parse() {
        return Ok(gid);
    }
    let groups = fs::read_to_string("/etc/group")?;
    let gid_in = |line: &str| {
        let mut fields = line.split(':');
        (fields.next()? == group).then(|| fields.nth(1)?.parse().ok())?
    };
    groups
        .lines()
        .find_map(gid_in)
        .ok_or_else(|| unknown("group", group))
}

/// The names of a user and a group, or their numbers if they have no names.
pub fn names(uid: u32, gid: u32) -> (String, String) {
    let name = |file: &str, id: u32| {
        let entries = fs::read_to_string(file).unwrap_or_default();
        let has_id = |line: &&str| line.split(':').nth(2) == Some(&id.to_string());
        let name = entries
            .lines()
            .find(has_id)
            .and_then(|line| line.split(':').next());
        name.map_or_else(|| id.to_string(), str::to_owned)
    };
    (name("/etc/passwd", uid), name("/etc/group", gid))
}

fn unknown(what: &str, name: &str) -> io::Error {
    let text = format!("unknown {what} '{name}'");
    io::Error::new(io::ErrorKind::NotFound, text)
}

fn find(passwd: &str, user: &str) -> Option<Account> {
    passwd.lines().find_map(|line| {
        let fields: Vec<&str> = line.split(':').collect();
        let [name, _, uid, gid, _, home, ..] = fields[..] else {
            return None;
        };
        let account = || {
            Some(Account {
                uid: uid.parse().ok()?,
                gid: gid.parse().ok()?,
                name: name.to_owned(),
                home: home.to_owned(),
            })
        };
        (name == user || uid == user).then(account)?
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_are_found_by_name_and_number() {
        let passwd = "root:x:0:0:root:/root:/bin/sh\nwww-data:x:33:34::/var/www:/bin/sh\n";
        let found = find(passwd, "www-data").unwrap();
        assert_eq!((found.uid, found.gid, &*found.home), (33, 34, "/var/www"));
        assert_eq!(find(passwd, "33"), Some(found));
        assert_eq!(find(passwd, "nobody"), None);
        assert_eq!(resolve_user("5:6").unwrap(), (5, 6));
        let unknown = find_account("4000000:7").unwrap();
        assert_eq!((&*unknown.name, &*unknown.home), ("4000000", "/"));
        assert!(resolve_user("no such user").is_err());
    }

    #[test]
    fn groups_are_found_by_name_and_number() {
        assert_eq!(resolve_group("root").unwrap(), 0);
        assert_eq!(resolve_group("4321").unwrap(), 4321);
        assert!(resolve_group("no such group").is_err());
        assert_eq!(names(0, 0), ("root".to_owned(), "root".to_owned()));
        assert_eq!(names(0, 4_000_000_000).1, "4000000000");
    }
}
