//! Failed jobs grouped by fingerprint.

use super::filter::{Source, sources};
use super::{Lookup, Scan};
use crate::{Filter, Group, State, View, fingerprint};
use std::collections::HashMap;

/// The number of failed jobs that are read at a time.
const PAGE: usize = 1_024;

impl Lookup<'_> {
    /// Groups failed jobs by fingerprint, largest group first.
    pub(super) fn groups(&self, filter: &Filter, limit: usize) -> rusqlite::Result<Vec<Group>> {
        let mut groups = HashMap::new();
        let sources = sources(filter, self.queues()?);
        for source in sources
            .into_iter()
            .filter(|source| matches!(source, Source::Ended(_, State::Failed)))
        {
            let mut scan = Scan::new(source, super::Order::Oldest(0));
            while !scan.is_over() {
                for view in scan.next(self.db, filter, PAGE)? {
                    add(&mut groups, view);
                }
            }
        }
        let mut groups: Vec<Group> = groups.into_values().collect();
        groups.sort_unstable_by_key(|group| (u64::MAX - group.count, group.fingerprint));
        groups.truncate(limit);
        Ok(groups)
    }
}

fn add(groups: &mut HashMap<u64, Group>, view: View) {
    let (Some(error), Some(ended)) = (view.error, view.ended_ms) else {
        return;
    };
    let fingerprint = fingerprint(&error);
    let group = groups.entry(fingerprint).or_insert_with(|| Group {
        fingerprint,
        count: 0,
        first_ms: ended,
        last_ms: ended,
        job: view.id,
        queue: view.queue,
        error: error.clone(),
    });
    group.count += 1;
    group.first_ms = group.first_ms.min(ended);
    if (ended, view.id) >= (group.last_ms, group.job) {
        group.last_ms = ended;
        group.job = view.id;
        group.queue = view.queue;
        group.error = error;
    }
}
