//! Conversions between the types of the API and the types of the store.

use stoker_api::job::{self, Change};
use stoker_api::{Number, Text};
use stoker_store::{ChangeKind, JobError, Options, State, Unique};

/// Converts a state of the store for display. Only the core knows whether a ready job is running.
pub(crate) fn shown_state(state: State) -> job::State {
    match state {
        State::Ready => job::State::Ready,
        State::Delayed => job::State::Delayed,
        State::Retrying => job::State::Retrying,
        State::Suspended => job::State::Suspended,
        State::Done => job::State::Done,
        State::Failed => job::State::Failed,
        State::Cancelled => job::State::Cancelled,
    }
}

/// Converts a state to the store's state, which is `Ready` for a running job.
pub(crate) fn stored_state(state: job::State) -> State {
    match state {
        job::State::Ready | job::State::Running | job::State::Unknown => State::Ready,
        job::State::Delayed => State::Delayed,
        job::State::Retrying => State::Retrying,
        job::State::Suspended => State::Suspended,
        job::State::Done => State::Done,
        job::State::Failed => State::Failed,
        job::State::Cancelled => State::Cancelled,
    }
}

/// The states in which a change is possible.
pub(crate) fn applicable(change: Change) -> impl Iterator<Item = State> {
    let kind = match change {
        Change::Retry => ChangeKind::Retry,
        Change::Cancel => ChangeKind::Cancel,
        Change::Discard => ChangeKind::Discard,
        Change::Suspend => ChangeKind::Suspend,
        Change::Release => ChangeKind::Release,
        Change::Move => ChangeKind::Move,
        Change::Edit => ChangeKind::Edit,
    };
    let states = State::ALL.into_iter();
    states.filter(move |state| kind.applies_to(*state))
}

pub(crate) fn exported_options(options: &Options) -> job::Options {
    let unique = |unique: &Unique| job::Unique {
        key: Text(unique.key.clone()),
        until_start: unique.until_start,
        for_ms: unique.for_ms.map(Number),
    };
    let backoff = options.backoff_ms.iter();
    job::Options {
        tries: options.tries.map(|tries| Number(tries.into())),
        backoff_ms: backoff.map(|ms| Number((*ms).into())).collect(),
        timeout_ms: options.timeout_ms.map(|ms| Number(ms.into())),
        fail_on_timeout: options.fail_on_timeout,
        retry_until_ms: options.retry_until_ms.map(Number),
        max_exceptions: options.max_exceptions.map(|max| Number(max.into())),
        unique: options.unique.as_ref().map(unique),
        kind: options.kind.clone().map(Text),
        keep_result_ms: options.keep_result_ms.map(Number),
    }
}

pub(crate) fn stored_options(options: &job::Options) -> Options {
    let unique = |unique: &job::Unique| Unique {
        key: unique.key.0.clone(),
        until_start: unique.until_start,
        for_ms: unique.for_ms.map(|ms| ms.0),
    };
    let backoff = options.backoff_ms.iter();
    Options {
        tries: options.tries.map(|tries| tries.0 as u16),
        backoff_ms: backoff.map(|ms| ms.0 as u32).collect(),
        timeout_ms: options.timeout_ms.map(|ms| ms.0 as u32),
        fail_on_timeout: options.fail_on_timeout,
        retry_until_ms: options.retry_until_ms.map(|ms| ms.0),
        max_exceptions: options.max_exceptions.map(|max| max.0 as u16),
        unique: options.unique.as_ref().map(unique),
        kind: options.kind.clone().map(|kind| kind.0),
        keep_result_ms: options.keep_result_ms.map(|ms| ms.0),
    }
}

pub(crate) fn exported_error(error: &JobError) -> job::JobError {
    job::JobError {
        class: error.class.clone(),
        message: error.message.clone(),
        place: error.place.clone(),
        at_ms: Number(error.at_ms),
    }
}

pub(crate) fn stored_error(error: &job::JobError) -> JobError {
    JobError {
        class: error.class.clone(),
        message: error.message.clone(),
        place: error.place.clone(),
        at_ms: error.at_ms.0,
    }
}
