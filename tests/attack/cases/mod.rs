//! All cases. Each file covers one field of attack.

mod calls;
mod clients;
mod clock;
mod config;
mod frames;
mod injection;
mod life;
mod logs;
mod memory;
mod metadata;
mod mix;
mod names;
mod pull;
mod queues;
mod small;
mod store;
mod typed;
mod users;
mod worker_faults;

use crate::case::Group;

/// All groups. Random ones are drawn from the seed.
pub(crate) fn all(seed: u64) -> Vec<Group> {
    let mut groups = Vec::new();
    groups.extend(queues::groups(seed));
    groups.extend(typed::groups());
    groups.extend(frames::groups());
    groups.extend(metadata::groups());
    groups.extend(worker_faults::groups());
    groups.extend(clients::groups());
    groups.extend(memory::groups());
    groups.extend(users::groups());
    groups.extend(names::groups());
    groups.extend(calls::groups());
    groups.extend(injection::groups());
    groups.extend(life::groups());
    groups.extend(logs::groups());
    groups.extend(pull::groups());
    groups.extend(clock::groups());
    groups.extend(store::groups(seed));
    groups.extend(config::groups());
    groups.extend(small::groups());
    groups.extend(mix::groups(seed));
    groups
}
