//! Compares what a run left with its ledger.

use crate::ledger::{Expected, Ledger, Read};
use crate::requests::bytes;
use crate::user::StoreUser;
use std::collections::BTreeMap;
use stoker_store::{Filter, Found, Query, State, View, tools};
use stoker_testkit::failing::Place;

/// All faults of a run.
pub(crate) fn faults(place: &Place<'_>, ledger: &Read) -> Vec<String> {
    let mut faults = ledger.faults.clone();
    let report = std::fs::read_to_string(place.report()).unwrap_or_default();
    let of_calls = report
        .lines()
        .filter_map(|line| line.strip_prefix("fault: "));
    faults.extend(of_calls.map(str::to_owned));
    faults.extend(faults_of_jobs(place, ledger));
    match tools::check(&place.store()) {
        Ok(checked) => faults.extend(checked.problems),
        Err(error) => faults.push(format!("check: {error}")),
    }
    faults
}

fn faults_of_jobs(place: &Place<'_>, ledger: &Read) -> Vec<String> {
    let mut user = StoreUser::new(&place.store(), &place.heal(), Ledger::silent());
    if let Err(error) = user.try_to_open() {
        return vec![format!("afterwards: {error}")];
    }
    let jobs = jobs(&mut user);
    let mut faults = user.ledger.faults();
    drop(user);
    for (label, due) in &ledger.jobs {
        let views = jobs.get(label).map_or(&[][..], Vec::as_slice);
        faults.extend(fault_of_job(label, due, views));
    }
    let strange = jobs
        .keys()
        .filter(|label| !ledger.jobs.contains_key(*label));
    faults.extend(strange.map(|label| format!("{label} is there, and nobody asked for it")));
    faults.extend(fault_of_pause(place, ledger));
    faults
}

fn fault_of_pause(place: &Place<'_>, ledger: &Read) -> Option<String> {
    let reported = ledger.paused?;
    match tools::describe(&place.store()) {
        Ok(store) if store.queues.first()?.paused == reported => None,
        Ok(_) => Some(format!("paused was told to be {reported}")),
        Err(error) => Some(error.to_string()),
    }
}

/// All jobs in the store, by their labels.
fn jobs(user: &mut StoreUser) -> BTreeMap<String, Vec<View>> {
    let list = Query::List {
        filter: Filter::default(),
        after: None,
        limit: 10_000,
        newest: false,
        whole: true,
    };
    let Found::List { jobs, .. } = user.query(list) else {
        panic!("not a list");
    };
    let mut by_label: BTreeMap<String, Vec<View>> = BTreeMap::new();
    for view in jobs {
        let label = view
            .options
            .as_ref()
            .and_then(|options| options.kind.clone());
        by_label
            .entry(label.unwrap_or_default())
            .or_default()
            .push(view);
    }
    by_label
}

fn fault_of_job(label: &str, due: &Expected, views: &[View]) -> Option<String> {
    match (due, views) {
        (_, [_, _, ..]) => Some(format!("{label} is there {} times", views.len())),
        (Expected::Unknown, _) => Some(format!("{label} was never answered")),
        (Expected::Absent, [view]) => {
            let state = view.state.name();
            Some(format!("{label} is {state}, and was told not to be there"))
        }
        (Expected::Is(state), []) => Some(format!("{label} is gone, and was told to be {state}")),
        (Expected::Is(state), [view]) if view.state.name() != state => {
            let is = view.state.name();
            Some(format!("{label} is {is}, and was told to be {state}"))
        }
        (_, [view]) if view.state != State::Done && !is_whole(label, view) => {
            Some(format!("{label} has another body than it was pushed with"))
        }
        _ => None,
    }
}

fn is_whole(label: &str, view: &View) -> bool {
    let body = view.whole.as_ref().and_then(|whole| whole.body.as_ref());
    body.is_some_and(|body| body.bytes == bytes(label))
}
