//! All cases. Each file is one field of attack.

mod clients;
mod frames;
mod memory;
mod metadata;
mod queues;
mod typed;
mod users;
mod worker_faults;

use crate::case::Group;

/// All groups; what is drawn is drawn from the seed.
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
    groups
}
