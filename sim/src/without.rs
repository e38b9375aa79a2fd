//! The parts of a seed that are left out to shrink it: requests, clients, options, kinds of trouble, and single actions
//! of clients.

use crate::lost_links;
use crate::setup::Setup;
use std::collections::BTreeSet;
use std::fmt;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Without {
    requests: Option<u64>,
    clients: Option<u64>,
    /// Parts by their names, which [`parts`] lists.
    parts: BTreeSet<String>,
    /// Actions of clients by their numbers.
    actions: BTreeSet<u64>,
}

impl Without {
    /// Parses the format that [`fmt::Display`] writes.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let mut without = Self::default();
        for part in text.split(',').filter(|part| !part.is_empty()) {
            let number = |value: &str| {
                value
                    .parse()
                    .map_err(|_| format!("invalid number \"{value}\""))
            };
            match part.split_once('=') {
                Some(("requests", value)) => without.requests = Some(number(value)?),
                Some(("clients", value)) => without.clients = Some(number(value)?),
                Some(("actions", value)) => {
                    for range in value.split('.') {
                        let (first, last) = range.split_once('-').unwrap_or((range, range));
                        without.actions.extend(number(first)?..=number(last)?);
                    }
                }
                Some((other, _)) => return Err(format!("unknown part \"{other}\"")),
                None => drop(without.parts.insert(part.to_owned())),
            }
        }
        Ok(without)
    }

    pub(crate) fn leave_out(&self, setup: &mut Setup) {
        setup.requests = self.requests.unwrap_or(setup.requests);
        setup.clients = self.clients.unwrap_or(setup.clients);
        for part in &self.parts {
            assert!(remove(setup, part), "this seed has no part \"{part}\"");
        }
    }

    pub(crate) fn skips(&self, action: u64) -> bool {
        self.actions.contains(&action)
    }

    pub(crate) fn with_requests(&self, requests: u64) -> Self {
        let requests = Some(requests);
        Self {
            requests,
            ..self.clone()
        }
    }

    pub(crate) fn with_clients(&self, clients: u64) -> Self {
        let clients = Some(clients);
        Self {
            clients,
            ..self.clone()
        }
    }

    pub(crate) fn and_part(&self, part: &str) -> Self {
        let mut more = self.clone();
        more.parts.insert(part.to_owned());
        more
    }

    pub(crate) fn and_actions(&self, actions: &[u64]) -> Self {
        let mut more = self.clone();
        more.actions.extend(actions);
        more
    }
}

impl fmt::Display for Without {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let requests = self.requests.map(|count| format!("requests={count}"));
        let clients = self.clients.map(|count| format!("clients={count}"));
        let actions = ranges(&self.actions).join(".");
        let actions = (!actions.is_empty()).then(|| format!("actions={actions}"));
        let all = requests
            .into_iter()
            .chain(clients)
            .chain(self.parts.iter().cloned());
        let all: Vec<String> = all.chain(actions).collect();
        write!(f, "{}", all.join(","))
    }
}

/// Numbers as ranges, such as 1-3 or 7.
fn ranges(numbers: &BTreeSet<u64>) -> Vec<String> {
    let is_in = |number: u64| numbers.contains(&number);
    let firsts = numbers.iter().filter(|number| !is_in(**number - 1));
    let range = |first: &u64| {
        let last = (*first..)
            .find(|number| !is_in(number + 1))
            .unwrap_or(*first);
        match last == *first {
            true => first.to_string(),
            false => format!("{first}-{last}"),
        }
    };
    firsts.map(range).collect()
}

/// The names of everything that can be left out of a setup.
pub(crate) fn parts(setup: &Setup) -> Vec<String> {
    let named = NAMED.iter().map(|(name, _)| (*name).to_owned());
    let is_there = |part: &String| remove(&mut setup.clone(), part);
    named.filter(is_there).chain(setup.options()).collect()
}

type Remove = fn(&mut Setup) -> bool;

/// Each function removes something, and returns whether it was there.
const NAMED: [(&str, Remove); 17] = [
    ("operations", |setup| {
        std::mem::take(&mut setup.operations) > 0
    }),
    ("errors", |setup| {
        std::mem::take(&mut setup.trouble.error) > 0
    }),
    ("retries", |setup| {
        std::mem::take(&mut setup.trouble.retry) > 0
    }),
    ("crashes", |setup| {
        std::mem::take(&mut setup.trouble.crash) > 0
    }),
    ("hangs", |setup| std::mem::take(&mut setup.trouble.hang) > 0),
    ("hang-ups", |setup| {
        std::mem::take(&mut setup.trouble.hang_up) > 0
    }),
    ("break", |setup| std::mem::take(&mut setup.has_break)),
    ("slots", |setup| {
        let all = setup.pools.iter_mut().filter(|pool| !pool.is_exec());
        let several = all.filter_map(|pool| (pool.slots > 1).then_some(&mut pool.slots));
        several.map(|slots| *slots = 1).count() > 0
    }),
    ("pulls", |setup| {
        let pools = setup.pools.iter_mut();
        pools
            .map(|pool| u64::from(std::mem::take(&mut pool.pulls)))
            .sum::<u64>()
            > 0
    }),
    ("guests", |setup| std::mem::take(&mut setup.guests) > 0),
    ("wall-jumps", |setup| std::mem::take(&mut setup.wall_jumps)),
    ("deaths", |setup| {
        std::mem::take(&mut setup.store.server_deaths) > 0
    }),
    ("disk-faults", |setup| {
        std::mem::take(&mut setup.store.faults) > 0
    }),
    ("stops", |setup| std::mem::take(&mut setup.shutdowns) > 0),
    ("rich", |setup| std::mem::take(&mut setup.has_push_options)),
    ("lost-links", lost_links::leave_out),
    ("cuts", |setup| std::mem::take(&mut setup.short_io)),
];

fn remove(setup: &mut Setup, part: &str) -> bool {
    let mut named = NAMED.iter();
    match named.find(|(name, _)| *name == part) {
        Some((_, remove)) => remove(setup),
        None => setup.leave_out(part),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn printed_parts_are_parsed_again() {
        let text = "requests=20,clients=2,crashes,cuts,actions=1-3.14";
        let without = Without::parse(text).expect("it is valid");
        assert_eq!(without.to_string(), text);
        assert!(without.skips(14) && !without.skips(4));
        assert!(Without::parse("request=1").is_err());
    }
}
