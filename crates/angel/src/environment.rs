//! The environment variables that a worker starts with.

use crate::user::Account;
use crate::{Spec, env};
use std::ffi::{OsStr, OsString};

/// Variables that tell the angel's own process what it inherited. Workers must not receive them: a Stoker may run
/// inside another one's worker.
const NOT_INHERITED: [&str; 14] = [
    env::FD,
    env::ZYGOTE,
    env::LISTENER,
    env::CONTROL,
    env::WORKER,
    env::COOKIE,
    env::LISTENERS,
    env::GATEWAY,
    env::GATEWAY_TOKEN,
    env::RESTARTS,
    env::HEARTBEAT,
    "LISTEN_PID",
    "LISTEN_FDS",
    "LISTEN_FDNAMES",
];
/// Passed even to a pool with `env_clear`, because few programs are found without it.
const ALWAYS_PASSED: &str = "PATH";

/// Whether a name matches an entry of `env_pass`: the name itself, or a prefix of it followed by `*`.
fn matches(name: &OsStr, entry: &str) -> bool {
    match entry.strip_suffix('*') {
        Some(start) => name.as_encoded_bytes().starts_with(start.as_bytes()),
        None => name == entry,
    }
}

/// The environment of a worker without Stoker's own variables: the variables passed on from `own`, those that
/// identify its user, and those set by its pool. Later entries override earlier ones.
pub(crate) fn of_worker(
    spec: &Spec,
    account: Option<&Account>,
    own: impl Iterator<Item = (OsString, OsString)>,
) -> Vec<(OsString, OsString)> {
    let is_passed = |name: &OsStr| {
        let mut entries = spec.env_pass.iter();
        !spec.env_clear || name == ALWAYS_PASSED || entries.any(|entry| matches(name, entry))
    };
    let is_inherited = |name: &OsStr| NOT_INHERITED.iter().all(|not| name != *not);
    let mut all: Vec<(OsString, OsString)> = own
        .filter(|(name, _)| is_inherited(name) && is_passed(name))
        .collect();
    if let Some(account) = account {
        let identity = [
            ("HOME", &account.home),
            ("USER", &account.name),
            ("LOGNAME", &account.name),
        ];
        all.extend(identity.map(|(name, value)| (name.into(), value.into())));
    }
    let set = spec.env.iter();
    all.extend(set.map(|(name, value)| (name.into(), value.into())));
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashMap;

    fn environment(spec: &Spec, account: Option<&Account>) -> HashMap<OsString, OsString> {
        let own = [
            ("PATH", "/bin"),
            ("HOME", "/root"),
            ("SECRET", "x"),
            ("AWS_REGION", "here"),
            ("STOKER_FD", "7"),
        ];
        let own = own.map(|(name, value)| (name.into(), value.into()));
        of_worker(spec, account, own.into_iter())
            .into_iter()
            .collect()
    }

    fn names(environment: &HashMap<OsString, OsString>) -> Vec<&str> {
        let mut names: Vec<&str> = environment
            .keys()
            .filter_map(|name| name.to_str())
            .collect();
        names.sort_unstable();
        names
    }

    #[test]
    fn all_variables_pass_except_stokers_own() {
        let all = environment(&Spec::default(), None);
        assert_eq!(names(&all), ["AWS_REGION", "HOME", "PATH", "SECRET"]);
    }

    #[test]
    fn with_env_clear_variables_pass_by_name_or_prefix() {
        let spec = Spec {
            env_clear: true,
            env_pass: vec!["HOME".to_owned(), "AWS_*".to_owned(), "SECR".to_owned()],
            ..Spec::default()
        };
        assert_eq!(
            names(&environment(&spec, None)),
            ["AWS_REGION", "HOME", "PATH"]
        );
    }

    #[test]
    fn home_is_that_of_the_user_unless_the_pool_sets_it() {
        let account = Account {
            uid: 33,
            gid: 33,
            name: "www-data".to_owned(),
            home: "/var/www".to_owned(),
        };
        let mut spec = Spec {
            env_clear: true,
            ..Spec::default()
        };
        let all = environment(&spec, Some(&account));
        assert_eq!(names(&all), ["HOME", "LOGNAME", "PATH", "USER"]);
        assert_eq!(all[OsStr::new("HOME")], "/var/www");
        assert_eq!(all[OsStr::new("LOGNAME")], "www-data");
        spec.env = vec![("HOME".to_owned(), "/srv".to_owned())];
        let all = environment(&spec, Some(&account));
        assert_eq!(all[OsStr::new("HOME")], "/srv");
    }
}
