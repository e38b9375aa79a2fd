//! Queries of jobs in memory.

use super::{Entry, MemoryStore};
use crate::job::MAX_LIST_BYTES;
use crate::{Filter, Found, Group, Query, State, View, fingerprint};
use std::collections::HashMap;

impl MemoryStore {
    pub(super) fn query(&self, query: &Query) -> Found {
        let now = self.now();
        match query {
            Query::One(id) => {
                let entry = self.jobs.get(id).or(self.retained.get(*id, now));
                Found::One(entry.map(|entry| Box::new(self.view(entry, now, true))))
            }
            Query::HistoryEntry { job, number } => {
                let entry = self.jobs.get(job).or(self.retained.get(*job, now));
                Found::One(entry.map(|entry| Box::new(entry.history_entry(now, *number))))
            }
            Query::List {
                filter,
                after,
                limit,
                newest,
                whole,
            } => {
                let is_after = |entry: &&Entry| {
                    let id = entry.job.id;
                    after.is_none_or(|after| if *newest { id < after } else { id > after })
                };
                let mut matching_entries: Vec<&Entry> =
                    self.matching_entries(filter).filter(is_after).collect();
                matching_entries.sort_unstable_by_key(|entry| entry.job.id);
                if *newest {
                    matching_entries.reverse();
                }
                let (mut jobs, mut bytes) = (Vec::new(), 0);
                for entry in matching_entries.iter().take(*limit) {
                    if bytes >= MAX_LIST_BYTES {
                        break;
                    }
                    let view = self.view(entry, now, *whole);
                    bytes += view.whole.as_ref().map_or(0, |whole| whole.size());
                    jobs.push(view);
                }
                let more = matching_entries.len() > jobs.len();
                Found::List { jobs, more }
            }
            Query::Count(filter) => Found::Count(self.matching_entries(filter).count() as u64),
            Query::Groups { filter, limit } => Found::Groups(self.groups(filter, *limit)),
        }
    }

    fn view(&self, entry: &Entry, now: u64, whole: bool) -> View {
        let mut view = entry.view(now, whole);
        if let (Some(whole), Some(key)) = (&mut view.whole, &entry.idempotency) {
            let of_queue = &self.queues[entry.job.queue.0 as usize];
            let is_recognized = of_queue.is_recognized(key, entry.job.id, now);
            whole.idempotency = is_recognized.then(|| key.to_vec());
        }
        view
    }

    fn matching_entries<'a>(&'a self, filter: &'a Filter) -> impl Iterator<Item = &'a Entry> {
        self.jobs
            .values()
            .filter(move |entry| matches(filter, entry))
    }

    fn groups(&self, filter: &Filter, limit: usize) -> Vec<Group> {
        let mut groups: HashMap<u64, Group> = HashMap::new();
        for entry in self
            .matching_entries(filter)
            .filter(|entry| entry.state == State::Failed)
        {
            let Some(error) = &entry.error else {
                continue;
            };
            let fingerprint = fingerprint(error);
            let group = groups.entry(fingerprint).or_insert_with(|| Group {
                fingerprint,
                count: 0,
                first_ms: entry.ended_ms,
                last_ms: entry.ended_ms,
                job: entry.job.id,
                queue: entry.job.queue,
                error: error.clone(),
            });
            group.count += 1;
            group.first_ms = group.first_ms.min(entry.ended_ms);
            if (entry.ended_ms, entry.job.id) >= (group.last_ms, group.job) {
                group.last_ms = entry.ended_ms;
                group.job = entry.job.id;
                group.queue = entry.job.queue;
                group.error = error.clone();
            }
        }
        let mut groups: Vec<Group> = groups.into_values().collect();
        groups.sort_unstable_by_key(|group| (u64::MAX - group.count, group.fingerprint));
        groups.truncate(limit);
        groups
    }
}

pub(super) fn matches(filter: &Filter, entry: &Entry) -> bool {
    let at_ms = match entry.ended_ms {
        0 => entry.job.id.created_ms(),
        ended => ended,
    };
    let error = entry.error.as_ref();
    filter.queue.is_none_or(|queue| queue == entry.job.queue)
        && filter.states.contains(entry.state)
        && filter
            .kind
            .as_deref()
            .is_none_or(|kind| entry.kind() == Some(kind))
        && filter
            .error
            .as_deref()
            .is_none_or(|class| error.is_some_and(|error| error.class == class))
        && filter
            .fingerprint
            .is_none_or(|print| error.is_some_and(|error| fingerprint(error) == print))
        && filter.before_ms.is_none_or(|before| at_ms < before)
        && filter.key.as_ref().is_none_or(|key| *key == entry.job.key)
        && (filter.owner.is_none() || filter.owner == entry.job.owner)
}
