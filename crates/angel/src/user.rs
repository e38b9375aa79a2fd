use std::{fs, io};

/// The uid and gid of a user given as a name of `/etc/passwd`, as `uid`, or as `uid:gid`.
pub(crate) fn resolve(user: &str) -> io::Result<(u32, u32)> {
    let unknown = || {
        io::Error::new(
            io::ErrorKind::NotFound,
            format!("there is no user '{user}'"),
        )
    };
    if let Some((uid, gid)) = user.split_once(':') {
        let pair = uid.parse().ok().zip(gid.parse().ok());
        return pair.ok_or_else(unknown);
    }
    let passwd = fs::read_to_string("/etc/passwd")?;
    find(&passwd, user)
        .or_else(|| user.parse().ok().map(|uid| (uid, uid)))
        .ok_or_else(unknown)
}

fn find(passwd: &str, user: &str) -> Option<(u32, u32)> {
    passwd.lines().find_map(|line| {
        let mut fields = line.split(':');
        let (name, _, uid, gid) = (
            fields.next()?,
            fields.next()?,
            fields.next()?,
            fields.next()?,
        );
        (name == user || uid == user).then(|| uid.parse().ok().zip(gid.parse().ok()))?
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_are_found_by_name_and_number() {
        let passwd = "root:x:0:0:root:/root:/bin/sh\nwww-data:x:33:34::/var/www:/bin/sh\n";
        assert_eq!(find(passwd, "www-data"), Some((33, 34)));
        assert_eq!(find(passwd, "33"), Some((33, 34)));
        assert_eq!(find(passwd, "nobody"), None);
        assert_eq!(resolve("5:6").unwrap(), (5, 6));
        assert!(resolve("no such user").is_err());
    }
}
