//! Which users may connect to the socket.

use crate::exit::{Failure, Result};
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use stoker_angel::{names, resolve_group, resolve_user};
use stoker_server::config::Config;

/// The access to the socket that follows from a configuration.
pub(crate) struct Access {
    /// The group that the socket gets. `None` leaves the group that a new file gets.
    pub(crate) group: Option<u32>,
    /// A warning that some workers can't connect, and what to do about it.
    pub(crate) warning: Option<String>,
}

impl Access {
    pub(crate) fn of(config: &Config) -> Result<Self> {
        if let Some(name) = &config.socket_group {
            let wrong = |error| Failure::Config(format!("stoker.socket_group: {error}"));
            let group = Some(resolve_group(name).map_err(wrong)?);
            let warning = None;
            return Ok(Self { group, warning });
        }
        // If the mode admits every user, or no group at all, the group does not matter.
        let mode = config.socket_mode;
        if mode & 0o002 != 0 || mode & 0o020 == 0 {
            let (group, warning) = (None, None);
            return Ok(Self { group, warning });
        }
        let groups = groups(config);
        let warning = (groups.len() > 1).then(|| too_many(&groups));
        let group = groups.into_keys().next().filter(|_| warning.is_none());
        Ok(Self { group, warning })
    }
}

/// The groups of the workers that run neither as the socket's owner nor as root, each with its pools.
fn groups(config: &Config) -> BTreeMap<u32, Vec<&str>> {
    let own = rustix::process::geteuid().as_raw();
    let mut groups = BTreeMap::<u32, Vec<&str>>::new();
    for pool in config.pools.iter().filter(|pool| !pool.command.is_empty()) {
        // An unknown user is reported later, when the pool's workers can't be started.
        let user = pool.user.as_ref().and_then(|user| resolve_user(user).ok());
        if let Some((_, gid)) = user.filter(|(uid, _)| *uid != 0 && *uid != own) {
            groups.entry(gid).or_default().push(&pool.name);
        }
    }
    groups
}

fn too_many(groups: &BTreeMap<u32, Vec<&str>>) -> String {
    let shown = groups.iter().map(|(gid, pools)| {
        let (_, group) = names(0, *gid);
        format!("{group} (pool {})", pools.join(", "))
    });
    let shown: Vec<String> = shown.collect();
    format!(
        "workers run under several groups: {}. The socket can belong to one of them only; workers of the other pools \
         can't connect. Set stoker.socket_group to a group, and give these pools a user = \"uid:gid\" with it; or \
         stoker.socket_mode = \"0666\", which allows every user",
        shown.join(", ")
    )
}

/// Describes who may open a socket, for the error message to a user who is not permitted to.
pub(crate) fn describe_access(path: &Path) -> String {
    let Ok(socket) = fs::metadata(path) else {
        return "this user has no permission to search a directory of its path".to_owned();
    };
    let (user, group) = names(socket.uid(), socket.gid());
    let mode = socket.permissions().mode() & 0o777;
    format!(
        "it belongs to user {user} and group {group}, with mode {mode:04o}; the server's configuration sets these as \
         socket_group and socket_mode of [stoker]"
    )
}
